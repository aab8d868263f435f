"""Facts: one measurement of a pod, as a state machine driven by the status of the node.

It first *probes*: it requests all cores that the pod can have of its own meanwhile, to learn their
number. Then, for every sample, it is *moving* until the pod is on that many cores,
*settling* while threads spread over them and caches fill, and *counting* between two readings. A
disturbed sample is taken again.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.profiling.counters import CounterError
from walras_agent.profiling.request import MeasurementReport, ProgressSample
from walras_agent.profiling.samples import core_counts, fit_samples, memory_bandwidth, sample_order
from walras_agent.waiting import QUIET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walras_agent.cpuset import CpuSet
    from walras_agent.profiling.counters import Reading
    from walras_agent.profiling.instruments import Meter, Watching
    from walras_agent.profiling.request import Fit, MeasurementRequest, State
    from walras_agent.status import NodeStatus, PodStatus

_log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.5
"""Time between a change of cores and the first reading: threads reach free CPUs within some ticks
of the scheduler (4 ms), and a cache of some MiB fills in less than the rest."""

MOVE_TIMEOUT_SECONDS = 30.0
"""Longest time that a core count may take to come into effect."""

MOST_UNCERTAIN = 0.05
"""Largest relative error of a sample's length; slow counters get longer samples."""

LONGEST_EXTENSION = 4
"""Longest that a sample may become for that, in units of its requested length."""

MOST_PROGRESS = 1e30
"""Most progress in a sample. A job's counter may have any value; far beyond this, results would
not be finite."""

LEAST_PROGRESS = 1e-30
"""Least progress in a sample, for the same reason."""

_POLL_SECONDS = 0.5
_MAX_TRIES = 3


class _Probing(NamedTuple):
    since: float
    cores: int = 1 << 16  # more than any pod owns, so that all that it can have come into effect


class _Moving(NamedTuple):
    cores: int
    meter: Meter
    since: float


class _Settling(NamedTuple):
    cores: int
    meter: Meter
    cpus: CpuSet | None


class _Counting(NamedTuple):
    cores: int
    meter: Meter
    cpus: CpuSet | None
    start: Reading
    watch: Watching | None


class _UnmeasurableError(Exception):
    """The measurement cannot go on; one line with the cause and the way out."""


class _DisturbedError(Exception):
    """A sample is unusable; one line with the cause."""


