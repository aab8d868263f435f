"""Conversion of counted progress to times, to fit running pods like programs run several times.

The time of a piece of work is the inverse of the rate of progress. The piece is what one core
typically does in a sample, so that times are as long as samples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from walras.speedup.diagnosis import FindingCode
from walras.speedup.profile import Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RUNTIME_FINDINGS = frozenset(
    {
        FindingCode.SLOW_DOWN,
        FindingCode.THREADS_FIXED,
        FindingCode.TOO_NOISY,
        FindingCode.SUPER_LINEAR,
        FindingCode.PARALLEL_OVERHEAD,
    }
)
"""Findings that apply to running pods too; the others advise how to start a program."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress that was counted during one sample at one core count.

    Attributes:
        seconds: Length of the sample, above 0.
        amount: Increase of the counter, above 0, in any unit.
        error: Relative standard error of the length that other samples do not show.
    """

    cores: int
    seconds: float
    amount: float
    error: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.seconds < math.inf and 0 < self.amount < math.inf):
            raise ValueError(
                f"{self.amount:g} counted in {self.seconds:g} s: both must be numbers above 0"
            )

    @property
    def rate(self) -> float:
        """Progress per second."""
        return self.amount / self.seconds


def rate_on_one_core(samples: Iterable[Progress]) -> float:
    """Return the median progress per second on one core.

    Raises:
        ValueError: No sample is on one core.
    """
    alone = [each.rate for each in samples if each.cores == 1]
    if not alone:
        raise ValueError("no sample is on one core, to which speedup is relative")
    return median(alone)


def samples_of_progress(samples: Sequence[Progress]) -> list[Sample]:
    """Return the samples of one measurement as times, one for each core count.

    Raises:
        ValueError: Samples on one core, or on more, are missing.
    """
    rate_on_one_core(samples)
    work = median(each.amount for each in samples if each.cores == 1)
    times: defaultdict[int, list[float]] = defaultdict(list)
    errors: defaultdict[int, list[float]] = defaultdict(list)
    for each in samples:
        times[each.cores].append(work / each.rate)
        errors[each.cores].append(each.error)
    if len(times) < 2:
        raise ValueError("all samples are on one core: a speedup shows on more cores only")
    return [
        Sample(cores, 1.0, tuple(times[cores]), median(errors[cores])) for cores in sorted(times)
    ]
