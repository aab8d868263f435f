"""The watcher of a real node knows from the kernel which threads want to run."""

from __future__ import annotations

import threading

import pytest

from node_watcher import Clocks, Thread, thread_of

NOBODY = 2**22
"""A thread ID that the kernel gives to none."""


def test_a_thread_that_is_ready_and_never_runs_waits_all_the_time() -> None:
    """The kernel counts its waiting only when it has run again."""
    begun = Thread(waited=1.0, ran=500, ready=True)
    assert begun.since(begun, 2.0) == 2.0
    assert begun._replace(ran=700, waited=1.5).since(begun, 2.0) == 0.5
    asleep = begun._replace(ready=False)
    assert asleep.since(asleep, 2.0) == 0.0
    assert begun.since(None, 2.0) == 0.0


@pytest.mark.system
def test_threads_are_read_while_they_live() -> None:
    mine = thread_of(threading.get_native_id())
    assert mine is not None
    assert mine.ready
    assert mine.ran > 0
    assert thread_of(NOBODY) is None


def test_a_pod_had_what_its_clocks_say() -> None:
    cpus = frozenset({0, 1})
    begun = Clocks(10.0, 1.5, cpus, 3.0, {7: Thread(1.0, 5, ready=True)}, {0: 1.0, 1: 1.0})
    ended = Clocks(12.0, 1.5, cpus, 5.0, {7: Thread(1.4, 6, ready=True)}, {0: 1.5, 1: 1.0})
    spent = ended.since(begun)
    assert spent == pytest.approx((2.0, 1.5, 2.0, 0.4, 0.25))
