"""Chooses (pure): why a job's speedup is not known from a measurement, and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_operator.measuring.subjects import FEWEST_CORES
from walras_operator.measuring.turns import next_attempt
from walras_operator.status.conditions import Problem

if TYPE_CHECKING:
    from walras_operator.measuring.record import Record
    from walras_operator.measuring.subjects import Subject

WAY_OUT = "give parallelFraction, or a profile by `walras profile`"


def reason_of(subject: Subject) -> Problem:
    """Return why a profile that is measured has no measurement yet."""
    told = told_of(subject.record)
    if told is not None:
        return told
    if not subject.granted:
        return Problem("Waiting", "will be measured when a pod of it has cores of its own")
    if subject.granted < FEWEST_CORES:
        return Problem(
            "TooFewCores",
            f"holds one core, so nothing can be measured; raise minCores, or {WAY_OUT}",
        )
    if not subject.candidates:
        return Problem(
            "Waiting", "will be measured when its nodes' agents hold its pods to their grants"
        )
    return Problem("Waiting", "will be measured when its turn comes")


def told_of(record: Record) -> Problem | None:
    """Return how measuring goes, as far as it has begun.

    The reason of a failure stands while it is tried again: a condition that went to and fro with
    every attempt would be told as news each time.
    """
    request, failure = record.request, record.failure
    now = (
        ""
        if request is None
        else (f"Pod {request.pod} of {request.node} is measured since {request.since}")
    )
    if failure is None:
        return Problem("Measuring", now) if now else None
    return Problem(
        failure.reason,
        f"{failure.message}; {failure.times} in a row came to nothing, "
        f"{now or f'the next one is not before {next_attempt(failure)}'}; or {WAY_OUT}",
    )
