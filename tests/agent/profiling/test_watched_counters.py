"""Counters of pods with deadlines are read in a thread, and what they say is reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

import pytest

from machines import machine
from waiting import eventually
from walras_agent.cpuset import CpuSet
from walras_agent.daemon.plans import watched_counters
from walras_agent.daemon.report import ReconcileReport, status_of, topology_of
from walras_agent.profiling.counters import CounterError
from walras_agent.profiling.request import FileSource, HttpSource
from walras_agent.profiling.watched_counters import (
    READERS,
    CounterValue,
    WatchedCounter,
    WatchedCounters,
)
from walras_agent.status import NodeStatus
from walras_api.parse import parse_allocation

if TYPE_CHECKING:
    from walras_agent.profiling.counters import Counter
    from walras_agent.profiling.request import Source

ONE = WatchedCounter("u-1", FileSource("/a"))
TWO = WatchedCounter("u-2", FileSource("/b"))


@dataclass(slots=True)
class Growing:
    """A counter that grows by one with each reading, and may fail."""

    source: Source = field(default="file", init=False)
    value: float = 0.0
    problem: str = ""
    closed: bool = False

    def read(self) -> float:
        if self.problem:
            raise CounterError(self.problem)
        self.value += 1
        return self.value

    def close(self) -> None:
        self.closed = True


@pytest.mark.system
def test_each_counter_is_read_again_and_again_until_it_is_not_wanted() -> None:
    opened = {ONE: Growing(), TWO: Growing()}

    def opening(each: WatchedCounter) -> Counter:
        return opened[each]

    watched = WatchedCounters(opening, clock=lambda: 1000.0, period=0.01)
    assert watched.readings == {}
    watched.watch([ONE, TWO])
    assert eventually(lambda: all((opened[each].value > 3) for each in opened))
    assert watched.readings.keys() == {"u-1", "u-2"}
    watched.watch([TWO])
    assert eventually(lambda: opened[ONE].closed)
    assert watched.readings.keys() == {"u-2"}
    opened[TWO].problem = "it does not answer"
    assert eventually(lambda: watched.readings["u-2"].problem)
    last = watched.readings["u-2"]
    assert (last.at, last.problem) == (1000.0, "it does not answer")
    assert last.value is not None
    watched.watch([])
    assert eventually(lambda: opened[TWO].closed)
    opened[ONE].closed = False
    watched.watch([ONE])
    assert eventually(lambda: "u-1" in watched.readings)
    watched.watch([])


@pytest.mark.system
def test_a_counter_that_cannot_be_opened_does_not_keep_others_from_being_read() -> None:
    def opening(each: WatchedCounter) -> Counter:
        if each == ONE:
            raise CounterError("no such file")
        return Growing()

    watched = WatchedCounters(opening, period=0.01)
    watched.watch([ONE, TWO])
    assert eventually(lambda: watched.readings.get("u-2", CounterValue()).value)
    assert watched.readings["u-1"] == CounterValue(problem="no such file")
    watched.watch([])


@pytest.mark.system
def test_counters_that_hang_do_not_keep_others_from_being_read() -> None:
    released = Event()

    class Hanging(Growing):
        def read(self) -> float:
            released.wait()
            return 0.0

    def opening(each: WatchedCounter) -> Counter:
        return Growing() if each == ONE else Hanging()

    watched = WatchedCounters(opening, period=0.01)
    hanging = [WatchedCounter(f"h-{number}", FileSource("/h")) for number in range(READERS - 1)]
    watched.watch([*hanging, ONE])
    assert eventually(lambda: "u-1" in watched.readings)
    released.set()
    assert eventually(lambda: len(watched.readings) == READERS)
    watched.watch([])


@pytest.mark.system
def test_counters_that_answer_late_are_read_last_and_by_turns() -> None:
    """Fifteen that take a second each, in rounds of five seconds, with one reader."""
    now, order, enough = [0.0], list[str](), Event()

    @dataclass(slots=True)
    class Noted(Growing):
        pod: str = ""

        def read(self) -> float:
            if len(order) == 16 + 3 * 6:
                enough.set()
            if enough.is_set():
                return 0.0
            order.append(self.pod)
            now[0] += 0.0 if self.pod == "u-1" else 1.0
            return 1.0

    hanging = [WatchedCounter(f"h-{number}", FileSource("/h")) for number in range(15)]
    watched = WatchedCounters(
        lambda each: Noted(pod=each.pod), period=5.0, readers=1, monotonic=lambda: now[0]
    )
    watched.watch([*hanging, ONE])
    assert eventually(enough.is_set)
    watched.watch([])
    first, rounds = order[:16], [order[start : start + 6] for start in (16, 22, 28)]
    assert first == [*(each.pod for each in hanging), "u-1"]
    assert rounds == [
        ["u-1", *(f"h-{number}" for number in range(start, start + 5))] for start in (0, 5, 10)
    ]


def test_a_plan_names_the_counters() -> None:
    spec = {
        "epoch": 1,
        "counters": [
            {"podUID": "u-1", "file": "/run/done"},
            {"podUID": "u-2", "http": {"port": 80, "metric": "done"}, "podIP": "10.0.0.1"},
            {"podUID": "u-3", "http": {"port": 80}},
            {"podUID": "u-4"},
        ],
    }
    document = {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "NodeAllocation",
        "metadata": {"name": "n"},
        "spec": spec,
    }
    assert watched_counters(parse_allocation(document)) == (
        WatchedCounter("u-1", FileSource("/run/done")),
        WatchedCounter("u-2", HttpSource("10.0.0.1", 80, "/", "done")),
    )
    observing = {**document, "spec": {**spec, "mode": "observe"}}
    assert watched_counters(parse_allocation(observing)) == ()


@pytest.mark.parametrize(
    ("value", "text"), [(123456789.5, "123456789.5"), (0.0, "0"), (1e-300, "0"), (None, None)]
)
def test_the_status_has_the_last_reading(value: float | None, text: str | None) -> None:
    topology = topology_of(machine(cores=2), CpuSet(), 1 << 30)
    counters = {"u-1": CounterValue(value, 1_800_000_000.4, "it does not answer")}
    report = ReconcileReport(NodeStatus(3, "enforce"), 0.01, topology, counters=counters)
    (reading,) = status_of(report, "2027-01-15T08:00:09Z").counters
    assert (reading.pod_uid, reading.value) == ("u-1", text)
    assert reading.time == (None if text is None else "2027-01-15T08:00:00Z")
    assert reading.problem == "it does not answer"


@pytest.mark.parametrize("value", [-1.0, 1e31])
def test_values_that_no_counter_has_are_problems(value: float) -> None:
    topology = topology_of(machine(cores=2), CpuSet(), 1 << 30)
    counters = {"u-1": CounterValue(value, 1.0)}
    report = ReconcileReport(NodeStatus(3, "enforce"), 0.01, topology, counters=counters)
    (reading,) = status_of(report, "2027-01-15T08:00:09Z").counters
    assert reading.value is None
    assert "is not between 0 and" in reading.problem
