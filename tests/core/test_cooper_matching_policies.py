"""The policies from disutilities to pairs, who would break away from them, and batches."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.mechanisms.cooper.colocation import ALONE, ColocationError, dispatch
from walras.mechanisms.cooper.policies import complementary, greedy
from walras_studies.cooper.blocking import advise, blocking_pairs, penalties
from walras_studies.cooper.marriage import marry
from walras_studies.cooper.policies import (
    POLICIES,
    colocate,
    stable_marriage_partition,
    stable_marriage_random,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
AD_BC, AC_BD, AB_CD = [3, 2, 1, 0], [2, 3, 0, 1], [1, 0, 3, 2]


def drawn(agents: int, seed: int, levels: int = 1000) -> NDArray[np.float64]:
    """Draw disutilities of a few levels, so that some are equal."""
    return np.random.default_rng(seed).integers(0, levels, (agents, agents)) / levels


def greedily(disutility: NDArray[np.float64]) -> list[int]:
    """Pair tasks greedily as section IV-C says, where a processor is the list of its tasks."""
    processors: list[list[int]] = [[] for _ in range((len(disutility) + 1) // 2)]
    for task in range(len(disutility)):
        open_ones = [each for each in processors if len(each) < 2]
        chosen = min(
            open_ones,
            key=lambda each: (
                disutility[task, each[0]] + disutility[each[0], task] if each else 0.0,
                bool(each),
                each[0] if each else 0,
            ),
        )
        chosen.append(task)
    partner = [ALONE] * len(disutility)
    for pair in processors:
        if len(pair) == 2:
            partner[pair[0]], partner[pair[1]] = pair[1], pair[0]
    return partner


@pytest.mark.parametrize("policy", POLICIES)
@given(agents=st.integers(0, 25), seed=st.integers(0, 2**32 - 1), levels=st.sampled_from([1, 9]))
@examples(60)
def test_every_agent_has_one_partner_but_an_odd_one(
    policy: str, agents: int, seed: int, levels: int
) -> None:
    intensity = np.random.default_rng(seed).integers(0, 4, agents)
    result = colocate(policy, drawn(agents, seed, levels), intensity, seed)
    assert result.policy == policy
    assert len(result.alone) == agents % 2
    assert len(result.pairs) == agents // 2
    assert sorted([*result.pairs.ravel(), *result.alone]) == list(range(agents))
    again = colocate(policy, drawn(agents, seed, levels), intensity, seed)
    np.testing.assert_array_equal(again.partner, result.partner)


@examples(200)
@given(st.integers(0, 30), st.integers(0, 2**32 - 1), st.sampled_from([2, 50]), st.booleans())
def test_greedy_sends_each_task_to_the_processor_with_least_added_contention(
    agents: int, seed: int, levels: int, some_gain: bool
) -> None:
    """Cooper IV-C, GR; footnote 3: some tasks gain by company, which no empty processor beats."""
    disutility = drawn(agents, seed, levels) - (0.4 if some_gain else 0.0)
    assert greedy(disutility).partner.tolist() == greedily(disutility)


def test_complementary_pairs_high_with_low_and_leaves_the_middle_alone() -> None:
    """Cooper IV-C, CO; bandwidths of Table I: Correlation, Swaptions, SVM, Kmeans, X264."""
    result = complementary([25.05, 0.07, 14.59, 0.32, 4.00])
    assert result.partner.tolist() == [1, 0, 3, 2, ALONE]


@pytest.mark.parametrize("agents", [10, 11])
def test_the_more_intensive_half_proposes(agents: int) -> None:
    """Cooper IV-C, SMP."""
    disutility = drawn(agents, 3, 10**6)
    intensity = np.random.default_rng(4).permutation(agents)
    intensive = np.flatnonzero(intensity >= agents - agents // 2)
    others = np.flatnonzero(intensity < agents - agents // 2)
    expected = marry(disutility[np.ix_(intensive, others)], disutility[np.ix_(others, intensive)])
    result = stable_marriage_partition(disutility, intensity)
    np.testing.assert_array_equal(result.partner[intensive], others[expected.receiver_of])
    assert result.proposals == expected.proposals


def test_a_random_partition_has_equal_halves_and_is_stable_between_them() -> None:
    """Cooper IV-C, SMR; the paper's stability is between agents of opposite sets (III-C)."""
    disutility = drawn(101, 5, 10**6)
    differ = set()
    for seed in range(20):
        partner = stable_marriage_random(disutility, seed).partner
        side = np.zeros(101, dtype=bool)
        side[np.random.default_rng(seed).permutation(101)[:50]] = True
        assert (side[partner] != side)[partner != ALONE].all()
        for one, other in blocking_pairs(disutility, partner):
            assert side[one] == side[other]
        differ.add(tuple(partner))
    assert len(differ) > 15


@examples(200)
@given(st.integers(0, 14), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.1, 0.5]))
def test_blocking_pairs_are_those_who_both_gain_more_than_alpha(
    agents: int, seed: int, alpha: float
) -> None:
    disutility = np.random.default_rng(seed).random((agents, agents)) - 0.1
    partner = greedy(disutility).partner
    now = penalties(disutility, partner)
    expected = [
        [one, other]
        for one in range(agents)
        for other in range(one + 1, agents)
        if now[one] - disutility[one, other] > alpha and now[other] - disutility[other, one] > alpha
    ]
    assert blocking_pairs(disutility, partner, alpha).tolist() == expected


