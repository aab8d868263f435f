"""The rows of the Karma study: slices divided by each scheme, throughput, and mixtures of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.karma.baselines import share_max_min, share_strictly
from walras.karma.ledger import Ledger
from walras_studies.karma_demands import FAIR_SHARE
from walras_studies.procedures.karma_metrics import fairness, utilisation, welfare
from walras_studies.procedures.karma_trace import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.random import Generator
    from numpy.typing import NDArray

    Slices = NDArray[np.int64]


BEYOND_MEMORY = 75.0
"""How much longer a query takes that memory does not hold; the paper has 50 to 100."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A population under a scheme.

    Attributes:
        number: Number of the population.
        scheme: Scheme that divides the slices.
        alpha: guaranteed fraction; empty where there is none.
        utilisation: part of all slices that was of use.
        welfare_ratio: largest part of its demands that a user had met, over the least.
        throughput: Throughput of all users, relative to strict partitioning, in proportion to the
            part of demands that is in memory.
        throughput_ratio: largest of a user over the least.
        throughput_disparity: median of users over the least.
        closed_throughput: Throughput of all users, relative to strict partitioning, of clients with
            one query in flight.
        closed_ratio: largest of these of a user over the least.
        closed_disparity: median of these over the least.
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
    """The gain of users that become conformant, where a part of the users already is.

    Attributes:
        number: Number of the population.
        conformant: part of the users that is conformant.
        utilisation: part of all slices that was of use.
        throughput: Throughput of all users, relative to strict partitioning.
        gain: welfare of a user after it became conformant over that before.
    """

    number: int
    conformant: float
    utilisation: float
    throughput: float
    gain: float


@dataclass(frozen=True, slots=True)
class Demands:
    """How bursty the demands of a population are: deviations in units of a user's mean."""

    number: int
    above_half: float
    above_mean: float
    largest: float


def by_credits(reported: Slices, alpha: str = "0.5") -> Slices:
    """Return what Karma gives to users who report so much."""
    users = reported.shape[1]
    ledger = Ledger.open(map(str, range(users)))
    return simulate(ledger, reported, users * FAIR_SHARE, guaranteed_fraction=alpha).slices


def throughput(slices: Slices, demands: Slices) -> NDArray[np.float64]:
    """Return queries a quantum in which a user has any, of those who do; 1 if all hit memory.

    In proportion to slices, as the paper says of what it measured: the part of its demand that a
    user holds in memory.
    """
    return _over_active_quanta(_hits(slices, demands), demands)


def closed_throughput(slices: Slices, demands: Slices) -> NDArray[np.float64]:
    """Return the same for clients that always have one query in flight, and wait for misses."""
    hit = _hits(slices, demands)
    return _over_active_quanta(1 / (hit + (1 - hit) * BEYOND_MEMORY), demands)


def _hits(slices: Slices, demands: Slices) -> NDArray[np.float64]:
    """Return the part of each demand that is in memory; 1 without a demand."""
    held, out = np.minimum(slices, demands), np.ones(demands.shape)
    return np.asarray(np.divide(held, demands, out=out, where=demands > 0))


def _over_active_quanta(rate: NDArray[np.float64], demands: Slices) -> NDArray[np.float64]:
    """Return mean rates over the quanta with a demand, of those users that have any."""
    wants = demands > 0
    active = wants.sum(axis=0)
    total = np.where(wants, rate, 0).sum(axis=0)
    return np.asarray(total[active > 0] / active[active > 0])


def by_scheme(number: int, demands: Slices, alphas: tuple[str, ...]) -> Iterator[Scheme]:
    """Yield what comes of a population's demands under each scheme."""
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
    """Let a part of the users be conformant, and some of the others become so, one at a time."""
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
