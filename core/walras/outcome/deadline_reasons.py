"""Why cores are not reserved for a deadline, and the way out, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.market.plan import DeadlineOutcome


def why_not_reserved(outcomes: Sequence[DeadlineOutcome]) -> str:
    """Return why the cores of a job are not reserved, of whose pods each has one outcome."""
    by_state = {each.state: each for each in outcomes}
    if "OutOfReach" in by_state:
        return f"all cores that it can use on {by_state['OutOfReach'].node} are too few"
    if "Unaffordable" in by_state:
        first = by_state["Unaffordable"]
        asked = sum(each.asked for each in outcomes)
        return (
            f"Entitlement {first.entitlement} pays for {first.payable or 0:.1f} of {asked:.1f} "
            f"cores at today's prices, after its earlier deadlines"
        )
    if "Crowded" in by_state:
        return f"{by_state['Crowded'].node} has no room for them beside what others have reserved"
    if "Outbid" in by_state:
        return "its bid does not win them beside jobs with larger budgets"
    if "Forecast" in by_state:
        return "this mechanism reserves no cores for deadlines"
    if any(each.needed > each.reserved for each in outcomes):
        return f"the {sum(each.reserved for each in outcomes):.4g} cores reserved no longer suffice"
    return "its cores are reserved, but its node cannot change now"


def way_out(outcomes: Sequence[DeadlineOutcome]) -> str:
    """Return what the user can do for a job to be on time; one outcome for each pod of it."""
    states = {each.state for each in outcomes}
    if "OutOfReach" in states:
        return "move spec.deadline, or raise maxCores"
    if "Crowded" in states:
        return "move spec.deadline, or move the pod to another node"
    if "Forecast" in states:
        return "move spec.deadline, or choose a mechanism that reserves cores (AmdahlBidding)"
    return (
        f"raise the shares of Entitlement {outcomes[0].entitlement}, move spec.deadline, or stop "
        f"other jobs of the entitlement"
    )
