"""Pure: report a pod's co-runner in its status, and whether it would do better with another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from walras_api.market_job_status import PodColocation
from walras_operator.decide.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.market.plan import Pairing, Plan


def colocation_status(plan: Plan) -> dict[str, PodColocation]:
    """Return the colocation of all pods that were placed, by title of the pod."""
    return {
        title: _colocation(pairing, number)
        for pairing in plan.pairings
        for number, title in enumerate(pairing.jobs)
    }


def last_colocation(former: Mapping[str, Any]) -> PodColocation | None:
    """Return the colocation in a pod's last status, which holds until the pod is placed again."""
    if "colocation" not in former:
        return None
    try:
        return PodColocation.model_validate(former["colocation"])
    except ValidationError:
        return None


def _colocation(pairing: Pairing, number: int) -> PodColocation:
    learning = figure(pairing.learning[number]) if pairing.learning else None
    if len(pairing.jobs) == 1:
        return PodColocation(exploration=learning)
    penalty = figure(pairing.penalties[number])
    measured = bool(pairing.measured) and pairing.measured[number]
    companion = pairing.companions[number] if pairing.companions else ""
    return PodColocation(
        partner=pairing.jobs[1 - number],
        predicted_penalty=penalty,
        measured_penalty=penalty if measured else None,
        recommendation="BreakAway" if companion else "Participate",
        companion=companion or None,
        gain=figure(pairing.gains[number]) if companion else None,
        exploration=learning,
    )
