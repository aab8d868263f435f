"""Pure: the progress of a pod that was counted in a measurement, beside a predicted rate."""

from __future__ import annotations

import math
from statistics import median, stdev
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walras.speedup.rates import Progress
from walras_api.node_allocation_status import ProgressSample
from walras_api.speedup_profile_status import OnlineMeasurement
from walras_operator.decide.measuring.co_runners import CoRunner, Observation

if TYPE_CHECKING:
    from collections.abc import Sequence

MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""Standard error of a median in units of that of a mean, for many Gaussian numbers."""


class StoredMeasurement(OnlineMeasurement):
    """A measurement whose samples are parsed only when they are needed.

    There are thousands in a large cluster, and most decisions need none.
    """

    samples: Any = ()


class CountedProgress(NamedTuple):
    """The progress of a pod in a measurement.

    Attributes:
        samples: Samples in the order in which they were taken.
        measurement: The same samples in the form in which a profile stores them.
    """

    samples: list[Progress]
    measurement: StoredMeasurement


def observation_of(
    co_runner: CoRunner,
    source: Literal["instructions", "cpuTime", "file", "http"],
    samples: Sequence[Progress],
    predicted: float,
    *,
    together: bool = False,
) -> Observation:
    """Return samples on one number of cores as the ratio to a predicted rate."""
    rate = median(each.rate for each in samples)
    deviation = relative_error(samples)
    return Observation(
        co_runner,
        samples[-1].cores,
        source,
        rate / predicted,
        None if deviation is None else deviation * rate / predicted,
        together=together,
    )


def relative_error(samples: Sequence[Progress]) -> float | None:
    """Return the standard error of the median rate, as a part of it; None for one sample."""
    if len(samples) == 1:
        return None
    rates = [each.rate for each in samples]
    shown = MEDIAN_ERROR * stdev(rates) / math.sqrt(len(rates)) / median(rates)
    return math.hypot(shown, median(each.error for each in samples))


def samples_of(measured: StoredMeasurement) -> list[Progress]:
    """Return a measurement's samples as numbers.

    Raises:
        ValueError: The samples are malformed.
    """
    samples = map(ProgressSample.read, measured.samples)
    return [
        Progress(each.cores, *map(float, (each.seconds, each.progress, each.error or 0)))
        for each in samples
    ]
