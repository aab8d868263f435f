"""Pure: recover the state of the last decision from the statuses that it wrote."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from walras.resources.contract import MARKET_NAME
from walras.rounding_credit import RoundingCredit
from walras.snapshot import Holding
from walras_operator.conditions import listed
from walras_operator.quanta import TIME, read_credits
from walras_operator.world import Carried, Reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.snapshot import JobKey
    from walras_operator.conditions import Problem
    from walras_operator.quanta import CreditAccount
    from walras_operator.world import World


_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,12})?")


def carried(world: World) -> Carried:
    """Return the state that the last decision left, of this leader or of another.

    Earlier rules are not stored. If the Market's rules cannot be used, a new leader therefore
    leaves all nodes as they are until somebody corrects the Market.
    """
    if world.carried is not None:
        return world.carried
    return Carried(held=_held(world), rounding=_rounding(world))


def rounding_credits(before: Carried, now: str) -> dict[str, RoundingCredit]:
    """Return the rounding credits of entitlements at this time, by name.

    Args:
        before: State that the last decision left.
        now: Current time (RFC 3339).
    """
    seconds = 0.0
    if before.time:
        passed = datetime.strptime(now, TIME) - datetime.strptime(before.time, TIME)
        seconds = max(passed.total_seconds(), 0.0)  # the clock may have been set back
    return {name: each.after(seconds) for name, each in before.rounding.items()}


def account(world: World) -> CreditAccount | Problem:
    """Return the Karma credits, or the problem that keeps them from being read."""
    return read_credits(status_of_market(world), world.ledger_parts)


def status_of_market(world: World) -> Mapping[str, Any]:
    """Return the status of the Market as written last, whether or not the Market is valid."""
    broken = world.broken.get(Reference("Market", MARKET_NAME))
    if broken is not None:
        return broken.status or {}
    found = (market.status for market in world.markets if market.metadata.name == MARKET_NAME)
    return next(found, None) or {}


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


def _rounding(world: World) -> dict[str, RoundingCredit]:
    found: dict[str, RoundingCredit] = {}
    for entitlement in world.objects.entitlements:
        cores = (entitlement.status or {}).get("cores")
        text = cores.get("roundingCredit") if isinstance(cores, dict) else None
        if isinstance(text, str) and _NUMBER.fullmatch(text):
            found[entitlement.metadata.name] = RoundingCredit(float(text))
    return found
