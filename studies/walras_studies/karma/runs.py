"""Rows of the Karma study: slices and throughput under each scheme, and mixtures of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.karma.baselines import share_max_min, share_strictly
from walras.mechanisms.karma.ledger import Ledger
from walras_studies.karma.demands import FAIR_SHARE
from walras_studies.karma.paper_metrics import fairness, utilisation, welfare
from walras_studies.karma.trace import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.random import Generator
    from numpy.typing import NDArray

    Slices = NDArray[np.int64]


BEYOND_MEMORY = 75.0
"""Time of a query whose data are not in memory, relative to one whose data are; the paper has 50 to
100."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """Outcome of a population under one scheme.

    Attributes:
        number: Number of the population.
        scheme: Scheme that divides the slices, of `SCHEMES`.
        alpha: Guaranteed fraction; empty for schemes without one.
        utilisation: Part of all slices that was used.
        welfare_ratio: Ratio of the largest welfare of a user to the least; welfare is the part of
            its demands that was met.
        throughput: Throughput of all users, in proportion to the part of demands that is in memory,
            relative to strict partitioning.
        throughput_ratio: Ratio of the largest throughput of a user to the least.
        throughput_disparity: Ratio of the median throughput of users to the least.
        closed_throughput: Throughput of all users if each has one query in flight, relative to
            strict partitioning.
        closed_ratio: Ratio of the largest of these throughputs of a user to the least.
        closed_disparity: Ratio of the median of these throughputs of users to the least.
    """

    number: int
    scheme: str
    alpha: str
    utilisation: float
    welfare_ratio: float
    throughput: float
    throughput_ratio: float
    throughput_disparity: float
    closed_throughput: float
    closed_ratio: float
    closed_disparity: float


@dataclass(frozen=True, slots=True)
class Mixture:
    """Outcome of a population of which a part is conformant, and the gain of users that become so.

    Conformant users report their true demands; the others report at least their fair share.

    Attributes:
        number: Number of the population.
        conformant: Part of the users that is conformant.
        utilisation: Part of all slices that was used.
        throughput: Throughput of all users, relative to strict partitioning.
        gain: Mean ratio of a user's welfare after it became conformant to that before; 1 if all
            users are conformant.
    """

    number: int
    conformant: float
    utilisation: float
    throughput: float
    gain: float


@dataclass(frozen=True, slots=True)
class Demands:
    """Burstiness of a population: standard deviations of users' demands, relative to their means.

    Attributes:
        number: Number of the population.
        above_half: Part of the users whose relative deviation is at least 0.5.
        above_mean: Part of the users whose relative deviation is at least 1.
        largest: Largest relative deviation of a user.
    """

    number: int
    above_half: float
    above_mean: float
    largest: float


def by_credits(reported: Slices, alpha: str = "0.5") -> Slices:
    """Return the slices of users under Karma, shape (quanta, users).

    Args:
        reported: Demand that each user reports in each quantum, in slices, shape (quanta, users).
        alpha: Guaranteed fraction of the fair share.
    """
    users = reported.shape[1]
    ledger = Ledger.open(map(str, range(users)))
    return simulate(ledger, reported, users * FAIR_SHARE, guaranteed_fraction=alpha).slices


def throughput(slices: Slices, demands: Slices) -> NDArray[np.float64]:
    """Return the mean throughput of each user with any demand, over its quanta with a demand.

    It is the part of the demand that the user holds in memory, 1 if all is, since the paper says
    that the throughput which it measured is in proportion to slices.
    """
    return _over_active_quanta(_hits(slices, demands), demands)


def closed_throughput(slices: Slices, demands: Slices) -> NDArray[np.float64]:
    """Return the throughput of each user with any demand if it always has one query in flight.

    It is relative to the throughput if all queries hit memory.
    """
    hit = _hits(slices, demands)
    return _over_active_quanta(1 / (hit + (1 - hit) * BEYOND_MEMORY), demands)


def _hits(slices: Slices, demands: Slices) -> NDArray[np.float64]:
    """Return the part of each demand that is in memory, shape (quanta, users); 1 if it is 0."""
    held, out = np.minimum(slices, demands), np.ones(demands.shape)
    return np.asarray(np.divide(held, demands, out=out, where=demands > 0))


def _over_active_quanta(rate: NDArray[np.float64], demands: Slices) -> NDArray[np.float64]:
    """Return each user's mean rate over its quanta with a demand, for users that have any."""
    wants = demands > 0
    active = wants.sum(axis=0)
    total = np.where(wants, rate, 0).sum(axis=0)
    return np.asarray(total[active > 0] / active[active > 0])


def by_scheme(number: int, demands: Slices, alphas: tuple[str, ...]) -> Iterator[Scheme]:
    """Yield the outcome of a population under each scheme."""
    capacity = demands.shape[1] * FAIR_SHARE
    strictly = share_strictly(demands, capacity)
    base = throughput(strictly, demands).sum()
    closed_base = closed_throughput(strictly, demands).sum()
    divided = {("Karma", alpha): by_credits(demands, alpha) for alpha in alphas}
    divided["max-min", ""] = share_max_min(demands, capacity)
    divided["strict", ""] = strictly
    for (scheme, alpha), slices in divided.items():
        rate, closed = throughput(slices, demands), closed_throughput(slices, demands)
        yield Scheme(
            number,
            scheme,
            alpha,
            utilisation(slices, demands, capacity),
            1 / fairness(slices, demands),
            float(rate.sum() / base),
            float(rate.max() / rate.min()),
            float(np.median(rate) / rate.min()),
            float(closed.sum() / closed_base),
            float(closed.max() / closed.min()),
            float(np.median(closed) / closed.min()),
        )


def mixture(number: int, demands: Slices, part: float, gainers: int, random: Generator) -> Mixture:
    """Return the outcome if a part of the users is conformant, and the gain of some of the others.

    Args:
        number: Number of the population.
        demands: True demands in slices, shape (quanta, users).
        part: Part of the users that is conformant.
        gainers: Number of other users that become conformant, one at a time.
        random: Source of the choice of users.
    """
    users = demands.shape[1]
    conformant = random.permutation(users) < round(part * users)
    reported = np.where(conformant, demands, np.maximum(demands, FAIR_SHARE))
    slices = by_credits(reported)
    before = welfare(slices, demands)
    others = np.flatnonzero(~conformant)
    gains = []
    for user in random.choice(others, min(gainers, len(others)), replace=False):
        honest = reported.copy()
        honest[:, user] = demands[:, user]
        gains.append(welfare(by_credits(honest), demands)[user] / before[user])
    used = utilisation(slices, demands, users * FAIR_SHARE)
    strictly = throughput(share_strictly(demands, users * FAIR_SHARE), demands).sum()
    faster = float(throughput(slices, demands).sum() / strictly)
    return Mixture(number, part, used, faster, float(np.mean(gains)) if gains else 1.0)
