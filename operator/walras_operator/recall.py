"""Facts: what is read of the last decision from the statuses that it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.snapshot import Holding
from walras_operator.conditions import listed
from walras_operator.market_statuses import USED
from walras_operator.quanta import account_of
from walras_operator.world import Carried, Reference

if TYPE_CHECKING:
    from walras.snapshot import Key
    from walras_operator.conditions import Problem
    from walras_operator.quanta import Account
    from walras_operator.world import World


def carried(world: World) -> Carried:
    """Return what the last decision left, whoever made it.

    Rules that were replaced by ones that cannot be used are lost with the leader that knew them:
    until they can be used, the next one leaves all nodes as they are.
    """
    if world.carried is not None:
        return world.carried
    return Carried(held=_held(world))


def account(world: World) -> Account | Problem:
    """Return Karma's credits, or why they cannot be read."""
    broken = world.broken.get(Reference("Market", USED))
    if broken is not None:
        return account_of(broken.status)
    found = (market.status for market in world.markets if market.metadata.name == USED)
    return account_of(next(found, None))


def _held(world: World) -> dict[Key, Holding]:
    held: dict[Key, Holding] = {}
    for job in world.objects.jobs:
        for pod in listed(job.status or {}, "pods"):
            own, shared = pod.get("grantedCores"), pod.get("sharedCores")
            name, node = pod.get("name"), pod.get("node")
            if type(own) is int and type(shared) is int and own + shared > 0:
                key = job.metadata.namespace, job.metadata.name, str(name), str(node)
                held[key] = Holding(own, shared)
    return held
