"""A campaign: every core count at every data size several times, in an order that hides drift."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from walras.profile import Sample
from walras.sizes import Size


class MeasurementError(Exception):
    """A run failed; the message is one line: which run, what is wrong, the way out."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run to make.

    Attributes:
        cores: Cores to run on.
        size: Data size.
        repeat: Which repeat it is, from 1; 0 is the warm-up, which is not counted.
    """

    cores: int
    size: Size
    repeat: int

    def __str__(self) -> str:
        data = "" if self.size.is_whole else f", data size {self.size}"
        return f"{self.cores} core{'s' * (self.cores > 1)}{data}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run took.

    Attributes:
        cores: Cores that it ran on.
        size: Data size.
        seconds: Wall time.
        user_seconds: CPU time in user mode; None where unknown, as the next two are.
        system_seconds: CPU time in the kernel.
        peak_memory: Largest resident set, bytes (of one process, or of a whole container).
        others: Share of the CPUs' time that other programs took meanwhile; None where unknown.
        counters: Hardware counters by event name.
    """

    cores: int
    size: Size
    seconds: float
    user_seconds: float | None = None
    system_seconds: float | None = None
    peak_memory: int | None = None
    others: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


class Runner(Protocol):
    """Something that can make one run: of a command here, or of a container."""

    @property
    def description(self) -> str:
        """How runs are held to their cores, for people."""

    @property
    def notes(self) -> Sequence[str]:
        """What is not measured and why, for people."""

    def run(self, trial: Trial) -> Measurement:
        """Make one run and wait for it.

        Raises:
            MeasurementError: The run failed.
        """


class Observer(Protocol):
    """Is told of every run."""

    def __call__(self, trial: Trial, measurement: Measurement | None) -> None:
        """Called before each run with None, and after it with its measurement."""


def plan_trials(
    cores: Sequence[int], sizes: Sequence[Size], repeats: int, seed: int
) -> tuple[Trial, ...]:
    """All runs, in blocks: each repeat visits every core count and size in a new random order.

    A machine that warms up or gets busy then slows all of them alike, and not the last ones only.
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
    observe: Observer,
) -> tuple[Measurement, ...]:
    """Make a warm-up run, then all `trials` in order; the first that fails ends the campaign.

    The warm-up has the most cores and data of all trials: it brings program and data into memory.

    Args:
        runner: Makes the runs.
        trials: From `plan_trials`.
        observe: Is told of every run.

    Raises:
        MeasurementError: A run failed.
    """
    largest = max(trials, key=lambda trial: (trial.size, trial.cores))
    measured = []
    for trial in (Trial(largest.cores, largest.size, repeat=0), *trials):
        observe(trial, None)
        measurement = runner.run(trial)
        observe(trial, measurement)
        if trial.repeat:
            measured.append(measurement)
    return tuple(measured)


def samples_of(measurements: Sequence[Measurement]) -> tuple[Sample, ...]:
    """The measured times as the core fits them."""
    times: dict[tuple[Size, int], tuple[float, ...]] = {}
    for m in measurements:
        times[m.size, m.cores] = (*times.get((m.size, m.cores), ()), m.seconds)
    return tuple(
        Sample(cores, float(size.value), times[size, cores]) for size, cores in sorted(times)
    )


def disturbance_of(measurements: Sequence[Measurement]) -> float:
    """The mean share of the CPUs that other programs took; 0 where it is unknown."""
    known = [m.others for m in measurements if m.others is not None]
    return sum(known) / len(known) if known else 0.0


def default_core_counts(machine: int) -> tuple[int, ...]:
    """Powers of two below the machine's cores, and all of them."""
    powers = (1 << power for power in range(machine.bit_length()))
    return tuple(sorted({count for count in powers if count < machine} | {machine}))
