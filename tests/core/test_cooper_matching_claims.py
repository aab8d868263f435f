"""The paper's claims about populations of 1000 agents, on penalties that stand in for its own.

The penalties measured for the paper are not to be had; of contention it prints only the bandwidths
of Table I. Here a job loses by its sensitivity, drawn from U(0.02, 0.1) whatever its own bandwidth,
times what its co-runner presses: a half for the cache that any co-runner takes, and up to one for
the bandwidth of Table I. Noise of 0.01 stands for what neither explains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from contention import BANDWIDTH, JOBS
from walras.mechanisms.cooper.blocking import blocking_pairs
from walras.mechanisms.cooper.colocation import penalties
from walras.mechanisms.cooper.policies import POLICIES, colocate, stable_marriage_random
from walras_studies.cooper.rank_correlation import spearman

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

    from walras.mechanisms.cooper.colocation import Colocation

    Floats = NDArray[np.float64]
    Jobs = NDArray[np.int64]

PRESSURE = BANDWIDTH / BANDWIDTH.max()
POPULATIONS = range(10)


def uniform(random: Generator) -> Jobs:
    """Draw 1000 jobs from Table I, uniformly with replacement (V)."""
    return random.integers(0, JOBS, 1000)


def ranked(places: Floats) -> Jobs:
    """Return the jobs at ``places`` from 0, the least intensive of Table I, to below 1."""
    return np.asarray(np.argsort(BANDWIDTH)[(JOBS * places).astype(int)])


def beta_low(random: Generator) -> Jobs:
    return ranked(random.beta(2, 5, 1000))


def gaussian(random: Generator) -> Jobs:
    return ranked(np.clip(random.normal(0.5, 0.15, 1000), 0, 0.999))


def beta_high(random: Generator) -> Jobs:
    return ranked(random.beta(5, 2, 1000))


def population(seed: int, mix: Callable[[Generator], Jobs] = uniform) -> tuple[Floats, Floats]:
    """Return the disutilities of a population and its GB/s, by agent."""
    random = np.random.default_rng(seed)
    sensitivity = random.uniform(0.02, 0.1, JOBS)
    by_job = np.outer(sensitivity, 0.5 + PRESSURE) + 0.01 * random.standard_normal((JOBS, JOBS))
    job = mix(random)
    return by_job[np.ix_(job, job)], BANDWIDTH[job]


@pytest.fixture(scope="module")
def outcomes() -> list[tuple[Floats, dict[str, Colocation]]]:
    """Return the disutilities of each population, and its colocation by each policy."""
    result = []
    for seed in POPULATIONS:
        disutility, bandwidth = population(seed)
        decided = {name: colocate(name, disutility, bandwidth, seed) for name in POLICIES}
        result.append((disutility, decided))
    return result


@pytest.mark.long
@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.02, 0.05])
def test_random_marriage_has_the_fewest_blocking_pairs_of_what_always_has_a_solution(
    outcomes: list[tuple[Floats, dict[str, Colocation]]], alpha: float
) -> None:
    """Cooper VI-A, Fig. 10: less than a tenth of those of SMP, GR and CO, in every population."""
    for disutility, decided in outcomes:
        count = {
            name: len(blocking_pairs(disutility, each.partner, alpha))
            for name, each in decided.items()
        }
        marriage = count.pop("StableMarriageRandom")
        del count["StableRoommates"]
        assert all(marriage <= 0.1 * other for other in count.values())


@pytest.mark.long
def test_roommates_are_more_stable_than_random_marriage(
    outcomes: list[tuple[Floats, dict[str, Colocation]]],
) -> None:
    """Cooper VI-A has it the other way round, since SR pairs all greedily whom Irving leaves.

    There solutions "rarely exist"; here six of ten populations have one, and in the others two
    agents are rejected.
    """
    rejected, blocking = [], []
    for disutility, decided in outcomes:
        roommates, marriage = decided["StableRoommates"], decided["StableMarriageRandom"]
        rejected.append(len(roommates.rejected))
        blocking.append(
            [len(blocking_pairs(disutility, each.partner)) for each in (roommates, marriage)]
        )
    of_roommates, of_marriage = np.transpose(blocking)
    assert sorted(rejected) == [0, 0, 0, 0, 0, 0, 2, 2, 2, 2]
    assert (of_roommates[np.equal(rejected, 0)] == 0).all()
    assert (of_roommates < of_marriage).all()


@pytest.mark.long
def test_stable_policies_cost_about_as_much_as_greedy(
    outcomes: list[tuple[Floats, dict[str, Colocation]]],
) -> None:
    """Cooper, abstract and VI-B: within 5 % of prior heuristics, in the median population."""
    for name in ("StableMarriageRandom", "StableRoommates"):
        ratio = [
            penalties(disutility, decided[name].partner).mean()
            / penalties(disutility, decided["Greedy"].partner).mean()
            for disutility, decided in outcomes
        ]
        assert abs(np.median(ratio) - 1) < 0.05
        assert max(ratio) < 1.1


@pytest.mark.long
def test_stable_policies_cost_about_as_much_as_greedy_in_every_mix_of_jobs() -> None:
    """Cooper VI-B, Fig. 11: and less than CO's; all lose most under Beta-High.

    The densities' parameters are not printed. SMP is best under Beta-High there, and not here.
    """
    means = []
    for mix in (beta_low, gaussian, beta_high):
        lost = []
        for seed in POPULATIONS:
            disutility, bandwidth = population(seed, mix)
            decided = [colocate(name, disutility, bandwidth, seed) for name in POLICIES]
            lost.append([penalties(disutility, each.partner).mean() for each in decided])
        by_policy = dict(zip(POLICIES, np.transpose(lost), strict=True))
        for name in ("StableMarriageRandom", "StableMarriagePartition", "StableRoommates"):
            assert abs(np.median(by_policy[name] / by_policy["Greedy"]) - 1) < 0.05
            assert by_policy[name].mean() < by_policy["Complementary"].mean()
        means.append(np.mean(lost, axis=0))
    assert (np.diff(means, axis=0) > 0).all()


def test_a_majority_loses_no_more_under_stable_policies(
    outcomes: list[tuple[Floats, dict[str, Colocation]]],
) -> None:
    """Cooper VI-A, Fig. 9: than under GR and CO, in every population."""
    for disutility, decided in outcomes:
        lost = {name: penalties(disutility, each.partner) for name, each in decided.items()}
        for stable in ("StableMarriageRandom", "StableMarriagePartition", "StableRoommates"):
            for other in ("Greedy", "Complementary"):
                assert np.mean(lost[stable] <= lost[other]) > 0.5


def test_stability_costs_twice_as_much_where_only_the_intensive_suffer() -> None:
    """The 5 % are no law: it is unbounded in theory (VI-B), and doubles for d = bandwidth product.

    Then all prefer the least intensive, who pair up, and leave the most intensive to each other.
    """
    job = np.random.default_rng(1).integers(0, JOBS, 1000)
    disutility = 0.3 * np.outer(PRESSURE[job], PRESSURE[job])
    greedy, marriage = (
        penalties(disutility, colocate(name, disutility, seed=1).partner).mean()
        for name in ("Greedy", "StableMarriageRandom")
    )
    assert 1.8 < marriage / greedy < 2.4


def fairness(disutility: Floats, bandwidth: Floats, outcome: Colocation) -> float:
    """Correlate the ranks of the 20 jobs by bandwidth and by mean penalty (Cooper, Fig. 8)."""
    lost = penalties(disutility, outcome.partner)
    jobs = np.unique(bandwidth)
    return spearman([lost[bandwidth == job].mean() for job in jobs], jobs)


def test_stable_policies_are_fair_and_others_are_not(
    outcomes: list[tuple[Floats, dict[str, Colocation]]],
) -> None:
    """Cooper VI-A, Fig. 8: penalties follow demand under SMR and SR, but not under GR, CO, SMP.

    In the paper CO's have nothing to do with demand; on these penalties they run against it.
    """
    ranks = {
        name: np.median(
            [
                fairness(disutility, population(seed)[1], decided[name])
                for seed, (disutility, decided) in zip(POPULATIONS, outcomes, strict=True)
            ]
        )
        for name in POLICIES
    }
    assert min(ranks["StableMarriageRandom"], ranks["StableRoommates"]) > 0.5
    assert max(ranks[name] for name in ("Greedy", "Complementary", "StableMarriagePartition")) < 0.4


def test_random_marriage_is_fairer_and_more_surely_so_among_more_agents() -> None:
    """Cooper VI-D, Fig. 13."""
    disutility, bandwidth = population(3)
    mean, deviation = [], []
    for agents in (20, 100, 500):
        each = []
        for seed in range(20):
            some = np.random.default_rng(seed).permutation(1000)[:agents]
            among = disutility[np.ix_(some, some)]
            each.append(fairness(among, bandwidth[some], stable_marriage_random(among, seed)))
        mean.append(np.mean(each))
        deviation.append(np.std(each))
    assert mean == sorted(mean)
    assert mean[-1] > mean[0] + 0.2
    assert deviation == sorted(deviation, reverse=True)
    assert deviation[-1] < deviation[0] / 4
