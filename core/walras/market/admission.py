"""Admission of jobs to the market: the tree of entitlements, and who may draw on which of them."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from walras.market.plan import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.market.snapshot import Entitlement, Job, Snapshot


MOST_NAMED = 8
"""Entitlements that a message lists by name; it only counts the others."""

SMALLEST_PART = 1e-12
"""Least part of the cluster of an active entitlement, before parts are made to sum to 1 again.

It is a thousandth of a core in a billion, so nobody misses it. Nested entitlements with few shares
beside siblings with many would have less, down to 0: then no mechanism could price a budget, and
the whole market would stop.
"""


NO_TILTS: Mapping[str, float] = MappingProxyType({})
"""Tilts of entitlements that owe nothing."""


class EntitlementError(ValueError):
    """Entitlements that do not form a tree.

    Attributes:
        entitlement: Name of the entitlement to correct.
    """

    def __init__(self, entitlement: str, message: str) -> None:
        super().__init__(f"entitlement {entitlement} {message}")
        self.entitlement = entitlement


class Admitted(NamedTuple):
    """The jobs that take part in the market, and the refusals of the others."""

    jobs: tuple[Job, ...]
    refused: tuple[Refusal, ...]


def admit(snapshot: Snapshot) -> Admitted:
    """Decide which jobs may draw on the entitlements that they name.

    Raises:
        EntitlementError: The entitlements do not form a tree.
    """
    check_tree(snapshot.entitlements)
    access = AccessPolicy(snapshot.entitlements)
    nodes = {node.name for node in snapshot.selling}
    jobs: list[Job] = []
    refused: list[Refusal] = []
    denials: dict[tuple[str, str, int], str | None] = {}
    for job in snapshot.jobs:
        key = job.entitlement, job.namespace, id(job.namespace_labels)
        if key not in denials:
            denials[key] = access.denial(job.entitlement, job.namespace, job.namespace_labels)
        reason = denials[key]
        if reason is None and job.node and job.node not in nodes:
            reason = f"node {job.node} sells no cores; the job waits until it does"
        if reason is None:
            jobs.append(job)
        else:
            refused.append(Refusal(job.namespace, job.name, reason, job.pod, job.node))
    return Admitted(tuple(jobs), tuple(refused))


def check_tree(entitlements: Sequence[Entitlement]) -> dict[str, Entitlement]:
    """Return the entitlements by name.

    Raises:
        EntitlementError: Two entitlements have one name, a parent is unknown, or parents form a
            cycle.
    """
    by_name: dict[str, Entitlement] = {}
    for entitlement in entitlements:
        if entitlement.name in by_name:
            raise EntitlementError(entitlement.name, "is defined twice; rename one")
        by_name[entitlement.name] = entitlement
    rooted: set[str] = set()
    for entitlement in entitlements:
        name = entitlement.name
        path = {name: None}
        while name not in rooted and (parent := by_name[name].parent) is not None:
            if parent not in by_name:
                raise EntitlementError(
                    name,
                    f"has parent {parent}, which does not exist; create it or correct spec.parent",
                )
            if parent in path:
                names = list(path)
                cycle = " -> ".join([*names[names.index(parent) :], parent])
                raise EntitlementError(
                    parent, f"is its own ancestor ({cycle}); remove spec.parent from one of them"
                )
            path[parent] = None
            name = parent
        rooted.update(path)
    return by_name


def leaves_of(entitlements: Sequence[Entitlement]) -> list[str]:
    """Return the names of all entitlements without children, in the order given."""
    parents = {each.parent for each in entitlements}
    return [each.name for each in entitlements if each.name not in parents]


def divide_by_shares(
    entitlements: Iterable[Entitlement],
    active: Iterable[str],
    *,
    of_memory: bool = False,
    tilts: Mapping[str, float] = NO_TILTS,
    most: float = 0.0,
) -> dict[str, float]:
    """Return the part of the cluster of each active entitlement; the parts sum to 1.

    At every level of the tree, siblings with an active entitlement in their subtree divide their
    parent's part by shares. The part of the others is so lent to them, nearest relatives first.
    No part is smaller than `SMALLEST_PART`, but for what makes them sum to 1.

    Args:
        entitlements: Entitlements of the tree.
        active: Names of the entitlements that take part.
        of_memory: Whether shares of memory count, for entitlements that have them.
        tilts: By how much each entitlement's part differs from that by shares, from -1 to 1, as
            `walras.market.account` explains; 0 where absent.
        most: Largest part (beta) of what it has by shares that this costs an entitlement, below 1.
    """
    by_name = {each.name: each for each in entitlements}
    present = set(active)
    on_active_path: set[str | None] = {None}
    for name in present:
        node: str | None = name
        while node is not None and node not in on_active_path:
            on_active_path.add(node)
            node = by_name[node].parent
    children: defaultdict[str | None, list[Entitlement]] = defaultdict(list)
    for each in by_name.values():
        if each.name in on_active_path:
            children[each.parent].append(each)
    parts: dict[str, float] = {}
    pending: list[tuple[str | None, float, float]] = [(None, 1.0, 1.0)]
    while pending:
        parent, part, factor = pending.pop()
        # A parent that has paid its debts has children that pay none.
        left = min(max(1 - most, (1 - most) / factor), 1.0)
        claims = [_claim(child, of_memory=of_memory) for child in children[parent]]
        tilted = [
            claim * left ** (-tilts.get(child.name, 0.0) / 2)
            for child, claim in zip(children[parent], claims, strict=True)
        ]
        by_shares, total = sum(claims), math.fsum(tilted)
        for child, claim, mine in zip(children[parent], claims, tilted, strict=True):
            if child.name in present:
                parts[child.name] = part * (mine / total)
            relative = (mine / total) / (claim / by_shares)
            pending.append((child.name, part * (mine / total), factor * relative))
    return _raised({name: parts[name] for name in by_name if name in parts})


def _raised(parts: dict[str, float]) -> dict[str, float]:
    """Return parts that sum to 1 with those below `SMALLEST_PART` raised to it."""
    if all(part >= SMALLEST_PART for part in parts.values()):
        return parts
    raised = {name: max(part, SMALLEST_PART) for name, part in parts.items()}
    total = math.fsum(raised.values())
    return {name: part / total for name, part in raised.items()}


def _claim(entitlement: Entitlement, *, of_memory: bool) -> int:
    if of_memory and entitlement.memory_shares is not None:
        return entitlement.memory_shares
    return entitlement.shares


class AccessPolicy:
    """Rules on which namespaces' jobs may draw on which entitlement."""

    def __init__(self, entitlements: Iterable[Entitlement]) -> None:
        self._entitlements = {each.name: each for each in entitlements}
        self._parents = {each.parent for each in self._entitlements.values()}
        self._open_to: dict[tuple[str, frozenset[tuple[str, str]]], list[str]] = {}

    def denial(self, name: str, namespace: str, labels: Mapping[str, str]) -> str | None:
        """Return why a job may not draw on an entitlement, with the way out; None if it may.

        The job's user reads it, who may not know of other users' entitlements: it names none but
        the given one and those that admit the namespace.
        """
        entitlement = self._entitlements.get(name)
        if entitlement is None:
            return (
                f"entitlement {name} does not exist; create it or name one that admits namespace "
                f"{namespace} ({_some(self._admitting(namespace, labels)) or 'none does'})"
            )
        if name in self._parents:
            below = [e for e in self._admitting(namespace, labels) if self._is_below(e, name)]
            return (
                f"entitlement {name} is divided among its children; draw on one below it that "
                f"admits namespace {namespace} ({_some(below) or 'none does'})"
            )
        if not _admits(entitlement, namespace, labels):
            return (
                f"entitlement {name} does not admit namespace {namespace}; {_way_in(entitlement)}"
            )
        return None

    def only_entitlement(self, namespace: str, labels: Mapping[str, str]) -> str | None:
        """Return the entitlement that admits a namespace; None if none or several do."""
        names = self._admitting(namespace, labels)
        return names[0] if len(names) == 1 else None

    def _admitting(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        """Return the entitlements on which a namespace's jobs may draw, by name."""
        key = namespace, frozenset(labels.items())
        names = self._open_to.get(key)
        if names is None:
            possible = (*self._naming.get(namespace, ()), *self._naming.get(None, ()))
            names = self._open_to[key] = sorted(
                each.name for each in possible if _admits(each, namespace, labels)
            )
        return names

    @cached_property
    def _naming(self) -> Mapping[str | None, Sequence[Entitlement]]:
        """Entitlements without children by each namespace that they name; by None if by labels."""
        by_namespace: defaultdict[str | None, list[Entitlement]] = defaultdict(list)
        for name, each in self._entitlements.items():
            named = (None,) if each.namespaces is None else each.namespaces
            for namespace in () if name in self._parents else named:
                by_namespace[namespace].append(each)
        return by_namespace

    def _is_below(self, name: str, other: str) -> bool:
        seen: set[str] = set()  # parents may form a cycle
        while (each := self._entitlements.get(name)) and each.parent and name not in seen:
            if each.parent == other:
                return True
            seen.add(name)
            name = each.parent
        return False


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _way_in(entitlement: Entitlement) -> str:
    if entitlement.namespace_labels is None:
        return "have it added to the entitlement's spec.namespaces"
    return "have it labelled as the entitlement's spec.namespaceSelector asks"


def _admits(entitlement: Entitlement, namespace: str, labels: Mapping[str, str]) -> bool:
    if entitlement.namespaces is not None:
        return namespace in entitlement.namespaces
    if entitlement.namespace_labels is not None:
        return all(labels.get(key) == value for key, value in entitlement.namespace_labels.items())
    return False
