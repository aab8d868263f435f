"""Who takes part: the tree of entitlements, and which job may draw on which of them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from walras.plan import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.snapshot import Entitlement, Job, Snapshot


class EntitlementError(ValueError):
    """Entitlements that form no tree.

    Attributes:
        entitlement: name of the one to correct.
    """

    def __init__(self, entitlement: str, message: str) -> None:
        super().__init__(f"entitlement {entitlement} {message}")
        self.entitlement = entitlement


class Admitted(NamedTuple):
    """The jobs that take part, and those that do not."""

    jobs: tuple[Job, ...]
    refused: tuple[Refusal, ...]


def admit(snapshot: Snapshot) -> Admitted:
    """Say which jobs may draw on the entitlements that they name.

    Raises:
        EntitlementError: two entitlements of one name, an unknown parent, or a cycle of parents.
    """
    entitlements = check_tree(snapshot.entitlements)
    parents = {each.parent for each in snapshot.entitlements}
    nodes = {node.name for node in snapshot.nodes if node.cores > 0}
    jobs: list[Job] = []
    refused: list[Refusal] = []
    for job in snapshot.jobs:
        reason = _objection(job, entitlements, parents, nodes)
        if reason is None:
            jobs.append(job)
        else:
            refused.append(Refusal(job.namespace, job.name, reason, job.pod, job.node))
    return Admitted(tuple(jobs), tuple(refused))


def check_tree(entitlements: Sequence[Entitlement]) -> dict[str, Entitlement]:
    """Return the entitlements by name.

    Raises:
        EntitlementError: they form no tree.
    """
    by_name: dict[str, Entitlement] = {}
    for each in entitlements:
        if each.name in by_name:
            raise EntitlementError(each.name, "is defined twice; rename one")
        by_name[each.name] = each
    for each in entitlements:
        path = [each.name]
        while (parent := by_name[path[-1]].parent) is not None:
            if parent not in by_name:
                raise EntitlementError(
                    path[-1],
                    f"has parent {parent}, which does not exist; create it or correct spec.parent",
                )
            if parent in path:
                cycle = " -> ".join([*path[path.index(parent) :], parent])
                raise EntitlementError(
                    parent,
                    f"is its own ancestor ({cycle}); remove spec.parent from one of them",
                )
            path.append(parent)
    return by_name


def divide(
    entitlements: Iterable[Entitlement], active: Iterable[str], *, of_memory: bool = False
) -> dict[str, float]:
    """Return the part of the whole, summing to 1, of each active entitlement.

    At every level of the tree, siblings with anybody active below them divide their parent's part
    by shares; the part of those without goes to them, nearest relatives first.

    Args:
        entitlements: the tree.
        active: names of those that take part.
        of_memory: whether claims on memory count, where they differ.
    """
    by_name = {each.name: each for each in entitlements}
    present = set(active)
    lively: set[str | None] = {None}
    for name in present:
        node: str | None = name
        while node is not None and node not in lively:
            lively.add(node)
            node = by_name[node].parent
    children: defaultdict[str | None, list[Entitlement]] = defaultdict(list)
    for each in by_name.values():
        if each.name in lively:
            children[each.parent].append(each)
    parts: dict[str, float] = {}
    pending: list[tuple[str | None, float]] = [(None, 1.0)]
    while pending:
        parent, part = pending.pop()
        claims = [_claim(child, of_memory=of_memory) for child in children[parent]]
        total = sum(claims)
        for child, claim in zip(children[parent], claims, strict=True):
            mine = part * (claim / total)
            if child.name in present:
                parts[child.name] = mine
            pending.append((child.name, mine))
    return {name: parts[name] for name in by_name if name in parts}


def _claim(entitlement: Entitlement, *, of_memory: bool) -> int:
    if of_memory and entitlement.memory_shares is not None:
        return entitlement.memory_shares
    return entitlement.shares


def _objection(
    job: Job,
    entitlements: Mapping[str, Entitlement],
    parents: set[str | None],
    nodes: set[str],
) -> str | None:
    """Return why ``job`` cannot take part, with the way out; None if it can."""
    entitlement = entitlements.get(job.entitlement)
    if entitlement is None:
        known = ", ".join(sorted(entitlements)) or "none"
        return (
            f"entitlement {job.entitlement} does not exist; "
            f"create it or name one that does ({known})"
        )
    if job.entitlement in parents:
        children = sorted(e.name for e in entitlements.values() if e.parent == job.entitlement)
        return (
            f"entitlement {job.entitlement} is divided among its children; "
            f"draw on one of them ({', '.join(children)})"
        )
    if not _admits(entitlement, job):
        return (
            f"entitlement {job.entitlement} does not admit namespace {job.namespace}; "
            f"{_way_in(entitlement)}"
        )
    if job.node and job.node not in nodes:
        return f"node {job.node} sells no cores; the job waits until it does"
    return None


def _way_in(entitlement: Entitlement) -> str:
    if entitlement.namespace_labels is None:
        return "have it added to the entitlement's spec.namespaces"
    labels = ", ".join(f"{key}={value}" for key, value in entitlement.namespace_labels.items())
    return f"have it labelled {labels}, as the entitlement's spec.namespaceSelector asks"


def _admits(entitlement: Entitlement, job: Job) -> bool:
    if entitlement.namespaces is not None:
        return job.namespace in entitlement.namespaces
    if entitlement.namespace_labels is not None:
        labels = job.namespace_labels
        return all(labels.get(key) == value for key, value in entitlement.namespace_labels.items())
    return False
