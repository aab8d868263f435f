"""CPUs of a node's pods: domains that they share, and cores of their own for those that ask."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machines import machine
from walras_agent.cpuset import CpuSet
from walras_agent.node_plan import EnforcedGrant
from walras_agent.observe import Container, Group, ObservedPod
from walras_agent.pod_cpus import (
    MeasurementLimit,
    NodeCpus,
    PodCpus,
    allocate_cpus,
    common_cpus,
    unshared_cpus,
)
from walras_agent.topology import Topology

NOTHING = CpuSet()


def grants(*, isolated: str = "", **millicores: int) -> list[EnforcedGrant]:
    return [
        EnforcedGrant(pod, f"default/{pod}", amount, isolated=pod in isolated)
        for pod, amount in millicores.items()
    ]


def test_pods_share_their_domain_whatever_they_bought() -> None:
    held = allocate_cpus(machine(cores=4), grants(a=2000, b=250), {})
    assert held.shared == CpuSet(range(4))
    assert held.pods == {
        "a": PodCpus(NOTHING, held.shared, 2000),
        "b": PodCpus(NOTHING, held.shared, 250),
    }


def test_on_a_large_node_each_has_one_domain_and_stays_there() -> None:
    topology = machine(nodes=2, cores=16)
    one, other = CpuSet(range(16)), CpuSet(range(16, 32))
    held = allocate_cpus(topology, grants(a=10_000, b=10_000, c=3000), {})
    assert [held.pods[pod].cpus for pod in "abc"] == [one, other, one]
    before = {"b": one, "c": other}
    held = allocate_cpus(topology, grants(b=10_000, c=3000), {}, shared_before=before)
    assert [held.pods[pod].cpus for pod in "bc"] == [one, other]


def test_whole_cores_of_an_isolated_pod_are_its_own_with_all_their_threads() -> None:
    held = allocate_cpus(machine(cores=4, threads=2), grants(a=2500, b=500, isolated="a"), {})
    assert held.pods["a"] == PodCpus(CpuSet([0, 1, 4, 5]), CpuSet([2, 3, 6, 7]), 5000)
    assert held.pods["b"] == PodCpus(NOTHING, CpuSet([2, 3, 6, 7]), 1000)
    assert held.shared == CpuSet([2, 3, 6, 7])


def test_a_core_of_two_threads_is_two_cpus_of_time() -> None:
    topology = machine(cores=2, threads=2)
    assert allocate_cpus(topology, grants(a=1500), {}).pods["a"].milli == 3000
    assert allocate_cpus(topology, grants(a=1500), {}, unit="thread").pods["a"].milli == 1500


def test_one_core_is_always_left_to_share() -> None:
    held = allocate_cpus(machine(cores=4), grants(a=3000, b=1000, isolated="ab"), {})
    assert len(held.pods["a"].exclusive) == 3
    assert held.pods["b"] == PodCpus(NOTHING, held.shared, 1000, missing=1)
    assert len(held.shared) == 1


def test_reserved_cpus_are_shared_and_nobodys_own() -> None:
    held = allocate_cpus(machine(cores=4), grants(a=3000, isolated="a"), {}, reserved=CpuSet([0]))
    assert held.pods["a"].exclusive == CpuSet([1, 2, 3])
    assert held.shared == CpuSet([0])


def test_what_a_pod_had_of_its_own_it_keeps() -> None:
    before = {"b": CpuSet([5]), "a": CpuSet([6])}
    held = allocate_cpus(machine(cores=8), grants(a=2000, b=1000, isolated="ab"), before)
    assert held.pods["b"].exclusive == CpuSet([5])
    assert 6 in held.pods["a"].exclusive


def test_a_machine_of_one_core_has_none_to_own() -> None:
    held = allocate_cpus(machine(cores=1), grants(a=1000, isolated="a"), {})
    assert held.pods["a"] == PodCpus(NOTHING, CpuSet([0]), 1000, missing=1)


def test_where_no_others_come_all_cores_can_be_owned() -> None:
    wanted = grants(a=3000, b=1000, isolated="ab")
    held = allocate_cpus(machine(cores=4), wanted, {}, others=False)
    assert len(held.pods["a"].exclusive) == 3
    assert len(held.pods["b"].exclusive) == 1
    assert held.shared == NOTHING


@pytest.mark.parametrize(
    "last",
    [
        EnforcedGrant("z", "", 500),
        EnforcedGrant("z", "", 1500, isolated=True),
        EnforcedGrant("z", "", 1000, isolated=True),
        EnforcedGrant("z", "", 1000),
    ],
    ids=["a fraction", "a core and a fraction", "a core too many", "a pod that is not isolated"],
)
def test_a_core_is_left_for_whoever_needs_it(last: EnforcedGrant) -> None:
    wanted = [*grants(a=2000, b=2000, isolated="ab"), last]
    held = allocate_cpus(machine(cores=4), wanted, {}, others=False)
    assert len(held.shared) == 1
    assert held.pods["z"].cpus == held.shared
    assert held.pods["b"].missing == 1


@pytest.mark.parametrize(("millicores", "memory"), [(0, None), (-5, None), (1, 0), (1, -1)])
def test_nothing_cannot_be_granted(millicores: int, memory: int | None) -> None:
    with pytest.raises(ValueError, match=r"^default/a: a .* is less than 1m?$"):
        EnforcedGrant("a", "default/a", millicores, memory)


def test_a_pod_cannot_have_two_grants() -> None:
    with pytest.raises(ValueError, match="two grants are for the pod default/a"):
        allocate_cpus(machine(), [*grants(a=1000), *grants(a=500)], {})


def test_a_measured_pod_has_its_whole_cores_for_itself_and_uses_some_of_them() -> None:
    topology = machine(cores=6, threads=2)
    held = allocate_cpus(topology, grants(a=3500, b=1000), {}, limits={"a": 2})
    own = CpuSet([0, 1, 2, 6, 7, 8])
    limit = MeasurementLimit(2, CpuSet([0, 1, 6, 7]))
    assert held.pods["a"] == PodCpus(own, NOTHING, 7000, limit=limit)
    assert held.pods["a"].cpus == limit.cpus
    assert held.pods["b"].cpus == held.shared == topology.cpuset - own


@pytest.mark.parametrize("millicores", [250, 1000, 1500])
def test_a_measured_pod_has_at_least_two_cores_and_has_bought_what_it_bought(
    millicores: int,
) -> None:
    held = allocate_cpus(machine(cores=4), grants(a=millicores, b=1000), {}, limits={"a": 1 << 16})
    assert held.pods["a"] == PodCpus(
        CpuSet([0, 1]), NOTHING, millicores, limit=MeasurementLimit(2, CpuSet([0, 1]))
    )


def test_isolated_pods_come_before_those_that_are_measured() -> None:
    wanted = grants(a=1000, b=2000, isolated="b")
    held = allocate_cpus(machine(cores=4), wanted, {}, limits={"a": 2})
    assert len(held.pods["b"].exclusive) == 2
    assert held.pods["a"].limit == MeasurementLimit(1, held.pods["a"].exclusive)
    held = allocate_cpus(machine(cores=3), wanted, {}, limits={"a": 2})
    assert held.pods["a"] == PodCpus(NOTHING, held.shared, 1000), "it cannot be measured"


@pytest.mark.parametrize(("asked", "used"), [(-1, 1), (0, 1), (3, 3), (4, 3), (99, 3)])
def test_limit_is_at_least_one_core_and_at_most_all_own_ones(asked: int, used: int) -> None:
    held = allocate_cpus(machine(cores=8), grants(a=3500), {}, limits={"a": asked, "gone": 1})
    assert held.pods["a"].cpus == CpuSet(range(used))


class Node(NamedTuple):
    topology: Topology
    granted: list[EnforcedGrant]
    previous: dict[str, CpuSet]
    reserved: CpuSet
    others: bool
    shared_before: dict[str, CpuSet]
    limits: dict[str, int]

    def divide(self) -> NodeCpus:
        topology, granted, previous, reserved, others, shared_before, limits = self
        return allocate_cpus(
            topology,
            granted,
            previous,
            reserved=reserved,
            shared_before=shared_before,
            others=others,
            limits=limits,
        )


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    topology = machine(
        nodes=draw(st.integers(1, 2)),
        cores=draw(st.integers(1, 12)),
        threads=draw(st.integers(1, 2)),
    )
    cpus = st.sets(st.sampled_from(list(topology.cpuset))).map(CpuSet)
    wanted = draw(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9000)))
    return Node(
        topology,
        [
            EnforcedGrant(pod, pod, cores, isolated=draw(st.booleans()))
            for pod, cores in wanted.items()
        ],
        draw(st.dictionaries(st.sampled_from("abx"), cpus)),
        draw(cpus),
        draw(st.booleans()),
        draw(st.dictionaries(st.sampled_from("abx"), cpus)),
        draw(st.dictionaries(st.sampled_from("abx"), st.integers(1, 4), max_size=2)),
    )


@given(nodes())
def test_no_cpu_has_two_owners_and_nobody_is_left_without(node: Node) -> None:
    held = node.divide()
    own = [each.exclusive for each in held.pods.values()]
    assert sum(map(len, own)) + len(held.shared) == len(node.topology.cpuset)
    assert CpuSet(cpu for each in own for cpu in each) | held.shared == node.topology.cpuset
    assert held.shared or not node.others
    assert not any(each & node.reserved for each in own)
    for grant in node.granted:
        pod_cpus = held.pods[grant.pod]
        assert pod_cpus.cpus
        assert pod_cpus.shared <= held.shared
        assert pod_cpus.milli >= grant.millicores
        if grant.pod not in node.limits:
            assert bool(pod_cpus.exclusive) <= grant.isolated
            whole = grant.isolated and not (grant.millicores % 1000 or pod_cpus.missing)
            assert bool(pod_cpus.shared) != whole
    assert node._replace(granted=node.granted[::-1]).divide() == held


@given(nodes())
def test_what_is_held_stays_when_nothing_changes(node: Node) -> None:
    held = node.divide()
    now = {pod: each.exclusive for pod, each in held.pods.items()}
    shared = {pod: each.shared for pod, each in held.pods.items()}
    assert node._replace(previous=now, shared_before=shared).divide() == held


def pod(uid: str, *cpus: str) -> ObservedPod:
    containers = (Container(Group(f"/{uid}/{each}", CpuSet.parse(each))) for each in cpus)
    return ObservedPod(uid, f"/{uid}", tuple(containers))


def test_after_a_start_cpus_are_of_the_only_pod_that_is_confined_to_them() -> None:
    pods = [pod("a", "0-1"), pod("b", "1-2"), pod("c", "0-7")]
    available = dict.fromkeys("abc", CpuSet(range(8)))
    assert unshared_cpus(pods, available) == {"a": CpuSet([0]), "b": CpuSet([2]), "c": NOTHING}


def test_a_pod_is_where_all_of_its_containers_are_though_one_has_just_begun() -> None:
    assert common_cpus(pod("a", "0-3", "0-7")) == CpuSet(range(4))
    assert common_cpus(pod("a")) == NOTHING
