"""A core whose owner sleeps is used by another pod and then given back, by the real kernel."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from real_jobs import BURNER, Programs, needs_cpuset, needs_root, needs_two_cpus
from waiting import eventually
from walras_agent.cpuset import CpuSet
from walras_agent.local.cgroups import kernel_groups
from walras_agent.local.placement import JobPlacer, run_id
from walras_agent.local.runs import Run
from walras_agent.node_plan import EnforcedGrant, NodePlan
from walras_agent.observe import read_group
from walras_agent.quota import WEIGHT_FILES
from walras_agent.topology import Cpu, Topology
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_agent.local.placement import PlacedJob

pytestmark = [pytest.mark.system, needs_root, needs_cpuset, needs_two_cpus]

TWO = CpuSet(sorted(os.sched_getaffinity(0))[:2])


class Node:
    """Two jobs with a CPU each: one sleeps, the other has two programs that spin."""

    def __init__(self, *, isolated: bool) -> None:
        run, self.groups = Run(run_id()), next(iter(kernel_groups()))
        self.placer, self.programs = JobPlacer(run, self.groups), Programs()
        self.owner, self.guest = self.placer.open("owner"), self.placer.open("guest")
        topology = Topology(tuple(Cpu(id=cpu, core=cpu, socket=0, numa=0, l3=0) for cpu in TWO))
        self.agent = self.placer.reconciler(lambda: topology)
        grants = (
            EnforcedGrant("owner", "owner", 1000, isolated=isolated),
            EnforcedGrant("guest", "guest", 1000),
        )
        self.agent.offer(NodePlan(1, "enforce", grants, "thread"))
        assert self.agent.step(time.monotonic()).is_enforced
        self.programs.start(self.owner, "import time; time.sleep(600)")
        for _ in range(2):
            self.programs.start(self.guest, BURNER)

    def cpus(self, job: PlacedJob) -> CpuSet:
        self.agent.step(time.monotonic())
        held = read_group(self.groups, job.container)
        assert held is not None
        return held.cpus

    def weight(self, job: PlacedJob) -> int:
        return int(self.groups.read(CgroupFile("cpu", job.pod, WEIGHT_FILES[self.groups.version])))

    def close(self) -> None:
        self.programs.close()
        self.placer.close()


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    node = Node(isolated=getattr(request, "param", False))
    yield node
    node.close()


def test_a_guest_comes_when_the_owner_sleeps_and_goes_when_it_wakes(node: Node) -> None:
    (own,) = node.cpus(node.owner)
    before = node.weight(node.guest)
    assert eventually(lambda: node.cpus(node.guest) == TWO, seconds=120.0, pause=0.2)
    assert node.cpus(node.owner) == CpuSet([own])
    assert node.weight(node.owner) > 200 * node.weight(node.guest)
    # The owner computes beside its guest, though the guest's programs were there before it.
    node.programs.start(node.owner, BURNER)
    assert eventually(
        lambda: node.cpus(node.guest) == TWO - CpuSet([own]), seconds=120.0, pause=0.2
    )
    assert node.weight(node.guest) == before


@pytest.mark.parametrize("node", [True], indirect=True)
def test_an_isolated_owner_has_no_guest(node: Node) -> None:
    for _ in range(40):
        assert len(node.cpus(node.guest)) == 1
        time.sleep(0.2)
