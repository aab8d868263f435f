"""All pods of a node are weighed on one scale, by what they bought or requested."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_agent.weights import (
    RANGES,
    WeighedPod,
    cpu_shares,
    final_weights,
    requested_cpus,
    weight_of_a_cpu,
)

VERSIONS = pytest.mark.parametrize("version", [1, 2])
CLASS = "/kubepods/burstable"


def pod(name: str, cpus: float, **more: float) -> WeighedPod:
    """Return a pod of the class Burstable, or of none if its name is in capitals."""
    parent = "/kubepods" if name.isupper() else CLASS
    return WeighedPod(name, parent, cpus)._replace(**more)  # type: ignore[arg-type]


def weigh(
    *pods: WeighedPod, scale: float = 100.0, concurrent: bool = False, cpus: int = 8
) -> dict[str, int]:
    return final_weights(pods, (CLASS,), scale, RANGES[2], cpus, concurrent=concurrent)


def test_pods_weigh_what_they_bought_and_classes_what_their_pods_weigh_together() -> None:
    weights = weigh(pod("A", 2.0), pod("b", 1.5), pod("c", 0.25, factor=2.0))
    assert weights == {"A": 200, "b": 150, "c": 50, CLASS: 200}


def test_who_requested_nothing_keeps_its_weight_and_counts_with_the_least() -> None:
    assert weigh(pod("A", 2.0), pod("b", 0.0)) == {"A": 200}, "nor is its class weighed"
    assert weigh(pod("b", 1.0), *(pod(f"x{n}", 0.0) for n in range(9)))[CLASS] == 109


@pytest.mark.parametrize(
    ("busy", "weight"),
    [((1.0, 1.0), 400), ((1.0, 0.0), 300), ((0.5, 0.0), 300), ((0.0, 0.1), 100), ((0.0, 0.0), 400)],
    ids=["both run", "one sleeps", "the other runs alone", "nearly always none", "all sleep"],
)
def test_a_class_weighs_what_runs_of_it_at_once(busy: tuple[float, float], weight: int) -> None:
    pods = [pod("b", 3.0, busy=busy[0]), pod("c", 1.0, busy=busy[1])]
    assert weigh(*pods)[CLASS] == weight


def test_a_class_of_pods_that_run_by_turns_weighs_less_than_all_of_them() -> None:
    pods = [pod("b", 1.0, busy=0.5), pod("c", 1.0, busy=0.5)]
    assert weigh(*pods)[CLASS] == round(100 / 0.75)


def test_where_a_weight_counts_for_each_cpu_it_is_divided_by_these() -> None:
    pods = [pod("A", 4.0, at_once=4), pod("b", 4.0, at_once=40), pod("c", 0.5, at_once=1)]
    assert weigh(*pods, concurrent=True) == {"A": 100, "b": 50, "c": 50, CLASS: 56}
    assert weigh(*pods) == {"A": 400, "b": 400, "c": 50, CLASS: 450}


def test_weights_are_what_the_kernel_takes() -> None:
    weights = weigh(pod("A", 0.001), pod("B", 500.0), pod("c", 70.0), pod("d", 70.0))
    assert weights == {"A": 1, "B": 10_000, "c": 7000, "d": 7000, CLASS: 10_000}


@VERSIONS
@pytest.mark.parametrize("cpus", [1, 2, 8, 64, 256])
@pytest.mark.parametrize("total", [0.1, 0.9, 1.0, 1.2, 3.0])
def test_all_pods_fit_together_also_while_some_are_boosted(
    version: Literal[1, 2], cpus: int, total: float
) -> None:
    scale = weight_of_a_cpu(cpus * total, cpus, RANGES[version])
    assert 1.25 * cpus * total * scale <= RANGES[version].most
    assert scale >= min(1024 if version == 1 else 8000, RANGES[version].most / cpus / 5)


def test_the_scale_stays_while_all_have_no_more_than_the_node() -> None:
    scales = {weight_of_a_cpu(total, 8, RANGES[2]) for total in (0.1, 5.0, 8.0)}
    assert scales == {1000.0}
    assert {weight_of_a_cpu(total, 8, RANGES[2]) for total in (8.1, 16.0)} == {500.0}


def test_the_scale_of_v1_is_the_kubelets() -> None:
    """So that a pod that has just begun needs no write."""
    scale = weight_of_a_cpu(8.0, 8, RANGES[1])
    milli = (100, 250, 1000, 1333, 8000)
    pods = [WeighedPod(str(each), "", each / 1000) for each in milli]
    weights = final_weights(pods, (), scale, RANGES[1], 8)
    for each in milli:
        assert weights[str(each)] - cpu_shares(each) in {0, 1}, "which is rounded down"


@VERSIONS
@given(st.integers(29, 256_000))
def test_a_request_is_known_by_the_weight_that_the_kubelet_gave_it(
    version: Literal[1, 2], milli: int
) -> None:
    shares = cpu_shares(milli)
    weight = shares if version == 1 else 1 + (shares - 2) * 9999 // 262_142
    assert requested_cpus(version, weight) == pytest.approx(milli / 1000, abs=0.0145)


@VERSIONS
def test_who_has_the_least_weight_requested_nothing(version: Literal[1, 2]) -> None:
    assert requested_cpus(version, RANGES[version].least) == 0.0
    assert cpu_shares(0) == RANGES[1].least


@given(
    st.lists(
        st.tuples(
            st.sampled_from("Aab"),
            st.floats(0.0, 8.0),
            st.floats(1 / 16, 16.0),
            st.floats(0.0, 1.0),
            st.integers(1, 64),
        ),
        max_size=6,
    ),
    st.booleans(),
)
def test_no_class_weighs_more_than_all_of_its_pods(
    drawn: list[tuple[str, float, float, float, int]], concurrent: bool
) -> None:
    pods = [
        WeighedPod(str(number), "/kubepods" if name == "A" else CLASS, cpus, factor, busy, at_once)
        for number, (name, cpus, factor, busy, at_once) in enumerate(drawn)
    ]
    weights = weigh(*pods, concurrent=concurrent)
    assert weights.keys() - {CLASS} == {each.group for each in pods if each.cpus}
    assert all(1 <= weight <= 10_000 for weight in weights.values())
    below = [each for each in pods if each.parent == CLASS]
    if CLASS in weights and not concurrent:
        most = sum(max(100 * each.cpus * each.factor, 1) for each in below)
        assert weights[CLASS] <= round(most) + 1
