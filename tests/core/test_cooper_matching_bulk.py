"""Matching in bulk gives, agent for agent, what agents would do one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.mechanisms.cooper.bulk import (
    TypeMarriage,
    marry_types,
    part_by_intensity,
    part_randomly,
)
from walras.mechanisms.cooper.colocation import ColocationError
from walras_studies.cooper.blocking import penalties
from walras_studies.cooper.marriage import marry
from walras_studies.cooper.policies import stable_marriage_partition

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from walras.mechanisms.cooper.marriage import Marriage

    World = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw disutilities by type, and how many of each type propose and receive."""
    types = draw(st.integers(0, 8))
    levels = draw(st.sampled_from([1, 3, 10**6]))
    most = draw(st.sampled_from([1, 6, 20]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    disutility = random.integers(0, levels, (types, types)) / levels
    proposers, receivers = random.integers(0, most + 1, (2, types))
    return disutility, proposers, receivers


def one_by_one(world: World) -> Marriage:
    """Marry the agents, numbered type after type on each side."""
    disutility, proposers, receivers = world
    proposer, receiver = (np.repeat(np.arange(len(side)), side) for side in (proposers, receivers))
    return marry(
        disutility[np.ix_(proposer, receiver)],
        disutility[np.ix_(receiver, proposer)],
    )


@examples(600)
@given(worlds())
def test_agents_are_paired_as_one_by_one(world: World) -> None:
    """Cooper III-C, algorithm 1, with agents that are copies of types; equal costs too."""
    result, expected = marry_types(*world).agents(), one_by_one(world)
    np.testing.assert_array_equal(result.receiver_of, expected.receiver_of)
    np.testing.assert_array_equal(result.proposer_of, expected.proposer_of)


def circling(agents: int) -> TypeMarriage:
    """Two types hold what the other wants; one newcomer makes them swap, one agent at a time.

    Types 0, 1 and 2 propose, 3 and 4 receive. The many of type 0 are held by 3, those of 1 by 4,
    when the one of type 2 displaces one of type 1, which displaces one of type 0, and so on.
    """
    disutility = np.full((5, 5), 9.0)
    disutility[0, [3, 4]] = disutility[1, [4, 3]] = disutility[2, [4, 3]] = [1, 2]
    disutility[3, [1, 0, 2]] = disutility[4, [2, 0, 1]] = [1, 2, 3]
    return marry_types(disutility, [agents, agents, 1, 0, 0], [0, 0, 0, agents, agents])


def test_swaps_of_millions_take_a_few_moves() -> None:
    few, many = circling(3), circling(10**8)
    assert many.moves == few.moves < 12
    np.testing.assert_array_equal(few.pairs[:3, 3:], [[0, 2], [3, 0], [0, 1]])
    np.testing.assert_array_equal(many.pairs[:3, 3:], [[0, 10**8 - 1], [10**8, 0], [0, 1]])


@pytest.mark.parametrize("common", [0.0, 0.9, 1.0])
def test_moves_grow_with_types_and_not_with_agents(common: float) -> None:
    types = 60
    random = np.random.default_rng(2)
    disutility = common * random.random(types) + (1 - common) * random.random((types, types))
    for agents in (10**3, 10**6, 9 * 10**8):
        proposers, receivers = part_randomly(random.multinomial(agents, [1 / types] * types), 3)
        result = marry_types(disutility, proposers, receivers)
        assert result.moves <= types**2
        np.testing.assert_array_equal(result.pairs.sum(axis=1), proposers)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=8))
def test_the_more_intensive_half_of_all_agents_proposes(kinds: list[tuple[int, int]]) -> None:
    """Cooper IV-C, SMP: as agent by agent, also where the middle goes through a type."""
    counts, intensity = np.array(kinds).T
    proposers, receivers = part_by_intensity(counts, intensity)
    disutility = np.random.default_rng(1).random((len(counts), len(counts)))
    kind = np.repeat(np.arange(len(counts)), counts)
    agents = stable_marriage_partition(disutility[np.ix_(kind, kind)], intensity[kind])
    pairs = np.zeros_like(disutility, dtype=int)
    np.add.at(pairs, (kind[agents.pairs[:, 0]], kind[agents.pairs[:, 1]]), 1)
    result = marry_types(disutility, proposers, receivers)
    np.testing.assert_array_equal(result.pairs + result.pairs.T, pairs + pairs.T)
    np.testing.assert_array_equal(
        result.alone, np.bincount(kind[agents.alone], minlength=len(counts))
    )


def test_random_partitions_are_those_of_shuffled_agents() -> None:
    """Cooper IV-C, SMR: half of all agents, each type near half of its own, seed by seed."""
    counts = np.array([4000, 0, 1, 6000])
    drawn = np.array([part_randomly(counts, seed)[0] for seed in range(200)])
    assert (drawn.sum(axis=1) == 5000).all()
    np.testing.assert_array_equal(part_randomly(counts, 7), part_randomly(counts, 7))
    deviation = np.sqrt(4000 * 0.6 * 5000 / 9999 * 5001 / 10001)  # hypergeometric, nearly
    assert abs(drawn[:, 0].mean() - 2000) < 4 * deviation / np.sqrt(200)
    assert 0.8 * deviation < drawn[:, 0].std() < 1.2 * deviation
    assert 60 < drawn[:, 2].sum() < 140


def test_penalties_by_type_are_those_by_agent() -> None:
    random = np.random.default_rng(5)
    disutility, counts = random.random((6, 6)), np.array([3, 5, 2, 4, 1, 5])
    proposers, receivers = part_randomly(counts, 9)
    result = marry_types(disutility, proposers, receivers)
    kind = np.concatenate([np.repeat(np.arange(6), side) for side in (proposers, receivers)])
    married = result.agents()
    partner = np.concatenate([married.receiver_of + proposers.sum(), married.proposer_of])
    by_agent = penalties(disutility[np.ix_(kind, kind)], partner)
    by_type = (disutility * (result.pairs + result.pairs.T)).sum(axis=1)
    np.testing.assert_allclose(np.bincount(kind, by_agent), by_type)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: marry_types([[0.0, 1.0], [1.0, float("nan")]], [1, 1], [1, 1]),
            "disutility[1, 1] = nan is not a finite number",
        ),
        (
            lambda: marry_types(np.zeros((2, 2)), [1, -1], [1, 1]),
            "proposers[1] = -1: counts from 0 that add up to at most 999999999 are needed",
        ),
        (
            lambda: marry_types(np.zeros((2, 2)), [1, 1], [10**8, 999999999]),
            "receivers[1] = 999999999: counts from 0 that add up to at most 999999999 are needed",
        ),
        (
            lambda: marry_types(np.zeros((2, 2)), [1, 1], [0.5, 1.5]),
            "receivers has shape (2,) of float64: one whole number for each of 2 types is needed",
        ),
        (
            lambda: part_by_intensity([1, 1], [1.0]),
            "counts has shape (2,) of int64: one whole number for each of 1 types is needed",
        ),
    ],
)
def test_bad_counts_are_named_in_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ColocationError) as told:
        call()
    assert str(told.value) == message
