"""Pure: validate an agent's report of a measurement.

Agents are not trusted: only plausible numbers about the requested pod get into a profile.
Everything else is a problem.
"""

from __future__ import annotations

import re
from statistics import median
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from walras.speedup.diagnosis import UNCERTAIN, uncertainties
from walras.speedup.profile import fit_profile
from walras.speedup.rates import Progress, samples_of_progress
from walras_api.node_allocation_status import MOST_CPUS, ProfilingStatus
from walras_api.speedup_profile_status import MOST_SAMPLES
from walras_operator.decide.conditions import Problem, clipped
from walras_operator.decide.measuring.counted_progress import CountedProgress, StoredMeasurement
from walras_operator.decide.measuring.requests import pod_and_node
from walras_operator.decide.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_api.node_allocation_status import ProgressSample
    from walras_api.speedup_profile_status import OnlineRequest

LONGEST_SAMPLE = 1e6
"""Longest sample, in seconds."""

LARGEST_PROGRESS = 1e30

MOST_GAIN = 2.0
"""Largest credible speedup per core; caches that add up explain 1.5."""

_DECIMAL = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?")
_WARNINGS = 32
_LONGEST_WARNING = 1024


class _BadReportError(ValueError):
    """A report that is not plausible; one line that says why."""


def report_outcome(
    status: Mapping[str, Any] | None, request: OnlineRequest, now: str
) -> CountedProgress | Problem | None:
    """Return the result of a request; None while the agent has not reported it.

    Args:
        status: Status of the node's NodeAllocation.
        request: The request.
        now: Current time (RFC 3339).
    """
    report = (status or {}).get("profiling")
    if not isinstance(report, dict) or report.get("id") != request.id:
        return None
    if report.get("state") == "Running":
        return None
    try:
        return _validated(ProfilingStatus.read(report), request, now)
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"]))
        why = f"is malformed (profiling.{field})"
    except _BadReportError as error:
        why = str(error)
    return Problem(
        "BadReport",
        f"{pod_and_node(request)}: the agent's report {why}; see the agent's log",
    )


def _validated(
    report: ProfilingStatus, request: OnlineRequest, now: str
) -> CountedProgress | Problem:
    if report.pod_uid != request.pod_uid:
        raise _BadReportError("is about another pod")
    if report.state != "Complete":
        return Problem("NotMeasured", f"{pod_and_node(request)}: {report.reason or report.state}")
    progress = _read_measurement(report, request, now)
    if request.purpose == "Progress":
        return progress
    return _too_noisy(progress, pod_and_node(request)) or progress


def _read_measurement(report: ProfilingStatus, request: OnlineRequest, now: str) -> CountedProgress:
    if report.source is None:
        raise _BadReportError("names no progress counter")
    if not 0 < len(report.samples) <= MOST_SAMPLES:
        raise _BadReportError(f"has {len(report.samples)} samples instead of 1 to {MOST_SAMPLES}")
    samples = [_read_sample(each) for each in report.samples]
    bandwidth = report.memory_bandwidth
    measurement = StoredMeasurement(
        id=request.id,
        pod=request.pod,
        pod_uid=request.pod_uid,
        node=request.node,
        finished=now,
        source=report.source,
        samples=[each.document() for each in report.samples],
        memory_bandwidth=None if bandwidth is None else figure(_read_number(bandwidth)),
        warnings=[clipped(each, _LONGEST_WARNING) for each in report.warnings[:_WARNINGS]],
    )
    return CountedProgress(samples, measurement)


def _read_sample(sample: ProgressSample) -> Progress:
    seconds, amount = _read_number(sample.seconds), _read_number(sample.progress)
    if not 1 <= sample.cores <= MOST_CPUS:
        raise _BadReportError(f"has a sample on {sample.cores} cores")
    if not 0 < seconds <= LONGEST_SAMPLE:
        raise _BadReportError(f"has a sample of {sample.seconds} s")
    if not 0 < amount <= LARGEST_PROGRESS:
        raise _BadReportError(f"has a sample with a progress of {sample.progress}")
    return Progress(sample.cores, seconds, amount, _read_number(sample.error or "0"))


def _read_number(text: str) -> float:
    if _DECIMAL.fullmatch(text) is None:
        raise _BadReportError(f"has {clipped(text, 40)!r} instead of a number")
    return float(text)


def _too_noisy(progress: CountedProgress, pod: str) -> Problem | None:
    """Return why the samples are too noisy; None if they are not."""
    try:
        times = samples_of_progress(progress.samples)
    except ValueError as error:
        raise _BadReportError(f"cannot be used ({error})") from error
    alone = next(median(each.seconds) for each in times if each.cores == 1)
    for each in times:
        if alone / median(each.seconds) > MOST_GAIN * each.cores:
            raise _BadReportError(
                f"claims a speedup of {alone / median(each.seconds):.3g} on {each.cores} cores"
            )
    spread = uncertainties(times, fit_profile(times))
    worst = max(spread, key=lambda cores: spread[cores])
    if spread[worst] <= UNCERTAIN:
        return None
    return Problem(
        "TooNoisy",
        f"{pod}: samples differ so much that F on {worst} cores is uncertain by "
        f"±{spread[worst]:.2f}",
    )
