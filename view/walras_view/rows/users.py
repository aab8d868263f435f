"""Pure: what every entitlement is worth, has and uses, as a tree."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from walras_view.documents import Shown
from walras_view.figures import (
    ConditionSummary,
    JobUse,
    number,
    ready_condition,
    total,
    used_by_job,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from walras_api.entitlement import EntitlementStatus
    from walras_view.facts import ApiObject, Facts


@dataclass(frozen=True, slots=True)
class UserCores(Shown):
    """Cores of an entitlement, or of all below it; None where nothing is known.

    Attributes:
        entitled: Cores that its share of the cluster is worth, with its core credits.
        bought: Cores that its jobs buy.
        held: Cores that its jobs hold.
        used: Cores that pods of its jobs use.
        used_beyond: Those of them beyond what each pod holds, which others left idle.
    """

    entitled: float | None = None
    bought: float | None = None
    held: float | None = None
    used: float | None = None
    used_beyond: float | None = None


@dataclass(frozen=True, slots=True)
class UserMemory(Shown):
    """Memory of an entitlement likewise, in bytes."""

    entitled: float | None = None
    demand: float | None = None
    granted: float | None = None
    used: float | None = None


@dataclass(frozen=True, slots=True)
class UserRow(Shown):
    """A row about an entitlement.

    Attributes:
        name: Name of the entitlement.
        parent: Entitlement whose budget it divides; None for the whole cluster.
        depth: Number of ancestors in the entitlement tree.
        shares: Shares relative to its siblings.
        budget_share: Part of the whole cluster that its budget is, from 0 to 1.
        jobs: Number of jobs that draw on it.
        pods: Number of their pods that have a grant.
        cores: Cores of the entitlement.
        memory: Memory of the entitlement.
        utility: Weighted mean of its jobs' speedups.
        entitlement_utility: Utility that it would have without any trade.
        gain: Utility over that at the bare entitlement, less 1.
        credits: Exact balance of Karma's credits; None if none are kept.
        credits_above_mean: Credits above the mean of all entitlements; Karma charges no more. None
            if some entitlements are not visible.
        ready: Status of the condition ``Ready``.
        reason: Reason of the condition that sums up its state: ``Ready`` or ``Entitled``.
        message: Message of that condition: ``Ready`` or ``Entitled``.
    """

    name: str
    parent: str | None
    depth: int
    shares: int | None
    budget_share: float | None
    jobs: int
    pods: int
    cores: UserCores
    memory: UserMemory
    utility: float | None
    entitlement_utility: float | None
    gain: float | None
    credits: str | None
    credits_above_mean: float | None
    ready: str
    reason: str
    message: str


def user_rows(facts: Facts, key: Callable[[UserRow], Any]) -> list[UserRow]:
    """Return all entitlements, children after their parents, siblings in the order of a key.

    What is said of a parent is the sum of what is below it.
    """
    used, mean = _used(facts), _mean_credits(facts)
    children, roots = _tree(facts.entitlements)
    rows: dict[str, UserRow] = {}

    def fill(name: str, depth: int) -> None:
        for child in children[name]:
            fill(child, depth + 1)
        below = [rows[each] for each in children[name]]
        rows[name] = _row(facts.entitlements[name], depth, below, used.get(name, JobUse()), mean)

    def walk(names: Sequence[str]) -> Iterator[UserRow]:
        for row in sorted((rows[each] for each in names), key=key):
            yield row
            yield from walk(children[row.name])

    for root in roots:
        fill(root, 0)
    return list(walk(roots))


def _tree(
    entitlements: Mapping[str, ApiObject[EntitlementStatus]],
) -> tuple[Mapping[str, list[str]], list[str]]:
    """Return children by parent, and what has no parent. A cycle hangs on its first by name."""
    parents = {name: each.spec.get("parent") for name, each in entitlements.items()}
    children: defaultdict[str, list[str]] = defaultdict(list)
    roots = []
    for name in sorted(parents):
        parent = parents[name]
        if parent in parents and not _leads_back(name, parents):
            children[str(parent)].append(name)
        else:
            roots.append(name)
    return children, roots


def _leads_back(name: str, parents: Mapping[str, str | None]) -> bool:
    """Say whether an entitlement is its own ancestor, and the first by name of those that are."""
    above, at = [name], parents[name]
    while at is not None and at in parents and at not in above:
        above.append(at)
        at = parents[at]
    return at == name and name == min(above)


def _used(facts: Facts) -> dict[str, JobUse]:
    """Return what is used by entitlement, if all of its jobs are known."""
    if facts.namespace:
        return {}
    by_user: defaultdict[str, list[JobUse]] = defaultdict(list)
    for job in facts.jobs.values():
        by_user[str(job.spec.get("entitlement"))].append(used_by_job(facts, job))
    return {
        name: JobUse(*(total(column) for column in zip(*each, strict=True)))
        for name, each in by_user.items()
    }


def _mean_credits(facts: Facts) -> Decimal | None:
    if not facts.all_entitlements:
        return None
    kept = [_credits(each) for each in facts.entitlements.values()]
    balances = [Decimal(each) for each in kept if each is not None]
    return sum(balances, Decimal(0)) / max(len(balances), 1)


def _credits(entry: ApiObject[EntitlementStatus]) -> str | None:
    return None if entry.status.credits is None else entry.status.credits.balance


def _row(
    entry: ApiObject[EntitlementStatus],
    depth: int,
    below: Sequence[UserRow],
    used: JobUse,
    mean_credits: Decimal | None,
) -> UserRow:
    status, ready, balance = entry.status, _state(entry), _credits(entry)
    utility = None if status.utility is None else number(status.utility.now)
    bare = None if status.utility is None else number(status.utility.at_entitlement)
    return UserRow(
        name=entry.name,
        parent=entry.spec.get("parent"),
        depth=depth,
        shares=entry.spec.get("shares"),
        budget_share=number(status.budget_share),
        jobs=status.jobs + sum(row.jobs for row in below),
        pods=status.pods + sum(row.pods for row in below),
        cores=_cores(status, below, used),
        memory=_memory(status, below, used.memory),
        utility=utility,
        entitlement_utility=bare,
        gain=utility / bare - 1 if utility is not None and bare else None,
        credits=balance,
        credits_above_mean=None
        if balance is None or mean_credits is None
        else float(Decimal(balance) - mean_credits),
        ready=ready.status,
        reason=ready.reason,
        message=ready.message,
    )


def _state(entry: ApiObject[EntitlementStatus]) -> ConditionSummary:
    """Return what sums up an entitlement's state: its problem, or that it has too little."""
    ready = ready_condition(entry)
    for each in entry.status.conditions if ready.status == "True" else ():
        if each.type == "Entitled" and each.status == "False":
            return ConditionSummary(ready.status, each.reason, each.message)
    return ready


def _cores(status: EntitlementStatus, below: Sequence[UserRow], used: JobUse) -> UserCores:
    own = [] if status.cores is None else [status.cores]
    parts = [
        *(UserCores(float(x.entitled), float(x.bought), float(x.held)) for x in own),
        *(row.cores for row in below),
    ]
    return UserCores(
        total(each.entitled for each in parts),
        total(each.bought for each in parts),
        total(each.held for each in parts),
        total([used.cores, *(each.used for each in parts)]),
        total([used.beyond, *(each.used_beyond for each in parts)]),
    )


def _memory(status: EntitlementStatus, below: Sequence[UserRow], used: float | None) -> UserMemory:
    own = [] if status.memory is None else [status.memory]
    parts = [
        *(UserMemory(int(x.entitled), int(x.demand), int(x.granted)) for x in own),
        *(row.memory for row in below),
    ]
    return UserMemory(
        total(each.entitled for each in parts),
        total(each.demand for each in parts),
        total(each.granted for each in parts),
        total([used, *(each.used for each in parts)]),
    )
