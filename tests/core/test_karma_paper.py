"""Karma against every number that the paper prints for its running example (Figures 2 and 3)."""

from __future__ import annotations

import doctest
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from walras.mechanisms.karma.baselines import share_max_min, share_strictly
from walras.mechanisms.karma.ledger import UNIT, Ledger
from walras.mechanisms.karma.quantum import Allocation, allocate
from walras_studies.karma.explanation import explain

DEMANDS = [[3, 2, 1], [3, 0, 0], [0, 3, 0], [2, 2, 4], [2, 3, 5]]
"""Figure 2: slices that A, B and C want in each of five quanta; the pool has six."""


def run_figure_3() -> list[Allocation]:
    ledger = Ledger.open("ABC", 6)
    allocations = []
    for demands in DEMANDS:
        allocations.append(allocate(ledger, demands, 6, guaranteed_fraction="0.5"))
        ledger = allocations[-1].ledger
    return allocations


def test_running_example_gives_the_slices_and_credits_of_figure_3() -> None:
    """Section 3.2; f = 2, alpha = 0.5, six initial credits."""
    allocations = run_figure_3()
    assert [each.slices[0].tolist() for each in allocations] == [
        [3, 2, 1],
        [3, 0, 0],
        [0, 3, 0],
        [1, 1, 4],
        [1, 2, 3],
    ]
    assert [(each.ledger.balances // UNIT).tolist() for each in allocations] == [
        [5, 6, 7],
        [4, 8, 9],
        [6, 7, 11],
        [7, 8, 9],
        [8, 8, 8],
    ]
    assert sum(each.slices for each in allocations).tolist() == [[8, 8, 8]]  # type: ignore[union-attr]


def test_a_donor_earns_no_more_than_it_donated() -> None:
    """Erratum: line 15 of Algorithm 1 decrements a user u that the loop does not have.

    It has to be the donor: otherwise B, the poorest, would go on earning for slices it does not
    have, and C would earn nothing.
    """
    ledger = Ledger(("A", "B", "C"), np.array([9, 1, 2]) * UNIT)
    after = allocate(ledger, [4, 0, 0], 6)
    assert after.lent.tolist() == [[0, 1, 1]]
    assert (after.ledger.balances // UNIT).tolist() == [9 + 1 - 3, 1 + 1 + 1, 2 + 1 + 1]


def test_periodic_max_min_leaves_c_half_of_what_a_gets() -> None:
    """Section 2, Figure 2 (right, top): A ends with 10 slices, C with 5."""
    assert share_max_min(DEMANDS, 6).sum(axis=0).tolist() == [10, 9, 5]


def test_max_min_once_rewards_a_lie() -> None:
    """Section 2, Figure 2 (middle): C gets 3 useful slices, 5 if it asks for 2 at first."""
    truth = np.array(DEMANDS)
    first = share_max_min(truth[0], 6)
    assert np.minimum(truth, first)[:, 2].sum() == 3
    lie = truth.copy()
    lie[0, 2] = 2
    first = share_max_min(lie[0], 6)
    assert np.minimum(np.minimum(lie, first), truth)[:, 2].sum() == 5


def test_strict_partitioning_gives_the_fair_share_and_no_more() -> None:
    assert share_strictly(DEMANDS, 6).tolist() == np.minimum(DEMANDS, 2).tolist()


def test_strict_shares_by_weight_are_whole_and_lose_no_slice() -> None:
    """Quotas 1.4, 2.8, 2.8 of 7: the two slices left go to the two largest remainders."""
    assert share_strictly([9, 9, 9], 7, [1, 2, 2]).tolist() == [1, 3, 3]
    assert share_strictly([9, 9, 9, 9], 10).tolist() == [3, 3, 2, 2]


@pytest.mark.parametrize("user", range(3))
def test_a_borrowed_slice_costs_one_over_n_w(user: int) -> None:
    """Section 3.4: weights 1, 2, 3 of 6 are w = 1/6, 1/3, 1/2; prices 2, 1, 2/3 for n = 3."""
    demands = np.zeros(3, np.int64)
    demands[user] = 3
    allocation = allocate(
        Ledger.open("ABC", 10), demands, 6, guaranteed_fraction="0", weights=[1, 2, 3]
    )
    spent = 10 + Fraction(6, 3) - allocation.ledger.credits("ABC"[user])
    exact = 3 / (3 * Fraction([1, 2, 3][user], 6))
    assert exact - 3 * Fraction(1, UNIT) < spent <= exact


def test_no_slice_and_no_credit_is_lost_where_fair_shares_are_not_whole() -> None:
    """The authors' code rounds n alpha f down per user and forgets the rest."""
    ledger = Ledger.open("ABCDEFG", 5)
    for quantum in range(1, 22):
        allocation = allocate(ledger, [9] * 7, 10, guaranteed_fraction="0.9")
        ledger = allocation.ledger
        assert allocation.idle.tolist() == [0]
        assert ledger.total() == 7 * 5 * UNIT  # all that was free is spent on shared slices
        assert ledger.quantum == quantum


def test_every_user_is_told_why() -> None:
    first, _, third, fourth, _ = run_figure_3()
    assert explain(first, "A") == (
        "A holds 3 of 3 slices wanted, 1 guaranteed; borrows 2 for 2 credits; "
        "6 credits before, 5 after"
    )
    assert explain(third, "C") == (
        "C holds 0 of 0 slices wanted, 1 guaranteed; lends 1 of 1 spare for 1 credit; "
        "9 credits before, 11 after"
    )
    assert explain(fourth, "B") == (
        "B holds 1 of 2 slices wanted, 1 guaranteed; users with more credits came first; "
        "7 credits before, 8 after"
    )
    poor = allocate(Ledger.open("AB", 0), [4, 0], 4)
    assert explain(poor, "A") == (
        "A holds 2 of 4 slices wanted, 1 guaranteed; borrows 1 for 1 credit; "
        "has no credits for the rest; 0 credits before, 0 after"
    )


def test_the_page_for_users_shows_what_happens() -> None:
    page = Path(__file__).parents[2] / "docs" / "mechanisms" / "karma.md"
    shown = doctest.testfile(str(page), module_relative=False)
    assert shown.attempted == 6
    assert shown.failed == 0
