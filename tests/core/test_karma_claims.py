"""The paper's evaluation (section 5) on demands that stand in for its Snowflake trace.

The trace is not to be had. Here 100 users want slices in phases, on and off, over 900 quanta, the
fair share of ten slices on average. The standard deviation of 70 % of them is at least 0.5 times
the mean, of about a fifth at least the mean itself (section 2, Figure 1); bursts are up to 17 times
the mean, as the paper has it within minutes, that is, a standard deviation of 4 means; in the
window of 900 quanta, where a user may have a burst or two, up to 30 (the paper's 43 is over two
weeks). That a phase lasts 20 quanta on average is an assumption. Bounds are on medians of eight
populations, with room for what the trace has and this has not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from walras.mechanisms.karma.baselines import share_max_min, share_strictly
from walras.mechanisms.karma.ledger import Ledger
from walras_studies.karma.demands import FAIR_SHARE, draw_demands
from walras_studies.karma.paper_metrics import (
    disparity,
    fairness,
    useful,
    utilisation,
    welfare,
)
from walras_studies.karma.trace import simulate

Slices = NDArray[np.int64]

USERS, QUANTA = 100, 900
CAPACITY = USERS * FAIR_SHARE
SEEDS = range(8)


@cache
def bursty(seed: int) -> Slices:
    """Draw demands as told above, shape (quanta, users): those of `walras simulate karma`."""
    return draw_demands(USERS, QUANTA, np.random.default_rng(seed))


def karma(reported: Slices, fraction: str = "0.5") -> Slices:
    ledger = Ledger.open(map(str, range(USERS)))
    return simulate(ledger, reported, CAPACITY, guaranteed_fraction=fraction).slices


@dataclass(frozen=True)
class Mixture:
    """Some users report what they want, the others never less than their fair share."""

    gain: float
    utilisation: float


@cache
def mixture(seed: int, conformant_part: float) -> Mixture:
    """Measure what eight of the non-conformant users would gain by becoming conformant, each."""
    demands = bursty(seed)
    random = np.random.default_rng(seed)
    conformant = random.random(USERS) < conformant_part
    reported = np.where(conformant, demands, np.maximum(demands, FAIR_SHARE))
    slices = karma(reported)
    before = welfare(slices, demands)
    gains = []
    for user in random.choice(np.flatnonzero(~conformant), 8, replace=False):
        honest = reported.copy()
        honest[:, user] = demands[:, user]
        gains.append(welfare(karma(honest), demands)[user] / before[user])
    return Mixture(float(np.mean(gains)), utilisation(slices, demands, CAPACITY))


def median(values: list[float]) -> float:
    return float(np.median(values))


def test_demands_are_as_bursty_as_the_paper_says() -> None:
    all_demands = np.concatenate([bursty(seed) for seed in SEEDS], axis=1)
    mean, deviation = all_demands.mean(axis=0), all_demands.std(axis=0)
    assert 0.4 < (deviation >= 0.5 * mean).mean() < 0.75
    assert 0.15 < (deviation >= mean).mean() < 0.3
    assert (deviation > 12 * mean).any()
    assert (deviation <= 43 * mean).all()
    assert mean.mean() == pytest.approx(FAIR_SHARE, rel=0.05)


@pytest.mark.parametrize("seed", SEEDS)
def test_utilisation_is_that_of_max_min_about_95_percent(seed: int) -> None:
    """Section 5.1; exactly the same, since both leave a slice idle only if nobody wants it."""
    demands = bursty(seed)
    ours, theirs = (
        utilisation(slices, demands, CAPACITY)
        for slices in (karma(demands), share_max_min(demands, CAPACITY))
    )
    assert ours == theirs
    assert 0.9 < ours < 0.98
    assert utilisation(share_strictly(demands, CAPACITY), demands, CAPACITY) < 0.75


def test_the_worst_off_user_is_much_closer_to_the_best_off_than_under_max_min() -> None:
    """Section 5.1: 1.5 times against 4, more under strict partitioning. Here 1.9, 3.2 and 15."""
    ratios = [
        [
            1 / fairness(slices, demands)
            for slices in (
                karma(demands),
                share_max_min(demands, CAPACITY),
                share_strictly(demands, CAPACITY),
            )
        ]
        for demands in map(bursty, SEEDS)
    ]
    assert all(ours < max_min < strict for ours, max_min, strict in ratios)
    ours, max_min, strict = np.median(ratios, axis=0)
    assert 1.3 < ours < 2.1
    assert 2.6 < max_min < 5
    assert strict > 7


def test_less_of_a_guarantee_is_fairer_in_the_long_run() -> None:
    """Section 5.3, Figure 8: most for alpha above 0.5, and even 1 is fairer than max-min."""
    by_fraction = {
        fraction: [fairness(karma(bursty(seed), fraction), bursty(seed)) for seed in SEEDS]
        for fraction in ("0", "0.5", "1")
    }
    of_max_min = [fairness(share_max_min(bursty(s), CAPACITY), bursty(s)) for s in SEEDS]
    assert median(by_fraction["0"]) == pytest.approx(median(by_fraction["0.5"]), abs=0.03)
    assert median(by_fraction["0.5"]) > median(by_fraction["1"]) + 0.02
    assert all(ours > theirs for ours, theirs in zip(by_fraction["1"], of_max_min, strict=True))


def test_utilisation_does_not_depend_on_the_guarantee() -> None:
    """Section 5.3, Figure 8 (a)."""
    used = {utilisation(karma(bursty(0), each), bursty(0), CAPACITY) for each in ("0", "0.5", "1")}
    assert len(used) == 1


def test_users_who_become_conformant_gain() -> None:
    """Section 5.2, Figure 7 (c): 1.17 to 1.6 times, less where most are conformant already.

    Here 1.05 to 1.34 times in the median of populations.
    """
    gains = {part: [mixture(seed, part).gain for seed in SEEDS] for part in (0.0, 0.25, 0.5, 0.75)}
    assert all(1.03 < median(gain) < 1.6 for gain in gains.values())
    assert median(gains[0.0] + gains[0.25]) > 1.17
    assert median(gains[0.0] + gains[0.25]) > median(gains[0.5]) > median(gains[0.75])


def test_utilisation_grows_with_conformant_users() -> None:
    """Section 5.2, Figure 7 (a); with none it is that of strict partitioning."""
    for seed in SEEDS:
        parts = [mixture(seed, part).utilisation for part in (0.0, 0.25, 0.5, 0.75)]
        assert parts == sorted(parts)
        demands = bursty(seed)
        strict = utilisation(share_strictly(demands, CAPACITY), demands, CAPACITY)
        assert parts[0] == pytest.approx(strict, abs=1e-3)


def test_metrics_of_nothing_are_defined() -> None:
    nothing = np.zeros((3, 2), np.int64)
    assert welfare(nothing, nothing).tolist() == [1, 1]
    assert fairness(nothing, nothing) == disparity(nothing, nothing) == 1
    assert utilisation(nothing[:0], nothing[:0], 6) == utilisation(nothing, nothing, 0) == 0
    assert (
        fairness(nothing[:, :0], nothing[:, :0]) == disparity(nothing[:, :0], nothing[:, :0]) == 1
    )


def test_metrics_count_only_what_is_of_use() -> None:
    slices, demands = [[2, 5], [2, 0]], [[1, 5], [3, 4]]
    assert useful(slices, demands).tolist() == [3, 5]
    assert welfare(slices, demands).tolist() == [3 / 4, 5 / 9]
    assert fairness(slices, demands) == pytest.approx((5 / 9) / (3 / 4))
    assert disparity(slices, demands) == 5 / 3
    assert utilisation(slices, demands, 8) == 0.5
    assert disparity([[0, 5]], [[1, 5]]) == float("inf")
