"""Chooses (pure): what the status of a pod says of the one beside it, and of better company."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from walras.resources.statuses import PodColocation
from walras_operator.status.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.plan import Pairing, Plan


def companies(plan: Plan) -> dict[str, PodColocation]:
    """Return what is to be told of everybody who was placed, by the job's title."""
    return {
        title: _company(pairing, number)
        for pairing in plan.pairings
        for number, title in enumerate(pairing.jobs)
    }


def lasting(former: Mapping[str, Any]) -> PodColocation | None:
    """Return what a pod's status said before: it is true until the pod is placed again."""
    try:
        return PodColocation.model_validate(former.get("colocation"))
    except ValidationError:
        return None


def _company(pairing: Pairing, number: int) -> PodColocation:
    if len(pairing.jobs) == 1:
        return PodColocation()
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
    )
