"""Exchanges of partners that teach: their value, their bound, and when there are none."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from examples import examples
from walras.mechanisms.cooper.beliefs import believe
from walras.mechanisms.cooper.colocation import ALONE
from walras.mechanisms.cooper.exploration import Uncertainty, explore, gain_of_knowing

NOBODY_HIDDEN = np.zeros(4)
ALL = np.ones((4, 4), np.bool_)


def test_the_gain_of_knowing_is_the_expectation_of_what_the_better_choice_saves() -> None:
    shortfall, deviation = np.meshgrid(np.linspace(0, 0.3, 13), np.linspace(0.01, 0.1, 10))
    z = shortfall / deviation
    expected = deviation * norm.pdf(z) - shortfall * norm.sf(z)
    np.testing.assert_allclose(gain_of_knowing(shortfall, deviation), expected, atol=1e-7)
    random = np.random.default_rng(0).standard_normal(200_000)
    sampled = np.maximum(-0.03 + 0.05 * random, 0).mean()
    assert gain_of_knowing(np.array([0.03]), np.array([0.05]))[0] == pytest.approx(
        sampled, rel=0.02
    )


def test_nothing_is_gained_by_knowing_what_is_known() -> None:
    assert not gain_of_knowing(np.array([0.0, 0.1]), np.zeros(2)).any()


def pairs(partner: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(sorted({k, int(p)} - {ALONE})) for k, p in enumerate(partner)}


def of_four(ac: float, deviation: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Losses of four kinds: ab and cd are known to be 0.05, ac and bd are believed to be more."""
    cost = np.full((4, 4), 0.5)
    for one, other, loss in ((0, 1, 0.05), (2, 3, 0.05), (0, 2, ac), (1, 3, ac)):
        cost[one, other] = cost[other, one] = loss
    unknown = np.zeros((4, 4))
    unknown[[0, 2, 1, 3], [2, 0, 3, 1]] = deviation
    return cost, unknown


MATCHED = np.array([1, 0, 3, 2])
KINDS = np.arange(4)


@pytest.mark.parametrize(
    ("believed", "budget", "exchanged"),
    [
        (0.05, 0.0, True),  # equally good, and unknown
        (0.06, 0.0, False),  # a little worse, and nobody is to lose anything
        (0.06, 0.02, True),
        (0.08, 0.02, False),  # more than is allowed
        (0.07, 0.03, True),
        (0.25, 0.5, False),  # not even worth it: it will hardly turn out better
    ],
)
def test_an_unknown_pair_is_made_if_it_may_be_better_and_fits_the_budget(
    believed: float, budget: float, *, exchanged: bool
) -> None:
    cost, unknown = of_four(believed)
    found = explore(cost, Uncertainty(unknown, NOBODY_HIDDEN), ALL, KINDS, MATCHED, budget)
    assert pairs(found.partner) == ({(0, 2), (1, 3)} if exchanged else {(0, 1), (2, 3)})
    if exchanged:
        np.testing.assert_allclose(found.cost, believed - 0.05, atol=1e-12)
    else:
        assert np.isnan(found.cost).all()


def test_nothing_is_exchanged_where_everything_is_known() -> None:
    cost, unknown = of_four(0.05, deviation=0.0)
    found = explore(cost, Uncertainty(unknown, NOBODY_HIDDEN), ALL, KINDS, MATCHED, 1.0)
    assert (found.partner == MATCHED).all()


def test_pairs_that_the_policy_makes_teach_as_well() -> None:
    """If all pairs are equally unknown, another one teaches no more."""
    cost, unknown = np.full((4, 4), 0.05), np.full((4, 4), 0.05)
    found = explore(cost, Uncertainty(unknown, NOBODY_HIDDEN), ALL, KINDS, MATCHED, 0.0)
    assert (found.partner == MATCHED).all()
    # Twice the same pair teaches less than two pairs.
    twice, kinds = np.array([1, 0, 3, 2]), np.array([0, 1, 0, 1])
    found = explore(cost, Uncertainty(unknown, NOBODY_HIDDEN), ALL, kinds, twice, 0.0)
    assert pairs(found.partner) == {(0, 2), (1, 3)}


