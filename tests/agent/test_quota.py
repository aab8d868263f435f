"""Quotas are lifted and weights set, with values that the kernel takes."""

from typing import Literal

import pytest

from model_kernel import ModelKernel
from walras_agent.cpuset import CpuSet
from walras_agent.observe import Container, Group, ObservedPod
from walras_agent.pod_cpus import PodCpus
from walras_agent.quota import bandwidth_writes, class_writes
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


def written(kernel: ModelKernel, millis: int) -> list[str]:
    """Make the writes that a pod with a weight needs, and return them."""
    made = bandwidth_writes(kernel, POD, PodCpus(CpuSet(), CpuSet([0]), millis))
    for setting, value in made:
        kernel.write(setting, value)
    assert bandwidth_writes(kernel, POD, PodCpus(CpuSet(), CpuSet([0]), millis)) == ()
    return [f"{setting}={value}" for setting, value in made]


def test_quotas_are_lifted_and_periods_stay() -> None:
    """Throttling goes on with a quota set on pinned pods (koordinator 489, kubernetes 70585)."""
    assert written(node(1, pod="200000", container="100000"), 1000) == [
        f"{GROUP}/cpu.cfs_quota_us=-1",
        f"{MAIN}/cpu.cfs_quota_us=-1",
    ]
    assert written(node(2, pod="200000 100000", container="max 50000"), 1000) == [
        f"{GROUP}/cpu.max=max 100000",
        f"{GROUP}/cpu.weight=39",
    ]


@pytest.mark.parametrize(
    ("millis", "shares", "weight"),
    [(1, 2, 1), (200, 204, 8), (10**6, 262_144, 10_000)],
)
def test_weights_are_those_of_pods_that_request_as_much(
    millis: int, shares: int, weight: int
) -> None:
    assert written(node(1), millis) == [f"{GROUP}/cpu.shares={shares}"]
    assert written(node(2), millis) == [f"{GROUP}/cpu.weight={weight}"]


@VERSIONS
def test_a_pod_that_was_deleted_needs_no_write(version: Literal[1, 2]) -> None:
    assert written(ModelKernel(version), 1000) == []


@pytest.mark.parametrize(
    ("version", "file", "most"), [(1, "cpu.shares", 262_144), (2, "cpu.weight", 10_000)]
)
def test_weight_of_a_class_is_what_the_kernel_takes(
    version: Literal[1, 2], file: str, most: int
) -> None:
    kernel = ModelKernel(version)
    pods = [f"/kubepods/burstable/pod{number}" for number in range(3)]
    for pod in pods:
        kernel.make(pod)
        kernel.set_by_others(CgroupFile("cpu", pod, file), str(most // 2))
    setting = CgroupFile("cpu", "/kubepods/burstable", file)

    def written(*busy: float) -> str | None:
        made = class_writes(kernel, setting.group, dict(zip(pods, busy, strict=False)))
        assert [each for each, _ in made] in ([], [setting])
        return made[0][1] if made else None

    assert written(1, 1, 1) == str(most)
    assert written(1) == str(most // 2)
    assert written(0.5, 0.25) == str(round(0.375 * most))
    assert written(0, 0) == str(most)
    kernel.set_by_others(setting, str(round(0.37 * most)))
    assert written(0.5, 0.25) is None, "it is nearly right"
    assert class_writes(kernel, "/gone", dict.fromkeys(pods, 1.0)) == ()
