"""Bursty demands that replace the Snowflake trace of Karma's evaluation (section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Slices = NDArray[np.int64]

FAIR_SHARE = 10
"""Fair share of a user, in slices; the capacity is the sum of all fair shares."""

PHASE = 20.0
"""Mean length of a busy phase, in quanta, which is an assumption."""

STANDS_IN = (
    "The Snowflake trace is not available. Users alternate between phases with and without a "
    "demand, which is as bursty as in section 2 (fig. 1); its mean is ten slices, and a busy phase "
    "lasts 20 quanta on average. Throughput is in proportion to the part of the demand that is in "
    "memory. *One query*: clients with one in flight, which takes 75 times as long beyond memory "
    "(the paper: 50 to 100)."
)
"""Data and assumptions that replace what the paper does not print."""


def draw_demands(users: int, quanta: int, random: Generator) -> Slices:
    """Draw the demands of users in whole slices, shape (quanta, users)."""
    spread = np.where(
        random.random(users) < 0.7,
        np.minimum(0.5 * (1 + random.pareto(1.6, users)), 4),
        random.uniform(0.1, 0.5, users),
    )
    demands = np.stack([_one_user(random, each, quanta) for each in spread], axis=1)
    slices: Slices = np.rint(FAIR_SHARE * demands).astype(np.int64)
    return slices


def _one_user(random: Generator, spread: float, quanta: int) -> NDArray[np.float64]:
    """Draw a user's demands, shape (quanta,), with mean 1 and standard deviation about ``spread``.

    The demands of a user that is busy for a part p of the time have the mean square
    (1 + noise²) / p.
    """
    noise = min(spread, 0.3)
    busy_part = (1 + noise**2) / (1 + spread**2)
    lengths = PHASE, PHASE * (1 - busy_part) / busy_part
    busy = bool(random.random() < busy_part)
    demands = np.zeros(quanta)
    start = -int(random.integers(0, int(sum(lengths)) + 1))
    while start < quanta:
        end = start + 1 + int(random.exponential(lengths[not busy]))
        demands[max(start, 0) : max(end, 0)] = busy
        start, busy = end, not busy
    return demands / busy_part * np.exp(noise * random.standard_normal(quanta) - noise**2 / 2)