@dataclass(slots=True)
class PodMeasurement:
    """One measurement of a pod, from the request to its report.

    Attributes:
        request: Request for the measurement.
        open_meter: Opens the pod's counters; may raise `CounterError`.
        expires: Time at which the lease expires; seconds, monotonic, as all times.
        due: Time of the next `update`.
        state: ``Running``, or a final state.
        reason: Message why the measurement is not complete.
    """

    request: MeasurementRequest
    open_meter: Callable[[MeasurementRequest], Meter]
    expires: float
    due: float
    state: State = "Running"
    reason: str = ""
    _phase: _Probing | _Moving | _Settling | _Counting = field(init=False)
    _meter: Meter | None = None
    _left: deque[int] = field(default_factory=deque)
    _planned: int = 0
    _samples: list[ProgressSample] = field(default_factory=list)
    _disturbed: int = 0
    _fit: Fit | None = None

    def __post_init__(self) -> None:
        self._phase = _Probing(since=self.due)

    @property
    def running(self) -> bool:
        """Whether the measurement still runs."""
        return self.state == "Running"

    @property
    def limits(self) -> Mapping[str, int]:
        """Number of its own cores that the pod may use, by UID; empty after the end."""
        return {self.request.pod: self._phase.cores} if self.running else {}

    @property
    def report(self) -> MeasurementReport:
        """Report of the progress or the result."""
        meter, fit = self._meter, self._fit
        return MeasurementReport(
            id=self.request.id,
            pod=self.request.pod,
            state=self.state,
            reason=self.reason,
            source=meter.counter.source if meter else None,
            warnings=(meter.warnings if meter else ()) + (fit.warnings if fit else ()),
            samples=tuple(self._samples),
            planned=self._planned,
            fit=fit,
            memory_bandwidth=memory_bandwidth(self._samples),
        )

    def renew(self, request: MeasurementRequest, now: float) -> None:
        """Extend the lease if the request has more renewals than before."""
        if request.renewals > self.request.renewals:
            self.request = replace(self.request, renewals=request.renewals)
            self.expires = now + request.lease_seconds

    def update(self, status: NodeStatus, now: float) -> None:
        """Advance by the status of the node after a pass with `limits`.

        Any error ends the measurement and becomes the reason in the report.
        """
        try:
            self._advance(status, _pod_status(status, self.request.pod), now)
        except _UnmeasurableError as error:
            self.end("Failed", str(error))

    def end(self, state: State, reason: str = "") -> None:
        """End the measurement: free the pod, close the counters, and fit the samples."""
        if not self.running:
            return
        self.state, self.reason = state, reason
        _stop_watch(self._phase)
        if self._meter:
            self._meter.close()
        try:
            self._fit = fit_samples(self._samples)
        except (ValueError, ArithmeticError) as error:
            self.state, self.reason = "Failed", f"its samples fit no speedup ({error})"
        _log.info(
            "measurement %s of pod %s: %s after %d of %d samples%s",
            self.request.id,
            self.request.pod,
            self.state,
            len(self._samples),
            self._planned,
            f": {self.reason}" if self.reason else "",
        )

    def _advance(self, status: NodeStatus, pod: PodStatus, now: float) -> None:
        phase = self._phase
        if isinstance(phase, _Settling | _Counting):
            try:
                _check_undisturbed(phase, pod, status)
                if now >= self.due:
                    self._read(phase, now)
            except (_DisturbedError, CounterError) as error:
                self._retry(phase, str(error), now)
        elif pod.limit is None:
            self._wait(phase.since, pod, now)
        elif isinstance(phase, _Probing):
            self._begin(pod.limit, now)
        elif pod.limit < phase.cores:
            raise _UnmeasurableError(
                f"{pod.title} holds {pod.limit} whole cores now, and the measurement needs "
                f"{phase.cores}: request a new one under the new grant"
            )
        else:
            self._phase = _Settling(phase.cores, phase.meter, pod.cpus)
            self.due = now + SETTLE_SECONDS

    def _wait(self, since: float, pod: PodStatus, now: float) -> None:
        """Poll until the limit is in effect, at most for `MOVE_TIMEOUT_SECONDS`."""
        self.due = now + _POLL_SECONDS
        if now - since >= MOVE_TIMEOUT_SECONDS:
            why = pod.reason or "other pods need the cores that would be its own"
            raise _UnmeasurableError(
                f"the CPUs of {pod.title} cannot be changed ({why}): request it again later"
            )

    def _begin(self, held: int, now: float) -> None:
        """Plan the samples now that the number of the pod's own cores is known."""
        try:
            counts = self._core_counts(held)
            meter = self._meter = self.open_meter(self.request)
        except (ValueError, CounterError) as error:
            raise _UnmeasurableError(str(error)) from error
        self._left.extend(sample_order(counts, self.request.repeats))
        self._planned = len(self._left)
        self._next(meter, now)

    def _core_counts(self, held: int) -> tuple[int, ...]:
        if self.request.purpose == "Progress":
            return (held,)
        return core_counts(self.request.cores, held)

    def _next(self, meter: Meter, now: float) -> None:
        """Go to the next sample; after the last one the measurement is complete."""
        self._disturbed = 0
        if self._left:
            self._phase, self.due = _Moving(self._left.popleft(), meter, now), now
        else:
            self.end("Complete")

    def _read(self, phase: _Settling | _Counting, now: float) -> None:
        reading = phase.meter.read()
        if isinstance(phase, _Settling):
            watch = phase.meter.watch
            watching = watch(len(phase.cpus)) if watch and phase.cpus else None
            self._phase = _Counting(phase.cores, phase.meter, phase.cpus, reading, watching)
            self.due = reading.at + self.request.sample_seconds
            return
        longer = _extended(phase.start, reading, self.request.sample_seconds)
        if longer is not None:
            self.due = phase.start.at + longer
            return
        sample = _sample(phase.cores, phase.start, reading)
        self._samples.append(sample if phase.watch is None else _unwaited(sample, phase.watch))
        self._next(phase.meter, now)

    def _retry(self, phase: _Settling | _Counting, reason: str, now: float) -> None:
        """Take a sample again, at most `_MAX_TRIES` times in all."""
        _stop_watch(phase)
        self._disturbed += 1
        if self._disturbed >= _MAX_TRIES:
            raise _UnmeasurableError(reason)
        _log.warning("measurement %s: retrying a sample: %s", self.request.id, reason)
        self._phase, self.due = _Moving(phase.cores, phase.meter, now), now


