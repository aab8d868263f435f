"""Canonical order of a snapshot, so that plans do not depend on the order of objects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walras.plan import Grant, Plan, Refusal
    from walras.snapshot import Job, Snapshot


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
