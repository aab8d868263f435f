"""Rows of the Amdahl study: progress and errors of populations under each policy (fig. 9 to 12).

Progress and entitlement errors are those of whole cores by Hamilton's method, as the paper measures
them. The progress of entitlement classes is also computed before rounding, since rounding has an
effect of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.best_response import find_nash_equilibrium
from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.mechanisms.amdahl.upper_bound import (
    allocate_greedily,
    maximise_progress,
    share_proportionally,
)
from walras_studies.amdahl import paper_metrics as amdahl_metrics
from walras_studies.amdahl.whole_cores import round_cores
from walras_studies.amdahl.without_bounds import find_equilibrium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

POLICIES = ("AB", "BR", "PS", "G", "UB")
"""The paper's names of policies: Amdahl Bidding, best response, proportional sharing, greedy, upper
bound."""

PERCENTS = (5, 10, 15)
"""Overestimates of parallel fractions, in percent."""


@dataclass(frozen=True, slots=True)
class Population:
    """Outcome of a population under one policy.

    Attributes:
        density: Largest number of jobs of a server.
        number: Number of the population of that density.
        users: Number of users.
        servers: Number of servers.
        jobs: Number of jobs.
        policy: Policy that divides the cores, of `POLICIES`.
        progress: System progress (eq. 10), relative to that under proportional sharing.
        of_bound: System progress, relative to that under the upper bound.
        entitlement_error: Mean absolute percentage error of users' cores against entitled ones, as
            a fraction: 0.1 is ten percent.
        from_nash: Mean absolute difference of a job's cores from those under best response, before
            rounding.
        violations: Part of the users whose utility before rounding is below that of their
            entitlement.
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
    """Mean utility of an entitlement class under one policy.

    Attributes:
        density: Largest number of jobs of a server.
        number: Number of the population of that density.
        policy: Policy that divides the cores, of `POLICIES`.
        budget: Budget of each user of the class.
        whole: Mean utility on whole cores, relative to that under proportional sharing.
        real: The same before rounding.
    """

    density: int
    number: int
    policy: str
    budget: int
    whole: float
    real: float


@dataclass(frozen=True, slots=True)
class Overestimate:
    """Change of a user's cores if its parallel fractions are overestimated.

    Attributes:
        density: Largest number of jobs of a server.
        number: Number of the population of that density.
        percent: Overestimate of the parallel fractions, in percent.
        cores: Mean absolute change of the cores of the user's jobs.
    """

    density: int
    number: int
    percent: int
    cores: float


def divide(market: AmdahlMarket) -> dict[str, Floats]:
    """Return the cores of a population's jobs under each policy, before rounding, shape (k,)."""
    return {
        "AB": find_equilibrium(market).cores,
        "BR": find_nash_equilibrium(market).cores,
        "PS": share_proportionally(market),
        "G": allocate_greedily(market).cores,
        "UB": maximise_progress(market, whole=True).cores,
    }


def round_all(market: AmdahlMarket, real: dict[str, Floats]) -> dict[str, Floats]:
    """Return every policy's cores, rounded by Hamilton's method, shape (k,)."""
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
    """Yield the outcome of a population under each policy.

    Args:
        market: Users, servers and jobs.
        real: Cores of each job under each policy before rounding, shape (k,).
        whole: The same after rounding.
        density: Largest number of jobs of a server.
        number: Number of the population.
    """
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
    """Yield the utility of each entitlement class under each policy; see `by_policy`."""
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
    """Yield how the cores of a random user change if its fractions are overestimated (VI-E).

    The drawn fractions are the overestimates; the true ones are lower.
    """
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
