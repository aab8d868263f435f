"""Weights are corrected until every busy pod has what it bought, and then left alone.

The kernel is a simple one: it divides each CPU by weights, and a group's weight by its threads.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_agent.correction import Correction, CpuRate, Purchase, compete, correct
from walras_agent.cpuset import CpuSet

SECONDS = 2.0


class Pod(NamedTuple):
    """A pod that runs on its own CPUs and on shared ones, with its threads on each of these."""

    bought: Purchase
    threads: dict[int, int]
    asleep: bool = False

    def weight(self, cpu: int, factor: float) -> float:
        part = self.threads.get(cpu, 0) / (self.bought.own + sum(self.threads.values()))
        return 0.0 if self.asleep else self.bought.cpus * factor * part


Node = dict[str, Pod]


def rates(node: Node, now: dict[str, Correction], outside: float = 0.0) -> dict[str, CpuRate]:
    """Return what pods use, of which programs outside take a part."""
    found = {}
    for name, pod in node.items():
        factors = {each: now.get(each, Correction()).factor for each in node}
        used = 0.0 if pod.asleep else float(pod.bought.own)
        for cpu in pod.bought.shared:
            all_weights = sum(node[each].weight(cpu, factors[each]) for each in node)
            used += pod.weight(cpu, factors[name]) / all_weights if all_weights else 0.0
        found[name] = CpuRate(SECONDS, used * (1 - outside), 0.0 if pod.asleep else 1.0)
    return found


def follow(
    node: Node, looks: int = 30, now: dict[str, Correction] | None = None, outside: float = 0.0
) -> list[dict[str, Correction]]:
    """Return the corrections after each of some looks."""
    bought, states = {name: pod.bought for name, pod in node.items()}, [now or {}]
    for _ in range(looks):
        states.append(correct(bought, rates(node, states[-1], outside), states[-1]))
    return states


def factors(now: dict[str, Correction]) -> dict[str, float]:
    return {pod: each.factor for pod, each in now.items()}


def errors(node: Node, now: dict[str, Correction]) -> dict[str, float]:
    return {name: rate.used / node[name].bought.cpus - 1 for name, rate in rates(node, now).items()}


A_CORE_AND_A_HALF = Pod(Purchase(1.5, 1, CpuSet([1])), {1: 1})
HALF = Pod(Purchase(0.5, 0, CpuSet([1])), {1: 1})


def test_pod_with_a_core_of_its_own_is_kept_to_its_part_of_a_shared_one() -> None:
    """Half of its weight is on the shared CPU, where it is more than the other's."""
    node = {"a": A_CORE_AND_A_HALF, "b": HALF}
    assert errors(node, {})["b"] == pytest.approx(-0.2)
    states = follow(node)
    assert abs(errors(node, states[10])["b"]) < 0.03
    assert all(abs(each) < 0.012 for each in errors(node, states[-1]).values())
    assert factors(states[-1]) == factors(states[-5]), "nothing is written once it is right"


def test_where_all_have_what_they_bought_nothing_is_corrected() -> None:
    node = {
        "a": Pod(Purchase(0.6, 0, CpuSet([0])), {0: 4}),
        "b": Pod(Purchase(0.4, 0, CpuSet([0])), {0: 1}),
    }
    assert factors(follow(node)[-1]) == {"a": 1.0, "b": 1.0}


def test_what_a_sleeper_leaves_is_no_error() -> None:
    node = {"a": A_CORE_AND_A_HALF, "b": HALF._replace(asleep=True)}
    states = follow(node)
    assert factors(states[-1]) == {"a": 1.0, "b": 1.0}
    assert states[-1]["b"].debt == 0.0


def test_an_error_of_some_time_slices_is_none_for_a_small_pod_unless_it_lasts() -> None:
    """Of 0.1 CPUs in two seconds, one slice of 4 ms is 2 %."""
    bought = {pod: Purchase(0.1, 0, CpuSet([0])) for pod in "ab"}
    now: dict[str, Correction] = {}
    for number in range(20):
        off = 0.003 * (-1) ** number
        used = {"a": CpuRate(2.0, 0.1 + off, 1.0), "b": CpuRate(2.0, 0.1 - off, 1.0)}
        now = correct(bought, used, now)
        assert factors(now) == {"a": 1.0, "b": 1.0}
    for _ in range(20):
        now = correct(bought, used, now)
    assert now["a"].factor > 1 > now["b"].factor


def test_a_debt_is_bounded_and_forgotten_when_the_pod_sleeps() -> None:
    node = {"a": A_CORE_AND_A_HALF, "b": HALF}
    bought = {name: pod.bought for name, pod in node.items()}
    owed = correct(bought, rates(node, {}), {})
    assert owed["b"].debt == pytest.approx(0.2 * 0.5)
    slept = correct(bought, rates(node | {"b": HALF._replace(asleep=True)}, owed), owed)
    assert slept["b"] == Correction(owed["b"].factor, 0.0)


def test_what_programs_outside_take_changes_no_weight() -> None:
    node = {
        "a": Pod(Purchase(0.6, 0, CpuSet([0])), {0: 4}),
        "b": Pod(Purchase(0.4, 0, CpuSet([0])), {0: 1}),
    }
    assert factors(follow(node, outside=0.5)[-1]) == {"a": 1.0, "b": 1.0}


def test_pods_on_other_cpus_are_left_alone() -> None:
    alone = Pod(Purchase(0.3, 0, CpuSet([2])), {2: 1})
    states = follow({"a": A_CORE_AND_A_HALF, "b": HALF, "c": alone})
    assert factors(states[-1])["c"] == 1.0


def test_a_pod_that_was_not_read_keeps_its_correction() -> None:
    before = {"a": Correction(2.0, 0.1)}
    assert correct({"a": HALF.bought}, {}, before) == before
    assert correct({}, {}, before) == {}


def test_pods_compete_if_one_is_short_or_two_could_be() -> None:
    bought = {"a": A_CORE_AND_A_HALF.bought, "b": HALF.bought}
    idle, full = CpuRate(2.0, 0.0, 0.0), CpuRate(2.0, 0.5, None)
    assert not compete(bought, {})
    assert not compete(bought, {"a": idle, "b": full})
    assert not compete(bought, {"a": idle, "b": CpuRate(2.0, 0.3, 0.1)}), "it wants no more"
    assert compete(bought, {"a": idle, "b": CpuRate(2.0, 0.3, 0.7)})
    assert compete(bought, {"a": CpuRate(2.0, 1.5, None), "b": full})


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """Pods with any threads on two shared CPUs, that bought what some weights would give them."""
    node = {}
    for name in "abcde"[: draw(st.integers(2, 5))]:
        own, weight = draw(st.integers(0, 2)), draw(st.integers(10, 40)) / 10
        threads = {0: draw(st.integers(1, 4)), 1: draw(st.integers(0, 4))}
        node[name] = Pod(Purchase(weight, own, CpuSet([0, 1])), threads)
    return {
        name: pod._replace(bought=pod.bought._replace(cpus=rate.used))
        for (name, pod), rate in zip(node.items(), rates(node, {}).values(), strict=True)
    }


@given(nodes(), nodes())
def test_every_pod_comes_to_have_what_it_bought_whatever_there_was_before(
    before: Node, node: Node
) -> None:
    states = follow(node, 150, follow(before)[-1])
    assert all(1 / 16 <= each.factor <= 16 for state in states for each in state.values())
    for state in states[-10:]:
        for pod, error in errors(node, state).items():
            assert abs(error) < max(0.03, 0.01 / node[pod].bought.cpus), pod
