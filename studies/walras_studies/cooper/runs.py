"""Rows of the Cooper study: penalties of populations under each policy, and predicted penalties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras_studies.cooper.blocking import blocking_pairs, penalties
from walras_studies.cooper.corunner_filtering import filter_by_corunner
from walras_studies.cooper.policies import POLICIES, colocate, stable_marriage_random
from walras_studies.cooper.prediction import predict
from walras_studies.cooper.preferences import preferences_right
from walras_studies.cooper.rank_correlation import spearman
from walras_studies.cooper.worlds import BANDWIDTH, JOBS, draw_jobs, losses

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
"""The paper's short name of each policy."""

ALPHAS = (0.0, 0.01, 0.02, 0.05)
"""Gains in throughput above which two agents count as a blocking pair."""

PREDICTORS = ("Cooper's filtering", "Walras", "column mean")
"""Methods that predict the penalties which were not profiled."""


@dataclass(frozen=True, slots=True)
class Colocated:
    """Outcome of a population under one policy.

    Attributes:
        world: Model of contention, of `WORLDS`.
        mix: Density by which the agents' jobs were drawn, of `MIXES`.
        number: Number of the population.
        policy: Short name of the policy that paired the agents.
        penalty: Mean disutility of the agents: their loss of throughput, as a part.
        whisker: Upper whisker of disutilities: the largest within three inter-quartile ranges of
            the third quartile.
        over_greedy: Mean disutility, relative to that under Greedy.
        fairness: Rank correlation of jobs' mean disutility with their bandwidth.
        no_worse_than_greedy: Part of the agents that lose no more than under Greedy.
        no_worse_than_complementary: Part of the agents that lose no more than under Complementary.
        rejected: Number of agents that StableRoommates left without a stable partner.
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
    """Number of blocking pairs of a population under one policy.

    Attributes:
        world: Model of contention, of `WORLDS`.
        number: Number of the population.
        policy: Short name of the policy that paired the agents.
        alpha: Gain above which two agents would rather share a processor with each other.
        pairs: Number of pairs of agents who both gain more than that.
    """

    world: str
    number: int
    policy: str
    alpha: float
    pairs: int


@dataclass(frozen=True, slots=True)
class Predicted:
    """Accuracy of predicted penalties.

    Attributes:
        world: Model of contention, of `WORLDS`.
        number: Number of the matrix of penalties.
        profiled: Part of the colocations that were profiled.
        predictor: Method that predicted the others, of `PREDICTORS`.
        right: Part of the pairwise preferences that are as by the true penalties.
    """

    world: str
    number: int
    profiled: float
    predictor: str
    right: float


@dataclass(frozen=True, slots=True)
class Scaled:
    """Fairness of StableMarriageRandom in a population of one size.

    Attributes:
        world: Model of contention, of `WORLDS`.
        number: Number of the population.
        agents: Number of agents.
        fairness: Rank correlation of jobs' mean disutility with their bandwidth.
    """

    world: str
    number: int
    agents: int
    fairness: float


def colocated(
    world: str, mix: str, number: int, agents: int, seed: list[int]
) -> Iterator[Colocated | Blocking]:
    """Yield the outcome of a population under each policy, and its numbers of blocking pairs."""
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
    """Return the rank correlation of jobs' mean penalty with their bandwidth (fig. 8).

    Args:
        lost: Penalty of each agent, shape (agents,).
        bandwidth: Bandwidth of each agent's job, shape (agents,).
    """
    jobs = np.unique(bandwidth)
    return spearman([lost[bandwidth == job].mean() for job in jobs], jobs)


def predicted(world: str, number: int, profiled: float, seed: list[int]) -> Iterator[Predicted]:
    """Yield the accuracy of each predictor on the penalties of 20 jobs (fig. 12)."""
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
    """Return how fair StableMarriageRandom is in a population of ``agents`` (fig. 13)."""
    by_job = losses(world, np.random.default_rng(seed))
    job = np.random.default_rng([*seed, number, agents]).integers(0, JOBS, agents)
    disutility = by_job[np.ix_(job, job)]
    lost = penalties(disutility, stable_marriage_random(disutility, number).partner)
    return Scaled(world, number, agents, fairness(lost, BANDWIDTH[job]))
