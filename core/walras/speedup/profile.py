"""Fit of measured times: a parallel fraction and predicted times.

Source: "Amdahl's Law in the Datacenter Era", section IV: Karp-Flatt per sampled data size, its
mean and variance over core counts, a time model per core count, and the two combined into a
prediction (Figure 5). `walras.speedup.diagnosis` finds faults of a fit.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean, geometric_mean, median, pvariance

from walras.speedup.amdahls_law import karp_flatt, market_fraction, speedup
from walras.speedup.time_model import TimeModel, TimePoint, fit_common_start, fit_time_model

_ERROR_OF_MEDIAN = math.sqrt(math.pi / 2) * 1.4826
"""Standard error of the median of n normal values, by their median absolute deviation / sqrt(n).

The standard deviation is 1.4826 of them, and a median errs sqrt(pi / 2) times as much as a mean.
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """The times of one program at one core count and one data size.

    Attributes:
        size: Data size: a fraction of the full data in (0, 1], or an absolute size; one kind
            throughout a profile. 1.0 for a program whose data are not varied.
        error: Relative standard error of the times that their differences do not show.
    """

    cores: int
    size: float
    seconds: tuple[float, ...]
    error: float = 0.0

    def __post_init__(self) -> None:
        if self.cores < 1:
            raise ValueError(f"sample at {self.cores} cores: a program runs on one core or more")
        if not (math.isfinite(self.size) and self.size > 0):
            raise ValueError(f"sample of data size {self.size}: a size is above 0")
        if not self.seconds or not all(math.isfinite(t) and t > 0 for t in self.seconds):
            raise ValueError(f"sample at {self.cores} cores: needs times, each above 0 seconds")

    @property
    def typical(self) -> float:
        """The median time, seconds.

        Disturbances only ever lengthen a run, some of them a lot: a mean would take them for
        the program's own time, the minimum would hang on a single run.
        """
        return median(self.seconds)

    @property
    def uncertainty(self) -> float:
        """The standard error of the median, as a share of it; `error` alone for a single time.

        It is estimated by the median absolute deviation, so that a single disturbed run, which does
        not move the median either, counts for little.
        """
        deviation = median(abs(time - self.typical) for time in self.seconds)
        shown = _ERROR_OF_MEDIAN * deviation / math.sqrt(len(self.seconds)) / self.typical
        return math.hypot(shown, self.error)


@dataclass(frozen=True, slots=True)
class CoreFraction:
    """Measured speedup s(x) and raw Karp-Flatt fraction F(x) at one core count."""

    cores: int
    speedup: float
    fraction: float


@dataclass(frozen=True, slots=True)
class SizeFit:
    """Karp-Flatt analysis at one data size.

    Attributes:
        points: Speedup and F for each further core count, ascending.
        mean: F̄_d, the mean of F over core counts (Figure 2).
        variance: Var(F) over core counts (Figure 3); low where Amdahl's law fits.
    """

    size: float
    seconds: float
    points: tuple[CoreFraction, ...]
    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class SpeedupFit:
    """Dependence of a program's time on its cores and its data.

    Attributes:
        by_cores: Core count to F(x), the mean over data sizes.
        raw_fraction: The parallel fraction: the geometric mean of F̄_d over data sizes (Figure 6),
            or the arithmetic mean where some F̄_d is not above 0. May lie outside (0, 1].
        time_models: Core count to its time model; empty with a single data size.
        common_start: Core count to a linear time model; all share their start-up time.
        has_start_up: Whether these explain the times better than one fraction for all sizes does.
    """

    sizes: tuple[SizeFit, ...]
    by_cores: Mapping[int, float]
    raw_fraction: float
    variance: float
    time_models: Mapping[int, TimeModel]
    common_start: Mapping[int, TimeModel]
    has_start_up: bool

    @property
    def fraction(self) -> float:
        """The parallel fraction for the market, in (0, 1]."""
        return market_fraction(self.raw_fraction)

    def fraction_at(self, size: float) -> float:
        """Return the parallel fraction for the market, in (0, 1], on data of another size.

        Start-up that does not grow with the data weighs most in small samples and makes a program
        look less parallel than it is on all of its data. Where lines that share their start-up time
        explain the measured times better than one fraction for all sizes does, this is the mean
        over core counts of Karp-Flatt (equation 3) on the times that they predict. (Where time
        grows faster than data a line predicts times badly, but all core counts alike, and their
        ratios are what counts.) Otherwise, or if they predict nothing above zero, it is `fraction`.
        """
        return market_fraction(self._raw_fraction_at(size))

    def _raw_fraction_at(self, size: float) -> float:
        if not self.has_start_up:
            return self.raw_fraction
        seconds = {cores: model.predict(size) for cores, model in self.common_start.items()}
        if min(seconds.values()) <= 0:
            return self.raw_fraction
        alone = seconds.pop(1)
        return fmean(karp_flatt(alone / time, cores) for cores, time in seconds.items())

    def speedup(self, cores: float) -> float:
        """Return the speedup on `cores` cores, at least 1, that Amdahl's law predicts.

        A negative fraction (a slow-down) is taken as measured; one above 1 is taken as 1, since
        beyond it the law has a pole.
        """
        return speedup(cores, min(self.raw_fraction, 1.0))

    def predict_seconds(self, cores: float, size: float) -> float:
        """Return the seconds predicted by the time model at `size` and Amdahl's law (IV-B).

        The time model is that of the measured core count closest to `cores` by ratio, the
        larger of two equally close: models fit better on more cores (IV-A). The law has the
        parallel fraction on data of this size.

        Raises:
            ValueError: A single data size was measured, and `size` is not it.
        """
        nearest = min((1, *self.by_cores), key=lambda x: (abs(math.log(x / cores)), -x))
        fraction = min(self._raw_fraction_at(size), 1.0)
        gain = speedup(nearest, fraction) / speedup(cores, fraction)
        return self._seconds(nearest, size) * gain

    def _seconds(self, cores: int, size: float) -> float:
        """Return the seconds predicted at a measured core count."""
        if cores in self.time_models:
            return self.time_models[cores].predict(size)
        for fit in self.sizes:
            if math.isclose(fit.size, size):
                at_cores = {point.cores: fit.seconds / point.speedup for point in fit.points}
                return ({1: fit.seconds} | at_cores)[cores]
        raise ValueError(
            f"no time model for data size {size:g} at {cores} cores: measure two sizes or more"
        )


