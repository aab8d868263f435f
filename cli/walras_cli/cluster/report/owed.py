"""What users owe each other now, of cores and of memory, for ``walras report``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_cli.cluster.asking import facts_of
from walras_service.api_errors import ApiError
from walras_service.failures import Failure
from walras_view.explain.user import gib_hours
from walras_view.rows.users import user_rows
from walras_view.text import natural

if TYPE_CHECKING:
    from walras_cli.cluster.connection import Cluster
    from walras_view.facts import Facts


@dataclass(frozen=True, slots=True)
class Owed:
    """What others owe one user; negative if it owes them.

    Attributes:
        user: Name of the entitlement.
        core_hours: Core-hours; None if the market keeps no account of cores.
        gib_hours: GiB-hours, by its credits above the mean; None if it keeps none of memory.
    """

    user: str
    core_hours: float | None
    gib_hours: float | None


def read_owed(cluster: Cluster) -> tuple[Owed, ...]:
    """Return what every user is owed; nothing if Entitlements cannot be listed."""
    try:
        return owed_of(facts_of(cluster, {"entitlements", "market"}))
    except (ApiError, Failure):
        return ()


def owed_of(facts: Facts) -> tuple[Owed, ...]:
    """Return what entitlements without children are owed, as far as an account is kept."""
    parents = {each.spec.get("parent") for each in facts.entitlements.values()}
    owed = []
    for row in user_rows(facts, lambda row: natural(row.name)):
        if row.name in parents:
            continue
        kept = facts.entitlements[row.name].status.core_credits
        cores = None if kept is None else float(kept.core_hours)
        owed.append(Owed(row.name, cores, gib_hours(facts, row)))
    return tuple(each for each in owed if each.core_hours is not None or each.gib_hours is not None)
