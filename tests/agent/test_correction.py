"""Weights are corrected until every pod has what it bought or wants, in a model of the kernel."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_scheduler import Group, Scheduler, Thread, in_phases, spins
from walras_agent.correction import (
    UNCORRECTED,
    Correction,
    CpuRate,
    Purchase,
    beside_each_other,
    compete,
    correct,
    fill,
)
from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 2.0


class Pod(NamedTuple):
    """A pod of the model: CPUs that it bought, and its threads."""

    cpus: float
    threads: list[Callable[[], Thread]]
    user: str = ""


def spinning(number: int, pinned: int | None = None) -> list[Callable[[], Thread]]:
    return [lambda: Thread(spins, pinned)] * number


def phases(number: int, busy: float, asleep: float) -> list[Callable[[], Thread]]:
    return [lambda: Thread(in_phases(busy, asleep))] * number


class Node:
    """Pods on the CPUs of one domain, whose weights are corrected as the agent does it."""

    def __init__(self, cpus: int, pods: dict[str, Pod]) -> None:
        everywhere = CpuSet(range(cpus))
        self.bought = {
            name: Purchase(pod.cpus, pod.user or name, everywhere) for name, pod in pods.items()
        }
        groups = {
            name: Group([make() for make in pod.threads], pod.cpus) for name, pod in pods.items()
        }
        self.kernel = Scheduler(cpus, groups)
        self.now: dict[str, Correction] = {}

    def go_on(self, passes: int) -> list[dict[str, float]]:
        """Correct weights after each of some intervals; return what pods used in each."""
        return [self._go_on() for _ in range(passes)]

    def _go_on(self) -> dict[str, float]:
        groups, idle = self.kernel.groups, self.kernel.idle
        before = {name: (group.used, group.waited) for name, group in groups.items()}
        self.kernel.elapse(SECONDS)
        rates = {
            name: CpuRate(
                SECONDS,
                (group.used - before[name][0]) / SECONDS,
                (group.waited - before[name][1]) / SECONDS,
                len(group.threads),
            )
            for name, group in groups.items()
        }
        fell = zip(self.kernel.idle, idle, strict=True)
        self.now = correct(
            self.bought,
            rates,
            {cpu: (now - then) / SECONDS for cpu, (now, then) in enumerate(fell)},
            self.now,
        )
        for name, group in groups.items():
            group.weight = self.bought[name].cpus * self.now[name].factor
        return {name: rate.used for name, rate in rates.items()}


def mean(used: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(each[name] for each in used) / len(used) for name in used[0]}


@pytest.mark.long
@pytest.mark.parametrize(
    ("cpus", "pods", "within"),
    [
        (2, {"a": Pod(1.5, spinning(2)), "b": Pod(0.5, spinning(1))}, 0.03),
        (
            2,
            {"a": Pod(1.0, spinning(1)), "b": Pod(0.5, spinning(1)), "c": Pod(0.5, spinning(2))},
            0.03,
        ),
        (
            4,
            {"a": Pod(1.7, spinning(2)), "b": Pod(1.3, spinning(4)), "c": Pod(1.0, spinning(3))},
            0.05,
        ),
        (8, {"a": Pod(6.0, spinning(12)), "b": Pod(2.0, spinning(4))}, 0.03),
        (16, {"a": Pod(12.0, spinning(24)), "b": Pod(4.0, spinning(16))}, 0.03),
    ],
    ids=["a thread too few", "one thread each", "odd ones", "short by two CPUs", "by many"],
)
def test_pods_that_always_compute_have_what_they_bought(
    cpus: int, pods: dict[str, Pod], within: float
) -> None:
    node = Node(cpus, pods)
    node.go_on(7)
    used = mean(node.go_on(8))
    assert all(used[name] == pytest.approx(pod.cpus, rel=within) for name, pod in pods.items())


@pytest.mark.long
def test_a_pod_that_sleeps_half_of_its_time_has_more_of_it_than_by_weights_alone() -> None:
    pods = {"sleeps": Pod(1.0, phases(2, 0.1, 0.1)), "computes": Pod(1.0, spinning(2))}
    node = Node(2, pods)
    alone = node.go_on(1)[0]  # nothing is corrected yet
    node.go_on(8)
    used = mean(node.go_on(10))
    assert used["sleeps"] > 1.15 * alone["sleeps"]
    assert used["computes"] >= 1.0
    assert sum(used.values()) == pytest.approx(2.0, abs=0.01), "no CPU is idle"


@pytest.mark.long
def test_who_begins_to_compute_leaves_others_four_fifths_of_what_they_bought() -> None:
    node = Node(2, {"turns": Pod(1.0, phases(2, 0.1, 0.1)), "computes": Pod(1.0, spinning(2))})
    node.go_on(10)
    for thread in node.kernel.groups["turns"].threads:
        thread.wants = spins
    used = node.go_on(10)
    assert min(each["computes"] for each in used) >= 0.75
    assert mean(used)["computes"] >= 0.96, "what was taken is paid back"


@pytest.mark.long
def test_who_waits_on_purpose_gains_nothing() -> None:
    """Two threads on one CPU wait half of their time, however much their group weighs."""
    pods = {"waits": Pod(1.5, spinning(2, pinned=0)), "honest": Pod(0.5, spinning(2))}
    node = Node(2, pods)
    node.go_on(20)
    assert node.now["waits"].factor / node.now["honest"].factor < 3
    for thread in node.kernel.groups["waits"].threads:
        thread.pinned = None
    assert min(each["honest"] for each in node.go_on(10)) >= 0.8 * 0.5


@pytest.mark.long
def test_what_a_pod_leaves_goes_to_the_same_users_pods_first() -> None:
    pods = {
        "mine sleeps": Pod(1.0, phases(1, 0.05, 0.15), "me"),
        "mine": Pod(1.0, spinning(4), "me"),
        "other": Pod(2.0, spinning(4), "other"),
    }
    node = Node(4, pods)
    node.go_on(10)
    used = mean(node.go_on(10))
    assert used["mine"] + used["mine sleeps"] == pytest.approx(2.0, rel=0.03)
    assert used["other"] == pytest.approx(2.0, rel=0.03)


def rates(*used_and_waited: tuple[float, float], threads: int = 4) -> dict[str, CpuRate]:
    return {
        name: CpuRate(SECONDS, used, waited, threads)
        for name, (used, waited) in zip("abcdef", used_and_waited, strict=False)
    }


def purchases(*cpus: float) -> dict[str, Purchase]:
    return {
        name: Purchase(each, name, CpuSet(range(2)))
        for name, each in zip("abcdef", cpus, strict=False)
    }


NOT_IDLE: dict[int, float] = {}


def test_where_all_have_what_they_bought_nothing_is_corrected() -> None:
    after = correct(purchases(1.2, 0.8), rates((1.2, 1.0), (0.8, 1.0)), NOT_IDLE, {})
    assert {each.factor for each in after.values()} == {1.0}


def test_what_programs_outside_take_is_no_error() -> None:
    after = correct(purchases(1.2, 0.8), rates((0.6, 1.0), (0.4, 1.0)), NOT_IDLE, {})
    assert {each.factor for each in after.values()} == {1.0}


def test_idle_time_is_not_taken_for_that_of_programs_outside() -> None:
    """Half of its purchase is all that the service wants; it waits now and then, for a boost."""
    after = correct(purchases(1.0, 1.0), rates((0.5, 0.2), (0.5, 0.0)), {0: 0.5, 1: 0.5}, {})
    assert after["a"].boosted
    assert after["b"] == Correction(wants_all=False)


def test_who_waits_all_the_time_wants_all_that_it_bought_however_much_that_is() -> None:
    """The kernel tells that some thread waits, not how many."""
    bought = {
        "a": Purchase(12.0, "a", CpuSet(range(16))),
        "b": Purchase(4.0, "b", CpuSet(range(16))),
    }
    after = correct(bought, rates((9.9, 1.0), (6.1, 1.0), threads=16), NOT_IDLE, {})
    assert after["a"].wants_all
    assert after["a"].factor > 1 > after["b"].factor


def test_a_pod_of_few_threads_is_owed_no_more_than_these_can_use() -> None:
    bought = purchases(1.5, 0.5)
    seen = {"a": CpuRate(SECONDS, 1.0, 0.0, 1), "b": CpuRate(SECONDS, 1.0, 1.0, 4)}
    after = correct(bought, seen, NOT_IDLE, {})
    assert after["a"].factor == after["b"].factor == 1.0


def test_a_pod_that_was_not_read_keeps_its_correction() -> None:
    before = {"a": Correction(1.3), "b": Correction(0.7)}
    assert correct(purchases(1.0, 1.0), {}, NOT_IDLE, before) == before


def test_a_new_pod_begins_uncorrected() -> None:
    assert correct(purchases(1.0), {}, NOT_IDLE, {}) == {"a": UNCORRECTED}


def test_an_error_of_some_time_slices_is_none_for_a_small_pod_unless_it_lasts() -> None:
    """Of 0.1 CPUs in two seconds, one slice of 4 ms is 2 %."""
    now: dict[str, Correction] = {}
    for number in range(20):
        off = 0.003 * (-1) ** number
        now = correct(purchases(0.1, 0.1), rates((0.1 + off, 1.0), (0.1 - off, 1.0)), {}, now)
        assert {each.factor for each in now.values()} == {1.0}
    for _ in range(20):
        now = correct(purchases(0.1, 0.1), rates((0.097, 1.0), (0.103, 1.0)), {}, now)
    assert now["a"].factor > 1 > now["b"].factor


CPUS = st.floats(0, 4)
POD = st.tuples(st.floats(0.01, 4), CPUS, st.floats(0, 1), st.integers(1, 32))


@given(st.lists(POD, min_size=1, max_size=6), st.integers(1, 12))
def test_nobody_would_be_harmed_much_if_all_began_to_compute(
    pods: list[tuple[float, float, float, int]], passes: int
) -> None:
    """Whatever pods do, weights of four CPUs that are not oversold leave each four fifths."""
    names = [f"p{number}" for number in range(len(pods))]
    scale = max(1.0, sum(bought for bought, *_ in pods) / 4)
    bought = {
        name: Purchase(pod[0] / scale, name, CpuSet(range(4)))
        for name, pod in zip(names, pods, strict=True)
    }
    seen = {
        name: CpuRate(SECONDS, used, waited, threads)
        for name, (_, used, waited, threads) in zip(names, pods, strict=True)
    }
    now: dict[str, Correction] = {}
    for _ in range(passes):
        now = correct(bought, seen, NOT_IDLE, now)
        if all(pod[3] >= 4 for pod in pods):
            weights = {name: bought[name].cpus * now[name].factor for name in names}
            had = fill(4.0, weights, dict.fromkeys(names, inf))
            used = sum(each.used for each in seen.values())
            there = min(1.0, used / 4)
            assert all(had[name] >= 0.79 * bought[name].cpus * there for name in names)


@given(
    st.floats(0, 10),
    st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.floats(0.01, 5), CPUS), min_size=1),
)
def test_an_amount_is_divided_by_parts_up_to_what_each_wants(
    there: float, pods: dict[str, tuple[float, float]]
) -> None:
    parts = {name: part for name, (part, _) in pods.items()}
    most = {name: wants for name, (_, wants) in pods.items()}
    given_ = fill(there, parts, most)
    assert sum(given_.values()) == pytest.approx(min(there, sum(most.values())), abs=1e-9)
    levels = [given_[name] / parts[name] for name in pods if given_[name] < most[name] - 1e-9]
    assert all(level == pytest.approx(levels[0]) for level in levels)
    assert all(given_[name] <= most[name] + 1e-9 for name in pods)


def test_pods_are_beside_each_other_also_by_way_of_others() -> None:
    allowed = {"a": CpuSet([0, 1]), "b": CpuSet([1, 2]), "c": CpuSet([3]), "d": CpuSet([2])}
    assert beside_each_other(allowed) == [
        (CpuSet([3]), ["c"]),
        (CpuSet([0, 1, 2]), ["a", "b", "d"]),
    ]


@pytest.mark.parametrize(
    ("waited", "due"), [(None, True), (0.5, True), (0.02, True), (0.005, False), (0.0, False)]
)
def test_corrections_are_due_while_somebody_waits_or_may(waited: float | None, due: bool) -> None:
    assert compete({"a": CpuRate(SECONDS, 0.1, 0.0), "b": CpuRate(SECONDS, 1.0, waited)}) is due
