"""Checks of what is to be cleared; messages name the object, its field and what is needed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_args

from walras.market.snapshot import (
    ColocationRule,
    CoreMechanism,
    MemoryMechanism,
    Policy,
    RequestRule,
    Snapshot,
    identity,
)
from walras.numerics.checks import LARGEST, check_kind, check_whole, is_number

if TYPE_CHECKING:
    from walras.market.snapshot import Entitlement, Job

_CHOICES = {
    "cores": get_args(CoreMechanism),
    "memory": (None, *get_args(MemoryMechanism)),
    "sold_by": ("node", "socket"),
    "requests": get_args(RequestRule),
    "colocation": get_args(ColocationRule),
}
_AMOUNTS = ("hysteresis", "least_part", "core_half_life", "most_credit")


class SnapshotError(ValueError):
    """A snapshot or a policy that cannot be cleared; the message names the object and the field."""


def check_snapshot(snapshot: Snapshot, policy: Policy) -> None:
    """See that shares, cores, jobs and rules are numbers of their range.

    Raises:
        TypeError: The snapshot or the policy is none.
        SnapshotError: A number is outside its range, two jobs have one name, or a mechanism is
            unknown.
    """
    check_kind("snapshot", snapshot, Snapshot)
    check_kind("policy", policy, Policy)
    for entitlement in snapshot.entitlements:
        _check_entitlement(entitlement)
    for node in snapshot.nodes:
        if not _is_amount(node.cores):
            raise SnapshotError(
                f"Node {node.name}: cores = {node.cores!r} is not finite and at least 0"
            )
    for job in snapshot.jobs:
        if not _is_right(job):
            raise SnapshotError(_what_is_wrong(job))
    _check_names(snapshot)
    for field, choices in _CHOICES.items():
        if getattr(policy, field) not in choices:
            listed = ", ".join(map(str, choices))
            raise SnapshotError(f"Policy: {field} = {getattr(policy, field)!r} is none of {listed}")
    for field in _AMOUNTS:
        if not _is_amount(getattr(policy, field)):
            raise SnapshotError(
                f"Policy: {field} = {getattr(policy, field)!r} is not finite and at least 0"
            )
    check_whole("Policy: seed", policy.seed, 0, SnapshotError)


def _check_entitlement(entitlement: Entitlement) -> None:
    name = f"Entitlement {entitlement.name}"
    check_whole(f"{name}: shares", entitlement.shares, 1, SnapshotError)
    if isinstance(entitlement.namespaces, str):
        raise SnapshotError(
            f"{name}: namespaces = {entitlement.namespaces!r} is a text; give a set of names, such "
            f"as frozenset({{{entitlement.namespaces!r}}})"
        )


def _check_names(snapshot: Snapshot) -> None:
    """See that no two jobs are the same to whoever reads the plan.

    Raises:
        SnapshotError: Two are.
    """
    keys = set(map(identity, snapshot.jobs))
    if len(keys) < len(snapshot.jobs):
        counts = Counter(map(identity, snapshot.jobs))
        twice = next(job for job in snapshot.jobs if counts[identity(job)] > 1)
        where = f" on node {twice.node}" if twice.node else ""
        raise SnapshotError(
            f"Job {twice.title}: there are two of this name{where}; give each another name or pod"
        )


def _is_right(job: Job) -> bool:
    """Return whether all numbers of a job are of their ranges, which takes little time."""
    try:
        return (
            0 <= job.fraction <= 1
            and 0 < job.work <= LARGEST
            and 0 <= job.min_cores <= LARGEST
            and (job.max_cores is None or job.max_cores > 0)
            and 0 <= job.requested <= LARGEST
            and 0 <= job.floor <= LARGEST
        )
    except TypeError:
        return False


def _what_is_wrong(job: Job) -> str:
    ranges = {
        "fraction": (is_number(job.fraction) and 0 <= job.fraction <= 1, "from 0 to 1"),
        "work": (is_number(job.work) and 0 < job.work <= LARGEST, "positive and finite"),
        "min_cores": (_is_amount(job.min_cores), "finite and at least 0"),
        "max_cores": (
            job.max_cores is None or (is_number(job.max_cores) and job.max_cores > 0),
            "positive, or None for no bound",
        ),
        "requested": (_is_amount(job.requested), "finite and at least 0"),
        "floor": (_is_amount(job.floor), "finite and at least 0"),
    }
    field, needed = next((name, text) for name, (right, text) in ranges.items() if not right)
    return f"Job {job.namespace}/{job.name}: {field} = {getattr(job, field)!r} is not {needed}"


def _is_amount(value: object) -> bool:
    return is_number(value) and 0 <= float(value) <= LARGEST  # type: ignore[arg-type]
