"""Whatever others write and whatever fails, at any moment of the agent: nothing is lost.

In small worlds, one thing happens at every moment there is (`WALRAS_HISTORIES` of all, by default
a sample); in larger ones, several things happen at random moments.
"""

from __future__ import annotations

import errno
import logging
import os
from random import Random
from typing import TYPE_CHECKING, Literal

import pytest

from examples import ALL
from interleaving import Death, Foreign, InterleavedKernel, ReadError
from model_kernel import MIB, Memory, Stopped
from model_node import Node
from walras_agent.journal import JournalError
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from interleaving import Happening

Version = Literal[1, 2]
CPUS = 8
PODS = "abcd"  # c and d have no grant
PLANS: tuple[dict[str, int], ...] = ({"a": 2000, "b": 1500}, {"a": 1000, "b": 3000}, {})
LIMIT = 400 * MIB


class History:
    """A node from the first plan to the last, on which things happen at given moments."""

    def __init__(self, folder: Path, version: Version, happenings: Mapping[int, Happening]) -> None:
        self.kernel = InterleavedKernel(version, cpus=CPUS, happenings={})
        self.node = Node(self.kernel, folder)
        for pod in PODS:
            memory = Memory(anonymous=50 * MIB, reclaimable=20 * MIB)
            self.node.start_pod(pod, memory=memory)
        for setting, value in originals(self.node):
            self.kernel.want(setting, value)
        self.node.use(a=2.0, b=1.0, c=1.0, d=1.0)  # nobody sleeps, so nobody lends
        self.kernel.ungranted = {self.node.container("d")}
        self.kernel.moments, self.kernel.happenings = 0, happenings

    def run(self) -> list[str]:
        """Enforce all plans, and return what is wrong in the end."""
        for plan in PLANS:
            for _ in range(3):
                self._step(plan)
        self.kernel.happenings = {}
        for _ in range(8):
            self._step({})
        left = [f"{each} is still in the journal" for each in self.node.journal.originals]
        return [*self.kernel.lost(), *self.kernel.double, *self.kernel.oom_kills, *left]

    def _step(self, plan: Mapping[str, int]) -> None:
        self.kernel.pods = {self.node.container(pod): pod for pod in plan}
        try:
            self.node.plan("enforce", 500 * MIB if plan else None, **plan)
            self.node.step(100.0)
        except Stopped:
            self.node.start_agent()
        except JournalError:
            pass


def originals(node: Node) -> Iterator[Foreign]:
    """Yield the values of the kubelet and of a container runtime."""
    v1 = node.kernel.version == 1
    for pod in PODS:
        for group in (node.pod(pod), node.container(pod)):
            yield Foreign(CgroupFile("cpuset", group, "cpuset.cpus"), "0-7" if v1 else "")
            for setting, value in limits(node, group, 200_000, 512, LIMIT):
                yield Foreign(setting, value)


def limits(node: Node, group: str, quota: int, shares: int, memory: int) -> list[Foreign]:
    """Return writes of others of a group's quota, weight and memory limit."""
    if node.kernel.version == 1:
        texts = {"cpu.cfs_quota_us": quota, "cpu.shares": shares, "memory.limit_in_bytes": memory}
    else:
        texts = {"cpu.max": quota, "cpu.weight": shares // 10, "memory.max": memory}
    return [
        Foreign(
            CgroupFile("memory" if "memory" in file else "cpu", group, file),
            f"{value} 100000" if file == "cpu.max" else str(value),
        )
        for file, value in texts.items()
    ]


def writes_of_others(node: Node) -> list[Foreign]:
    """Return what others may write: resizes in place, and CPUs that an administrator chose."""
    found = []
    for group in (node.pod("a"), node.container("a"), node.container("b")):
        found += limits(node, group, 150_000, 700, 300 * MIB)
    found.append(Foreign(CgroupFile("cpuset", node.container("a"), "cpuset.cpus"), "1-2"))
    found.append(Foreign(CgroupFile("cpuset", node.container("c"), "cpuset.cpus"), "3-6"))
    return found


def errors_of_reads(node: Node) -> list[ReadError]:
    group = node.container("a")
    file = {1: "cpuset.effective_cpus", 2: "cpuset.cpus.effective"}[node.kernel.version]
    return [
        ReadError(setting, number, times)
        for setting in (
            CgroupFile("cpuset", group, "cpuset.cpus"),
            CgroupFile("cpuset", group, file),
            limits(node, group, 1, 1, 1)[0].setting,
            limits(node, group, 1, 1, 1)[2].setting,
        )
        for number, times in ((errno.EIO, 1), (errno.EACCES, 5))
    ]


@pytest.fixture(autouse=True)
def moments_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[InterleavedKernel]]:
    """Let things happen before every fsync, too."""
    kernels: list[InterleavedKernel] = []

    def fsync(_: int) -> None:
        for each in kernels:
            each.moment()

    monkeypatch.setattr(os, "fsync", fsync)
    logging.disable(logging.CRITICAL)
    yield kernels
    logging.disable(logging.NOTSET)


def judged(
    folder: Path,
    version: Version,
    happenings: Mapping[int, Happening],
    kernels: list[InterleavedKernel],
) -> tuple[list[str], int]:
    """Return what is wrong after a history, and how many moments it had."""
    (folder / "journal").unlink(missing_ok=True)
    history = History(folder, version, happenings)
    kernels[:] = [history.kernel]
    return history.run(), history.kernel.moments


@pytest.mark.parametrize("version", [1, 2])
def test_nothing_is_lost_if_one_thing_happens_at_any_moment(
    version: Version, tmp_path: Path, moments_of_the_disk: list[InterleavedKernel]
) -> None:
    wrong, moments = judged(tmp_path, version, {}, moments_of_the_disk)
    assert wrong == []
    node = History(tmp_path, version, {}).node
    choices: list[Happening] = [*writes_of_others(node), *errors_of_reads(node), Death()]
    worlds = [(moment, each) for each in choices for moment in range(moments)]
    some = worlds if ALL else Random(version).sample(worlds, 40)
    found = {}
    for moment, each in some:
        wrong, _ = judged(tmp_path, version, {moment: each}, moments_of_the_disk)
        if wrong:
            found[moment, each] = wrong
    assert found == {}