def _stop_watch(phase: _Probing | _Moving | _Settling | _Counting) -> None:
    if isinstance(phase, _Counting) and phase.watch is not None:
        phase.watch.stop()


def _unwaited(sample: ProgressSample, watch: Watching) -> ProgressSample:
    """Return a sample with the time that it would have taken on CPUs of the pod's own.

    Other programs of the node may run on a pod's CPUs: those outside the market, and the system's.
    """
    times = watch.stop()
    times_alone = times.unwaited(sample.seconds, times.ran)
    if times_alone is None:
        return sample
    alone = times_alone.busy + times_alone.idle
    if alone >= (1 - QUIET) * sample.seconds:
        return sample
    waited, error = sample.seconds - alone, times_alone.error / alone
    return replace(sample, seconds=alone, waited=waited, error=error)


def _pod_status(status: NodeStatus, uid: str) -> PodStatus:
    """Return the status of the pod.

    Raises:
        _UnmeasurableError: The pod cannot be measured on this node.
    """
    if status.refused:
        raise _UnmeasurableError(status.refused)
    if status.mode == "observe":
        raise _UnmeasurableError(
            "the node only observes and sets no CPUs: switch its mode to enforce"
        )
    pod = next((each for each in status.pods if each.pod == uid), None)
    if pod is None:
        raise _UnmeasurableError("the pod has no grant on this node: grant it cores there")
    if pod.state == "Absent":
        raise _UnmeasurableError(f"{pod.title}: {pod.reason}")
    return pod


def _check_undisturbed(phase: _Settling | _Counting, pod: PodStatus, status: NodeStatus) -> None:
    """Check that the pod has kept its CPUs, quota and weight since the last pass.

    Raises:
        _DisturbedError: They have changed.
    """
    group = phase.meter.group
    moved = (pod.limit, pod.cpus) != (phase.cores, phase.cpus)
    if moved or any(f"{each}/".startswith(f"{group}/") for each in status.repaired):
        raise _DisturbedError(
            f"the CPUs or the quota of {pod.title} changed during every try of a sample: request "
            "it when plans are steady, and see that nothing else writes its cgroups"
        )


def _extended(start: Reading, end: Reading, requested: float) -> float | None:
    """Return the seconds that a sample must last; None if it has lasted long enough.

    Raises:
        _DisturbedError: The counter answers too slowly for any sample.
    """
    uncertain = (start.took + end.took) / 2
    if uncertain <= MOST_UNCERTAIN * (end.at - start.at):
        return None
    needed, longest = uncertain / MOST_UNCERTAIN, LONGEST_EXTENSION * requested
    if needed > longest:
        raise _DisturbedError(
            f"the counter took {max(start.took, end.took):.2g} s to answer, so that a sample of "
            f"{requested:g} s says little: let it answer at once, or raise sampleSeconds"
        )
    return needed


def _sample(cores: int, start: Reading, end: Reading) -> ProgressSample:
    """Return the sample between two readings.

    Raises:
        _DisturbedError: The counter did not advance, or by an impossible amount.
    """
    seconds, progress = end.at - start.at, end.progress - start.progress
    if not LEAST_PROGRESS <= progress <= MOST_PROGRESS:
        did = "went back" if progress < 0 else "did not move"
        if not progress <= MOST_PROGRESS:
            did = f"moved by more than {MOST_PROGRESS:g}"
        raise _DisturbedError(
            f"the counter {did} in a sample of {seconds:.1f} s: see that the job makes progress, "
            "and raise sampleSeconds so that it counts several times in a sample"
        )
    if start.memory_bytes is None or end.memory_bytes is None:
        return ProgressSample(cores, seconds, progress)
    moved = end.memory_bytes - start.memory_bytes
    # It decreases when a cache's counter vanishes with the last of its CPUs.
    return ProgressSample(cores, seconds, progress, moved if moved >= 0 else None)
