"""Domains of a machine are its NUMA nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machines import machine
from walras.analysis.domain_of_pod import MOST_SHARED
from walras_agent.cpuset import CpuSet
from walras_agent.domains import domains_of, nearest_domain, only_domain
from walras_agent.topology import Topology

TWO = (CpuSet(range(16)), CpuSet(range(16, 32)))


@pytest.mark.parametrize(
    ("topology", "sizes"),
    [
        (machine(cores=2), [2]),
        (machine(nodes=2, cores=4, threads=2), [16]),
        (machine(nodes=2, cores=16), [16, 16]),
        (machine(nodes=2, caches=2, cores=4, threads=2), [16, 16]),
        (machine(caches=8, cores=8, threads=2), [128]),
        (machine(nodes=8, cores=3), [3] * 8),
    ],
    ids=[
        "a small node is one",
        "so is one of two sockets",
        "each NUMA node is one",
        "caches do not matter",
        "however many there are",
        "NUMA nodes are not joined on a larger one",
    ],
)
def test_domains_are_numa_nodes(topology: Topology, sizes: list[int]) -> None:
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
def test_every_cpu_is_in_one_domain(topology: Topology) -> None:
    domains = domains_of(topology)
    assert all(domains)
    assert sorted(cpu for domain in domains for cpu in domain) == sorted(topology.cpuset)
    nodes = {cpu.id: cpu.numa for cpu in topology.cpus}
    if len(topology.cpus) > MOST_SHARED:
        assert all(len({nodes[cpu] for cpu in domain}) == 1 for domain in domains)


def test_a_pod_was_on_one_domain_or_several_and_is_near_that_of_most_of_its_cpus() -> None:
    assert only_domain(TWO, CpuSet([1, 2])) == 0
    assert only_domain(TWO, CpuSet([1, 17])) is None
    assert only_domain(TWO, CpuSet()) is None
    assert nearest_domain(TWO, CpuSet([1, 17, 18])) == 1
    assert nearest_domain(TWO, CpuSet()) is None
