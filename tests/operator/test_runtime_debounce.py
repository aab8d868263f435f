"""When changes are answered, by a clock of the test's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from walras_operator.runtime.debounce import Debounce


def test_without_a_change_there_is_nothing_to_answer() -> None:
    assert Debounce().due() is None


def test_a_change_is_answered_after_a_while_of_quiet() -> None:
    debounce = Debounce(quiet=0.2, longest=1.0)
    debounce.note(10.0)
    assert debounce.due() == 10.2


def test_changes_without_an_end_are_answered_all_the_same() -> None:
    debounce = Debounce(quiet=0.2, longest=1.0)
    for step in range(20):
        debounce.note(10 + step / 10)
    assert debounce.due() == 11.0


def test_what_comes_after_the_answer_is_another_bunch() -> None:
    debounce = Debounce(quiet=0.2, longest=1.0)
    debounce.note(10.0)
    debounce.answered()
    assert debounce.due() is None
    debounce.note(15.0)
    assert debounce.due() == 15.2


def test_what_does_not_press_is_put_off() -> None:
    debounce = Debounce(quiet=0.2, longest=1.0, pause=3.0)
    debounce.note(10.0, urgent=False)
    assert (debounce.due(), debounce.urgent_due()) == (13.2, None)
    debounce.note(11.0)
    assert debounce.due() == debounce.urgent_due() == 11.2
    debounce.answered()
    assert debounce.due() is None


def test_what_presses_does_not_put_off_what_does_not() -> None:
    debounce = Debounce(quiet=0.2, longest=1.0)
    debounce.note(10.0, urgent=False)
    debounce.note(10.1)
    assert debounce.due() == 10.2


@given(st.lists(st.floats(0, 100), min_size=1).map(sorted))
def test_no_change_waits_longer_than_the_longest(times: list[float]) -> None:
    debounce = Debounce(quiet=0.2, longest=1.0)
    for time in times:
        debounce.note(time)
    due = debounce.due()
    assert due is not None
    assert due <= times[0] + 1.0
