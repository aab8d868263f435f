"""Pure: how much a progress check of a pod would teach about penalties.

A penalty compares a program beside another with the program alone. On a busy node, pods are seldom
alone, so the chance must be taken where there is one. What a check teaches is how far it is
expected to move the penalty: its error falls from e to e', and the penalty moves by a deviation of
sqrt(e**2 - e'**2).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from walras.mechanisms.cooper.beliefs import PRIOR_DEVIATION
from walras_operator.decide.measuring.co_runners import (
    ALONE,
    UNKNOWN_DEVIATION,
    CoRunner,
    penalties_of,
)

if TYPE_CHECKING:
    from walras_operator.decide.measuring.co_runners import Company
    from walras_operator.decide.measuring.measurement_record import ProfileRecord
    from walras_operator.decide.measuring.subjects import Candidate


def is_alone(candidate: Candidate, company: Company) -> bool:
    """Return whether a pod is the only one of the market on its sockets."""
    metadata = candidate.pod.metadata
    return company.of(metadata.namespace, metadata.name, candidate.node) == []


def was_measured_alone(record: ProfileRecord) -> bool:
    """Return whether a profile's speedup was measured on a pod that was alone.

    Without that, its progress cannot be compared with that of the program alone.
    """
    return any(each.co_runners == [] for each in record.measurements)


def lesson(record: ProfileRecord, candidate: Candidate, company: Company) -> float:
    """Return how far a check of a pod is expected to move a penalty, in parts of its throughput.

    It is 0 for a pod that is alone or has several co-runners, for a program that was never measured
    alone, and where progress is counted as CPU time, which shows no penalties.
    """
    metadata = candidate.pod.metadata
    co_runner = company.co_runner(metadata.namespace, metadata.name, candidate.node)
    if co_runner is None or co_runner == ALONE or not was_measured_alone(record):
        return 0.0
    if record.measurements[-1].source == "cpuTime":
        return 0.0
    error = _error(record, co_runner)
    return error**2 / math.hypot(error, UNKNOWN_DEVIATION)


def _error(record: ProfileRecord, co_runner: CoRunner) -> float:
    """Return the error of the penalty beside a co-runner, at most that without any check."""
    errors = [
        float(each.error or 0)
        for each in penalties_of(record.co_runners)
        if (each.namespace, each.profile) == co_runner
    ]
    return min([*errors, PRIOR_DEVIATION])
