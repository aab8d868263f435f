"""CPUs of a node's pods: their own cores, and a part of those that all share."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machines import machine
from walras_agent.cpuset import CpuSet
from walras_agent.node_plan import EnforcedGrant
from walras_agent.pod_cpus import (
    KUBELETS_WEIGHTS,
    MeasurementLimit,
    NodeCpus,
    PodCpus,
    WeightRule,
    allocate_cpus,
    limit_measured_pods,
)
from walras_agent.topology import Topology

NOTHING = CpuSet()


def grants(**millicores: int) -> list[EnforcedGrant]:
    return [EnforcedGrant(pod, f"default/{pod}", amount) for pod, amount in millicores.items()]


def test_whole_cores_are_the_pods_own_with_all_their_threads() -> None:
    held = allocate_cpus(machine(cores=4, threads=2), grants(a=2000), {})
    assert held.pods["a"] == PodCpus(CpuSet([0, 1, 4, 5]), NOTHING, 4000)
    assert held.shared == CpuSet([2, 3, 6, 7])


def test_a_fraction_is_time_on_a_shared_cpu() -> None:
    held = allocate_cpus(machine(cores=4), grants(a=1500, b=250), {})
    assert held.shared == CpuSet([1, 2, 3])
    assert held.pods["a"] == PodCpus(CpuSet([0]), CpuSet([1]), 1500)
    assert held.pods["b"] == PodCpus(NOTHING, CpuSet([2]), 250)


def test_a_fraction_stays_on_its_shared_cpu() -> None:
    before = {"b": CpuSet([3])}
    held = allocate_cpus(machine(cores=4), grants(a=1500, b=250), {}, shared_before=before)
    assert held.pods["b"].shared == CpuSet([3])


def test_a_core_of_two_threads_is_two_cpus_of_time() -> None:
    held = allocate_cpus(machine(cores=2, threads=2), grants(a=1500), {}).pods["a"]
    assert held.milliweight == 3000
    held = allocate_cpus(machine(cores=2, threads=2), grants(a=1500), {}, unit="thread").pods["a"]
    assert held.milliweight == 1500


def test_one_core_is_always_left_to_share() -> None:
    held = allocate_cpus(machine(cores=4), grants(a=3000, b=1000), {})
    assert len(held.pods["a"].exclusive) == 3
    assert held.pods["b"] == PodCpus(NOTHING, held.shared, 1000, missing=1)
    assert len(held.shared) == 1


def test_reserved_cpus_are_shared_and_nobodys_own() -> None:
    held = allocate_cpus(machine(cores=4), grants(a=3000), {}, reserved=CpuSet([0]))
    assert held.pods["a"].exclusive == CpuSet([1, 2, 3])
    assert held.shared == CpuSet([0])


def test_what_a_pod_had_it_keeps() -> None:
    held = allocate_cpus(
        machine(cores=8), grants(a=2000, b=1000), {"b": CpuSet([5]), "a": CpuSet([6])}
    )
    assert held.pods["b"].exclusive == CpuSet([5])
    assert 6 in held.pods["a"].exclusive


def test_a_machine_of_one_core_has_none_for_sale() -> None:
    held = allocate_cpus(machine(cores=1), grants(a=1000), {})
    assert held.pods["a"] == PodCpus(NOTHING, CpuSet([0]), 1000, missing=1)


def test_pods_weigh_what_they_were_granted_whether_they_share_cpus_or_not() -> None:
    wanted = grants(a=1333, b=667, c=2000)
    held = allocate_cpus(machine(cores=4, threads=2), wanted, {}, others=False)
    assert held.pods["a"] == PodCpus(CpuSet([2, 6]), CpuSet([3]), 2666)
    assert held.pods["b"] == PodCpus(NOTHING, CpuSet([3, 7]), 1334)
    assert held.pods["c"] == PodCpus(CpuSet([0, 1, 4, 5]), NOTHING, 4000)


def test_weights_can_be_finer_than_the_kubelets() -> None:
    held = allocate_cpus(machine(cores=4), grants(a=1500, b=1), {}, weights=WeightRule(scale=64))
    assert [held.pods[pod].milliweight for pod in "ab"] == [96_000, 64]


def test_threads_with_weights_of_their_own_are_weighed_by_what_is_shared() -> None:
    rule = WeightRule(by_thread=True)
    held = allocate_cpus(machine(cores=2), grants(a=1333, b=667), {}, weights=rule)
    assert [held.pods[pod].milliweight for pod in "ab"] == [333, 667]
    held = allocate_cpus(machine(cores=1), grants(a=1333, b=667), {}, weights=rule)
    assert [held.pods[pod].milliweight for pod in "ab"] == [1333, 667]  # no core can be a's own
    held = allocate_cpus(machine(cores=4), grants(a=3000), {}, weights=rule)
    assert held.pods["a"].milliweight == 1000


def test_where_no_others_come_all_cores_can_be_owned() -> None:
    held = allocate_cpus(machine(cores=4), grants(a=3000, b=1000), {}, others=False)
    assert len(held.pods["a"].exclusive) == 3
    assert len(held.pods["b"].exclusive) == 1
    assert held.shared == NOTHING


@pytest.mark.parametrize(
    "last",
    [
        EnforcedGrant("z", "", 500),
        EnforcedGrant("z", "", 1500),
        EnforcedGrant("z", "", 1000),
    ],
    ids=["a fraction", "a core and a fraction", "a core too many"],
)
def test_a_core_is_left_for_whoever_needs_it(last: EnforcedGrant) -> None:
    held = allocate_cpus(machine(cores=4), [*grants(a=2000, b=2000), last], {}, others=False)
    assert len(held.shared) == 1
    assert held.pods["z"].cpus == held.shared
    assert held.pods["b"].missing == 1


@pytest.mark.parametrize(("millicores", "memory"), [(0, None), (-5, None), (1, 0), (1, -1)])
def test_nothing_cannot_be_granted(millicores: int, memory: int | None) -> None:
    with pytest.raises(ValueError, match=r"^default/a: a .* is less than 1m?$"):
        EnforcedGrant("a", "default/a", millicores, memory)


class Node(NamedTuple):
    topology: Topology
    granted: list[EnforcedGrant]
    previous: dict[str, CpuSet]
    reserved: CpuSet
    others: bool
    weights: WeightRule
    shared_before: dict[str, CpuSet]

    def divide(self) -> NodeCpus:
        topology, granted, previous, reserved, others, weights, shared_before = self
        return allocate_cpus(
            topology,
            granted,
            previous,
            reserved=reserved,
            shared_before=shared_before,
            others=others,
            weights=weights,
        )


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    topology = machine(
        nodes=draw(st.integers(1, 2)),
        cores=draw(st.integers(1, 6)),
        threads=draw(st.integers(1, 2)),
    )
    cpus = st.sets(st.sampled_from(list(topology.cpuset))).map(CpuSet)
    amounts = st.integers(1, 9000)
    wanted = draw(st.dictionaries(st.sampled_from("abcdefgh"), amounts))
    return Node(
        topology,
        [EnforcedGrant(pod, pod, cores) for pod, cores in wanted.items()],
        draw(st.dictionaries(st.sampled_from("abx"), cpus)),
        draw(cpus),
        draw(st.booleans()),
        draw(st.sampled_from([KUBELETS_WEIGHTS, WeightRule(7), WeightRule(by_thread=True)])),
        draw(st.dictionaries(st.sampled_from("abx"), cpus)),
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
        assert pod_cpus.milliweight > 0
        assert bool(pod_cpus.shared) == bool(grant.millicores % 1000 or pod_cpus.missing)
    assert node._replace(granted=node.granted[::-1]).divide() == held


@given(nodes())
def test_what_is_held_stays_when_nothing_changes(node: Node) -> None:
    held = node.divide()
    now = {pod: each.exclusive for pod, each in held.pods.items()}
    shared = {pod: each.shared for pod, each in held.pods.items()}
    assert node._replace(previous=now, shared_before=shared).divide() == held


def test_limited_pod_uses_the_first_of_its_own_cores_and_keeps_the_others() -> None:
    topology = machine(cores=6, threads=2)
    held = allocate_cpus(topology, grants(a=3500, b=1000), {})
    now = limit_measured_pods(held, {"a": 2})
    assert now.pods["a"].exclusive == held.pods["a"].exclusive == CpuSet([0, 1, 2, 6, 7, 8])
    assert now.pods["a"].limit == MeasurementLimit(2, CpuSet([0, 1, 6, 7]))
    assert now.pods["a"].cpus == CpuSet([0, 1, 6, 7])
    assert now.pods["a"].shared == NOTHING
    assert (now.pods["b"], now.shared) == (held.pods["b"], held.shared)


@pytest.mark.parametrize(("asked", "used"), [(-1, 1), (0, 1), (3, 3), (4, 3), (99, 3)])
def test_limit_is_at_least_one_core_and_at_most_all_own_ones(asked: int, used: int) -> None:
    held = limit_measured_pods(allocate_cpus(machine(cores=8), grants(a=3500), {}), {"a": asked})
    assert held.pods["a"].cpus == CpuSet(range(used))


def test_limit_of_a_pod_without_own_cores_or_without_grant_is_ignored() -> None:
    held = allocate_cpus(machine(cores=4), grants(a=500, b=1000), {})
    assert limit_measured_pods(held, {"a": 1, "gone": 1}) == held
