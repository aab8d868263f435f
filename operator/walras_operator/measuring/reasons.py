"""Pure: explain why a job's speedup has not been measured, and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_operator.conditions import Problem
from walras_operator.measuring.queue import next_attempt
from walras_operator.measuring.subjects import MIN_CORES

if TYPE_CHECKING:
    from walras_operator.measuring.record import ProfileRecord
    from walras_operator.measuring.subjects import Subject

WAY_OUT = "give parallelFraction, or a profile by `walras profile`"


def unmeasured_reason(subject: Subject) -> Problem:
    """Return why a profile has no measurement yet."""
    told = record_problem(subject.record)
    if told is not None:
        return told
    if not subject.granted:
        return Problem("Waiting", "is measured once one of its pods has exclusive cores")
    if subject.granted < MIN_CORES:
        return Problem(
            "TooFewCores",
            f"its pods hold one core, and a measurement needs two; raise minCores, or {WAY_OUT}",
        )
    if not subject.candidates:
        return Problem("Waiting", "is measured once agents enforce the grants of its pods")
    return Problem("Waiting", "waits in the queue to be measured")


def record_problem(record: ProfileRecord) -> Problem | None:
    """Return the progress of measuring; None if it has not begun.

    The reason of a failure stays while it is retried; otherwise the condition would change with
    each attempt, with an Event each time.
    """
    request, failure = record.request, record.failure
    now = (
        ""
        if request is None
        else (f"measuring Pod {request.pod} of {request.node} since {request.since}")
    )
    if failure is None:
        return Problem("Measuring", now) if now else None
    return Problem(
        failure.reason,
        f"{failure.message}; {failure.times} attempts in a row failed, "
        f"{now or f'the next one is not before {next_attempt(failure)}'}; or {WAY_OUT}",
    )
