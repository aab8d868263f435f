"""The rows of the Cooper study: populations colocated by each policy, and penalties predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.cooper.blocking import blocking_pairs
from walras.cooper.colocation import penalties
from walras.cooper.policies import POLICIES, colocate, stable_marriage_random
from walras.cooper.prediction import predict
from walras.cooper.preference import preferences_right
from walras_studies.cooper_worlds import BANDWIDTH, JOBS, draw_jobs, losses
from walras_studies.procedures.corunner_filtering import filter_by_corunner
from walras_studies.procedures.rank_correlation import spearman

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SHORT = {
    "StableMarriageRandom": "SMR",
    "StableMarriagePartition": "SMP",
    "StableRoommates": "SR",
    "Greedy": "GR",
    "Complementary": "CO",
}
ALPHAS = (0.0, 0.01, 0.02, 0.05)
PREDICTORS = ("Cooper's filtering", "Walras", "column mean")


@dataclass(frozen=True, slots=True)
class Colocated:
    """A population under a policy.

    Attributes:
        world: model of contention.
        mix: density that jobs were drawn by.
        number: Number of the population.
        policy: Policy that paired the agents.
        penalty: mean disutility.
        whisker: upper whisker of disutilities, three times the inter-quartile range above the third
            quartile, or the largest if that is smaller.
        over_greedy: Ratio of that value to the one under greedy.
        fairness: rank correlation of jobs' mean penalty and bandwidth.
        no_worse_than_greedy: part of the agents that lose no more than under greedy.
        no_worse_than_complementary: the same for complementary.
        rejected: agents that roommates left without a stable partner.
    """

    world: str
    mix: str
    number: int
    policy: str
    penalty: float
    whisker: float
    over_greedy: float
    fairness: float
    no_worse_than_greedy: float
    no_worse_than_complementary: float
    rejected: int


@dataclass(frozen=True, slots=True)
class Blocking:
    """How many pairs would rather share with each other, for a gain above alpha."""

    world: str
    number: int
    policy: str
    alpha: float
    pairs: int


@dataclass(frozen=True, slots=True)
class Predicted:
    """Part of the pairwise preferences that a predictor has right."""

    world: str
    number: int
    profiled: float
    predictor: str
    right: float


@dataclass(frozen=True, slots=True)
class Scaled:
    """Fairness of random marriage among so many agents."""

    world: str
    number: int
    agents: int
    fairness: float


def colocated(
    world: str, mix: str, number: int, agents: int, seed: list[int]
) -> Iterator[Colocated | Blocking]:
    """Yield what every policy makes of a population, and who would break away."""
    by_job = losses(world, np.random.default_rng([*seed, number]))
    job = draw_jobs(mix, agents, np.random.default_rng([*seed, number, 1]))
    disutility, bandwidth = by_job[np.ix_(job, job)], BANDWIDTH[job]
    found = {name: colocate(name, disutility, bandwidth, number) for name in POLICIES}
    lost = {name: penalties(disutility, each.partner) for name, each in found.items()}
    greedy, complementary = lost["Greedy"], lost["Complementary"]
    for name, each in found.items():
        yield Colocated(
            world,
            mix,
            number,
            SHORT[name],
            float(lost[name].mean()),
            upper_whisker(lost[name]),
            float(lost[name].mean() / greedy.mean()),
            fairness(lost[name], bandwidth),
            float((lost[name] <= greedy).mean()),
            float((lost[name] <= complementary).mean()),
            len(each.rejected),
        )
        for alpha in ALPHAS if mix == "Uniform" else ():
            count = len(blocking_pairs(disutility, each.partner, alpha))
            yield Blocking(world, number, SHORT[name], alpha, count)


def upper_whisker(lost: Floats) -> float:
    """Return the largest loss within three inter-quartile ranges of the third quartile."""
    low, high = np.quantile(lost, [0.25, 0.75])
    return float(lost[lost <= high + 3 * (high - low)].max())


def fairness(lost: Floats, bandwidth: Floats) -> float:
    """Correlate the ranks of jobs by bandwidth and by mean penalty (fig. 8)."""
    jobs = np.unique(bandwidth)
    return spearman([lost[bandwidth == job].mean() for job in jobs], jobs)


def predicted(world: str, number: int, profiled: float, seed: list[int]) -> Iterator[Predicted]:
    """Yield how many preferences of 20 jobs each predictor has right (fig. 12)."""
    truth = losses(world, np.random.default_rng([*seed, number]))
    random = np.random.default_rng([*seed, number, round(100 * profiled)])
    kept = random.permutation(truth.size) < round(profiled * truth.size)
    measured = np.where(kept.reshape(truth.shape), truth, np.nan)
    guesses = {
        "Cooper's filtering": filter_by_corunner(measured).disutility,
        "Walras": predict(measured).disutility,
        "column mean": _column_means(measured),
    }
    for name, guess in guesses.items():
        yield Predicted(world, number, profiled, name, preferences_right(truth, guess))


def _column_means(measured: Floats) -> Floats:
    known = ~np.isnan(measured)
    count = known.sum(axis=0)
    total = np.where(known, measured, 0).sum(axis=0)
    mean = np.where(count, total / np.maximum(count, 1), np.nanmean(measured))
    return np.where(known, measured, mean)


def scaled(world: str, number: int, agents: int, seed: list[int]) -> Scaled:
    """Return how fair random marriage is among so many agents (fig. 13)."""
    by_job = losses(world, np.random.default_rng(seed))
    job = np.random.default_rng([*seed, number, agents]).integers(0, JOBS, agents)
    disutility = by_job[np.ix_(job, job)]
    lost = penalties(disutility, stable_marriage_random(disutility, number).partner)
    return Scaled(world, number, agents, fairness(lost, BANDWIDTH[job]))
