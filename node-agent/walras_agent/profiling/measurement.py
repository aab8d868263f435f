"""Chooses: one measurement, a state machine that is told what is in effect and when.

It first asks for all cores that the pod owns, to learn how many these are. Then, for every sample,
it is *moving* until the pod is on so many cores, *settling* while threads spread over them and
caches fill, and *counting* between two readings. A sample that was disturbed is taken again.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.profiling.counters import CounterError
from walras_agent.profiling.request import Report, Sample
from walras_agent.profiling.result import fit, memory_bandwidth
from walras_agent.profiling.schedule import core_counts, order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walras_agent.cpuset import CpuSet
    from walras_agent.profiling.counters import Reading
    from walras_agent.profiling.instruments import Meter
    from walras_agent.profiling.request import Fit, Request, State
    from walras_agent.status import NodeStatus, PodStatus

_log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.5
"""Threads get to CPUs that have become free within some ticks of the scheduler (4 ms); a cache of
some MiB fills in less than the rest."""

PATIENCE_SECONDS = 30.0
"""So long a core count may take to come into effect."""

MOST_PROGRESS = 1e30
"""In a sample. A counter of a job says what it likes; far beyond this, what follows from it is
no number any more."""

LEAST_PROGRESS = 1e-30

_POLL_SECONDS = 0.5
_TRIES = 3


class _Asking(NamedTuple):
    since: float
    cores: int = 1 << 16  # more than there are: what comes into effect is all that the pod owns


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


class _HopelessError(Exception):
    """The measurement cannot go on; one line: why, and the way out."""


class _DisturbedError(Exception):
    """A sample is worth nothing; one line: why."""


@dataclass(slots=True)
class Measurement:
    """One measurement, from its first look at the pod to its report.

    Attributes:
        request: What is to be measured.
        open_meter: Opens what it is measured with; may raise `CounterError`.
        lease: When it ends by itself; seconds, monotonic, as all times.
        wake: When it wants to be told again.
        state: Whether it still runs, or how it ended.
        reason: Why it is not complete.
    """

    request: Request
    open_meter: Callable[[Request], Meter]
    lease: float
    wake: float
    state: State = "Running"
    reason: str = ""
    _phase: _Asking | _Moving | _Settling | _Counting = field(init=False)
    _meter: Meter | None = None
    _left: deque[int] = field(default_factory=deque)
    _planned: int = 0
    _samples: list[Sample] = field(default_factory=list)
    _disturbed: int = 0
    _fit: Fit | None = None

    def __post_init__(self) -> None:
        self._phase = _Asking(since=self.wake)

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.state == "Running"

    @property
    def limits(self) -> Mapping[str, int]:
        """By pod UID, how many of its own cores it is to use now; none once all is over."""
        return {self.request.pod: self._phase.cores} if self.running else {}

    @property
    def report(self) -> Report:
        """How it goes, or went."""
        meter, found = self._meter, self._fit
        return Report(
            id=self.request.id,
            pod=self.request.pod,
            state=self.state,
            reason=self.reason,
            source=meter.counter.source if meter else None,
            warnings=(meter.warnings if meter else ()) + (found.warnings if found else ()),
            samples=tuple(self._samples),
            planned=self._planned,
            fit=found,
            memory_bandwidth=memory_bandwidth(self._samples),
        )

    def renew(self, request: Request, now: float) -> None:
        """Take a request again; one with more renewals than before extends the lease."""
        if request.renewals > self.request.renewals:
            self.request = replace(self.request, renewals=request.renewals)
            self.lease = now + request.lease_seconds

    def note(self, status: NodeStatus, now: float) -> None:
        """Learn what is in effect after a step that was given `limits`.

        Whatever is wrong ends the measurement, and the report says it.
        """
        try:
            self._advance(status, _find(status, self.request.pod), now)
        except _HopelessError as error:
            self.end("Failed", str(error))

    def end(self, state: State, reason: str = "") -> None:
        """Let go of the pod and of the counters, and work out what the samples show."""
        if not self.running:
            return
        self.state, self.reason = state, reason
        if self._meter:
            self._meter.close()
        self._fit = fit(self._samples)
        _log.info(
            "measurement %s of pod %s: %s after %d of %d samples%s",
            self.request.id,
            self.request.pod,
            state,
            len(self._samples),
            self._planned,
            f": {reason}" if reason else "",
        )

    def _advance(self, status: NodeStatus, pod: PodStatus, now: float) -> None:
        phase = self._phase
        if isinstance(phase, _Settling | _Counting):
            try:
                _check_undisturbed(phase, pod, status)
                if now >= self.wake:
                    self._read(phase, now)
            except (_DisturbedError, CounterError) as error:
                self._again(phase, str(error), now)
        elif pod.limit is None:
            self._wait(phase.since, pod, now)
        elif isinstance(phase, _Asking):
            self._begin(pod.limit, now)
        elif pod.limit < phase.cores:
            raise _HopelessError(
                f"{pod.title} holds {pod.limit} whole cores now, and {phase.cores} were to be "
                "measured: ask again under the new grant"
            )
        else:
            self._phase = _Settling(phase.cores, phase.meter, pod.cpus)
            self.wake = now + SETTLE_SECONDS

    def _wait(self, since: float, pod: PodStatus, now: float) -> None:
        """Look again soon: the pod is not yet on the CPUs that it is to be on."""
        self.wake = now + _POLL_SECONDS
        if now - since >= PATIENCE_SECONDS:
            why = pod.reason or "no reason is known"
            raise _HopelessError(f"the CPUs of {pod.title} cannot be varied ({why}): ask later")

    def _begin(self, held: int, now: float) -> None:
        """Plan the samples, once it is known how many cores the pod owns."""
        try:
            counts = self._counts(held)
            meter = self._meter = self.open_meter(self.request)
        except (ValueError, CounterError) as error:
            raise _HopelessError(str(error)) from error
        self._left.extend(order(counts, self.request.repeats))
        self._planned = len(self._left)
        self._next(meter, now)

    def _counts(self, held: int) -> tuple[int, ...]:
        if self.request.purpose == "Progress":
            return (held,)
        return core_counts(self.request.cores, held)

    def _next(self, meter: Meter, now: float) -> None:
        """Go to the next sample; after the last one all is done."""
        self._disturbed = 0
        if self._left:
            self._phase, self.wake = _Moving(self._left.popleft(), meter, now), now
        else:
            self.end("Complete")

    def _read(self, phase: _Settling | _Counting, now: float) -> None:
        reading = phase.meter.read()
        if isinstance(phase, _Settling):
            self._phase = _Counting(phase.cores, phase.meter, phase.cpus, reading)
            self.wake = reading.at + self.request.sample_seconds
            return
        self._samples.append(_sample(phase.cores, phase.start, reading))
        self._next(phase.meter, now)

    def _again(self, phase: _Settling | _Counting, reason: str, now: float) -> None:
        """Take a sample once more, unless it fails every time."""
        self._disturbed += 1
        if self._disturbed >= _TRIES:
            raise _HopelessError(reason)
        _log.warning("measurement %s: a sample is taken again: %s", self.request.id, reason)
        self._phase, self.wake = _Moving(phase.cores, phase.meter, now), now


def _find(status: NodeStatus, uid: str) -> PodStatus:
    """The pod, as it is held.

    Raises:
        _HopelessError: Nothing can be measured here.
    """
    if status.refused:
        raise _HopelessError(status.refused)
    if status.mode == "observe":
        raise _HopelessError("the node only observes, and sets no CPUs: switch it to enforce")
    pod = next((each for each in status.pods if each.pod == uid), None)
    if pod is None:
        raise _HopelessError("the pod has no grant on this node: grant it two cores or more")
    if pod.state == "Absent":
        raise _HopelessError(f"{pod.title}: {pod.reason}")
    if not pod.own:
        raise _HopelessError(f"{pod.title} has no core of its own: grant it two or more")
    return pod


def _check_undisturbed(phase: _Settling | _Counting, pod: PodStatus, status: NodeStatus) -> None:
    """Whether the pod has been on the same CPUs since the last look.

    Raises:
        _DisturbedError: It has not.
    """
    inside = f"{phase.meter.group}/"
    moved = (pod.limit, pod.cpus) != (phase.cores, phase.cpus)
    if moved or any(each.startswith(inside) for each in status.repaired):
        raise _DisturbedError(
            f"{pod.title} got onto other CPUs while it was measured, again and again: ask when "
            "plans are steady, and when nobody else writes its cgroups"
        )


def _sample(cores: int, start: Reading, end: Reading) -> Sample:
    """What happened between two readings.

    Raises:
        _DisturbedError: No progress did, or nobody can have made so much.
    """
    seconds, progress = end.at - start.at, end.progress - start.progress
    if not LEAST_PROGRESS <= progress <= MOST_PROGRESS:
        did = "went back" if progress < 0 else "did not move"
        if not progress <= MOST_PROGRESS:
            did = f"moved by more than {MOST_PROGRESS:g}"
        raise _DisturbedError(
            f"the counter {did} in the {seconds:.1f} s of a sample: see that the job works, and "
            "give sampleSeconds in which it counts several times"
        )
    if start.memory_bytes is None or end.memory_bytes is None:
        return Sample(cores, seconds, progress)
    moved = end.memory_bytes - start.memory_bytes
    # It goes back where a cache's counter is gone, with the last of its CPUs.
    return Sample(cores, seconds, progress, moved if moved >= 0 else None)
