"""Speedups of jobs that come without one: short runs on parts of their data.

What other programs on the machine add to the times of runs is taken out of them. A measurement is
unreliable if too little is left to tell, or if the runs were too short; in this case it is made
again, once, on larger parts of the data. The parallel fraction of one that is unreliable is not
used but assumed. So is that of a job whose runs other programs hold up for too long (`Patience`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING

from walras.speedup.diagnosis import TRUSTED_SECONDS, UNRELIABLE, FindingCode, diagnose
from walras.speedup.profile import fit_profile
from walras.speedup.sizes import WHOLE, DataSize
from walras_api.job_inputs import ASSUMED_FRACTION
from walras_profiler.campaign import (
    default_core_counts,
    disturbance_of,
    plan_trials,
    run_campaign,
    samples_of,
)
from walras_profiler.command_runner import command_runner
from walras_profiler.correction import without_waiting
from walras_profiler.document import profile_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from walras.speedup.diagnosis import Finding
    from walras.speedup.profile import SpeedupFit
    from walras_agent.topology import Topology
    from walras_cli.local.documents import LocalJob
    from walras_cli.local.host import Pin
    from walras_profiler.campaign import Measurement, Runner, Trial, TrialObserver
    from walras_profiler.document import Document

REPEATS = 3
SEED = 0

LEAST_REPEATS = 2
"""Repeats without which nothing shows how much times differ."""

LONGEST_HOLD_UP = 20.0
"""Seconds that other programs may hold up the measurements of a local run, in all, ..."""

MOST_SLOWNESS = 1.5
"""... beyond this multiple of the time that they take on a quiet machine."""

RUN_OVERHEAD = 0.2
"""Seconds that a run takes on a quiet machine before its program starts and after it has ended."""

_REMEDIES = {
    FindingCode.BUSY_MACHINE: "keep other programs off the machine while it is measured",
    FindingCode.TOO_NOISY: "keep other programs off the machine while it is measured",
    FindingCode.TOO_SHORT: "measure it on more data (spec.data)",
}

_MARGIN = 2
"""How many times the shortest trusted time the shortest run is to take if it is made again."""


class HeldUpError(Exception):
    """A job is not measured, since other programs hold up measurements; how long they did."""


@dataclass(slots=True)
class Patience:
    """How long other programs may hold up measurements; a quiet machine never exhausts it.

    Attributes:
        clock: Returns seconds.
        elapsed: Seconds that runs have taken.
        alone: Seconds that they would have taken on a quiet machine.
    """

    clock: Callable[[], float] = field(default=time.monotonic)
    elapsed: float = 0.0
    alone: float = 0.0

    @property
    def left(self) -> bool:
        """Whether measurements may go on."""
        return self.elapsed <= MOST_SLOWNESS * self.alone + LONGEST_HOLD_UP

    @property
    def problem(self) -> str:
        """Why a job is not measured."""
        return f"other programs held up measurements for {self.elapsed - self.alone:.0f} s"

    def over(self, runner: Runner) -> _Timed:
        """Return a runner whose runs count."""
        return _Timed(runner, self)


@dataclass(frozen=True, slots=True)
class _Timed:
    """Runner whose runs count for a patience."""

    runner: Runner
    patience: Patience

    @property
    def description(self) -> str:
        return self.runner.description

    @property
    def notes(self) -> Sequence[str]:
        return self.runner.notes

    def run(self, trial: Trial) -> Measurement:
        began = self.patience.clock()
        measurement = self.runner.run(trial)
        self.patience.elapsed += self.patience.clock() - began
        self.patience.alone += RUN_OVERHEAD + _alone(measurement)
        return measurement


def _alone(run: Measurement) -> float:
    """Return the seconds that a run would have taken on a quiet machine, as far as is known."""
    if run.unwaited is not None:
        return min(run.unwaited.busy + run.unwaited.idle, run.seconds)
    return run.seconds * (1 - (run.others or 0.0))


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured speedup: the runs, the fit, and what the fit is worth."""

    job: LocalJob
    measurements: Sequence[Measurement]
    fit: SpeedupFit
    findings: Sequence[Finding]

    @classmethod
    def of(cls, job: LocalJob, measurements: Sequence[Measurement]) -> Measured:
        """Fit the runs of a job, and judge the fit."""
        samples = samples_of(measurements)
        fit = fit_profile(samples)
        return cls(job, measurements, fit, diagnose(samples, fit, disturbance_of(measurements)))

    @property
    def document(self) -> Document:
        """The SpeedupProfile document, named as the job."""
        return profile_document(
            self.job.name, self.job.namespace, self.measurements, self.fit, self.findings
        )

    @property
    def doubts(self) -> tuple[Finding, ...]:
        """The findings for which its parallel fraction is not used; none if it is reliable."""
        return tuple(finding for finding in self.findings if finding.code in UNRELIABLE)

    @property
    def faults(self) -> str:
        """The faults that make it unreliable, as a part of a sentence; empty if it is reliable."""
        return ", and ".join(doubt.fault for doubt in self.doubts)

    @property
    def sizes_to_repeat(self) -> tuple[DataSize, ...]:
        """The parts of the data for another measurement: larger ones if its runs are too short.

        All parts grow by the same whole number, which leaves the largest within all of the data.
        """
        shortest = min(sample.typical for sample in samples_of(self.measurements))
        if shortest >= TRUSTED_SECONDS:
            return self.job.samples
        whole = self.job.part(WHOLE)
        room = int(whole.value / max(self.job.samples).value)
        factor = max(1, min(room, ceil(_MARGIN * TRUSTED_SECONDS / shortest)))
        return tuple(
            DataSize((size.value * factor).normalize(), size.relative) for size in self.job.samples
        )

    @property
    def reason_to_assume(self) -> str:
        """Why a parallel fraction is assumed after this measurement, and the ways out of that."""
        remedies = ", ".join(dict.fromkeys(_REMEDIES[doubt.code] for doubt in self.doubts))
        return (
            f"its measurement is unreliable: {self.faults}; {remedies}, "
            "or set spec.parallelFraction"
        )


