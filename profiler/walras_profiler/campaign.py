"""Plans and makes a campaign: runs at every core count and data size, in a random order."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from walras.speedup.profile import Sample
from walras.speedup.sizes import DataSize
from walras_agent.waiting import Unwaited


class MeasurementError(Exception):
    """A run failed; the message is one line with the run, the cause and the way out."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A run to make.

    Attributes:
        repeat: Number of the repeat, from 1; 0 for the warm-up, which is not counted.
    """

    cores: int
    size: DataSize
    repeat: int

    def __str__(self) -> str:
        data = "" if self.size.is_whole else f", data size {self.size}"
        return f"{self.cores} core{'s' * (self.cores > 1)}{data}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """Time and resources that one run took.

    Attributes:
        user_seconds: CPU time in user mode; None if unknown.
        system_seconds: CPU time in the kernel; None if unknown.
        peak_memory: Largest resident set of a process, or peak memory of a container, in bytes;
            None if unknown.
        others: Fraction of the CPUs' time that other programs took, from 0 to 1; None if unknown.
        unwaited: Time that it would have taken on CPUs of its own; None if unknown.
        waited: Seconds that were taken out of ``seconds``, since it waited for CPUs.
        error: Relative standard error of ``seconds`` that repeats do not show.
        counters: Counts of hardware events by event name.
    """

    cores: int
    size: DataSize
    seconds: float
    user_seconds: float | None = None
    system_seconds: float | None = None
    peak_memory: int | None = None
    others: float | None = None
    unwaited: Unwaited | None = None
    waited: float = 0.0
    error: float = 0.0
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float | None:
        """CPU time in user mode and in the kernel; None if unknown."""
        if self.user_seconds is None or self.system_seconds is None:
            return None
        return self.user_seconds + self.system_seconds


class Runner(Protocol):
    """Makes single runs, of a command on this machine or of a container."""

    @property
    def description(self) -> str:
        """Mechanism that holds runs to their cores, as text for the user."""

    @property
    def notes(self) -> Sequence[str]:
        """Texts for the user about what is not measured, and why."""

    def run(self, trial: Trial) -> Measurement:
        """Make a run and wait for its end.

        Raises:
            MeasurementError: The run failed.
        """


class TrialObserver(Protocol):
    """Callback for the progress of a campaign."""

    def __call__(self, trial: Trial, measurement: Measurement | None) -> None:
        """Observe a run: called with None before it, and with its measurement afterwards."""


def plan_trials(
    cores: Sequence[int], sizes: Sequence[DataSize], repeats: int, seed: int
) -> tuple[Trial, ...]:
    """Return all runs, in blocks: each repeat visits every core count and size in a random order.

    A machine that warms up or becomes busy then slows all of them alike, not only the last ones.
    """
    generator = random.Random(seed)  # noqa: S311 (an order, not a secret)
    trials: list[Trial] = []
    for repeat in range(1, repeats + 1):
        block = [Trial(count, size, repeat) for count in cores for size in sizes]
        generator.shuffle(block)
        trials += block
    return tuple(trials)


def run_campaign(
    runner: Runner,
    trials: Sequence[Trial],
    observe: TrialObserver,
    patient: Callable[[], bool] = lambda: True,
) -> tuple[Measurement, ...]:
    """Make a warm-up run, then all `trials` in order, and return the latter's measurements.

    The warm-up has the largest core count and data size, to bring program and data into memory.
    Where patience ends, the measurements are those of the repeats that are complete.

    Args:
        runner: Makes the runs.
        trials: Runs to make, by repeat.
        observe: Receives the progress.
        patient: Whether to go on; asked before each run but the warm-up.

    Raises:
        MeasurementError: A run failed; the first failure ends the campaign.
    """
    largest = max(trials, key=lambda trial: (trial.size, trial.cores))
    measured: list[Measurement] = []
    for trial in (Trial(largest.cores, largest.size, repeat=0), *trials):
        if trial.repeat and not patient():
            complete = sum(each.repeat < trial.repeat for each in trials)
            return tuple(measured[:complete])
        observe(trial, None)
        measurement = runner.run(trial)
        observe(trial, measurement)
        if trial.repeat:
            measured.append(measurement)
    return tuple(measured)


def samples_of(measurements: Sequence[Measurement]) -> tuple[Sample, ...]:
    """Return the measured times by data size and core count, as `fit_profile` takes them."""
    runs: dict[tuple[DataSize, int], list[Measurement]] = {}
    for each in measurements:
        runs.setdefault((each.size, each.cores), []).append(each)
    return tuple(
        Sample(
            cores,
            float(size.value),
            tuple(run.seconds for run in runs[size, cores]),
            median(run.error for run in runs[size, cores]),
        )
        for size, cores in sorted(runs)
    )


def disturbance_of(measurements: Sequence[Measurement]) -> float:
    """Return the mean fraction of CPU time that other programs took; 0 if unknown.

    Where it is known how long runs waited, their times are without that (`correction`).
    """
    taken = [m.others for m in measurements if m.others is not None and m.unwaited is None]
    return sum(taken) / len(taken) if taken else 0.0


def default_core_counts(machine: int) -> tuple[int, ...]:
    """Return the powers of two below the machine's core count, and that count."""
    powers = (1 << power for power in range(machine.bit_length()))
    return tuple(sorted({count for count in powers if count < machine} | {machine}))
