"""Pure: what becomes of a job's deadline in a local run, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.outcome.deadline_reasons import way_out, why_not_reserved

if TYPE_CHECKING:
    from walras.market.plan import DeadlineOutcome

UNKNOWN_WORK = (
    "nothing is reserved, since its run time on one core is unknown; name a "
    "SpeedupProfile with run times on one core for two sizes of its data, or have it measured"
)
"""Message about a deadline as long as the work left is not known."""


def outlook(outcome: DeadlineOutcome | None) -> str:
    """Return what becomes of a job's deadline; None stands for work left that is not known."""
    if outcome is None:
        return UNKNOWN_WORK
    if outcome.state == "Reserved":
        return "its cores are reserved"
    if outcome.state == "OnTime":
        return "it needs no reservation"
    return f"{why_not_reserved([outcome])}; {way_out([outcome])}"
