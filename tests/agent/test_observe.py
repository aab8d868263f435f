"""Pods are seen as their cgroups show them: on a tree of plain files, so for any layout."""

import shutil
from pathlib import Path

import pytest

from walras_agent.cpuset import CpuSet
from walras_agent.kubepods import Layout
from walras_agent.observe import Container, Group, ObservedPod, PodObserver, read_group
from walras_agent.tree import CgroupTree

ONE, TWO, PAUSE = "1" * 64, "2" * 64, "f" * 64
POD = "/kubepods/burstable/pod7"


class Node:
    """A node's files: cgroups of version 2 or 1, and /proc."""

    def __init__(self, folder: Path, version: int) -> None:
        self.cgroup, self.proc = folder / "cgroup", folder / "proc"
        self.proc.mkdir()
        self.cpusets = self.cgroup if version == 2 else self.cgroup / "cpuset"
        self.effective = "cpuset.cpus.effective" if version == 2 else "cpuset.effective_cpus"
        self.cpusets.mkdir(parents=True)
        if version == 2:
            (self.cgroup / "cgroup.controllers").write_text("cpuset cpu memory\n")
        else:
            for controller in ("cpu", "memory"):
                (self.cgroup / controller).mkdir()

    def add(self, group: str, cpus: str, **processes: str) -> Path:
        """Make a group with processes, given as ``p<pid>="name"``."""
        folder = self.cpusets / group.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.effective).write_text(cpus + "\n")
        pids = [pid.lstrip("p") for pid in processes]
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        for pid, name in zip(pids, processes.values(), strict=True):
            (self.proc / pid).mkdir(exist_ok=True)
            (self.proc / pid / "comm").write_text(name + "\n")
        return folder

    def observer(self) -> PodObserver:
        return PodObserver(CgroupTree.at(self.cgroup), Layout("cgroupfs"))


def container(name: str, cpus: str, *inside: Group) -> Container:
    return Container(Group(f"{POD}/{name}", CpuSet.parse(cpus)), inside)


@pytest.mark.parametrize("version", [1, 2])
def test_pods_have_what_an_administrator_left_to_them(tmp_path: Path, version: int) -> None:
    node = Node(tmp_path, version)
    node.add("/kubepods", "2-7")
    group = read_group(node.observer().cgroups, Layout("cgroupfs").pods)
    assert group == Group("/kubepods", CpuSet(range(2, 8)))


def test_containers_are_seen_with_the_cpus_in_effect(tmp_path: Path) -> None:
    node = Node(tmp_path, 2)
    node.add(POD, "0-7")
    node.add(f"{POD}/{ONE}", "0-3", p10="java")
    node.add(f"{POD}/{TWO}", "4", p11="envoy")
    assert node.observer().observe() == (
        ObservedPod("7", POD, (container(ONE, "0-3"), container(TWO, "4"))),
    )


def test_groups_inside_a_container_count_where_they_have_cpusets_of_their_own(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path, 1)
    node.add(POD, "0-7")
    node.add(f"{POD}/{ONE}", "0-3", p10="systemd")
    node.add(f"{POD}/{ONE}/a", "0-1", p11="x")
    node.add(f"{POD}/{ONE}/a/b", "0", p12="y")
    inside = (
        Group(f"{POD}/{ONE}/a", CpuSet([0, 1])),
        Group(f"{POD}/{ONE}/a/b", CpuSet([0])),
    )
    assert node.observer().observe() == (ObservedPod("7", POD, (container(ONE, "0-3", *inside),)),)


def test_groups_that_go_meanwhile_are_left_out(tmp_path: Path) -> None:
    node = Node(tmp_path, 2)
    folder = node.add(f"{POD}/{ONE}", "0-3", p10="java")
    node.add(f"{POD}/{TWO}", "4", p11="envoy")
    observer = node.observer()
    (folder / node.effective).unlink()  # as the kernel answers for a group on its way out
    assert observer.observe()[0].containers == (container(TWO, "4"),)
    shutil.rmtree(node.cpusets / "kubepods")
    assert observer.observe() == ()
