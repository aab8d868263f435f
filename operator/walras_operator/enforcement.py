"""Facts: what nodes' agents say that they did of what was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from walras_operator.conditions import conditions_of, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras.resources.allocation import NodeAllocation
    from walras_operator.allotment import Allotted, Orders

REFUSALS = frozenset({"Refused", "PlanRefused"})
"""Reasons of agents that hold nobody to anything, in ``Ready`` and ``PlanAccepted``."""


class Held(NamedTuple):
    """How an agent holds a pod to its grant.

    Attributes:
        state: Enforced; Failed; Granted, where it does not (yet); Unheard, where the agent has
            not told since the grants of other pods of its node have changed.
        reason: why it failed.
        pending: whether the agent says that it is on its way, as less memory may be for long.
    """

    state: Literal["Enforced", "Failed", "Granted", "Unheard"]
    reason: str = ""
    pending: bool = False


def enforced(
    allotted: Allotted, allocations: Mapping[str, NodeAllocation]
) -> dict[tuple[str, str], Held]:
    """Return how pods are held whose grant is as before, by node and UID."""
    found: dict[tuple[str, str], Held] = {}
    for node, new in allotted.orders.items():
        present = allotted.present.get(node)
        if present is None or new.mode == "observe":
            continue
        if (present.mode, present.unit) == (new.mode, new.unit):
            same = _same(new, present, allocations[node])
            found.update(((node, uid), held) for uid, held in same)
    return found


def _same(new: Orders, present: Orders, allocation: NodeAllocation) -> Iterator[tuple[str, Held]]:
    refused, told = _refused(allocation), _told(allocation)
    before = set(present.portions)
    for portion in new.portions:
        if portion in before:
            yield (
                portion.uid,
                refused
                or (Held("Unheard") if told is None else told.get(portion.uid, Held("Granted"))),
            )


def _refused(allocation: NodeAllocation) -> Held | None:
    """Return why the agent can hold nobody on its node to anything, if that is so."""
    for condition in conditions_of(allocation.status or {}).values():
        if condition.get("reason") in REFUSALS:
            return Held("Failed", str(condition.get("message") or "it refuses the plan"))
    return None


def _told(allocation: NodeAllocation) -> dict[str, Held] | None:
    """Return what the agent says of each pod; None if that is about an earlier epoch."""
    status = allocation.status or {}
    if status.get("epoch") != allocation.spec.epoch:
        return None
    return {str(each.get("podUID")): _held(each) for each in listed(status, "pods")}


def _held(pod: Mapping[str, object]) -> Held:
    state = pod.get("state")
    if state == "Enforced":
        return Held("Enforced")
    if state == "Failed":
        return Held("Failed", str(pod.get("reason") or "the agent does not say why"))
    return Held("Granted", pending=state == "Pending")
