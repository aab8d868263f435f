"""Quotas are lifted or set to the grant, in an order and with values that the kernel takes."""

from typing import Literal

import pytest

from model_kernel import ModelKernel
from walras_agent.cpuset import CpuSet
from walras_agent.pod_cpus import PodCpus
from walras_agent.quota import CpuFiles, class_writes, quota_writes
from walras_agent.tree import CgroupFile

OWN, SHARED = CpuSet([0, 1]), CpuSet([2, 3])
WHOLE = PodCpus(OWN, CpuSet(), None, None)
MIXED = PodCpus(OWN, SHARED, 2500, 500)

POD, MAIN = "/kubepods/pod1", "/kubepods/pod1/c"


def v1(group: str, quota: str, burst: str = "0", shares: str = "2") -> CpuFiles:
    return CpuFiles(
        group,
        {
            "cpu.cfs_quota_us": quota,
            "cpu.cfs_period_us": "100000",
            "cpu.cfs_burst_us": burst,
            "cpu.shares": shares,
        },
    )


def v2(group: str, limit: str, burst: str = "0", weight: str = "1") -> CpuFiles:
    return CpuFiles(group, {"cpu.max": limit, "cpu.max.burst": burst, "cpu.weight": weight})


def written(version: int, pod: CpuFiles, container: CpuFiles, pod_cpus: PodCpus) -> list[str]:
    made = quota_writes(2 if version == 2 else 1, pod, [container], pod_cpus)
    return [f"{setting}={value}" for setting, value in made]


def test_quotas_of_pods_with_cores_of_their_own_are_lifted() -> None:
    """Throttling goes on with a quota set on pinned pods (koordinator 489, kubernetes 70585)."""
    assert written(1, v1(POD, "200000"), v1(MAIN, "200000"), WHOLE) == [
        f"{POD}/cpu.cfs_quota_us=-1",
        f"{MAIN}/cpu.cfs_quota_us=-1",
    ]
    assert written(2, v2(POD, "200000 100000"), v2(MAIN, "200000 50000"), WHOLE) == [
        f"{MAIN}/cpu.max=max 50000",
        f"{POD}/cpu.max=max 100000",
    ]


def test_fraction_of_a_grant_bounds_and_weighs_the_pod() -> None:
    """v1 bounds its containers: one with a higher limit than the pod's could not start."""
    assert written(1, v1(POD, "400000"), v1(MAIN, "100000"), MIXED) == [
        f"{POD}/cpu.cfs_quota_us=-1",
        f"{POD}/cpu.shares=512",
        f"{MAIN}/cpu.cfs_quota_us=250000",
    ]
    assert written(2, v2(POD, "max 50000"), v2(MAIN, "max 100000"), MIXED) == [
        f"{POD}/cpu.max=125000 50000",
        f"{POD}/cpu.weight=20",
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_nothing_is_written_where_all_is_as_it_should_be(version: int) -> None:
    if version == 1:
        assert written(1, v1(POD, "-1", shares="512"), v1(MAIN, "250000"), MIXED) == []
    else:
        pod = v2(POD, "250000 100000", weight="20")
        assert written(2, pod, v2(MAIN, "max 100000"), MIXED) == []


def test_burst_goes_before_a_quota_below_it_comes() -> None:
    """v2 rejects cpu.max below cpu.max.burst with EINVAL (koordinator 2778), v1 likewise."""
    assert written(2, v2(POD, "max 100000", burst="300000"), v2(MAIN, "max 100000"), MIXED)[:2] == [
        f"{POD}/cpu.max.burst=0",
        f"{POD}/cpu.max=250000 100000",
    ]
    assert written(1, v1(POD, "-1"), v1(MAIN, "300000", burst="300000"), MIXED)[1:] == [
        f"{MAIN}/cpu.cfs_burst_us=0",
        f"{MAIN}/cpu.cfs_quota_us=250000",
    ]


def test_kernel_that_knows_no_burst_is_not_asked_for_it() -> None:
    old = CpuFiles(POD, {"cpu.max": "max 100000", "cpu.weight": "1"})
    assert [file for (_, _, file), _ in quota_writes(2, old, [], MIXED)] == [
        "cpu.max",
        "cpu.weight",
    ]


@pytest.mark.parametrize(
    ("millis", "shares", "weight"),
    [(1, 2, 1), (100, 102, 4), (1000, 1024, 39), (10**6, 262_144, 10_000)],
)
def test_weights_are_those_of_pods_that_request_as_much(
    millis: int, shares: int, weight: int
) -> None:
    pod_cpus = PodCpus(CpuSet(), SHARED, millis, millis)
    assert written(1, v1(POD, "-1", shares="7"), v1(MAIN, "-1"), pod_cpus)[0].endswith(f"={shares}")
    made = written(2, v2(POD, "max 100000", weight="7"), v2(MAIN, "max 100000"), pod_cpus)
    assert made[-1].endswith(f"={weight}")


def test_quota_is_never_below_what_the_kernel_takes() -> None:
    tiny = PodCpus(CpuSet(), SHARED, 1, 1)
    assert written(2, v2(POD, "max 100000"), v2(MAIN, "max 100000"), tiny)[0].endswith(
        "=1000 100000"
    )
    assert written(1, v1(POD, "-1"), v1(MAIN, "-1"), tiny)[-1].endswith("=1000")


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
