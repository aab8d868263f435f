"""Pure: recover the state of the last decision from the statuses that it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.resources.contract import MARKET_NAME
from walras.snapshot import Holding
from walras_operator.conditions import listed
from walras_operator.quanta import read_credits
from walras_operator.world import Carried, Reference

if TYPE_CHECKING:
    from walras.snapshot import JobKey
    from walras_operator.conditions import Problem
    from walras_operator.quanta import CreditAccount
    from walras_operator.world import World


def carried(world: World) -> Carried:
    """Return the state that the last decision left, of this leader or of another.

    Earlier rules are not stored. If the Market's rules cannot be used, a new leader therefore
    leaves all nodes as they are until somebody corrects the Market.
    """
    if world.carried is not None:
        return world.carried
    return Carried(held=_held(world))


def account(world: World) -> CreditAccount | Problem:
    """Return the Karma credits, or the problem that keeps them from being read."""
    broken = world.broken.get(Reference("Market", MARKET_NAME))
    if broken is not None:
        return read_credits(broken.status)
    found = (market.status for market in world.markets if market.metadata.name == MARKET_NAME)
    return read_credits(next(found, None))


def _held(world: World) -> dict[JobKey, Holding]:
    held: dict[JobKey, Holding] = {}
    for job in world.objects.jobs:
        for pod in listed(job.status or {}, "pods"):
            own, shared = pod.get("grantedCores"), pod.get("sharedCores")
            name, node = pod.get("name"), pod.get("node")
            if type(own) is int and type(shared) is int and own + shared > 0:
                key = job.metadata.namespace, job.metadata.name, str(name), str(node)
                held[key] = Holding(own, shared)
    return held
