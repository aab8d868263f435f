"""The memory files of a cgroup are read in the formats of all kernels in use."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import pytest

from walras_agent.memory.pressure import memory_shortage
from walras_agent.memory.stats import (
    UNLIMITED,
    MemoryLimits,
    MemorySample,
    MemoryStall,
    limit_text,
    read_sample,
)
from walras_agent.tree import CgroupError

if TYPE_CHECKING:
    from walras_agent.tree import CgroupFile

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
NO_LIMIT = str((1 << 63) // PAGE * PAGE - PAGE)

V2 = {
    "memory.max": "1073741824",
    "memory.high": "max",
    "memory.current": "300000000",
    "memory.stat": (
        "anon 100000000\nfile 150000000\nshmem 20000000\ninactive_file 90000000\n"
        "active_file 40000000\nworkingset_refault_anon 3\nworkingset_refault_file 7"
    ),
    "memory.events": "low 0\nhigh 12\nmax 5\noom 0\noom_kill 1\noom_group_kill 0",
    "memory.pressure": (
        "some avg10=1.53 avg60=0.35 avg300=0.07 total=324891\n"
        "full avg10=0.20 avg60=0.17 avg300=0.03 total=163489"
    ),
}
V1 = {
    "memory.limit_in_bytes": "1073741824",
    "memory.soft_limit_in_bytes": NO_LIMIT,
    "memory.memsw.limit_in_bytes": "2147483648",
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1",
    "memory.usage_in_bytes": "300000000",
    "memory.failcnt": "5",
    "memory.stat": (
        "cache 1\ninactive_file 1\nactive_file 1\nworkingset_refault_file 1\n"
        "total_inactive_file 90000000\ntotal_active_file 40000000\ntotal_pgmajfault 4\n"
        "total_workingset_refault_anon 3\ntotal_workingset_refault_file 7"
    ),
}


@dataclass(frozen=True)
class Files:
    """Cgroups that have some files of one group only."""

    version: Literal[1, 2]
    texts: dict[str, str]

    def read(self, setting: CgroupFile) -> str:
        if setting.file not in self.texts:
            raise CgroupError(setting, errno.ENOENT)
        return self.texts[setting.file]

    def write(self, setting: CgroupFile, value: str) -> None:
        raise CgroupError(setting, errno.EACCES, value)

    def identity(self, group: str) -> int | None:
        return hash(group)

    def children(self, group: str) -> tuple[str, ...]:
        return (group,)[:0]


def without(texts: dict[str, str], *names: str) -> dict[str, str]:
    return {name: text for name, text in texts.items() if name not in names}


def test_v2_is_read() -> None:
    assert read_sample(Files(2, V2), "/pod") == MemorySample(
        MemoryLimits(1 << 30),
        usage=300_000_000,
        inactive_file=90_000_000,
        active_file=40_000_000,
        stall=MemoryStall(1.53, 0.20, 0.324891, 0.163489),
        refaulted=10 * PAGE,
        refused=5,
        slowed=12,
    )


def test_v1_is_read_with_all_groups_below() -> None:
    assert read_sample(Files(1, V1), "/pod") == MemorySample(
        MemoryLimits(1 << 30, swap=2 << 30),
        usage=300_000_000,
        inactive_file=90_000_000,
        active_file=40_000_000,
        refaulted=10 * PAGE,
        refused=5,
    )


def test_need_is_what_is_not_idle_cache() -> None:
    sample = read_sample(Files(2, V2), "/pod")
    assert sample.working_set == 210_000_000
    assert sample.pinned == 170_000_000
    # The counters are not read at one instant.
    assert MemorySample(MemoryLimits(), usage=5, inactive_file=7).working_set == 0
    assert MemorySample(MemoryLimits(), usage=5, inactive_file=4, active_file=4).pinned == 0


def test_no_limit_reads_the_same_in_both_versions() -> None:
    v1 = V1 | {"memory.limit_in_bytes": NO_LIMIT, "memory.memsw.limit_in_bytes": NO_LIMIT}
    v2 = V2 | {"memory.max": "max"}
    assert (
        read_sample(Files(1, v1), "/pod").limits
        == read_sample(Files(2, v2), "/pod").limits
        == MemoryLimits()
    )
    assert MemoryLimits().hard == UNLIMITED


def test_kernel_without_pressure_information_gives_none() -> None:
    assert read_sample(Files(2, without(V2, "memory.pressure")), "/pod").stall is None


def test_kernel_without_swap_accounting_has_no_limit_of_swap() -> None:
    sample = read_sample(Files(1, without(V1, "memory.memsw.limit_in_bytes")), "/pod")
    assert sample.limits == MemoryLimits(1 << 30)


def test_kills_turned_off_are_seen() -> None:
    off = {"memory.oom_control": "oom_kill_disable 1\nunder_oom 1"}
    assert not read_sample(Files(1, V1 | off), "/pod").limits.kills


@pytest.mark.parametrize(
    ("counted", "pages"),
    [("total_workingset_refault 6", 6), ("total_pgmajfault 4", 4)],
    ids=["refaults of all kinds", "only major faults"],
)
def test_older_kernels_count_refaults_as_they_can(counted: str, pages: int) -> None:
    stat = {"memory.stat": f"total_inactive_file 1\ntotal_active_file 1\n{counted}"}
    assert read_sample(Files(1, V1 | stat), "/pod").refaulted == pages * PAGE


@pytest.mark.parametrize(("version", "texts"), [(1, V1), (2, V2)])
def test_group_that_is_gone_is_told_from_a_file_that_some_kernels_lack(
    version: Literal[1, 2], texts: dict[str, str]
) -> None:
    for missing in texts.keys() - {"memory.pressure", "memory.memsw.limit_in_bytes"}:
        with pytest.raises(CgroupError) as raised:
            read_sample(Files(version, without(texts, missing)), "/pod")
        assert raised.value.kind == "gone"


def test_a_limit_may_be_none() -> None:
    assert [limit_text(each) for each in (1536 * MIB, UNLIMITED)] == ["1.5Gi", "no limit"]


CALM = MemorySample(
    MemoryLimits(512 * MIB), usage=200 * MIB, inactive_file=100 * MIB, stall=MemoryStall(20.0, 20.0)
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"stall": MemoryStall(90.0, 90.0, 0.2, 0.1)}, ""),
        ({"stall": MemoryStall(10.0, 5.0, 2.0, 2.0)}, ""),
        ({"stall": MemoryStall(90.0, 0.0, 0.25)}, "its tasks wait for memory 12% of the time"),
        ({"stall": MemoryStall(90.0, 90.0, 0.2, 0.2)}, "its tasks wait for memory 10% of the time"),
        ({"stall": None}, ""),
        ({"refaulted": 2 * MIB}, ""),
        ({"refaulted": 3 * MIB}, "it reads back 1.5Mi a second of reclaimed memory"),
        ({"refused": 1}, ""),
        ({"refused": 1, "inactive_file": 4 * MIB}, "it is at its limit of 512Mi"),
        ({"inactive_file": 4 * MIB}, ""),
    ],
)
def test_strain_is_told_by_pressure_refaults_and_limits(
    change: dict[str, MemoryStall | int | None], said: str
) -> None:
    sample = replace(CALM, **change)  # type: ignore[arg-type]
    assert memory_shortage(sample, CALM, 2.0) == said
