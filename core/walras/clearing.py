"""The one function that decides: it clears the market of a snapshot and returns a plan.

Pure and deterministic. The local run, the what-if and the operator all call it, so that what one of
them predicts is what the others do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from walras.division.deadlines.keep import with_deadlines
from walras.division.holdings import THOUSANDTH, hold
from walras.division.hysteresis import apply_hysteresis
from walras.division.interference import lower_fractions
from walras.division.memory import divide_memory
from walras.division.pricing import price
from walras.division.requests import without_excess
from walras.division.sale import open_sale
from walras.market.admission import admit
from walras.market.bounds import bare_entitlement
from walras.market.checks import check_snapshot
from walras.market.observed import as_one, separate_markets
from walras.market.snapshot import Policy, identity
from walras.outcome.outcome import Divided, explained_plan
from walras.placement.colocation import place_waiting_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras.division.sale import Sale
    from walras.market.plan import Grant, Plan, Refusal
    from walras.market.snapshot import Job, JobKey, Snapshot
    from walras.placement.colocation import Placed


def clear(snapshot: Snapshot, policy: Policy | None = None) -> Plan:
    """Decide how many cores and how much memory each job gets.

    Jobs are admitted and placed, users get their budgets, cores are divided, then memory, and every
    grant is explained (`_decide`). Where jobs have deadlines, this is done again with the cores
    that are reserved for them, until all that is reserved is held (`walras.division.deadlines`).

    The order of entitlements, nodes and jobs does not matter.

    Args:
        snapshot: Entitlements, nodes and jobs.
        policy: Mechanisms; the Amdahl market for cores alone if not given.

    Raises:
        TypeError: The snapshot or the policy is none.
        SnapshotError: A number is outside its range, or a mechanism is unknown.
        EntitlementError: The entitlements do not form a tree.
        PricingError: The market is too large for the mechanism.
    """
    policy = Policy() if policy is None else policy
    check_snapshot(snapshot, policy)
    markets = separate_markets(in_canonical_order(snapshot))
    plan = as_one([_clear(market, policy) for market in markets], snapshot)
    return in_order_of(snapshot, plan)


def _clear(snapshot: Snapshot, policy: Policy) -> Plan:
    """Clear one market, in canonical order."""
    if any(job.deadline for job in snapshot.jobs):
        bidding = _admit_and_place(snapshot, policy).jobs
        return with_deadlines(snapshot, bidding, policy, _decide)
    return _decide(snapshot, policy)


def cores_held(snapshot: Snapshot, policy: Policy) -> Mapping[JobKey, float]:
    """Return the cores that each job would hold, without a reason.

    They are those of `clear`, whose explanations take most of its time, for those who try many
    fractions. Jobs that are refused have no entry.

    Args:
        snapshot: Entitlements, nodes and jobs, none of which has a deadline.
        policy: Mechanisms.

    Raises:
        EntitlementError: The entitlements do not form a tree.
        PricingError: The market is too large for the mechanism.
    """
    ordered = in_canonical_order(snapshot)
    sale = open_sale(ordered, policy, _admit_and_place(ordered, policy).jobs)
    held = _divide(ordered, policy, sale)[1].settled.held.tolist()
    return {identity(job): cores for job, cores in zip(sale.jobs, held, strict=True)}


def _decide(snapshot: Snapshot, policy: Policy) -> Plan:
    """Clear the market of a snapshot that is in canonical order, once."""
    placed = _admit_and_place(snapshot, policy)
    sale = open_sale(snapshot, policy, placed.jobs)
    sale, divided = _divide(snapshot, policy, sale)
    memory = divide_memory(snapshot, policy, sale.jobs, sale.memory_won)
    return explained_plan(snapshot, policy, placed, sale, divided, memory)


def _admit_and_place(snapshot: Snapshot, policy: Policy) -> Placed:
    """Admit jobs to the entitlements that they name, and place those that wait for a node in pairs.

    Jobs then bid with parallel fractions that are lowered by what they lose to interference.
    """
    placed = place_waiting_jobs(admit(snapshot), snapshot, policy)
    adjusted = lower_fractions(placed.jobs, snapshot.penalties if policy.interference else {})
    return placed._replace(jobs=adjusted.jobs, losses=adjusted.losses)


def _divide(snapshot: Snapshot, policy: Policy, sale: Sale) -> tuple[Sale, Divided]:
    """Divide every node's cores, with fewer requests kept if that is the rule and users are short.

    Returns:
        The sale with the bounds that hold, and the division.
    """
    while True:
        divided = _divide_once(snapshot, policy, sale)
        if policy.requests == "Always":
            return sale, divided
        fewer = without_excess(sale, policy.least_part, divided.without_hysteresis, divided.bare)
        if fewer is None:
            return sale, divided
        sale = fewer


def _divide_once(snapshot: Snapshot, policy: Policy, sale: Sale) -> Divided:
    """Divide every node's cores by the mechanism, and find what of them jobs hold.

    Nodes keep their current division where the new one gains too little (hysteresis).
    """
    units = sale.units
    priced = price(units.market, sale.bounds_of_units, policy, sale.auctioned, sale.limits)
    quotas = hold(units.market, priced.cores, sale.bounds_of_units, sale.whole[units.job])
    target = np.rint(units.of_jobs(quotas.held) / THOUSANDTH) / (1 / THOUSANDTH)
    bare = units.of_jobs(bare_entitlement(units.market, sale.bounds_of_units))
    settled = apply_hysteresis(snapshot, policy, sale, target, bare)
    return Divided(priced, bare, units.of_jobs(quotas.real), target, settled)


def in_canonical_order(snapshot: Snapshot) -> Snapshot:
    """Return the same snapshot with everything sorted by name.

    Sums of floating-point numbers, ties, and which of several equilibria is found all depend on
    the order.
    """
    return replace(
        snapshot,
        entitlements=tuple(sorted(snapshot.entitlements, key=lambda each: each.name)),
        nodes=tuple(sorted(snapshot.nodes, key=lambda each: each.name)),
        jobs=tuple(sorted(snapshot.jobs, key=_key)),
    )


def in_order_of(snapshot: Snapshot, plan: Plan) -> Plan:
    """Return the same plan with everything in the order of ``snapshot``."""
    jobs = {_key(job): number for number, job in enumerate(snapshot.jobs)}
    users = _numbers(each.name for each in snapshot.entitlements)
    nodes = _numbers(each.name for each in snapshot.nodes)

    def of_job(each: Grant | Refusal) -> int:
        named = each.namespace, each.name, each.pod
        number = jobs.get((each.node, *named))
        return jobs["", *named] if number is None else number  # the job waited, and has a node now

    return replace(
        plan,
        grants=tuple(sorted(plan.grants, key=of_job)),
        refused=tuple(sorted(plan.refused, key=of_job)),
        users=tuple(sorted(plan.users, key=lambda each: users[each.name])),
        nodes=tuple(sorted(plan.nodes, key=lambda each: nodes[each.name])),
        memory=tuple(sorted(plan.memory, key=lambda each: users[each.name])),
    )


def _key(job: Job) -> tuple[str, str, str, str]:
    return job.node, job.namespace, job.name, job.pod


def _numbers(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}
