"""Quotas are lifted, with values that the kernel takes."""

from typing import Literal

import pytest

from model_kernel import ModelKernel
from walras_agent.cpuset import CpuSet
from walras_agent.observe import Container, Group, ObservedPod
from walras_agent.quota import quota_writes
from walras_agent.tree import CgroupFile

GROUP, MAIN = "/kubepods/pod1", "/kubepods/pod1/c"
POD = ObservedPod("1", GROUP, (Container(Group(MAIN, CpuSet([0]))),))

VERSIONS = pytest.mark.parametrize("version", [1, 2])


def node(version: Literal[1, 2], **quotas: str) -> ModelKernel:
    """A pod whose group and container have quotas, in the texts of their files."""
    kernel = ModelKernel(version)
    kernel.make(MAIN, tasks=1)
    file = {1: "cpu.cfs_quota_us", 2: "cpu.max"}[version]
    for group, text in quotas.items():
        of = {"pod": GROUP, "container": MAIN}[group]
        kernel.set_by_others(CgroupFile("cpu", of, file), text)
    return kernel


def lifted(kernel: ModelKernel) -> list[str]:
    """Make the writes that lift a pod's quotas, and return them."""
    made = quota_writes(kernel, POD)
    for setting, value in made:
        kernel.write(setting, value)
    assert quota_writes(kernel, POD) == ()
    return [f"{setting}={value}" for setting, value in made]


def test_quotas_are_lifted_and_periods_stay() -> None:
    """Throttling goes on with a quota set on pinned pods (koordinator 489, kubernetes 70585)."""
    assert lifted(node(1, pod="200000", container="100000")) == [
        f"{GROUP}/cpu.cfs_quota_us=-1",
        f"{MAIN}/cpu.cfs_quota_us=-1",
    ]
    assert lifted(node(2, pod="200000 100000", container="max 50000")) == [
        f"{GROUP}/cpu.max=max 100000"
    ]


@VERSIONS
def test_a_pod_without_quotas_or_that_was_deleted_needs_no_write(version: Literal[1, 2]) -> None:
    assert lifted(node(version)) == []
    assert lifted(ModelKernel(version)) == []
