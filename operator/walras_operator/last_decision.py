"""Pure: recover the state of the last decision from the statuses that it wrote."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from walras.budgets import keeps_core_credits
from walras.core_credits import CoreCredit
from walras.resources.assembly import policy_of
from walras.resources.contract import MARKET_NAME
from walras_operator.conditions import listed
from walras_operator.quanta import TIME, read_credits
from walras_operator.world import Carried, Reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras.resources.kinds import MarketSpec
    from walras.snapshot import JobKey
    from walras_operator.conditions import Problem
    from walras_operator.quanta import CreditAccount
    from walras_operator.world import World


LONGEST_STEP = 600.0
"""Seconds for which core credits change between two decisions at most, unless epochs are longer: a
clock may be set forward, and nobody knows what happened while no operator decided."""

_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,12})?")


def carried(world: World) -> Carried:
    """Return the state that the last decision left, of this leader or of another.

    Earlier rules are not stored. If the Market's rules cannot be used, a new leader therefore
    leaves all nodes as they are until somebody corrects the Market.
    """
    if world.carried is not None:
        return world.carried
    return Carried(held=_held(world), core_credits=_core_credits(world))


def core_credits(
    before: Carried, now: str, rules: MarketSpec, names: Iterable[str]
) -> dict[str, CoreCredit]:
    """Return the core credits of entitlements at this time, by name; empty if none are kept.

    Args:
        before: State that the last decision left.
        now: Current time (RFC 3339).
        rules: Rules of the Market.
        names: Names of the entitlements that exist; others lose their credits.
    """
    policy = policy_of(rules)
    if not keeps_core_credits(policy):
        return {}
    longest = max(LONGEST_STEP, 2.0 * rules.epoch_seconds)
    seconds = min(_seconds_since(before, now), longest)
    known = ((name, before.core_credits.get(name)) for name in names)
    return {
        name: each.after(seconds, policy.core_half_life) for name, each in known if each is not None
    }


def names_of_entitlements(world: World) -> list[str]:
    """Return the names of all entitlements that exist, also of those that cannot be used."""
    valid = [each.metadata.name for each in world.objects.entitlements]
    return valid + [each.name for each in world.broken if each.kind == "Entitlement"]


def _seconds_since(before: Carried, now: str) -> float:
    """Return the seconds since the last decision; 0 if it is unknown, or if a clock was set back.

    A new leader does not know when statuses were written.
    """
    if not before.time:
        return 0.0
    passed = datetime.strptime(now, TIME) - datetime.strptime(before.time, TIME)
    return max(passed.total_seconds(), 0.0)


def account(world: World) -> CreditAccount | Problem:
    """Return the Karma credits, or the problem that keeps them from being read."""
    return read_credits(status_of_market(world), world.ledger_parts)


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
            cores = pod.get("heldCores")
            if isinstance(cores, str) and _NUMBER.fullmatch(cores) and float(cores) > 0:
                key = job.metadata.namespace, job.metadata.name
                held[*key, str(pod.get("name")), str(pod.get("node"))] = float(cores)
    return held


def _core_credits(world: World) -> dict[str, CoreCredit]:
    found: dict[str, CoreCredit] = {}
    for entitlement in world.objects.entitlements:
        found |= _core_credit(entitlement.metadata.name, entitlement.status)
    for reference, broken in world.broken.items():
        if reference.kind == "Entitlement":
            found |= _core_credit(reference.name, broken.status)
    return found


def _core_credit(name: str, status: Mapping[str, Any] | None) -> dict[str, CoreCredit]:
    stored = (status or {}).get("coreCredits")
    text = stored.get("coreHours") if isinstance(stored, dict) else None
    if not isinstance(text, str) or _NUMBER.fullmatch(text) is None:
        return {}
    return {name: CoreCredit(3600 * float(text))}
