"""Stable roommates against every pairing of small worlds."""

from __future__ import annotations

from itertools import combinations, permutations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.mechanisms.cooper.colocation import ALONE
from walras.mechanisms.cooper.policies import stable_roommates
from walras.mechanisms.cooper.roommates import Roommates, find_roommates
from walras_studies.cooper.blocking import blocking_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Pairing = dict[int, int]


def is_stable(found: Roommates) -> bool:
    """Return whether all are paired stably, but for the one left over of an odd number."""
    return len(found.rejected) == len(found.partner) % 2


def pairings(agents: Sequence[int]) -> Iterator[Pairing]:
    """Pair all agents, of whom there is an even number, in all ways."""
    if not agents:
        yield {}
        return
    first, *others = agents
    for other in others:
        for rest in pairings([each for each in others if each != other]):
            yield {first: other, other: first, **rest}


def blocking(ranks: NDArray[np.float64], partner: Pairing) -> list[tuple[int, int]]:
    """List the pairs that prefer each other, among the agents that have a partner."""
    return [
        (one, other)
        for one, other in combinations(sorted(partner), 2)
        if ranks[one, other] < ranks[one, partner[one]]
        and ranks[other, one] < ranks[other, partner[other]]
    ]


def ranks_of(disutility: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the place of each agent on each list: by disutility, then index."""
    order = np.argsort(disutility, axis=1, kind="stable")
    return np.argsort(order, axis=1).astype(float)


def assert_right(disutility: NDArray[np.float64]) -> bool:
    """Compare with all pairings; return whether there is a stable one."""
    result = find_roommates(disutility)
    ranks = ranks_of(disutility)
    partner = {agent: int(other) for agent, other in enumerate(result.partner) if other != ALONE}
    assert all(partner[other] == agent for agent, other in partner.items())
    assert not blocking(ranks, partner)
    exists = any(not blocking(ranks, each) for each in pairings(range(len(disutility))))
    assert is_stable(result) == exists
    assert len(result.rejected) == (0 if exists else 2)  # fewer cannot be, of an even number
    return exists


def test_all_worlds_of_four_agents_are_solved_where_they_can_be() -> None:
    """6**4 preference lists; Irving's lists are solvable in all but 48 of them."""
    places = list(permutations([1.0, 2.0, 3.0]))
    unsolvable = 0
    for rows in product(places, repeat=4):
        disutility = np.zeros((4, 4))
        for agent, row in enumerate(rows):
            disutility[agent, np.arange(4) != agent] = row
        unsolvable += not assert_right(disutility)
    assert unsolvable == 48


@pytest.mark.parametrize(("agents", "worlds"), [(6, 600), (8, 150)])
def test_worlds_of_six_and_eight_are_solved_where_they_can_be(agents: int, worlds: int) -> None:
    random = np.random.default_rng(agents)
    stable = [assert_right(random.random((agents, agents))) for _ in range(worlds)]
    assert 0.02 * worlds < worlds - sum(stable) < 0.2 * worlds


@pytest.mark.parametrize("levels", [1, 2, 4])
def test_equal_disutilities_go_by_index(levels: int) -> None:
    random = np.random.default_rng(levels)
    for _ in range(100):
        assert_right(random.integers(0, levels, (6, 6)).astype(float))


def test_a_circle_of_three_and_one_whom_nobody_wants_has_no_stable_solution() -> None:
    """A prefers B, B prefers C, C prefers A, and D is the last choice of all (cf. III-C)."""
    circle = np.array([[0, 1, 2, 3], [2, 0, 1, 3], [1, 2, 0, 3], [1, 2, 3, 0]], dtype=float)
    found = find_roommates(circle)
    assert not is_stable(found)
    assert found.partner.tolist() == [1, 0, ALONE, ALONE]
    adapted = stable_roommates(circle)
    assert adapted.partner.tolist() == [1, 0, 3, 2]
    assert adapted.rejected.tolist() == [2, 3]
    assert blocking_pairs(circle, adapted.partner).tolist() == [[1, 2]]


def test_circles_do_not_keep_others_from_a_stable_solution() -> None:
    """One agent of each circle (of three, of five) is rejected; four others are stable."""
    disutility = np.full((12, 12), 99.0) + np.arange(12)
    disutility[:3, :3] = (np.arange(3) - np.arange(3)[:, np.newaxis]) % 3
    five = (np.arange(5) - np.arange(5)[:, np.newaxis]) % 5
    disutility[3:8, 3:8] = np.where(five == 4, 2, np.where(five == 1, 1, 10 + five))
    disutility[8:, 8:] = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    found = find_roommates(disutility)
    assert found.partner.tolist() == [1, 0, ALONE, 4, 3, 6, 5, ALONE, 9, 8, 11, 10]
    result = stable_roommates(disutility)
    assert result.rejected.tolist() == [2, 7]
    assert result.partner[2] == 7


@examples(300)
@given(st.integers(0, 40), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 1.0]))
def test_agents_that_are_not_rejected_are_paired_stably(agents: int, seed: int, own: float) -> None:
    """An odd number of agents too, and whatever they agree on."""
    random = np.random.default_rng(seed)
    disutility = (1 - own) * random.random(agents) + own * random.random((agents, agents))
    found = find_roommates(disutility)
    partner = {agent: int(other) for agent, other in enumerate(found.partner) if other != ALONE}
    assert not blocking(ranks_of(disutility), partner)
    assert len(found.rejected) % 2 == agents % 2
    adapted = stable_roommates(disutility)
    assert (adapted.partner != ALONE).sum() == agents - agents % 2
    np.testing.assert_array_equal(adapted.rejected, found.rejected)
    kept = np.flatnonzero(found.partner != ALONE)
    np.testing.assert_array_equal(adapted.partner[kept], found.partner[kept])


def test_choices_that_each_have_another_owner_are_struck_in_rotations() -> None:
    """A hundred agents in a circle who each prefer the next: long rotations, all lists long."""
    agents = 100
    offset = (np.arange(agents) - np.arange(agents)[:, np.newaxis]) % agents
    result = find_roommates(offset.astype(float))
    assert is_stable(result)
    assert result.rotations > 0
