"""Memory traffic is counted in a monitoring group of resctrl, which is removed again.

Neither the test machine nor an emulated one has a processor with such counters. A folder stands
for the file system here: making a group in it also makes the files that the kernel would (of two
L3 domains), removing one takes them along, and the counters say what a test writes there. So these
tests show which files are read and written, and what follows from their contents; that the numbers
are those of the memory bus is the kernel's part.
"""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from model_kernel import ModelKernel
from walras_agent.profiling import resctrl
from walras_agent.profiling.resctrl import MemoryTraffic
from walras_agent.tree import CgroupTree

if TYPE_CHECKING:
    from pathlib import Path

POD = "/kubepods/podaa"


class Resctrl:
    """The folder, and what its kernel answers."""

    def __init__(self, root: Path) -> None:
        self.root, self.refuses = root, 0
        (root / "mon_groups").mkdir(parents=True)

    def make(self, folder: Path) -> None:
        if self.refuses:
            raise OSError(self.refuses, os.strerror(self.refuses))
        folder.mkdir()
        (folder / "tasks").touch()
        for domain, count in (("00", "1000"), ("01", "500")):
            domains = folder / f"mon_data/mon_L3_{domain}"
            domains.mkdir(parents=True)
            (domains / "mbm_total_bytes").write_text(f"{count}\n")

    def count(self, domain: str, text: str) -> None:
        files = self.root.glob(f"mon_groups/*/mon_data/mon_L3_{domain}/mbm_total_bytes")
        next(files).write_text(text)

    @property
    def groups(self) -> list[str]:
        return sorted(group.name for group in (self.root / "mon_groups").iterdir())


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resctrl:
    made = Resctrl(tmp_path / "resctrl")
    monkeypatch.setattr(resctrl, "_make", made.make)
    monkeypatch.setattr(resctrl, "_remove", shutil.rmtree)
    return made


@pytest.fixture
def cgroups(tmp_path: Path) -> CgroupTree:
    """A pod of two containers with tasks, as files."""
    for group, tasks in ((POD, ""), (f"{POD}/one", "11\n12\n"), (f"{POD}/two", "21\n0\n")):
        folder = tmp_path / f"cgroup{group}"
        folder.mkdir(parents=True)
        (folder / "tasks").write_text(tasks)
    return CgroupTree(1, {"cpuset": str(tmp_path / "cgroup")})


def test_bytes_of_all_domains_are_added(host: Resctrl, cgroups: CgroupTree) -> None:
    traffic = MemoryTraffic.open(cgroups, POD, host.root)
    assert traffic is not None
    assert traffic.read() == 1500
    host.count("01", "2500")
    assert traffic.read() == 3500


def test_all_tasks_that_are_seen_are_counted(host: Resctrl, cgroups: CgroupTree) -> None:
    traffic = MemoryTraffic.open(cgroups, POD, host.root)
    assert traffic is not None
    assert (traffic.folder / "tasks").read_text().split() == ["11", "12", "21"]


def test_group_is_removed_afterwards(host: Resctrl, cgroups: CgroupTree) -> None:
    traffic = MemoryTraffic.open(cgroups, POD, host.root)
    assert traffic is not None
    assert host.groups == ["walras-profiling"]
    traffic.close()
    assert host.groups == []
    traffic.close()
    assert traffic.read() is None


def test_group_of_a_killed_agent_is_removed_and_others_are_not(
    host: Resctrl, cgroups: CgroupTree
) -> None:
    host.make(host.root / "mon_groups/somebody-else's")
    MemoryTraffic.open(cgroups, POD, host.root)
    again = MemoryTraffic.open(cgroups, POD, host.root)
    assert again is not None
    assert (again.folder / "tasks").read_text().split() == ["11", "12", "21"]
    resctrl.remove_stale(host.root)
    assert host.groups == ["somebody-else's"]


@pytest.mark.parametrize("text", ["Unavailable", "Error", "Unassigned"])
def test_count_that_is_lost_is_none(host: Resctrl, cgroups: CgroupTree, text: str) -> None:
    traffic = MemoryTraffic.open(cgroups, POD, host.root)
    assert traffic is not None
    host.count("00", text)
    assert traffic.read() is None
    host.count("00", "7")
    assert traffic.read() == 507


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPERM])
def test_without_a_free_counter_nothing_is_counted(
    host: Resctrl, cgroups: CgroupTree, number: int
) -> None:
    host.refuses = number
    assert MemoryTraffic.open(cgroups, POD, host.root) is None
    assert host.groups == []


def test_machine_without_resctrl_counts_nothing(tmp_path: Path) -> None:
    assert MemoryTraffic.open(ModelKernel(2), POD, tmp_path / "none") is None


def test_processor_that_counts_no_bytes(
    host: Resctrl, cgroups: CgroupTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some monitor only the occupancy of the cache: then there is no ``mbm_total_bytes``."""

    def make(folder: Path) -> None:
        host.make(folder)
        shutil.rmtree(folder / "mon_data")

    monkeypatch.setattr(resctrl, "_make", make)
    assert MemoryTraffic.open(cgroups, POD, host.root) is None
    assert host.groups == []
