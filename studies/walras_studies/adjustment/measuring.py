"""Online measurements of a cluster's jobs by the operator's rules (docs/online-profiling.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.amdahl.best_response import find_nash_equilibrium
from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.speedup.amdahls_law import market_fraction
from walras.speedup.diagnosis import UNCERTAIN, uncertainties
from walras.speedup.profile import fit_profile
from walras.speedup.rates import Progress, rate_on_one_core, samples_of_progress

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from walras_studies.adjustment.worlds import Cluster

    Floats = NDArray[np.float64]

ASSUMED_FRACTION = 0.9
"""Parallel fraction that a job is assumed to have until it is measured."""

REPEATS = 3
SETTLING = 0.5
"""Number of samples at each number of cores, and seconds of settling before each sample."""

CHECKED_EVERY, THRESHOLD = 10, 0.25
"""Minutes between checks of progress, and relative departure from the prediction above which a job
is measured again."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Minutes until a job is measured again after a first failure, and most of them: they double with
each failure."""


class _Measurement(NamedTuple):
    """A running measurement of a job, with the result that it will have.

    Attributes:
        job: Index of the job.
        ends: First minute after the measurement.
        part: Part of the measurement's minutes for which it takes cores away from the job.
        meanwhile: Mean progress of the job during the samples.
        result: Parallel fraction, and progress on one core; None if the samples are too noisy.
    """

    job: int
    ends: int
    part: float
    meanwhile: float
    result: tuple[float, float] | None


@dataclass
class Measuring:
    """Measurements of a cluster's jobs: their results so far, and the times of the next ones.

    Attributes:
        cluster: Cluster whose jobs are measured.
        random: Source of the noise.
        seconds: Length of a sample, in seconds.
        fraction: Parallel fraction of each job, measured or assumed, shape (k,).
        alone: Measured progress of each job on one core, shape (k,); NaN until a measurement
            succeeds.
        due: Minute from which each job may be measured, shape (k,); infinite if it need not be.
        failures: Number of failed measurements in a row of each job, shape (k,).
        suspect: Whether each job's progress departed from the prediction at the last check, shape
            (k,).
        running: Running measurement of each server that has one, by the server's index.
    """

    cluster: Cluster
    random: Generator
    seconds: float
    fraction: Floats = field(init=False)
    alone: Floats = field(init=False)
    due: Floats = field(init=False)
    failures: NDArray[np.int64] = field(init=False)
    suspect: NDArray[np.bool_] = field(init=False)
    running: dict[int, _Measurement] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        jobs = self.cluster.market.jobs
        self.fraction = np.full(jobs, ASSUMED_FRACTION)
        self.alone = np.full(jobs, np.nan)
        self.due = np.zeros(jobs)
        self.failures = np.zeros(jobs, np.int64)
        self.suspect = np.zeros(jobs, np.bool_)

    def pass_minute(self, now: int, cores: Floats) -> Floats:
        """Check and measure jobs for a minute; return the progress of each in it, shape (k,).

        Args:
            now: Number of the minute.
            cores: Cores of each job, shape (k,).
        """
        progress = self.cluster.progress(cores)
        self._check(now, cores, progress)
        for server in range(len(self.cluster.market.capacities)):
            if server not in self.running:
                self._start(server, now, cores)
        done = progress.copy()
        for server, each in list(self.running.items()):
            done[each.job] = (1 - each.part) * progress[each.job] + each.part * each.meanwhile
            if each.ends == now + 1:
                del self.running[server]
                self._learn(each, now + 1)
        return done

    def _check(self, now: int, cores: Floats, progress: Floats) -> None:
        """Compare progress with its prediction; two departures in a row call for a measurement.

        What a job does on a part of a core says nothing about its parallel fraction.
        """
        checked = ~np.isnan(self.alone) & np.isinf(self.due) & (cores >= 1)
        if now % CHECKED_EVERY:
            checked &= self.suspect
        if not checked.any():
            return
        seen = np.median([self._read(progress, self.seconds) for _ in range(REPEATS)], axis=0)
        wide = np.maximum(cores, 1)
        speedups = wide / (self.fraction + (1 - self.fraction) * wide)
        departs = checked & (np.abs(seen / (self.alone * speedups) - 1) > THRESHOLD)
        self.due[departs & self.suspect] = now
        self.suspect = departs & ~self.suspect

    def _start(self, server: int, now: int, cores: Floats) -> None:
        """Start to measure a job of a server that holds two cores; jobs never measured go first."""
        waiting = np.flatnonzero(
            (self.cluster.market.server == server) & (self.due <= now) & (cores >= 2)
        )
        if not waiting.size:
            return
        measured = ~np.isnan(self.alone[waiting])
        job = int(waiting[np.lexsort((waiting, self.due[waiting], measured))[0]])
        held = int(cores[job])
        counts = sorted({*(2**power for power in range(held.bit_length())), held})
        true = [float(self.cluster.progress(np.full(len(cores), x))[job]) for x in counts]
        minutes = REPEATS * len(counts) * (SETTLING + self.seconds) / 60
        ends = now + math.ceil(minutes)
        samples = [
            Progress(count, self.seconds, self.seconds * float(self._read(rate, self.seconds)))
            for count, rate in zip(counts, true, strict=True)
            for _ in range(REPEATS)
        ]
        meanwhile = float(np.mean(true))
        part = minutes / math.ceil(minutes)
        self.running[server] = _Measurement(job, ends, part, meanwhile, _fitted(samples))

    def _learn(self, ended: _Measurement, now: int) -> None:
        job = ended.job
        if ended.result is None:
            pause = SHORTEST_PAUSE * 2.0 ** int(self.failures[job])
            self.due[job] = now + min(pause, LONGEST_PAUSE)
            self.failures[job] += 1
        else:
            self.fraction[job], self.alone[job] = ended.result
            self.due[job], self.failures[job] = np.inf, 0

    def _read(self, progress: Floats | float, seconds: float) -> Floats:
        """Return readings of progress over ``seconds``, with noise, and above 0."""
        deviation = self.cluster.noise * math.sqrt(30 / seconds)
        error = deviation * self.random.standard_normal(np.shape(progress))
        return np.asarray(progress * np.maximum(1e-3, 1 + error))


def by_measuring(cluster: Cluster, random: Generator, minutes: int, seconds: float) -> Floats:
    """Return users' progress in each minute, shape (minutes, n), if they bid by measured fractions.

    Args:
        cluster: Cluster whose jobs are measured.
        random: Source of the noise.
        minutes: Number of minutes.
        seconds: Length of a sample, in seconds.
    """
    market = cluster.market
    known = Measuring(cluster, random, seconds)
    rows = np.zeros((minutes, len(market.budgets)))
    cleared, cores = np.zeros(0), np.zeros(0)
    for now in range(minutes):
        if not np.array_equal(cleared, known.fraction):
            cleared = known.fraction.copy()
            told = AmdahlMarket(
                market.budgets, market.capacities, market.user, market.server, cleared, market.work
            )
            cores = find_nash_equilibrium(told, tolerance=1e-4).cores
        rows[now] = cluster.utilities(known.pass_minute(now, cores))
    return rows


def _fitted(samples: list[Progress]) -> tuple[float, float] | None:
    """Return the parallel fraction and the progress on one core; None if samples are too noisy."""
    times = samples_of_progress(samples)
    fit = fit_profile(times)
    if max(uncertainties(times, fit).values()) > UNCERTAIN:
        return None
    return market_fraction(fit.fraction), rate_on_one_core(samples)
