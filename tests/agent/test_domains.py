"""Domains are near CPUs, and every pod is on one that has room for what it bought."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machines import machine
from walras_agent.cpuset import CpuSet
from walras_agent.domains import LEAST_CPUS, MOST_CPUS, TimeDemand, domains_of, place_on_domains
from walras_agent.topology import Topology

NOTHING = CpuSet()
TWO = (CpuSet(range(16)), CpuSet(range(16, 32)))


@pytest.mark.parametrize(
    ("topology", "sizes"),
    [
        (machine(cores=2), [2]),
        (machine(nodes=2, cores=4, threads=2), [16]),
        (machine(nodes=2, cores=16), [16, 16]),
        (machine(nodes=2, caches=2, cores=4, threads=2), [8, 8, 8, 8]),
        (machine(cores=24), [12, 12]),
        (machine(cores=25, threads=2), [14, 12, 12, 12]),
        (machine(caches=32, cores=1), [8, 8, 8, 8]),
        (machine(caches=6, cores=3), [9, 9]),
        (machine(nodes=8, cores=3), [3] * 8),
    ],
    ids=[
        "a small node is one",
        "so is one of two sockets",
        "each large cache is one",
        "each cache of middle size is one",
        "a cache that is too large is halved",
        "cores are not cut",
        "caches of one CPU, which virtual machines show, are joined",
        "so are small ones",
        "NUMA nodes are not joined",
    ],
)
def test_domains_are_near_cpus_of_about_the_same_number(
    topology: Topology, sizes: list[int]
) -> None:
    assert [len(domain) for domain in domains_of(topology)] == sizes


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    whole = machine(
        nodes=draw(st.integers(1, 3)),
        caches=draw(st.integers(1, 3)),
        cores=draw(st.integers(1, 20)),
        threads=draw(st.integers(1, 2)),
    )
    offline = draw(st.sets(st.sampled_from(list(whole.cpuset)), max_size=5))
    kept = tuple(cpu for cpu in whole.cpus if cpu.id not in offline)
    return Topology(kept or whole.cpus)


@given(machines())
def test_every_cpu_is_in_one_domain_of_one_numa_node_with_its_core(topology: Topology) -> None:
    domains = domains_of(topology)
    assert sorted(cpu for domain in domains for cpu in domain) == sorted(topology.cpuset)
    assert all(1 <= len(domain) <= MOST_CPUS for domain in domains)
    for core in topology.cores():
        assert sum(bool(core & domain) for domain in domains) == 1
    nodes = {cpu.id: cpu.numa for cpu in topology.cpus}
    caches = {cpu.id: cpu.l3 for cpu in topology.cpus}
    if len(topology.cpus) > MOST_CPUS:
        for domain in domains:
            assert len({nodes[cpu] for cpu in domain}) == 1
            if len({caches[cpu] for cpu in domain}) > 1:
                last = max(caches[cpu] for cpu in domain)
                assert sum(caches[cpu] != last for cpu in domain) < LEAST_CPUS


def place(previous: dict[str, CpuSet] | None = None, **milli: int) -> dict[str, list[int]]:
    """Return the numbers of the domains that pods are on, of two with 16 CPUs each."""
    demands = [TimeDemand(pod, each) for pod, each in milli.items()]
    placed = place_on_domains(TWO, NOTHING, demands, previous or {})
    return {pod: [n for n in (0, 1) if cpus & TWO[n]] for pod, cpus in placed.items()}


def test_the_largest_come_first_and_go_where_least_is_left() -> None:
    placed = place(a=10_000, b=9000, c=6000, d=7000)
    assert placed == {"a": [0], "b": [1], "c": [0], "d": [1]}


def test_who_fits_where_it_is_stays_there() -> None:
    before = {"a": TWO[1], "b": TWO[0], "c": TWO[1]}
    assert place(before, a=10_000, b=1000, c=6000) == {"a": [1], "b": [0], "c": [1]}
    assert place(before, a=12_000, b=1000, c=6000) == {"a": [1], "b": [0], "c": [0]}


def test_who_fits_on_no_domain_has_as_few_as_have_room_or_all() -> None:
    assert place(a=12_000, b=11_000, c=6000) == {"a": [0], "b": [1], "c": [0, 1]}
    assert place(a=20_000, b=1000)["a"] == [0, 1]
    assert place(a=40_000, b=1000)["a"] == [0, 1]
    domains = [*TWO, CpuSet(range(32, 48))]
    demands = [TimeDemand("large", 20_000), TimeDemand("small", 3000)]
    placed = place_on_domains(domains, NOTHING, demands, {})
    assert len(placed["large"]) == 32


def test_three_rounded_thirds_of_a_node_fit() -> None:
    assert place(a=5334, b=5334, c=5334, d=16_000) == {"a": [1], "b": [1], "c": [1], "d": [0]}


def test_cpus_that_pods_own_are_in_no_domain() -> None:
    demands = [TimeDemand("a", 9000), TimeDemand("b", 9000)]
    placed = place_on_domains(TWO, CpuSet(range(8)), demands, {})
    assert placed["a"] == TWO[1]
    assert placed["b"] == CpuSet(range(8, 32))


def test_partners_share_a_domain_and_a_fraction_is_near_its_own_cpus() -> None:
    demands = [
        TimeDemand("a", 4000, partner="d"),
        TimeDemand("b", 14_000),
        TimeDemand("c", 500, near=CpuSet([20])),
        TimeDemand("d", 3000, partner="a"),
    ]
    placed = place_on_domains(TWO, NOTHING, demands, {})
    assert placed["a"] == placed["d"] == placed["c"] == TWO[1]
    moved = place_on_domains(TWO, NOTHING, demands, {"d": TWO[1], "b": TWO[1]})
    assert moved["b"] == TWO[1]
    assert moved["a"] == moved["d"] == TWO[0]


def test_two_demands_of_one_pod_are_refused() -> None:
    with pytest.raises(ValueError, match="a: two demands"):
        place_on_domains(TWO, NOTHING, [TimeDemand("a", 1), TimeDemand("a", 2)], {})


class Node(NamedTuple):
    topology: Topology
    owned: CpuSet
    demands: list[TimeDemand]
    previous: dict[str, CpuSet]

    def place(self) -> dict[str, CpuSet]:
        return place_on_domains(domains_of(self.topology), *self[1:])


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    topology = draw(machines())
    cpus = st.sets(st.sampled_from(list(topology.cpuset))).map(CpuSet)
    owned = draw(cpus) - CpuSet([topology.cpus[0].id])
    amounts = draw(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 30_000)))
    demands = [
        TimeDemand(pod, milli, draw(cpus), draw(st.sampled_from(["", "a", "b"])))
        for pod, milli in amounts.items()
    ]
    return Node(topology, owned, demands, draw(st.dictionaries(st.sampled_from("abx"), cpus)))


@given(nodes())
def test_every_pod_has_cpus_and_one_domain_if_one_has_room(node: Node) -> None:
    placed, domains = node.place(), domains_of(node.topology)
    room = {domain: 1005 * len(domain - node.owned) for domain in domains}
    several = []
    for demand in node.demands:
        cpus = placed[demand.pod]
        assert cpus
        assert not cpus & node.owned
        mine = [domain for domain in domains if cpus & domain]
        assert cpus == CpuSet(cpu for domain in mine for cpu in domain) - node.owned
        if len(mine) == 1 and demand.milli <= room[mine[0]]:
            room[mine[0]] -= demand.milli
        elif len(mine) > 1:
            several.append(demand.milli)
    assert max(room.values()) < min(several, default=10**6)


@given(nodes())
def test_the_result_stays_and_does_not_depend_on_the_order(node: Node) -> None:
    placed = node.place()
    assert node._replace(previous=placed).place() == placed
    assert node._replace(demands=node.demands[::-1]).place() == placed
