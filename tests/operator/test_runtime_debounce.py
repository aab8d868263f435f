"""Times at which changes are answered, by a clock of the test; a burst rarely wakes the thread."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from waiting import PATIENCE, eventually
from walras_operator.loop.debounce import Debounce
from walras_operator.loop.recompute import Recompute
from walras_operator.publish.publisher import PublishResult
from walras_operator.watch.kinds import Scope
from walras_operator.watch.mirror import Mirror

if TYPE_CHECKING:
    import pytest

    from walras_operator.loop.recompute import _LeaderTerm


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
    for each in times:
        debounce.note(each)
    due = debounce.due()
    assert due is not None
    assert due <= times[0] + 1.0


class Counted(Recompute):
    """A leader that decides nothing, and counts how often it looks whether a decision is due."""

    def __init__(self, *, complete: bool = True) -> None:
        self.looked, self.decided = 0, threading.Semaphore(0)
        known: Any = SimpleNamespace(complete=complete, term=lambda: 1)
        self.known = known
        mirror = Mirror(Scope("walras-system").kinds, lambda _: None, time.monotonic)
        no: Any = None  # what only publishes
        pools: Any = SimpleNamespace(leads=lambda _: None)
        debounce = Debounce(quiet=0.1, longest=60.0)
        super().__init__(mirror, known, known, no, no, no, no, no, pools, debounce, no)

    def _current_term(self, now: float) -> _LeaderTerm | None:
        self.looked += 1
        return super()._current_term(now)

    def _round(self, *_: Any) -> PublishResult:
        self.decided.release()
        return PublishResult()


def test_the_changes_of_a_burst_do_not_wake_the_thread_that_decides_one_by_one() -> None:
    recompute = Counted()
    recompute.start()
    try:
        assert recompute.decided.acquire(timeout=PATIENCE), "at first"
        for _ in range(3_000):
            recompute.changed()
            threading.Event().wait(0.0001)  # the other thread may run
        assert recompute.decided.acquire(timeout=PATIENCE)
        assert recompute.looked < 300
    finally:
        recompute.stop()


def test_an_operator_that_may_not_decide_yet_sleeps_until_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first lists are thousands of changes, and the end of the last one is none."""
    monkeypatch.setattr("walras_operator.loop.recompute._TICK", 10 * PATIENCE)
    recompute = Counted(complete=False)
    recompute.start()
    try:
        assert eventually(lambda: recompute.looked)
        for _ in range(1_500):  # for longer than the longest wait for the end of a burst
            recompute.changed()
            threading.Event().wait(0.001)
        assert recompute.looked == 1
        recompute.known.complete = True
        recompute.look()
        assert recompute.decided.acquire(timeout=PATIENCE)
    finally:
        recompute.stop()


def test_a_change_after_quiet_times_is_answered_at_once() -> None:
    recompute = Counted()
    recompute.start()
    try:
        assert recompute.decided.acquire(timeout=PATIENCE), "at first"
        for _ in range(3):
            began = time.monotonic()
            recompute.changed()
            assert recompute.decided.acquire(timeout=PATIENCE)
            assert time.monotonic() - began >= 0.1
    finally:
        recompute.stop()
