"""Whether a ledger follows from a log of quanta: what a log may lack, and what is found wrong."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from walras.mechanisms.karma.audit import audit
from walras.mechanisms.karma.ledger import HIGH_BALANCE, UNIT, KarmaError, Ledger
from walras.mechanisms.karma.quantum import allocate
from walras.mechanisms.karma.record import MOST_ENTRIES, SettledQuantum, record_of

if TYPE_CHECKING:
    from collections.abc import Callable

DEMANDS = [(3, 2, 1), (3, 0, 0), (0, 3, 0), (2, 2, 4), (2, 3, 5)]


def settled(
    ledger: Ledger, demands: Any, slices: Any = 6, *, fading: float = 0.0, pools: int = 1
) -> SettledQuantum:
    weights = np.ones(len(ledger.users), np.int64)
    given = allocate(ledger, demands, slices, weights=weights)
    names = tuple(f"n{number}" for number in range(1, pools + 1))
    return SettledQuantum(given, names, weights, Fraction(1, 2), fading)


def history(fading: float = 0.0) -> tuple[list[dict[str, Any]], Ledger]:
    """The paper's five quanta, as they are read back from a log."""
    ledger, records = Ledger.open("ABC", 6), []
    for demands in DEMANDS:
        quantum = settled(ledger, demands, fading=fading)
        records.append(json.loads(json.dumps(record_of(quantum))))
        ledger = quantum.ledger
    return records, ledger


def test_quanta_whose_credits_fade_follow_and_a_forged_part_is_found() -> None:
    records, ledger = history(0.1)
    assert ledger != history()[1]
    assert audit(records, ledger) == (1, 5, 5, ())
    records[2]["fading"] = 0.2
    assert audit(records, ledger).problems == (
        "quantum 3: the credits do not follow from the demands",
    )


def test_the_papers_quanta_follow() -> None:
    records, ledger = history()
    assert audit(records, ledger) == (1, 5, 5, ())


def test_who_comes_and_goes_between_quanta_is_understood() -> None:
    records, ledger = history()
    quantum = settled(ledger.shared_by(["B", "C", "D"]), (1, 1, 4))
    assert audit([*records, record_of(quantum)], quantum.allocation.ledger).problems == ()


@pytest.mark.parametrize("fading", [0.0, 0.3])
def test_who_takes_no_part_in_some_quanta_has_its_credits_afterwards(fading: float) -> None:
    records, ledger = history(fading)
    for there, demands in (("AC", (0, 5)), ("B", (3,)), ("", ()), ("ABC", (2, 2, 2))):
        weights = np.ones(len(there), np.int64)
        given = allocate(ledger.part_of(there), [demands], [6], weights=weights)
        quantum = SettledQuantum(given, ("n1",), weights, Fraction(1, 2), fading, ledger)
        records.append(json.loads(json.dumps(record_of(quantum))))
        assert quantum.ledger.users == ("A", "B", "C")
        ledger = quantum.ledger
    assert audit(records, ledger).problems == ()
    records[-2]["after"][1] += UNIT
    records[-1]["before"][1] += UNIT
    assert len(audit(records, ledger).problems) > 0


@pytest.mark.parametrize("by", [HIGH_BALANCE, 0, 10**12 * UNIT + 1])
def test_a_quantum_that_begins_with_centred_balances_follows(by: int) -> None:
    """Also where a debt was forgiven: the audit computes that again."""
    _, ledger = history()
    balances = ledger.balances + np.array([by, by if by == HIGH_BALANCE else 0, by])
    first = settled(replace(ledger, balances=balances), DEMANDS[0])
    second = settled(first.ledger.centred(), DEMANDS[1])
    assert second.allocation.before != first.ledger
    again = settled(second.allocation.before.centred(), DEMANDS[2])
    records = [record_of(each) for each in (first, second, again)]
    for ledger in (first.ledger, second.ledger, again.ledger):
        assert audit(records, ledger).problems == ()


def test_a_quantum_that_was_settled_again_counts_once() -> None:
    records, ledger = history()
    first, again = (settled(ledger, demands) for demands in ((2, 0, 0), (2, 5, 0)))
    both = [*records, record_of(first), record_of(again)]
    assert audit(both, again.allocation.ledger).problems == ()
    assert audit(both, first.allocation.ledger).problems == ()
    assert audit(both, ledger).problems == (), "an operator may have died before it settled it"


def test_a_log_may_be_ahead_of_a_ledger() -> None:
    records, _ = history()
    at_three = Ledger.open("ABC", 6)
    for demands in DEMANDS[:3]:
        at_three = settled(at_three, demands).allocation.ledger
    assert audit(records, at_three).problems == ()


def test_records_are_not_kept_in_memory_while_they_are_replayed() -> None:
    users = [f"user-{number:03}" for number in range(100)]
    ledger, texts = Ledger.open(users), []
    random = np.random.default_rng(1)
    for _ in range(50):
        quantum = settled(ledger, random.integers(0, 99, (4, 100)), [999] * 4, pools=4)
        texts.append(json.dumps(record_of(quantum)))
        ledger = quantum.ledger
    tracemalloc.start()
    try:
        assert audit(map(json.loads, texts), ledger) == (1, 50, 50, ())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < sum(map(len, texts))


def test_nothing_follows_from_nothing() -> None:
    assert audit([], Ledger.open(())).problems == ()
    assert audit([], history()[1]).problems == ("quanta 1 to 5 are not in the log",)


def without(number: int, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in records if each["quantum"] != number]


def test_what_is_missing_is_named() -> None:
    records, ledger = history()
    assert audit(without(3, records), ledger).problems == ("quantum 3 is not in the log",)
    assert audit(without(5, records), ledger).problems == ("quantum 5 is not in the log",)
    assert audit(without(1, records), ledger).problems == (), "a log may begin anywhere"


def pay(record: dict[str, Any]) -> None:
    record["after"][0] += 1


def take(record: dict[str, Any]) -> None:
    record["pools"][0]["held"][0][1] += 1


def begin(record: dict[str, Any]) -> None:
    record["before"][0] += 1


FORGED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "other credits": (pay, "the credits do not follow"),
    "other slices": (take, "the slices of n1 do not follow"),
    "another beginning": (begin, "does not begin with the credits"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_record_is_found(name: str) -> None:
    records, ledger = history()
    forge, said = FORGED[name]
    forge(records[3])
    assert any(said in problem for problem in audit(records, ledger).problems)


def test_a_forged_ledger_is_found_by_name() -> None:
    records, ledger = history()
    forged = Ledger(
        ledger.users, ledger.balances + np.array([0, 1, 0]), ledger.carry, ledger.quantum
    )
    (problem,) = audit(records, forged).problems
    assert "B has 8.000001 credits instead of 8" in problem


def test_a_quantum_of_too_many_has_its_number_only() -> None:
    ledger = Ledger.open([f"u{number}" for number in range(MOST_ENTRIES + 1)])
    quantum = settled(ledger, [0] * len(ledger.users))
    record = record_of(quantum)
    assert record == {"quantum": 1, "omitted": MOST_ENTRIES + 1}
    assert "too many to record" in audit([record], quantum.allocation.ledger).problems[0]


@pytest.mark.parametrize("record", [{}, {"quantum": 0}, {"quantum": "1"}, {"quantum": 1}])
def test_what_is_no_record_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(KarmaError, match="no record"):
        audit([record], Ledger.open(()))
