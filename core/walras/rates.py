"""From counted progress to times, so that running pods are fitted like programs run several times.

The time of a piece of work is the inverse of the rate of progress; the piece is what one core
typically does in a sample, so that times are of the length of samples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from walras.diagnosis import Code
from walras.profile import Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TELLING = frozenset(
    {
        Code.SLOW_DOWN,
        Code.TOO_NOISY,
        Code.SUPER_LINEAR,
        Code.PARALLEL_OVERHEAD,
    }
)
"""Findings that concern running pods too; others advise how to start a program."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What was counted in one stretch of time at one core count.

    Attributes:
        cores: That were used.
        seconds: How long, above 0.
        amount: How far the counter moved, above 0; in any unit.
    """

    cores: int
    seconds: float
    amount: float

    def __post_init__(self) -> None:
        if not (0 < self.seconds < math.inf and 0 < self.amount < math.inf):
            raise ValueError(
                f"{self.amount:g} counted in {self.seconds:g} s: both must be numbers above 0"
            )

    @property
    def rate(self) -> float:
        """Progress a second."""
        return self.amount / self.seconds


def rate_on_one_core(samples: Iterable[Progress]) -> float:
    """Return the typical progress a second on one core.

    Raises:
        ValueError: no sample is on one core.
    """
    alone = [each.rate for each in samples if each.cores == 1]
    if not alone:
        raise ValueError("no sample is on one core, and speedup is relative to it")
    return median(alone)


def times_of(samples: Sequence[Progress]) -> list[Sample]:
    """Return what one measurement shows as times, by core count.

    Raises:
        ValueError: there are not samples on one core and on more.
    """
    rate_on_one_core(samples)
    work = median(each.amount for each in samples if each.cores == 1)
    times: defaultdict[int, list[float]] = defaultdict(list)
    for each in samples:
        times[each.cores].append(work / each.rate)
    if len(times) < 2:
        raise ValueError("all samples are on one core, and a speedup shows on more")
    return [Sample(cores, 1.0, tuple(times[cores])) for cores in sorted(times)]
