"""Pure: what a job's program loses beside other programs, and what of it the market counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_api.speedup_profile_status import MOST_ERROR
from walras_view.documents import Shown
from walras_view.figures import number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from walras_api.speedup_profile_status import MeasuredPenalty, SpeedupProfileStatus
    from walras_view.facts import ApiObject

WRITTEN = "written"
"""Source of a penalty in the spec of a SpeedupProfile."""


@dataclass(frozen=True, slots=True)
class CoRunnerPenalty(Shown):
    """The part of its throughput that a program loses beside another, and whether it counts.

    Attributes:
        co_runner: The other program, as ``namespace/profile``.
        penalty: Part of its throughput that the program loses; negative if it gains.
        error: Standard error of the penalty; None if it is not known.
        source: Progress counter by which it was measured: ``instructions``, ``cpuTime``, ``file``
            or ``http``; ``written`` if the penalty is in the profile's spec.
        cores: Number of cores on which it was measured; None if it was not.
        looks: Number of progress checks that it is the mean of; None if it was not measured.
        counted: Part that the market counts, at least 0; None if the penalty does not count.
        why_not: Why it does not count; empty if it does.
    """

    co_runner: str
    penalty: float
    error: float | None
    source: str
    cores: int | None
    looks: int | None
    counted: float | None
    why_not: str


def penalties_of(profile: ApiObject[SpeedupProfileStatus]) -> tuple[CoRunnerPenalty, ...]:
    """Return the penalties of a profile: those that count first, and the largest first of these."""
    written = {
        f"{profile.namespace}/{each['profile']}": float(each["penalty"])
        for each in profile.spec.get("penalties") or ()
    }
    penalties = [
        CoRunnerPenalty(other, penalty, None, WRITTEN, None, None, max(penalty, 0.0), "")
        for other, penalty in written.items()
    ]
    penalties += _measured(profile.status.penalties, written)
    return tuple(sorted(penalties, key=_order))


def _measured(
    reported: Collection[MeasuredPenalty], written: Collection[str]
) -> Iterator[CoRunnerPenalty]:
    for each in reported:
        other = f"{each.namespace}/{each.profile}"
        why_not = "spec.penalties has another" if other in written else _why_not(each)
        yield CoRunnerPenalty(
            co_runner=other,
            penalty=float(each.penalty),
            error=number(each.error),
            source=each.source,
            cores=each.cores,
            looks=each.looks,
            counted=None if why_not else max(each.counted or 0.0, 0.0),
            why_not=why_not,
        )


def _why_not(penalty: MeasuredPenalty) -> str:
    if penalty.source == "cpuTime":
        return "CPU time does not show slow memory"
    if penalty.counted is None:
        return f"its error is above {MOST_ERROR:.0%}"
    return "" if penalty.counted else "it is within its error"


def _order(penalty: CoRunnerPenalty) -> tuple[bool, float, str, bool]:
    counts = penalty.counted is not None
    size = penalty.penalty if penalty.counted is None else penalty.counted
    return not counts, -size, penalty.co_runner, penalty.source != WRITTEN
