"""Pure: recover the state of the last decision from the statuses that it wrote."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from walras_api.contract import MARKET_NAME
from walras_operator.decide.conditions import listed
from walras_operator.decide.credits.account import read_account
from walras_operator.decide.credits.quanta import read_credits
from walras_operator.decide.world import Account, Carried, Reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.market.snapshot import JobKey
    from walras_operator.decide.conditions import Problem
    from walras_operator.decide.credits.quanta import CreditAccount
    from walras_operator.decide.world import World


_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,12})?")


def carried(world: World) -> Carried:
    """Return the state that the last decision left, of this leader or of another.

    Earlier rules are not stored. If the Market's rules cannot be used, a new leader therefore
    leaves all nodes as they are until somebody corrects the Market.
    """
    if world.carried is not None:
        return world.carried
    return Carried(held=_held(world))


def names_of_entitlements(world: World) -> list[str]:
    """Return the names of all entitlements that exist, also of those that cannot be used."""
    valid = [each.metadata.name for each in world.objects.entitlements]
    return valid + [each.name for each in world.broken if each.kind == "Entitlement"]


def ledger_account(world: World) -> CreditAccount | Problem:
    """Return the Karma credits, or the problem that keeps them from being read."""
    return world.kept.of("", read_credits, status_of_market(world), world.ledger_parts)


def core_account(world: World) -> Account | Problem:
    """Return what entitlements owe each other, or the problem that keeps it from being read."""
    carried = None if world.carried is None else world.carried.account
    parents = {each.spec.parent for each in world.objects.entitlements}
    statuses = [
        *(
            (each.metadata.name, each.status)
            for each in world.objects.entitlements
            if each.metadata.name not in parents
        ),
        *(
            (reference.name, each.status)
            for reference, each in world.broken.items()
            if reference.kind == "Entitlement"
        ),
    ]
    return read_account(status_of_market(world), world.ledger_parts, statuses, carried)


def status_of_market(world: World) -> Mapping[str, Any]:
    """Return the status of the Market as written last, whether or not the Market is valid."""
    broken = world.broken.get(Reference("Market", MARKET_NAME))
    if broken is not None:
        return broken.status or {}
    return {} if world.market is None else world.market.status or {}


def _held(world: World) -> dict[JobKey, float]:
    """Return the cores that pods hold; those of which a status says nothing are left out."""
    held: dict[JobKey, float] = {}
    for job in world.objects.jobs:
        for pod in listed(job.status or {}, "pods"):
            cores = pod.get("held")
            if isinstance(cores, str) and _NUMBER.fullmatch(cores) and float(cores) > 0:
                key = job.metadata.namespace, job.metadata.name
                held[*key, str(pod.get("name")), str(pod.get("node"))] = float(cores)
    return held
