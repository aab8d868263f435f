"""The rows behind figures 9 to 12 of the Amdahl market: who progresses how far under which policy.

Progress and entitlement errors are of whole cores by Hamilton's method, as the paper measures
them; classes also before rounding, since rounding has an effect of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras import metrics
from walras.amdahl.best_response import find_nash_equilibrium
from walras.amdahl.equilibrium import find_equilibrium
from walras.amdahl.market import AmdahlMarket
from walras.amdahl.upper_bound import allocate_greedily, maximise_progress, share_proportionally
from walras.rounding import round_cores
from walras_studies.procedures import amdahl_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

POLICIES = ("AB", "BR", "PS", "G", "UB")
PERCENTS = (5, 10, 15)


@dataclass(frozen=True, slots=True)
class Population:
    """A population under a policy.

    Attributes:
        density: most jobs of a server.
        number: Number of the population of that density.
        users: how many there are.
        servers: how many there are.
        jobs: how many there are.
        policy: Policy that divides the cores.
        progress: system progress (eq. 10) over that under proportional sharing.
        of_bound: system progress over that under the upper bound.
        entitlement_error: mean absolute percentage error of users' cores, 0.1 is ten percent.
        from_nash: mean difference of a job's cores from those of best response, before rounding.
        violations: part of the users whose utility, before rounding, is below their entitlement's.
    """

    density: int
    number: int
    users: int
    servers: int
    jobs: int
    policy: str
    progress: float
    of_bound: float
    entitlement_error: float
    from_nash: float
    violations: float


@dataclass(frozen=True, slots=True)
class ClassProgress:
    """Mean utility of an entitlement class over that under proportional sharing."""

    density: int
    number: int
    policy: str
    budget: int
    whole: float
    real: float


@dataclass(frozen=True, slots=True)
class Overestimate:
    """How many cores of a user's jobs move when its parallel fractions are overestimated."""

    density: int
    number: int
    percent: int
    cores: float


def divide(market: AmdahlMarket) -> dict[str, Floats]:
    """Divide the cores of a population by each policy, before rounding."""
    return {
        "AB": find_equilibrium(market).cores,
        "BR": find_nash_equilibrium(market).cores,
        "PS": share_proportionally(market),
        "G": allocate_greedily(market).cores,
        "UB": maximise_progress(market, whole=True).cores,
    }


def round_all(market: AmdahlMarket, real: dict[str, Floats]) -> dict[str, Floats]:
    """Round every policy's cores by Hamilton's method."""
    return {
        name: round_cores(cores, market.capacities, market.by_server).astype(np.float64)
        for name, cores in real.items()
    }


def by_policy(
    market: AmdahlMarket,
    real: dict[str, Floats],
    whole: dict[str, Floats],
    density: int,
    number: int,
) -> Iterator[Population]:
    """Yield a row for each policy."""
    progress = {name: metrics.system_progress(market, cores) for name, cores in whole.items()}
    bare = metrics.user_progress(market, metrics.bare_entitlement(market))
    size = (len(market.budgets), len(market.capacities), market.jobs)
    for name, cores in whole.items():
        utility = metrics.user_progress(market, real[name])
        yield Population(
            density,
            number,
            *size,
            name,
            progress[name] / progress["PS"],
            progress[name] / progress["UB"],
            amdahl_metrics.entitlement_error(market, cores),
            amdahl_metrics.mean_absolute_error(real[name], real["BR"]),
            float((utility < bare * (1 - 1e-6)).mean()),
        )


def by_class(
    market: AmdahlMarket,
    real: dict[str, Floats],
    whole: dict[str, Floats],
    density: int,
    number: int,
) -> Iterator[ClassProgress]:
    """Yield a row for each policy and entitlement class."""
    of_whole = {name: metrics.user_progress(market, cores) for name, cores in whole.items()}
    of_real = {name: metrics.user_progress(market, cores) for name, cores in real.items()}
    for name in POLICIES:
        for budget in range(1, 6):
            members = market.budgets == budget
            if members.any():
                yield ClassProgress(
                    density,
                    number,
                    name,
                    budget,
                    float(of_whole[name][members].mean() / of_whole["PS"][members].mean()),
                    float(of_real[name][members].mean() / of_real["PS"][members].mean()),
                )


def overestimates(
    market: AmdahlMarket, density: int, number: int, random: np.random.Generator
) -> Iterator[Overestimate]:
    """Yield how far a random user's cores move by overestimates (VI-E)."""
    mine = market.user == random.integers(len(market.budgets))
    known = find_equilibrium(market)
    for percent in PERCENTS:
        fraction = np.where(mine, market.fraction * (1 - percent / 100), market.fraction)
        lower = AmdahlMarket(
            market.budgets, market.capacities, market.user, market.server, fraction
        )
        cores = find_equilibrium(lower, start=known.prices).cores
        moved = amdahl_metrics.mean_absolute_error(cores[mine], known.cores[mine])
        yield Overestimate(density, number, percent, moved)
