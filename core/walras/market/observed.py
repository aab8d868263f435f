"""Markets beside one another: nodes that enforce the plan, and nodes that only observe.

What a user buys on a node that only observes, it does not get, so nothing may be paid for it where
plans are enforced. Where there are nodes of both kinds, each kind is therefore a market of its own,
with budgets, debts and credits of its own. Those of the nodes that observe are forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from walras.market.plan import MemoryOutcome, Plan, UserOutcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from walras.market.snapshot import Snapshot


def separate_markets(snapshot: Snapshot) -> list[Snapshot]:
    """Return the market of the nodes that enforce plans, then that of those that only observe.

    A cluster whose nodes are all of one kind is one market. Jobs that wait are placed on nodes that
    enforce.
    """
    observing = {node.name for node in snapshot.nodes} & snapshot.observed
    enforcing = {node.name for node in snapshot.nodes} - observing
    if not observing or not enforcing:
        return [snapshot]
    watched = _part(snapshot, observing)
    return [
        _part(snapshot, {*enforcing, ""}),
        replace(watched, ledger=None, account={}, earlier_demands={}),
    ]


def _part(snapshot: Snapshot, nodes: Collection[str]) -> Snapshot:
    """Return the market of some nodes; jobs that wait belong to the node of no name."""
    return replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name in nodes),
        jobs=tuple(job for job in snapshot.jobs if job.node in nodes),
        earlier_demands={
            node: asked for node, asked in snapshot.earlier_demands.items() if node in nodes
        },
        frozen=snapshot.frozen & frozenset(nodes),
        observed=frozenset(),
    )


def as_one(plans: Sequence[Plan], snapshot: Snapshot) -> Plan:
    """Return the plans of separate markets as one; debts and credits are those of the first.

    Args:
        plans: Plans, that of the nodes that enforce first.
        snapshot: The jobs of all of them.
    """
    first, *others = plans
    if not others:
        return first
    work = {(job.namespace, job.name, job.pod): job.work for job in snapshot.jobs}
    users = _users(plans, work)
    entitled = sum(user.entitled for user in users)
    progress = sum(user.entitled * user.utility for user in users)
    return replace(
        first,
        grants=tuple(grant for plan in plans for grant in plan.grants),
        users=users,
        nodes=tuple(node for plan in plans for node in plan.nodes),
        refused=tuple(each for plan in plans for each in plan.refused),
        solver=first.solver if first.grants else others[0].solver,
        iterations=max(plan.iterations for plan in plans),
        residual=max(plan.residual for plan in plans),
        converged=all(plan.converged for plan in plans),
        system_progress=progress / entitled if entitled else 0.0,
        bids=tuple(bid for plan in plans for bid in plan.bids),
        memory_mechanism=next(filter(None, (plan.memory_mechanism for plan in plans)), ""),
        memory=_memory(plans),
        deadlines=tuple(each for plan in plans for each in plan.deadlines),
    )


def _users(
    plans: Sequence[Plan], work: Mapping[tuple[str, str, str], float]
) -> tuple[UserOutcome, ...]:
    """Return what users have in all markets; a utility is the mean by the work of a user's jobs."""
    found: dict[str, tuple[UserOutcome, float]] = {}
    for plan in plans:
        weights: defaultdict[str, float] = defaultdict(float)
        for each in plan.grants:
            weights[each.entitlement] += work[each.namespace, each.name, each.pod]
        for user in plan.users:
            mine = user, weights[user.name]
            known = found.get(user.name)
            found[user.name] = mine if known is None else _together(known, mine)
    return tuple(user for user, _ in found.values())


def _together(
    one: tuple[UserOutcome, float], other: tuple[UserOutcome, float]
) -> tuple[UserOutcome, float]:
    """Return a user's outcome in two markets, and the work of its jobs in both."""
    (here, weight), (there, more) = one, other
    total = weight + more

    def mean(mine: float, its: float) -> float:
        return (weight * mine + more * its) / total if total else 0.0

    both = UserOutcome(
        here.name,
        here.entitled + there.entitled,
        here.bought + there.bought,
        here.held + there.held,
        here.spent + there.spent,
        mean(here.utility, there.utility),
        mean(here.held_utility, there.held_utility),
        mean(here.entitlement_utility, there.entitlement_utility),
        here.short_of + there.short_of,
    )
    return both, total


def _memory(plans: Sequence[Plan]) -> tuple[MemoryOutcome, ...]:
    found: dict[str, MemoryOutcome] = {}
    for plan in plans:
        for each in plan.memory:
            known = found.get(each.name)
            found[each.name] = (
                each
                if known is None
                else replace(
                    known,
                    entitled=known.entitled + each.entitled,
                    demand=known.demand + each.demand,
                    granted=known.granted + each.granted,
                )
            )
    return tuple(found.values())