def test_forbidden_pairs_are_never_made() -> None:
    cost, unknown = of_four(0.05)
    allowed = ALL.copy()
    allowed[1, 3] = allowed[3, 1] = False
    found = explore(cost, Uncertainty(unknown, NOBODY_HIDDEN), allowed, KINDS, MATCHED, 1.0)
    assert (found.partner == MATCHED).all()


def test_who_was_never_seen_alone_gets_the_socket_that_one_agent_has_to_itself() -> None:
    cost, hidden = np.full((3, 3), 0.05), np.array([0.0, 0.05, 0.0])
    partner = np.array([1, 0, ALONE])
    nothing = Uncertainty(np.zeros((3, 3)), hidden)
    allowed = np.ones((3, 3), np.bool_)
    found = explore(cost, nothing, allowed, np.arange(3), partner, 0.06)
    assert pairs(found.partner) == {(0, 2), (1,)}
    np.testing.assert_allclose(found.cost[[1, 2]], [-0.05, 0.05])
    # The one that was alone would lose more than is allowed.
    found = explore(cost, nothing, allowed, np.arange(3), partner, 0.01)
    assert (found.partner == partner).all()


@examples(150)
@given(st.integers(0, 40), st.integers(1, 8), st.integers(0, 2**32 - 1), st.floats(0, 0.1))
def test_exchanges_keep_a_matching_and_nobody_loses_more_than_the_budget(
    agents: int, programs: int, seed: int, budget: float
) -> None:
    random = np.random.default_rng(seed)
    measured = np.where(random.random((programs, programs)) < 0.3, 0.1, np.nan)
    measured *= random.uniform(0, 2, measured.shape)
    believed = believe(measured, random.uniform(0, 30, programs))
    allowed = np.ones((programs, programs), np.bool_)
    if programs > 2:
        allowed[0, 1] = allowed[1, 0] = False
    kind = random.integers(0, programs, agents)
    partner = np.full(agents, ALONE)
    shuffled = random.permutation(agents).tolist()
    for one, other in zip(shuffled[::2], shuffled[1::2], strict=False):
        if allowed[kind[one], kind[other]]:
            partner[one], partner[other] = other, one
    hidden = np.where(random.random(programs) < 0.5, 0.05, 0.0)
    uncertainty = Uncertainty(believed.deviation, hidden)
    found = explore(believed.mean, uncertainty, allowed, kind, partner, budget)
    again = explore(believed.mean, uncertainty, allowed, kind, partner, budget)
    assert (again.partner == found.partner).all()
    paired = np.flatnonzero(found.partner != ALONE)
    assert (found.partner[found.partner[paired]] == paired).all()
    assert (found.partner[paired] != paired).all()
    assert allowed[kind[paired], kind[found.partner[paired]]].all()
    assert (found.partner == ALONE).sum() == (partner == ALONE).sum()
    moved = found.partner != partner
    assert (np.isnan(found.cost) == ~moved).all()
    lost = np.where(found.partner == ALONE, 0, believed.mean[kind, kind[found.partner]])
    before = np.where(partner == ALONE, 0, believed.mean[kind, kind[partner]])
    np.testing.assert_allclose(found.cost[moved], (lost - before)[moved])
    assert (found.cost[moved] <= budget + 1e-12).all()


def test_all_pairs_are_learned_in_time_where_nothing_speaks_against_them() -> None:
    """Four programs whose ten pairs are believed alike: a few matchings without cost teach all."""
    truth = np.full((4, 4), 0.05)
    measured = np.full((4, 4), np.nan)
    kind = np.repeat(np.arange(4), 2)
    partner = np.array([1, 0, 3, 2, 5, 4, 7, 6])  # the policy pairs copies of one program, always
    for _ in range(6):
        believed = believe(measured)
        found = explore(
            believed.mean, Uncertainty(believed.deviation, np.zeros(4)), ALL, kind, partner, 0.01
        )
        measured[kind, kind[found.partner]] = truth[kind, kind[found.partner]]
    assert all(not np.isnan(measured[pair]) for pair in combinations(range(4), 2))
