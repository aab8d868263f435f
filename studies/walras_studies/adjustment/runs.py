"""Rows of the study of greedy adjustment: progress in a cluster under each method of bidding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras_studies.adjustment.greedy_bids import adjust_bids, even_bids
from walras_studies.adjustment.measuring import by_measuring
from walras_studies.adjustment.worlds import JOBS_OF_USER, SERVERS, USERS, draw_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.random import Generator
    from numpy.typing import NDArray

    from walras_studies.adjustment.worlds import Cluster

    Floats = NDArray[np.float64]

MEASURED, LONGER = "measured, samples of 2 s", "measured, samples of 30 s"
ADJUSTED, EVEN = "greedy adjustment", "even bids"
METHODS = (MEASURED, LONGER, ADJUSTED, EVEN)

STEPS = 2
"""Number of adjustments in a minute, each after a reading over 30 s."""

MOMENTS = (5, 15, 60, 240)
"""Minutes after the start of all jobs for which there are rows."""


@dataclass(frozen=True, slots=True)
class AdjustmentRow:
    """Progress in a cluster some time after its jobs have started, under one method.

    Attributes:
        number: Number of the drawn cluster.
        programs: Kind of the programs, of `PROGRAMS`.
        noise: Standard deviation of a reading over 30 s, relative to the reading.
        method: Method by which users bid, of `METHODS`.
        minutes: Minutes since the start.
        rate: Budget-weighted mean of users' progress in the last minute, relative to even bids.
        done: Budget-weighted mean of users' progress since the start, relative to even bids.
        worst: Least progress of any user since the start, relative to its own under even bids.
    """

    number: int
    programs: str
    noise: float
    method: str
    minutes: int
    rate: float
    done: float
    worst: float


def rows_of(programs: str, noise: float, number: int, seed: int) -> Iterator[AdjustmentRow]:
    """Yield the rows of a drawn cluster, for each method and moment."""
    cluster = draw_cluster(programs, noise, [seed, number])
    weights = cluster.market.budgets / cluster.market.budgets.sum()
    even = _by_even_bids(cluster)
    for place, method in enumerate(METHODS):
        random = np.random.default_rng([seed, number, place])
        found = _progress_by(method, cluster, random, MOMENTS[-1])
        for minutes in MOMENTS:
            done = found[:minutes].mean(axis=0)
            yield AdjustmentRow(
                number,
                programs,
                noise,
                method,
                minutes,
                float(weights @ found[minutes - 1] / (weights @ even)),
                float(weights @ done / (weights @ even)),
                float((done / even).min()),
            )


def _progress_by(method: str, cluster: Cluster, random: Generator, minutes: int) -> Floats:
    """Return users' progress in each minute under a method, shape (minutes, n)."""
    if method == ADJUSTED:
        return by_adjusting(cluster, random, minutes)
    if method == EVEN:
        return np.tile(_by_even_bids(cluster), (minutes, 1))
    return by_measuring(cluster, random, minutes, 2.0 if method == MEASURED else 30.0)


def _by_even_bids(cluster: Cluster) -> Floats:
    """Return the progress of users who divide budgets evenly among their jobs, shape (n,)."""
    bids = cluster.market.budgets[cluster.market.user] / JOBS_OF_USER
    return cluster.utilities(cluster.progress(cluster.cores_for(bids)))


def by_adjusting(cluster: Cluster, random: Generator, minutes: int) -> Floats:
    """Return users' progress in each minute, shape (minutes, n), as they adjust their bids."""
    market = cluster.market
    place = market.user, market.server
    usable = np.zeros((USERS, SERVERS), np.bool_)
    usable[place] = True
    state = even_bids(market.budgets, usable)
    rows = np.zeros((minutes, USERS))
    for step in range(minutes * STEPS):
        cores = cluster.cores_for(state.bids[place])
        progress = cluster.progress(cores)
        rows[step // STEPS] += cluster.utilities(progress) / STEPS
        error = cluster.noise * random.standard_normal(market.jobs)
        shares, read = np.zeros((2, USERS, SERVERS))
        shares[place] = cores / market.capacities[market.server]
        read[place] = progress * np.maximum(0, 1 + error)
        prices = state.bids.sum(axis=0)
        state = adjust_bids(state, prices, shares, read, market.budgets, usable)
    return rows