def fit_profile(samples: Iterable[Sample]) -> SpeedupFit:
    """Fit a program's parallel fraction and time models to its samples (section IV-B).

    Args:
        samples: Times at one core and at one or more further core counts, for each data size.
            Samples of the same core count and size are taken together.

    Raises:
        ValueError: No samples; or a data size without a time on one core or on more than one.
    """
    merged = merge_samples(samples)
    if not merged:
        raise ValueError("no samples to fit")
    sizes = tuple(
        _fit_size(size, tuple(group)) for size, group in groupby(merged, key=lambda s: s.size)
    )
    by_cores = _mean_by_cores(sizes)
    timed = _time_points(merged)
    fraction = _mean_fraction([fit.mean for fit in sizes])
    models = {cores: fit_time_model(points) for cores, points in timed.items()}
    common_start = fit_common_start(timed) if timed else {}
    return SpeedupFit(
        sizes=sizes,
        by_cores=by_cores,
        raw_fraction=fraction,
        variance=pvariance(by_cores.values()),
        time_models=models,
        common_start=common_start,
        has_start_up=_has_start_up(timed, models, common_start, fraction),
    )


def merge_samples(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """Return one sample for each data size and core count, in that order, with all its times."""
    merged: dict[tuple[float, int], Sample] = {}
    for each in samples:
        former = merged.get((each.size, each.cores))
        merged[each.size, each.cores] = (
            each
            if former is None
            else replace(
                former, seconds=former.seconds + each.seconds, error=max(former.error, each.error)
            )
        )
    return tuple(merged[key] for key in sorted(merged))


def _fit_size(size: float, samples: tuple[Sample, ...]) -> SizeFit:
    """Return speedup and Karp-Flatt of each core count against one core (equation 3)."""
    seconds = {sample.cores: sample.typical for sample in samples}
    if 1 not in seconds:
        raise ValueError(f"data size {size:g} has no time on one core: speedup is relative to it")
    if len(seconds) == 1:
        raise ValueError(f"data size {size:g} has times on one core only: measure two or more")
    alone = seconds.pop(1)
    points = tuple(
        CoreFraction(cores, alone / time, karp_flatt(alone / time, cores))
        for cores, time in seconds.items()
    )
    fractions = [point.fraction for point in points]
    return SizeFit(size, alone, points, fmean(fractions), pvariance(fractions))


def _mean_by_cores(sizes: tuple[SizeFit, ...]) -> dict[int, float]:
    """Return F(x) averaged over the data sizes at which x was measured, by core count."""
    fractions: dict[int, list[float]] = {}
    for fit in sizes:
        for point in fit.points:
            fractions.setdefault(point.cores, []).append(point.fraction)
    return {cores: fmean(fractions[cores]) for cores in sorted(fractions)}


def _mean_fraction(means: list[float]) -> float:
    """Return the geometric mean (Figure 6), or the arithmetic one if a value is not positive."""
    return geometric_mean(means) if min(means) > 0 else fmean(means)


def _has_start_up(
    timed: Mapping[int, Sequence[TimePoint]],
    models: Mapping[int, TimeModel],
    common_start: Mapping[int, TimeModel],
    fraction: float,
) -> bool:
    """Return whether lines with a common start-up explain times better than one fraction does."""
    if 1 not in timed or len(timed) == 1:
        return False
    by_fraction, by_start = 0.0, 0.0
    for cores, points in timed.items():
        slowness = 1 - fraction + fraction / cores
        for point in points:
            for_all = models[1].predict(point.size) * slowness
            by_fraction += point.weight * (for_all / point.seconds - 1) ** 2
            started = common_start[cores].predict(point.size)
            by_start += point.weight * (started / point.seconds - 1) ** 2
    return by_start < by_fraction


def _time_points(samples: tuple[Sample, ...]) -> dict[int, list[TimePoint]]:
    """Return the times at each core count that was measured at two data sizes or more."""
    points: dict[int, list[TimePoint]] = {}
    for sample in samples:
        point = TimePoint(sample.size, sample.typical, weight=len(sample.seconds))
        points.setdefault(sample.cores, []).append(point)
    return {cores: points[cores] for cores in sorted(points) if len(points[cores]) > 1}
