"""What pods hold of a node: their own cores, and a part of those that all share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machines import machine
from walras_agent.cpuset import CpuSet
from walras_agent.holdings import Grant, Holding, divide
from walras_agent.topology import Topology

NOTHING = CpuSet()


def grants(**millicores: int) -> list[Grant]:
    return [Grant(pod, f"default/{pod}", amount) for pod, amount in millicores.items()]


def test_whole_cores_are_the_pods_own_with_all_their_threads_and_without_quota() -> None:
    held = divide(machine(cores=4, threads=2), grants(a=2000), {})
    assert held.pods["a"] == Holding(CpuSet([0, 1, 4, 5]), NOTHING, None, None)
    assert held.shared == CpuSet([2, 3, 6, 7])


def test_a_fraction_is_time_on_the_shared_cpus() -> None:
    held = divide(machine(cores=4), grants(a=1500, b=250), {})
    assert held.pods["a"] == Holding(CpuSet([0]), CpuSet([1, 2, 3]), 1500, 500)
    assert held.pods["b"] == Holding(NOTHING, CpuSet([1, 2, 3]), 250, 250)


def test_a_core_of_two_threads_is_two_cpus_of_time() -> None:
    held = divide(machine(cores=2, threads=2), grants(a=1500), {}).pods["a"]
    assert (held.milliquota, held.milliweight) == (3000, 1000)
    held = divide(machine(cores=2, threads=2), grants(a=1500), {}, unit="thread").pods["a"]
    assert (held.milliquota, held.milliweight) == (1500, 500)


def test_one_core_is_always_left_to_share() -> None:
    held = divide(machine(cores=4), grants(a=3000, b=1000), {})
    assert len(held.pods["a"].own) == 3
    assert held.pods["b"] == Holding(NOTHING, held.shared, 1000, 1000, missing=1)
    assert len(held.shared) == 1


def test_reserved_cpus_are_shared_and_nobodys_own() -> None:
    held = divide(machine(cores=4), grants(a=3000), {}, reserved=CpuSet([0]))
    assert held.pods["a"].own == CpuSet([1, 2, 3])
    assert held.shared == CpuSet([0])


def test_what_a_pod_had_it_keeps() -> None:
    held = divide(machine(cores=8), grants(a=2000, b=1000), {"b": CpuSet([5]), "a": CpuSet([6])})
    assert held.pods["b"].own == CpuSet([5])
    assert 6 in held.pods["a"].own


def test_a_machine_of_one_core_has_none_for_sale() -> None:
    held = divide(machine(cores=1), grants(a=1000), {})
    assert held.pods["a"] == Holding(NOTHING, CpuSet([0]), 1000, 1000, missing=1)


def test_a_machine_that_is_all_reserved_is_all_shared() -> None:
    held = divide(machine(cores=2), grants(a=1000), {}, reserved=CpuSet([0, 1]))
    assert held.pods["a"].cpus == held.shared == CpuSet([0, 1])


@pytest.mark.parametrize(("millicores", "memory"), [(0, None), (-5, None), (1, 0), (1, -1)])
def test_nothing_cannot_be_granted(millicores: int, memory: int | None) -> None:
    with pytest.raises(ValueError, match=r"^default/a: .* least$"):
        Grant("a", "default/a", millicores, memory)


def test_two_grants_for_one_pod_are_refused() -> None:
    with pytest.raises(ValueError, match="two grants are for the pod default/a"):
        divide(machine(), grants(a=1000) * 2, {})


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Topology, list[Grant], dict[str, CpuSet], CpuSet]:
    topology = machine(
        nodes=draw(st.integers(1, 2)),
        cores=draw(st.integers(1, 6)),
        threads=draw(st.integers(1, 2)),
    )
    cpus = st.sets(st.sampled_from(list(topology.cpuset))).map(CpuSet)
    amounts = draw(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9000)))
    return (
        topology,
        grants(**amounts),
        draw(st.dictionaries(st.sampled_from("abx"), cpus)),
        draw(cpus),
    )


@given(nodes())
def test_no_cpu_has_two_owners_and_nobody_is_left_without(
    node: tuple[Topology, list[Grant], dict[str, CpuSet], CpuSet],
) -> None:
    topology, granted, previous, reserved = node
    held = divide(topology, granted, previous, reserved=reserved)
    own = [each.own for each in held.pods.values()]
    assert sum(map(len, own)) + len(held.shared) == len(topology.cpuset)
    assert CpuSet(cpu for each in own for cpu in each) | held.shared == topology.cpuset
    assert held.shared
    assert not any(each & reserved for each in own)
    for grant in granted:
        holding = held.pods[grant.pod]
        assert holding.cpus
        assert holding.shared in (NOTHING, held.shared)
        if holding.milliquota is None:
            assert grant.millicores % 1000 == 0
            assert not holding.missing
    assert divide(topology, list(reversed(granted)), previous, reserved=reserved) == held


@given(nodes())
def test_what_is_held_stays_when_nothing_changes(
    node: tuple[Topology, list[Grant], dict[str, CpuSet], CpuSet],
) -> None:
    topology, granted, previous, reserved = node
    held = divide(topology, granted, previous, reserved=reserved)
    now = {pod: each.own for pod, each in held.pods.items()}
    assert divide(topology, granted, now, reserved=reserved) == held
