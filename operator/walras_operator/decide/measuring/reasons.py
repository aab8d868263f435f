"""Pure: explain why a job's speedup has not been measured, and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_operator.decide.conditions import Problem
from walras_operator.decide.measuring.queue import next_attempt
from walras_operator.decide.measuring.requests import pod_and_node
from walras_operator.decide.measuring.subjects import MIN_CORES

if TYPE_CHECKING:
    from walras_operator.decide.measuring.measurement_record import ProfileRecord
    from walras_operator.decide.measuring.subjects import Subject

WAY_OUT = "set spec.parallelFraction, or use a profile from `walras profile`"


def unmeasured_reason(subject: Subject) -> Problem:
    """Return why a profile has no measurement yet."""
    recorded = record_problem(subject.record)
    if recorded is not None:
        return recorded
    if not subject.granted:
        return Problem("Waiting", "no pod has exclusive cores yet, which measuring needs")
    if subject.granted < MIN_CORES:
        return Problem(
            "TooFewCores",
            "no pod has an exclusive core and may use two, as measuring needs; raise minCores and "
            f"maxCores, or {WAY_OUT}",
        )
    if not subject.candidates:
        return Problem("Waiting", "waits for the node's agent to enforce the grant of a pod")
    return Problem("Waiting", "waits in the queue for measurement")


def record_problem(record: ProfileRecord) -> Problem | None:
    """Return the progress of measuring; None if it has not begun.

    The reason of a failure stays while it is retried; otherwise the condition would change with
    each attempt, with an Event each time.
    """
    request, failure = record.request, record.failure
    running = "" if request is None else f"measuring {pod_and_node(request)} since {request.since}"
    if failure is None:
        return Problem("Measuring", running) if running else None
    attempts = "one attempt" if failure.times == 1 else f"{failure.times} attempts in a row"
    now = running or f"the next attempt is not before {next_attempt(failure)}"
    message = f"{failure.message}; {attempts} failed; {now}; to do without, {WAY_OUT}"
    return Problem(failure.reason, message)
