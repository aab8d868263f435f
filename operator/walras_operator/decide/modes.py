"""Pure: the modes of nodes now: stricter ones at once, enforcement some nodes at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_api.modes import mode_of_node, most_changing
from walras_operator.decide.conditions import conditions_of

if TYPE_CHECKING:
    from walras_api.contract import Mode
    from walras_api.kinds import MarketSpec
    from walras_api.node_allocation import NodeAllocation
    from walras_operator.decide.world import World


PAUSED = "it is paused, until walras resume"
"""Why the grants of a node stay as they are."""


def paused_nodes(world: World, rules: MarketSpec) -> dict[str, str]:
    """Return why nodes with a plan keep it though their agents live: somebody has paused them."""
    return {
        name: PAUSED
        for name, allocation in world.allocations.items()
        if rules.paused or allocation.spec.paused
    }


def modes_now(world: World, rules: MarketSpec) -> dict[str, Mode]:
    """Return the mode of each node for this decision, by name.

    A node whose plan is observed begins to enforce it once so few others are about to that the
    Market allows it, and its agent is alive. So a change that agents cannot follow ends with the
    first nodes. A node without a plan has the mode that it is to have at once; but in a pause, it
    is off.
    """
    modes = {node.metadata.name: mode_of_node(node, rules) for node in world.objects.nodes}
    if rules.paused:
        modes = dict.fromkeys(modes, "off")
    modes |= {
        name: world.allocations[name].spec.mode
        for name in paused_nodes(world, rules)
        if name in modes
    }
    return modes if rules.paused else _at_a_pace(world, rules, modes)


def _at_a_pace(world: World, rules: MarketSpec, modes: dict[str, Mode]) -> dict[str, Mode]:
    """Return the modes with those nodes still observing that have to wait for others."""
    plans = {
        name: allocation
        for name, mode in modes.items()
        if mode == "enforce" and (allocation := world.allocations.get(name)) is not None
    }
    waiting = sorted(name for name, plan in plans.items() if plan.spec.mode == "observe")
    if not waiting:
        return modes
    changing = sum(plan.spec.mode == "enforce" and not _enforces(plan) for plan in plans.values())
    free = max(most_changing(rules, len(modes)) - changing, 0)
    able = [name for name in waiting if name in world.agents]
    return modes | dict.fromkeys({*waiting} - {*able[:free]}, "observe")


def _enforces(plan: NodeAllocation) -> bool:
    """Return whether the agent of a node says that it enforces plans, and has no fault."""
    status = plan.status or {}
    ready = conditions_of(status).get("Ready", {})
    return status.get("mode") == "enforce" and ready.get("status") != "False"
