"""Pure: read from the status of NodeAllocations whether agents enforce the grants of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from walras_operator.decide.conditions import conditions_of, listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_api.node_allocation import NodeAllocation
    from walras_operator.decide.allocations import Allocations, AllocationSpec
    from walras_operator.decide.world import World

REFUSALS = frozenset({"Refused", "PlanRefused"})
"""Reasons of ``Ready`` and ``PlanAccepted`` with which an agent says that it enforces nothing."""


class Enforcement(NamedTuple):
    """Whether a node agent enforces the grant of a pod.

    Attributes:
        state: Enforced; Failed; Granted if not enforced yet; Unreported if the agent has not
            reported since the pod's memory or grants of other pods on its node changed.
        reason: Why it failed; empty otherwise.
        pending: Whether the agent is still working on it; lowering memory can take long.
    """

    state: Literal["Enforced", "Failed", "Granted", "Unreported"]
    reason: str = ""
    pending: bool = False


def enforced(allocations: Allocations, world: World) -> dict[tuple[str, str], Enforcement]:
    """Return the enforcement of grants that changed at most in memory, by node and pod UID.

    Args:
        allocations: Desired and current specs.
        world: NodeAllocations as they are in the cluster.
    """
    enforcements: dict[tuple[str, str], Enforcement] = {}
    for node, new in allocations.desired.items():
        current = allocations.current.get(node)
        if current is None or new.mode == "observe":
            continue
        if (current.mode, current.unit) == (new.mode, new.unit):
            enforcements |= world.kept.of(node, _unchanged, new, current, world.allocations[node])
    return enforcements


def replaced(allocations: Allocations, world: World) -> dict[tuple[str, str], Enforcement]:
    """Return the enforcement of the grants before the decision, by node and pod UID.

    An agent that enforces a grant is taken to enforce the one that replaces it. Otherwise a pod
    whose grant changes with every decision, by a few thousandths at a time, would never hold any.

    Args:
        allocations: Desired and current specs.
        world: NodeAllocations as they are in the cluster.
    """
    before = {
        node: spec
        for node, spec in allocations.current.items()
        if (new := allocations.desired.get(node)) is not None
        and (new.mode, new.unit) == (spec.mode, spec.unit)
    }
    return enforced(allocations._replace(desired=before), world)


def _unchanged(
    new: AllocationSpec, current: AllocationSpec, allocation: NodeAllocation
) -> dict[tuple[str, str], Enforcement]:
    """Return the enforcement of one node's unchanged grants, by node and pod UID."""
    refused, reported = _refused(allocation), _reported(allocation)
    node, before = allocation.metadata.name, {grant.uid: grant for grant in current.grants}
    enforcements: dict[tuple[str, str], Enforcement] = {}
    for grant in new.grants:
        former = before.get(grant.uid)
        if former == grant and reported is not None:
            state = reported.get(grant.uid, Enforcement("Granted"))
        elif former is not None and former._replace(memory=grant.memory) == grant:
            state = Enforcement("Unreported")
        else:
            continue
        enforcements[node, grant.uid] = refused or state
    return enforcements


def _refused(allocation: NodeAllocation) -> Enforcement | None:
    """Return a failure for all pods of a node whose agent refuses to enforce anything, or None."""
    for condition in conditions_of(allocation.status or {}).values():
        if condition.get("reason") in REFUSALS:
            return Enforcement("Failed", str(condition.get("message") or "it refuses the plan"))
    return None


def _reported(allocation: NodeAllocation) -> dict[str, Enforcement] | None:
    """Return what the agent reports of each pod, by UID; None if the report is of another epoch."""
    status = allocation.status or {}
    if status.get("epoch") != allocation.spec.epoch:
        return None
    return {str(each.get("podUID")): _enforcement(each) for each in listed(status, "pods")}


def _enforcement(pod: Mapping[str, object]) -> Enforcement:
    state = pod.get("state")
    if state == "Enforced":
        return Enforcement("Enforced")
    if state == "Failed":
        return Enforcement("Failed", str(pod.get("reason") or "the agent does not say why"))
    return Enforcement("Granted", pending=state == "Pending")
