"""Properties of Karma in every world: the paper's theorems, an exact ledger, and corner cases."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.mechanisms.karma.ledger import LARGEST_BALANCE, UNIT, KarmaError, Ledger
from walras.mechanisms.karma.quantum import Allocation, allocate
from walras.mechanisms.karma.record import ledger_after
from walras_studies.karma.trace import simulate

PLENTY = 10**6
"""Credits with which nobody in these worlds runs out."""


def names(users: int) -> tuple[str, ...]:
    return tuple(f"user-{number}" for number in range(users))


@st.composite
def quanta(draw: st.DrawFn, richest: int = PLENTY) -> Allocation:
    """Draw one quantum of a few users and pools and return what it gave."""
    users, pools = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    poorest = PLENTY if richest == PLENTY else 0
    return allocate(
        Ledger(names(users), random.integers(poorest, richest + 1, users) * UNIT),
        random.integers(0, 9, (pools, users)) * random.integers(0, 2, (pools, users)),
        random.integers(0, 20, pools),
        guaranteed_fraction=draw(st.sampled_from(["0", "0.25", "0.5", "0.9", "1"])),
        weights=draw(st.sampled_from([None, random.integers(1, 5, users)])),
    )


@examples(200)
@given(quanta())
def test_every_quantum_is_pareto_efficient(result: Allocation) -> None:
    """Theorem 1, in every pool: nobody above demand; all demands met or all slices taken."""
    assert (result.slices <= result.demands).all()
    satisfied = (result.slices == result.demands).all(axis=1)
    assert (satisfied | (result.idle == 0)).all()
    assert not result.refused.any()


@examples(200)
@given(quanta(richest=2))
def test_without_credits_slices_may_stay_idle_but_nobody_falls_into_debt(
    result: Allocation,
) -> None:
    """Section 3.4: who runs out of credits cannot borrow, whatever is left."""
    assert (result.ledger.balances >= 0).all()
    assert (result.idle >= 0).all()
    unmet = (result.slices < result.demands)[result.idle > 0].any(axis=0)
    np.testing.assert_array_equal(result.refused, unmet)
    spent_out = result.ledger.balances - result.shares.prices * result.lent.sum(axis=0)
    assert (spent_out < result.shares.prices)[result.refused].all()


@examples(200)
@given(quanta(richest=4))
def test_guaranteed_slices_are_always_there(result: Allocation) -> None:
    guaranteed = np.minimum(result.shares.guaranteed, result.demands)
    assert (result.slices >= guaranteed).all()
    assert (result.lent <= result.donated).all()
    lent, borrowed = result.lent.sum(axis=1), result.borrowed.sum(axis=1)
    np.testing.assert_array_equal(lent, np.minimum(borrowed, result.donated.sum(axis=1)))


@examples(200)
@given(quanta(richest=4))
def test_credits_are_conserved_to_the_last_micro_credit(result: Allocation) -> None:
    """Earned in all: one credit a slice of the pools; paid: what is held, and what nobody took."""
    held = (result.slices + result.donated - result.lent).sum(axis=0)
    earned = int(result.shares.capacities.sum()) * UNIT
    paid = int((held * result.shares.prices).sum())
    assert result.ledger.total() == result.before.total() + earned - paid


@examples(200)
@given(quanta(richest=4), st.lists(st.integers(0, 9), max_size=3))
def test_parked_balances_rise_by_what_nobody_paid_for_and_no_more(
    result: Allocation, parked: list[int]
) -> None:
    """So they stay where they were beside the mean, by weight, of those who take part."""
    before = result.before.join(*map(str, range(len(parked))))
    balances = before.balances.copy()
    balances[len(result.before.users) :] = np.array(parked, np.int64) * UNIT
    before = replace(before, balances=balances)
    after = ledger_after(before, result)
    rise = result.unused * UNIT // len(result.before.users)
    gained = after.balances - before.balances
    assert gained[len(result.before.users) :].tolist() == [rise] * len(parked)
    assert after.part_of(result.before.users) == result.ledger
    if (result.shares.prices == UNIT).all():
        own = result.ledger.total() - result.before.total()
        assert own == result.unused * UNIT
        assert after.total() - before.total() == own + rise * len(parked)
    else:
        # A price is 1 / (n w): its inverse is the weight, but for rounding.
        mean = np.average(gained[: len(result.before.users)], weights=1 / result.shares.prices)
        assert abs(mean - rise) < 200


@st.composite
def histories(draw: st.DrawFn) -> tuple[np.ndarray, int, list[int]]:
    """Draw demands of a few users over a few quanta, a capacity, and weights or none."""
    users = draw(st.integers(2, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    demands = random.integers(0, 7, (draw(st.integers(1, 6)), users))
    weights = draw(st.lists(st.integers(1, 3), min_size=users, max_size=users))
    return demands, draw(st.integers(1, 10)), draw(st.sampled_from([[1] * users, weights]))


def useful_total(
    reported: np.ndarray, real: np.ndarray, capacity: int, weights: list[int], user: int
) -> int:
    ledger = Ledger.open(names(len(weights)), PLENTY)
    trace = simulate(ledger, reported, capacity, guaranteed_fraction="0", weights=weights)
    return int(np.minimum(trace.slices, real)[:, user].sum())


@pytest.mark.long
@examples(300)
@given(histories(), st.data())
def test_asking_for_more_than_one_can_use_never_pays(
    history: tuple[np.ndarray, int, list[int]], data: st.DataObject
) -> None:
    """Lemma 1, at alpha = 0 as section 3.3 has it, also by weight and in many quanta at once."""
    demands, capacity, weights = history
    lie = demands.copy()
    lie[:, 0] += data.draw(st.lists(st.integers(0, 8), min_size=len(lie), max_size=len(lie)))
    truth = useful_total(demands, demands, capacity, weights, 0)
    assert useful_total(lie, demands, capacity, weights, 0) <= truth


@examples(60)
@given(histories())
def test_no_demand_but_the_true_one_gets_more_in_the_same_quantum(
    history: tuple[np.ndarray, int, list[int]],
) -> None:
    """Theorem 2, online strategy-proofness, at alpha = 0: every lie after an honest past."""
    demands, capacity, weights = history
    ledger = Ledger.open(names(len(weights)), PLENTY)
    ledger = simulate(
        ledger, demands[:-1], capacity, guaranteed_fraction="0", weights=weights
    ).ledger
    useful = []
    for told in range(capacity + 2):
        row = demands[-1].copy()
        row[0] = told
        result = allocate(ledger, row, capacity, guaranteed_fraction="0", weights=weights)
        useful.append(min(int(result.slices[0, 0]), int(demands[-1, 0])))
    assert useful[min(int(demands[-1, 0]), capacity)] == max(useful)


@examples(60)
@given(histories())
def test_the_least_total_is_as_large_as_the_past_allows(
    history: tuple[np.ndarray, int, list[int]],
) -> None:
    """Theorem 4, at alpha = 0, by weight; against every way to divide the last quantum."""
    demands, capacity, weights = history
    trace = simulate(
        Ledger.open(names(len(weights)), PLENTY),
        demands,
        capacity,
        guaranteed_fraction="0",
        weights=weights,
    )
    past = trace.slices[:-1].sum(axis=0).tolist()

    def least(slices: tuple[int, ...]) -> Fraction:
        held = zip(past, slices, weights, strict=True)
        return min(Fraction(before + now, weight) for before, now, weight in held)

    divisions = product(*(range(demand + 1) for demand in demands[-1].tolist()))
    best = max(least(slices) for slices in divisions if sum(slices) <= capacity)
    assert least(tuple(trace.slices[-1].tolist())) == best


def test_a_loan_buys_back_as_many_slices_at_any_weight() -> None:
    """Finding: section 3.4 changes only what borrowers pay (line 20), not what donors earn.

    Paid one credit a slice, a user of weight 1 beside one of weight 3 would lend its two slices and
    could then pay for one (its price is 2), and the other lend two and could buy three: loans that
    shrink or grow by weight. So a lent slice earns what a borrowed one costs.
    """
    ledger = Ledger.open(["light", "heavy"], 100)
    lends, borrows = [0, 8], [4, 4]
    for demands in (lends, borrows):
        step = allocate(ledger, demands, 8, guaranteed_fraction="1", weights=[1, 3])
        assert step.slices.tolist() == [demands]
        ledger = step.ledger
    assert (ledger.balances // UNIT).tolist() == [100, 100]


@pytest.mark.parametrize("spread", [1, 10**6, 10**12, 10**18])
def test_balances_of_any_spread_are_ranked_exactly(spread: int) -> None:
    """Balances that floating point could not tell apart: the last one has one micro-credit more."""
    users = 9
    balances = np.full(users, spread)
    balances[-1] += 1
    result = allocate(Ledger(names(users), balances), np.full(users, 9), 5, weights=[1] * users)
    rich_enough = spread + 5 * UNIT // users >= UNIT
    assert (result.slices[0, -1] > 0) == rich_enough
    assert result.slices.sum() == (5 if rich_enough else 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"demands": [1, -2, 3]}, r"demands\[0, 1\] = -2 is outside 0..2\*\*40 - 1"),
        ({"demands": [1, 2**40, 3]}, r"demands\[0, 1\] = 1099511627776 is outside 0..2\*\*40 - 1"),
        ({"demands": [1.5, 2, 3]}, "demands: an array of whole numbers, 2-dimensional, is needed"),
        ({"demands": [1, 2]}, r"demands has shape \(1, 2\): .* 1 pools .* 3 users"),
        ({"demands": [[1, 2, 3]] * 2}, r"demands has shape \(2, 3\)"),
        ({"capacities": -1}, r"capacities\[0\] = -1 is outside"),
        ({"capacities": [10**12] * 7}, "capacities add up to 7000000000000 slices: at most"),
        ({"guaranteed_fraction": "1.01"}, "guaranteed_fraction = '1.01': a number in 0..1"),
        ({"guaranteed_fraction": "1/0"}, "guaranteed_fraction = '1/0': a number in 0..1"),
        ({"guaranteed_fraction": "half"}, "guaranteed_fraction = 'half': a number in 0..1"),
        ({"weights": [1, 0, 1]}, r"weights\[1\] = 0 is outside 1..2\*\*40 - 1"),
        ({"weights": [1, 1]}, "weights has 2 entries: 3 users need one each"),
        (
            {"guaranteed_fraction": Fraction(1, 2**62 - 1), "weights": [1, 2, 3]},
            "too many digits for 64 bits",
        ),
    ],
)
def test_numbers_that_make_no_sense_are_named(changes: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"demands": [1, 2, 3], "capacities": 6, **changes}
    with pytest.raises(KarmaError, match=message):
        allocate(Ledger.open("ABC"), **arguments)  # type: ignore[arg-type]


def test_weights_that_add_up_to_too_much_are_refused() -> None:
    ledger = Ledger.open(names(9))
    with pytest.raises(KarmaError, match="weights add up to 9895604649939: less than 9e12"):
        allocate(ledger, [1] * 9, 6, weights=[2**40 - 1 - number for number in range(9)])


def test_a_balance_that_grows_out_of_range_says_so() -> None:
    """Rather than to overflow; `centred` makes room."""
    ledger = Ledger(("A", "B"), np.full(2, LARGEST_BALANCE - UNIT))
    with pytest.raises(KarmaError, match=r"user 'A': .* credits and 50 earned .* centred\(\)"):
        allocate(ledger, [0, 0], 100, guaranteed_fraction="0")
    assert allocate(ledger.centred(), [0, 0], 100, guaranteed_fraction="0").ledger.quantum == 1


def test_a_simulation_stops_where_a_balance_grows_out_of_range() -> None:
    """Each quantum adds 5e11 credits: 18 are too many, and 19 would be too many for 64 bits."""
    idle = np.zeros((1000, 2), np.int64)
    with pytest.raises(KarmaError, match=r"user 'A': 8500000000000 credits and 500000000000 earn"):
        simulate(Ledger.open("AB", 0), idle, 10**12, guaranteed_fraction="0")
