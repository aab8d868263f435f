"""Stable marriage: the paper's example and every stable marriage of small worlds."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.mechanisms.cooper.colocation import ALONE, ColocationError
from walras.mechanisms.cooper.marriage import preference_lists
from walras_studies.cooper.marriage import marry, propose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


@st.composite
def sides(draw: st.DrawFn, most: int = 6) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw the costs of both sides, of any sizes, with many ties or none."""
    proposers, receivers = draw(st.integers(0, most)), draw(st.integers(0, most))
    levels = draw(st.sampled_from([1, 3, 10**6]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return (
        random.integers(0, levels, (proposers, receivers)).astype(float),
        random.integers(0, levels, (receivers, proposers)).astype(float),
    )


def rank(cost: NDArray[np.float64], who: int, other: int) -> tuple[float, float]:
    """Order by cost, then index; to be alone is the last resort."""
    return (np.inf, np.inf) if other == ALONE else (cost[who, other], other)


def blocks(
    proposer_cost: NDArray[np.float64],
    receiver_cost: NDArray[np.float64],
    receiver_of: NDArray[np.int64],
    proposer_of: NDArray[np.int64],
) -> bool:
    """Whether some proposer and receiver prefer each other, by cost and then index."""
    return any(
        rank(proposer_cost, p, r) < rank(proposer_cost, p, receiver_of[p])
        and rank(receiver_cost, r, p) < rank(receiver_cost, r, proposer_of[r])
        for p in range(len(receiver_of))
        for r in range(len(proposer_of))
    )


def stable_marriages(
    proposer_cost: NDArray[np.float64], receiver_cost: NDArray[np.float64]
) -> Iterator[NDArray[np.int64]]:
    """Find all stable marriages of two sides of one size, by trying all marriages."""
    for order in permutations(range(len(proposer_cost))):
        receiver_of = np.array(order, dtype=np.int64)
        if not blocks(proposer_cost, receiver_cost, receiver_of, np.argsort(receiver_of)):
            yield receiver_of


def test_memory_intensive_jobs_propose_as_in_figure_5() -> None:
    """Cooper, Fig. 5: m1c2, m2c3, m3c1; after four proposals, of which c1 rejects m1's."""
    lists = np.array([[0, 1, 2], [2, 0, 1], [0, 1, 2]], dtype=np.uint32)
    receivers = np.array([[1, 2, 0], [2, 0, 1], [1, 0, 2]])
    ranks = np.argsort(receivers, axis=1).astype(float)
    result = propose(lists, ranks)
    assert result.receiver_of.tolist() == [1, 2, 0]
    assert result.proposer_of.tolist() == [2, 0, 1]
    assert result.proposals == 4


def test_every_proposer_gets_the_best_receiver_of_all_stable_marriages() -> None:
    """Cooper III-C: those who propose do as well as they can (Gale and Shapley 1962)."""
    several = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        proposer_cost, receiver_cost = random.random((2, 5, 5))
        result = marry(proposer_cost, receiver_cost)
        all_stable = list(stable_marriages(proposer_cost, receiver_cost))
        several += len(all_stable) > 1
        cost = [proposer_cost[range(5), each] for each in all_stable]
        np.testing.assert_array_equal(
            proposer_cost[range(5), result.receiver_of], np.min(cost, axis=0)
        )
    assert several > 10


@examples(300)
@given(sides())
def test_no_proposer_and_receiver_prefer_each_other(
    costs: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> None:
    """Cooper III-C, stability; on sides of different sizes and with equal costs too."""
    result = marry(*costs)
    married = np.flatnonzero(result.receiver_of != ALONE)
    assert len(married) == min(costs[0].shape)
    assert (result.proposer_of[result.receiver_of[married]] == married).all()
    assert not blocks(*costs, result.receiver_of, result.proposer_of)


def test_receivers_who_are_left_over_are_the_same_whoever_proposes() -> None:
    for seed in range(50):
        random = np.random.default_rng(seed)
        few, many = random.random((4, 7)), random.random((7, 4))
        left_over = np.flatnonzero(marry(few, many).proposer_of == ALONE)
        assert left_over.tolist() == np.flatnonzero(marry(many, few).receiver_of == ALONE).tolist()


@examples(200)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 60),
    st.sampled_from(["even", "equal", "few", "orders of magnitude", "extreme", "outlier"]),
)
def test_preference_lists_sort_any_values_and_keep_equal_ones_in_order(
    seed: int, columns: int, kind: str
) -> None:
    random = np.random.default_rng(seed)
    even = random.random((3, columns))
    cost = {
        "even": even,
        "equal": np.zeros_like(even),
        "few": np.round(3 * even) * random.choice([-1.0, 1.0], even.shape),
        "orders of magnitude": 10 ** (24 * even - 12),
        "extreme": random.choice([-1.7e308, 5e-324, 0.0, 1.0, 1.7e308], even.shape),
        "outlier": np.where(even > 0.9, 1e12, 1e-12 * even),
    }[kind]
    np.testing.assert_array_equal(preference_lists(cost), np.argsort(cost, axis=1, kind="stable"))


def test_preference_lists_of_crowded_rows_are_right_too() -> None:
    """So many values share a bucket that insertion gives up, in every other row."""
    crowded = np.random.default_rng(1).random((4, 3000))
    crowded[::2] = 10 ** (24 * crowded[::2] - 12)
    np.testing.assert_array_equal(
        preference_lists(crowded), np.argsort(crowded, axis=1, kind="stable")
    )


@pytest.mark.parametrize(
    ("proposer_cost", "receiver_cost", "message"),
    [
        ([[1, 2]], [[1, 2]], "1 by 2: 2 by 1 is needed, the transpose of proposer_cost"),
        ([[1, np.nan]], [[1], [2]], r"proposer_cost\[0, 1\] = nan is not a finite number"),
        ([[1, 2]], [[1], [np.inf]], r"receiver_cost\[1, 0\] = inf is not a finite number"),
        ([1, 2], [[1], [2]], "proposer_cost has 1 dimensions: a matrix is needed"),
    ],
)
def test_costs_that_fit_no_marriage_are_refused(
    proposer_cost: list[list[float]], receiver_cost: list[list[float]], message: str
) -> None:
    with pytest.raises(ColocationError, match=message):
        marry(proposer_cost, receiver_cost)