@dataclass(frozen=True, slots=True)
class Measurements:
    """Measurements of the jobs of a local run that come without a speedup.

    Attributes:
        made: Those that were made.
        held_up: Why the other jobs were not measured, by the key of the job.
    """

    made: list[Measured] = field(default_factory=list)
    held_up: dict[str, str] = field(default_factory=dict)


def saved(read: Mapping[tuple[str, str], Document], measured: Iterable[Measured]) -> list[Document]:
    """Return documents for the next run to read: all reliable profiles, or an empty List.

    Args:
        read: Documents of the profiles that this run has read, by namespace and name.
        measured: Measurements of this run; those that are unreliable are left out.
    """
    profiles = {**read, **{each.job.id: each.document for each in measured if not each.doubts}}
    return list(profiles.values()) or [{"apiVersion": "v1", "kind": "List", "items": []}]


def runs_needed(job: LocalJob, topology: Topology) -> int:
    """Return how many runs a measurement has, the warm-up included."""
    return len(default_core_counts(len(topology.cores()))) * len(job.samples) * REPEATS + 1


def measure(
    job: LocalJob,
    topology: Topology,
    pin: Pin,
    observe: TrialObserver,
    tell: Callable[[str], None],
    patience: Patience,
) -> Measured:
    """Profile a job on two cores or more, and once more if the runs were too short.

    Args:
        job: Job to profile.
        topology: Cores to profile it on, of which there must be two or more.
        pin: How runs are held to their cores.
        observe: Receives the progress of each campaign, which begins with its warm-up.
        tell: Receives a sentence about each unreliable measurement, as soon as it is made.
        patience: How long this and other measurements may be held up.

    Raises:
        HeldUpError: Other programs hold up measurements.
        MeasurementError: a run failed.
        PlacementError: runs cannot be held to cores as demanded.
        SamplingError: its data cannot be sampled.
    """
    return reliable_if_possible(
        job, lambda sizes: _measure_once(job, sizes, topology, pin, observe, patience), tell
    )


def reliable_if_possible(
    job: LocalJob,
    take: Callable[[Sequence[DataSize]], Measured],
    tell: Callable[[str], None],
) -> Measured:
    """Take a measurement, and a second one if larger runs are needed; return the last one.

    Args:
        job: Job that is measured.
        take: Takes a measurement on parts of the data of these sizes.
        tell: Receives a sentence about each unreliable measurement: what is wrong with it, and
            what happens next.
    """
    measured = take(job.samples)
    sizes = measured.sizes_to_repeat
    if sizes != job.samples:
        tell(
            f"{job.title}: its measurement is not used and is made again on larger parts of its "
            f"data, because {measured.faults}"
        )
        measured = take(sizes)
    if measured.doubts:
        tell(assumption(job.title, measured.reason_to_assume))
    return measured


def assumption(jobs: str, reason: str) -> str:
    """Return the sentence that a parallel fraction is assumed for some jobs, and why."""
    return f"{jobs}: a parallel fraction of {ASSUMED_FRACTION:g} is assumed, because {reason}"


def _measure_once(
    job: LocalJob,
    sizes: Sequence[DataSize],
    topology: Topology,
    pin: Pin,
    observe: TrialObserver,
    patience: Patience,
) -> Measured:
    if not patience.left:
        raise HeldUpError(patience.problem)
    counts = default_core_counts(len(topology.cores()))
    trials = plan_trials(counts, sizes, REPEATS, SEED)
    with command_runner(
        job.template,
        topology,
        data=job.data,
        environment=job.environment,
        cwd=job.cwd,
        prefer=pin,
        seed=SEED,
    ) as runner:
        return campaign(job, runner, trials, observe, patience)


def campaign(
    job: LocalJob,
    runner: Runner,
    trials: Sequence[Trial],
    observe: TrialObserver,
    patience: Patience,
) -> Measured:
    """Make the runs of a measurement, as many repeats as patience lasts for.

    Raises:
        HeldUpError: It lasts for too few.
    """
    runs = run_campaign(patience.over(runner), trials, observe, lambda: patience.left)
    if len(runs) < LEAST_REPEATS * len(trials) // REPEATS:
        raise HeldUpError(patience.problem)
    return Measured.of(job, without_waiting(runs))
