"""Bursty demands that stand in for the Snowflake trace of Karma's evaluation (section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Slices = NDArray[np.int64]

FAIR_SHARE = 10
"""Slices of a user; capacity is that of all users together."""

PHASE = 20.0
"""Mean length of a busy phase, in quanta: an assumption."""

STANDS_IN = (
    "The Snowflake trace is not to be had. Users want slices in phases, on and off, ten on "
    "average: of 70 % the standard deviation is at least half the mean, bursts are up to 17 times "
    "the mean (section 2, fig. 1), and a phase lasts 20 quanta on average, which is assumed. "
    "Throughput is not measured but worked out, in proportion to the part of its demand that a "
    "user has in memory, as the paper says of what it measured. Beside it stands that of clients "
    "with one query in flight, which takes 1 in memory and 75 beyond it (the paper: 50 to 100 "
    "times)."
)


def draw_demands(users: int, quanta: int, random: Generator) -> Slices:
    """Draw what users want, shape (quanta, users), in whole slices."""
    spread = np.where(
        random.random(users) < 0.7,
        np.minimum(0.5 * (1 + random.pareto(1.6, users)), 4),
        random.uniform(0.1, 0.5, users),
    )
    demands = np.stack([_one_user(random, each, quanta) for each in spread], axis=1)
    slices: Slices = np.rint(FAIR_SHARE * demands).astype(np.int64)
    return slices


def _one_user(random: Generator, spread: float, quanta: int) -> NDArray[np.float64]:
    """Draw the demands of one user of mean 1 and a standard deviation of about ``spread``.

    A user that is busy a part p of the time, with noise, has a mean square of (1 + noise²) / p.
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
