"""The ledger: users come and go, it is stored and restored, and nothing is lost on the way."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from walras.mechanisms.karma.ledger import (
    HIGH_BALANCE,
    INITIAL_CREDITS,
    LARGEST_BALANCE,
    LARGEST_DIFFERENCE,
    LOW_BALANCE,
    UNIT,
    KarmaError,
    Ledger,
)
from walras.mechanisms.karma.quantum import allocate

ledgers = st.builds(
    lambda balances, carry, quantum: Ledger(
        tuple(balances), np.array(list(balances.values()), np.int64), carry, quantum
    ),
    st.dictionaries(st.text(min_size=1), st.integers(0, LARGEST_BALANCE - 1), max_size=8),
    st.integers(0, 10**6),
    st.integers(0, 10**9),
)


@given(ledgers)
def test_a_stored_ledger_is_restored_without_loss(ledger: Ledger) -> None:
    restored = Ledger.from_document(json.loads(json.dumps(ledger.to_document(), sort_keys=True)))
    assert restored == ledger
    assert hash(restored) == hash(ledger)
    assert Ledger.from_document(yaml.safe_load(yaml.safe_dump(ledger.to_document()))) == ledger


@given(ledgers)
def test_centring_leaves_room_and_keeps_differences_up_to_the_largest(ledger: Ledger) -> None:
    centred = ledger.centred()
    assert centred.centred() is centred
    if not ledger.users:
        return
    richest = ledger.balances.argmax()
    owed = ledger.balances[richest] - ledger.balances
    assert centred.balances.argmax() == richest
    np.testing.assert_array_equal(
        centred.balances[richest] - centred.balances, np.minimum(owed, LARGEST_DIFFERENCE)
    )
    assert LOW_BALANCE <= centred.balances.min() <= centred.balances.max() < HIGH_BALANCE
    if np.ptp(ledger.balances) <= LARGEST_DIFFERENCE and (
        LOW_BALANCE <= ledger.balances.min() <= ledger.balances.max() < HIGH_BALANCE
    ):
        assert centred is ledger
    elif np.ptp(ledger.balances) <= INITIAL_CREDITS * UNIT // 2:
        assert centred.balances.max() == INITIAL_CREDITS * UNIT


def test_only_what_is_owed_beyond_the_largest_difference_is_forgiven() -> None:
    ledger = Ledger(("rich", "middle", "poor"), np.array([2 * 10**18, 10**18, 10**18 - 7]))
    assert ledger.centred().balances.tolist() == [1125 * 10**15, 125 * 10**15, 125 * 10**15]


@given(ledgers, st.floats(0, 1))
def test_fading_loses_and_makes_no_credit_and_takes_none_past_the_mean(
    ledger: Ledger, part: float
) -> None:
    faded = ledger.faded(part)
    assert faded.total() == ledger.total()
    before = ledger.balances.tolist()
    mean = sum(before) // max(len(before), 1)
    for was, now in zip(before, faded.balances.tolist(), strict=True):
        assert min(was, mean) <= now <= max(was, mean)


def test_half_of_a_difference_fades_exactly() -> None:
    ledger = Ledger(("a", "b", "c"), np.array([9, 2, 1]) * UNIT)
    assert ledger.faded(0.5).balances.tolist() == [6_500_000, 3_000_000, 2_500_000]
    assert ledger.faded(0) is ledger
    with pytest.raises(KarmaError, match=r"a number in 0\.\.1 is needed"):
        ledger.faded(1.5)


def test_a_newcomer_gets_the_mean_and_changes_nobody() -> None:
    """Section 3.4, User churn."""
    ledger = Ledger(("A", "B", "C"), np.array([7, 8, 12]) * UNIT, quantum=4)
    joined = ledger.join("D", "E")
    assert [joined.credits(user) for user in "ABCDE"] == [7, 8, 12, 9, 9]
    assert joined.quantum == 4


def test_the_mean_of_huge_balances_is_exact() -> None:
    """Their sum is beyond 64 bits."""
    ledger = Ledger(tuple("ABCDEFG"), LARGEST_BALANCE - np.arange(1, 8))
    assert ledger.join("H").balances[-1] == LARGEST_BALANCE - 4
    assert ledger.total() == 7 * LARGEST_BALANCE - 28


def test_a_leaver_takes_its_credits_and_leaves_its_share() -> None:
    """Section 3.4: credits of the others stay; six slices of two users are three each."""
    ledger = Ledger(("A", "B", "C"), np.array([7, 8, 12]) * UNIT)
    left = ledger.leave("B")
    assert left.users == ("A", "C")
    assert [left.credits(user) for user in "AC"] == [7, 12]
    result = allocate(left, [9, 9], 6, guaranteed_fraction="1")
    assert result.slices.tolist() == [[3, 3]]


def test_carry_survives_churn() -> None:
    ledger = allocate(Ledger.open("ABC", 6), [0, 0, 0], 10, guaranteed_fraction="0").ledger
    assert ledger.carry == 1
    assert ledger.leave("C").carry == ledger.join("D").carry == 1
    alone = allocate(ledger.leave("B", "C"), [0], 10, guaranteed_fraction="0").ledger
    assert alone.carry == 0
    assert alone.balances[0] == ledger.balances[0] + 10 * UNIT + 1


def test_the_first_user_of_an_empty_ledger_starts_with_what_it_is_given() -> None:
    assert Ledger.open("A", 6).leave("A").join("B", if_empty=9).credits("B") == 9
    assert Ledger.open(()).join("B").credits("B") == 10**12


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ledger.open(["A", "A"]), "user 'A' would be in the ledger twice"),
        (lambda: Ledger.open("AB").join("C", "B"), "user 'B' would be in the ledger twice"),
        (lambda: Ledger.open("AB").leave("C"), "user 'C' is not in the ledger"),
        (lambda: Ledger.open("AB").credits("C"), "user 'C' is not in the ledger"),
        (lambda: Ledger.open("AB", Fraction(1, 3)), "1/3 credits: a whole number of millionths"),
        (lambda: Ledger.open("AB", 10**13), "10000000000000 credits: .* below 9000000000000"),
        (lambda: Ledger.open("AB", -1), "user 'A': -1 credits are outside 0..9000000000000"),
        (lambda: Ledger(("A",), np.array([1, 2])), r"shape \(2,\): one int64 for each of 1 users"),
        (lambda: Ledger(("A",), np.array([1.5])), "balances is float64"),
        (lambda: Ledger(("A",), np.array([1]), carry=-1), "carry = -1 is outside"),
        (
            lambda: Ledger(("A",), np.array([1]), carry=9 * 10**18),
            r"carry = .* outside 0..9e18 - 1",
        ),
        (lambda: Ledger.from_document([]), "ledger of version None"),  # type: ignore[arg-type]
        (lambda: Ledger(("A",), np.array([1]), quantum=-1), "quantum = -1 is outside"),
    ],
)
def test_ledgers_that_make_no_sense_are_refused(make: Any, message: str) -> None:
    with pytest.raises(KarmaError, match=message):
        make()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "ledger of version 2: this program reads 1"),
        ({"version": None}, "ledger of version None: this"),
        ({"more": 1}, "ledger: exactly the fields balances, carry, quantum, version are needed"),
        ({"quantum": True}, "quantum must be a whole number"),
        ({"quantum": -3}, "quantum = -3 is outside"),
        ({"balances": {"A": "6"}}, "balances a list"),
        ({"balances": [{"user": "A"}]}, r"balances\[0\]: exactly the fields credits, user"),
        ({"balances": ["A"]}, r"balances\[0\]: exactly the fields credits, user"),
        ({"balances": [{"user": 7, "credits": "6"}]}, r"balances\[0\]: user = 7 is not a string"),
        ({"balances": [{"user": "A", "credits": 6.5}]}, "credits of 'A' = 6.5: a string such as"),
        ({"balances": [{"user": "A", "credits": "-1"}]}, "credits of 'A' = '-1': a string"),
        ({"balances": [{"user": "A", "credits": "1e3"}]}, "credits of 'A' = '1e3': a string"),
        ({"balances": [{"user": "A", "credits": "²"}]}, "credits of 'A' = '²': a string"),
        ({"balances": [{"user": "A", "credits": "1.0000001"}]}, "of at most 6 places"),
        ({"balances": [{"user": "A", "credits": "9" * 13}]}, "credits of 'A' = '9999999999999'"),
        ({"balances": [{"user": "A", "credits": "9000000000000"}]}, "credits of 'A' = '9000"),
        ({"balances": [{"user": "A", "credits": "9" * 4400}]}, "credits of 'A' = '999"),
        ({"balances": [{"user": "A", "credits": "6"}] * 2}, "user 'A' would be .* twice"),
        ({"carry": ""}, "carry = '': a string such as"),
    ],
)
def test_documents_that_are_no_ledger_are_refused(changes: dict[str, Any], message: str) -> None:
    document = {**Ledger.open("AB", 6).to_document(), **changes}
    with pytest.raises(KarmaError, match=message):
        Ledger.from_document(document)


def test_a_document_without_a_field_is_refused() -> None:
    document = Ledger.open("AB", 6).to_document()
    del document["carry"]
    with pytest.raises(KarmaError, match="ledger: exactly the fields"):
        Ledger.from_document(document)
