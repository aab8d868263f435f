"""Pairs and advice by types against the same agent by agent, and against all possible pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.mechanisms.cooper import by_type
from walras.mechanisms.cooper.by_type import (
    FORBIDDEN,
    advise_by_type,
    pair_by_type,
    penalties_by_type,
)
from walras.mechanisms.cooper.colocation import ALONE, check_partner
from walras_studies.cooper.blocking import advise
from walras_studies.cooper.policies import POLICIES

Seeds = st.integers(0, 2**32 - 1)


def drawn(seed: int, kinds: int, agents: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Disutilities with ties, who may share, and the kinds of agents."""
    random = np.random.default_rng(seed)
    cost = random.integers(-2, 10, (kinds, kinds)) / 10
    barred = random.random((kinds, kinds)) < 0.2
    return cost, ~(barred | barred.T), random.integers(0, kinds, agents)


@examples(150)
@given(Seeds, st.sampled_from(POLICIES), st.integers(1, 5), st.integers(0, 11))
def test_forbidden_pairs_are_never_made_and_nobody_is_left_who_could_share(
    seed: int, policy: str, kinds: int, agents: int
) -> None:
    cost, allowed, kind = drawn(seed, kinds, agents)
    partner = pair_by_type(policy, cost, allowed, kind, np.arange(kinds, dtype=float), seed)
    check_partner(partner, agents)
    paired = np.flatnonzero(partner != ALONE)
    assert allowed[kind[paired], kind[partner[paired]]].all()
    left = np.flatnonzero(partner == ALONE)
    assert not any(allowed[kind[one], kind[other]] for one, other in combinations(left, 2))


@given(Seeds, st.sampled_from(POLICIES), st.integers(1, 5), st.integers(0, 11))
def test_without_forbidden_pairs_at_most_one_is_alone(
    seed: int, policy: str, kinds: int, agents: int
) -> None:
    cost, _, kind = drawn(seed, kinds, agents)
    free = np.ones_like(cost, np.bool_)
    partner = pair_by_type(policy, cost, free, kind, np.arange(kinds, dtype=float), seed)
    assert (partner == ALONE).sum() == agents % 2


@given(Seeds, st.integers(1, 5), st.integers(2, 11))
def test_marriages_have_no_blocking_pair_across_the_two_sides(
    seed: int, kinds: int, agents: int
) -> None:
    """The sides are not told, but for the most intensive half, which proposes."""
    cost, _, kind = drawn(seed, kinds, agents)
    kind = np.sort(kind)
    free, intensity = np.ones_like(cost, np.bool_), -np.arange(kinds, dtype=float)
    partner = pair_by_type("StableMarriagePartition", cost, free, kind, intensity, seed)
    lost = penalties_by_type(cost, kind, partner)
    half = agents // 2
    for one in range(half):
        for other in range(half, agents):
            better = cost[kind[one], kind[other]] < lost[one]
            assert not (better and cost[kind[other], kind[one]] < lost[other])


@examples(150)
@given(Seeds, st.integers(1, 5), st.integers(0, 12), st.sampled_from([0.0, 0.1, 0.25]))
def test_advice_by_kinds_is_that_of_agent_by_agent(
    seed: int, kinds: int, agents: int, alpha: float
) -> None:
    cost, allowed, kind = drawn(seed, kinds, agents)
    cost = np.where(allowed, cost, FORBIDDEN)
    partner = pair_by_type("Greedy", cost, allowed, kind, np.zeros(kinds), seed)
    dense = advise(cost[np.ix_(kind, kind)], partner, alpha)
    found = advise_by_type(cost, kind, partner, alpha)
    assert found.companion.tolist() == dense.companion.tolist()
    assert found.gain == pytest.approx(dense.gain)


def test_agents_who_are_looked_at_one_by_one_are_taken_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(by_type, "BATCH", 4)
    cost, kind = np.array([[0.5, 0.1], [0.1, 0.4]]), np.array([0, 0, 1, 1, 0, 1, 1])
    partner = pair_by_type("StableRoommates", cost, cost < 1, kind, np.zeros(2), 0)
    assert partner.tolist() == [2, 3, 0, 1, 5, 4, ALONE]