def test_the_recommender_names_the_best_of_those_who_would_come_along() -> None:
    """Cooper IV-B: X prefers A, B, D, E in turn, is assigned D, and hears from B but not A."""
    a, b, x, d, e, f = range(6)
    disutility = np.full((6, 6), 0.5)
    disutility[x, [a, b, d, e]] = [0.1, 0.2, 0.3, 0.4]
    disutility[a, [x, e]] = [0.3, 0.1]
    disutility[b, [x, f]] = [0.1, 0.25]
    disutility[d, x] = disutility[e, a] = disutility[f, b] = 0.1
    partner = [e, f, d, x, a, b]
    advice = advise(disutility, partner)
    assert advice.pairs.tolist() == [[b, x]]
    assert advice.companion.tolist() == [ALONE, x, b, ALONE, ALONE, ALONE]
    np.testing.assert_allclose(advice.gain, [0, 0.15, 0.1, 0, 0, 0])
    assert advise(disutility, partner, alpha=0.12).companion.tolist() == [ALONE] * 6


@examples(200)
@given(st.integers(0, 14), st.integers(0, 2**32 - 1))
def test_advice_is_the_best_blocking_pair_of_each_agent(agents: int, seed: int) -> None:
    disutility = drawn(agents, seed, 20)
    partner = stable_marriage_random(disutility, seed).partner
    advice = advise(disutility, partner)
    np.testing.assert_array_equal(advice.pairs, blocking_pairs(disutility, partner))
    for agent in range(agents):
        others = [int(sum(pair) - agent) for pair in advice.pairs if agent in pair]
        best = min(others, key=lambda other: (disutility[agent, other], other), default=ALONE)
        assert advice.companion[agent] == best
        saved = penalties(disutility, partner)[agent] - disutility[agent, best] if others else 0.0
        assert advice.gain[agent] == saved


def test_tasks_run_in_batches_where_processors_are_few() -> None:
    """Cooper V: pairs (0, 3), (1, 5), (2, 4) and 6 alone, on two processors."""
    assert dispatch([3, 5, 4, 0, 2, 1, ALONE], 2).tolist() == [0, 0, 1, 0, 1, 0, 1]


@given(st.integers(0, 40), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_partners_share_a_batch_and_no_batch_has_room_to_spare(
    agents: int, processors: int, seed: int
) -> None:
    partner = greedy(drawn(agents, seed)).partner
    batch = dispatch(partner, processors)
    pairs = [(a, b) for a, b in enumerate(partner.tolist()) if b == ALONE or a < b]
    assert all(batch[a] == batch[b] for a, b in pairs if b != ALONE)
    assert [batch[a] for a, _ in pairs] == [turn // processors for turn in range(len(pairs))]


def complain(call: Callable[[], object]) -> str:
    with pytest.raises(ColocationError) as told:
        call()
    return str(told.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: greedy([[0.0, 1.0], [float("nan"), 0.0]]),
            "disutility[1, 0] = nan is not a finite number",
        ),
        (
            lambda: greedy([[0, 1, 2], [1, 0, 2]]),
            "disutility is 2 by 3: as many columns as rows are needed",
        ),
        (
            lambda: complementary([1.0, np.inf]),
            "intensity[1] = inf is not a finite number",
        ),
        (
            lambda: stable_marriage_partition(np.zeros((2, 2)), [1]),
            "intensity has shape (1,), there are 2 agents: one number for each is needed",
        ),
        (
            lambda: colocate("Complementary", np.zeros((2, 2))),
            "policy Complementary needs the intensity of every agent",
        ),
        (
            lambda: colocate("Random", np.zeros((2, 2))),
            f"policy = 'Random' is none of {', '.join(POLICIES)}",
        ),
        (
            lambda: blocking_pairs(np.zeros((3, 3)), [1, 2, 0]),
            "partner[0] = 1 does not name this agent as its own partner",
        ),
        (
            lambda: blocking_pairs(np.zeros((2, 2)), [0, 1]),
            "partner[0] = 0 does not name this agent as its own partner",
        ),
        (lambda: blocking_pairs(np.zeros((2, 2)), [1, 2]), "partner[1] = 2 is outside -1..1"),
        (
            lambda: penalties(np.zeros((2, 2)), [1.0, 0.0]),
            "partner has shape (2,) of float64, there are 2 agents: one integer for each is needed",
        ),
        (
            lambda: blocking_pairs(np.zeros((2, 2)), [1, 0], -0.1),
            "alpha = -0.1: a finite number, not below 0, is needed",
        ),
        (lambda: dispatch([1, 0], 0), "processors = 0: at least 1 is needed"),
    ],
)
def test_bad_input_is_named_in_one_line(call: Callable[[], object], message: str) -> None:
    assert complain(call) == message


def test_the_page_for_users_shows_what_happens() -> None:
    page = Path(__file__).parents[2] / "docs" / "mechanisms" / "cooper.md"
    shown = doctest.testfile(str(page), module_relative=False)
    assert shown.attempted > 3
    assert shown.failed == 0
