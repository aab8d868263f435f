"""The cores that a job needs to end in time, and how many of them to reserve.

A job with W seconds of work left on one core and t seconds to its deadline must progress at the
speed W / t. By Amdahl's law (eq. 1) this takes

    x = f s / (1 - (1 - f) s)   cores, where s = W / t < 1 / (1 - f),

and x = s for a speed below one core, which is a core for a part of the time. W is taken one
standard error higher (`safe_work`), so that a job errs on the side of too many cores.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from walras.division.holdings import THOUSANDTH

if TYPE_CHECKING:
    from walras.market.snapshot import Deadline


SPARE = 0.1
"""Part of the need that is reserved on top of it when a reservation no longer suffices."""

MOST_SPARE = 0.3
"""Part of the need that a reservation is at most larger, before it is made smaller."""

NEGLIGIBLE = 1e-9
"""Cores, or part of a budget, that arithmetic may be off by."""


def safe_work(deadline: Deadline) -> float:
    """Return the work left on the safe side: one standard error more than expected."""
    return deadline.left + deadline.error


def cores_for(speed: float, fraction: float) -> float:
    """Return the cores that give a speed, relative to one core; infinity if none do.

    The inverse of `walras.analysis.forecast.expected_speedup`.
    """
    if speed <= 1:
        return max(speed, 0.0)
    rest = 1 - (1 - fraction) * speed
    return fraction * speed / rest if rest > 0 else math.inf


def cores_needed(deadline: Deadline, fraction: float) -> float:
    """Return the cores that a job needs from now on to end in time, with the error as a margin."""
    return cores_for(speed_for(safe_work(deadline), deadline.seconds), fraction)


def speed_for(work: float, seconds: float) -> float:
    """Return the speed, relative to one core, at which work (s on one core) ends in time."""
    if work <= 0:
        return 0.0
    return work / seconds if seconds > 0 else math.inf


def reservation(needed: float, before: float, most: float) -> float:
    """Return the cores to reserve for a job, in thousandths; 0 if it needs none.

    A reservation that suffices is kept until it exceeds the need by `MOST_SPARE`, and a new size
    has `SPARE`, so that an estimate that wavers moves no cores. The first one has none: it might
    cost more than the user's budget.

    Args:
        needed: Cores that the job needs.
        before: Cores that are reserved for it now; 0 for none.
        most: Most cores that it can use.
    """
    suffice = in_thousandths(needed, most)
    if not before:
        return suffice
    if suffice <= before <= min(needed * (1 + MOST_SPARE), most):
        return before
    return in_thousandths(needed * (1 + SPARE), most)


def in_thousandths(cores: float, most: float) -> float:
    """Return cores rounded up to thousandths, and at most the most that there are."""
    if cores >= most:
        return most
    return math.ceil(cores / THOUSANDTH - NEGLIGIBLE) / (1 / THOUSANDTH)
