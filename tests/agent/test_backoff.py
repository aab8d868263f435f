"""Waits double, and are forgotten after a calm time."""

from walras_agent.backoff import Backoff


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(first=1.0, longest=5.0)
    now, waits = 0.0, []
    for _ in range(5):
        waits.append(backoff.failed("a", now))
        now += waits[-1]
    assert waits == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_key_waits_until_its_time_has_come() -> None:
    backoff = Backoff(first=1.0, longest=5.0)
    backoff.failed("a", 10.0)
    assert backoff.waiting(10.9) == {"a"}
    assert backoff.waiting(11.0) == frozenset()


def test_after_a_calm_time_it_begins_anew() -> None:
    backoff = Backoff(first=1.0, longest=5.0)
    backoff.failed("a", 0.0)
    assert backoff.failed("a", 1.0) == 2.0
    assert backoff.failed("a", 8.1) == 1.0
