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
        throughput: Throughput of all users, relative to strict partitioning.
        throughput_ratio: largest of a user over the least.
        throughput_disparity: median of users over the least.
    """

    number: int
    scheme: str
    alpha: str
    utilisation: float
    welfare_ratio: float
    throughput: float
    throughput_ratio: float
    throughput_disparity: float


@dataclass(frozen=True, slots=True)
class Mixture:
    """The gain of users that become conformant, where a part of the users already is."""

    number: int
    conformant: float
    utilisation: float
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
    """Return queries a quantum in which a user has any, of those who do; 1 if all hit memory."""
    wants = demands > 0
    hit = np.divide(np.minimum(slices, demands), demands, out=np.ones(demands.shape), where=wants)
    rate = 1 / (hit + (1 - hit) * BEYOND_MEMORY)
    active = wants.sum(axis=0)
    total = np.where(wants, rate, 0).sum(axis=0)
    return np.asarray(total[active > 0] / active[active > 0])


def by_scheme(number: int, demands: Slices, alphas: tuple[str, ...]) -> Iterator[Scheme]:
    """Yield what comes of a population's demands under each scheme."""
    capacity = demands.shape[1] * FAIR_SHARE
    strictly = share_strictly(demands, capacity)
    base = throughput(strictly, demands).sum()
    divided = {("Karma", alpha): by_credits(demands, alpha) for alpha in alphas}
    divided["max-min", ""] = share_max_min(demands, capacity)
    divided["strict", ""] = strictly
    for (scheme, alpha), slices in divided.items():
        rate = throughput(slices, demands)
        yield Scheme(
            number,
            scheme,
            alpha,
            utilisation(slices, demands, capacity),
            1 / fairness(slices, demands),
            float(rate.sum() / base),
            float(rate.max() / rate.min()),
            float(np.median(rate) / rate.min()),
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
    return Mixture(number, part, used, float(np.mean(gains)) if gains else 1.0)
