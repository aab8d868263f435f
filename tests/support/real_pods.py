"""Pods of a real kernel: cgroups as a kubelet with ``--cgroup-root`` makes them, with programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pod_groups import pod_group
from walras_agent.cpuset import CpuSet
from walras_agent.kubepods import Layout
from walras_agent.local.cgroups import KernelGroups
from walras_agent.tree import CgroupFile, CgroupTree, TreeError

MOUNT = Path("/sys/fs/cgroup")


def find_tree() -> CgroupTree | None:
    try:
        return CgroupTree.at(MOUNT) if os.geteuid() == 0 else None
    except TreeError:
        return None


TREE = find_tree()

needs_pods = [
    pytest.mark.system,
    pytest.mark.skipif(TREE is None, reason="needs root and cgroups with cpuset, cpu and memory"),
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs: one to own, one to share"
    ),
]
"""Marks of tests on such pods."""


class RealPods:
    """Pods with real processes below a cgroup of their own."""

    def __init__(self, tree: CgroupTree) -> None:
        self.tree = tree
        self.layout = Layout("cgroupfs", f"/walras-test-{os.getpid()}")
        self.processes: list[subprocess.Popen[bytes]] = []
        self.make(self.layout.root)
        for group in (self.layout.pods, f"{self.layout.pods}/burstable"):
            self.make(group)

    def mounts(self) -> set[str]:
        return set(self.tree.mounts.values())

    def make(self, group: str) -> None:
        """Make a group as the kubelet and runc do."""
        for mount in self.mounts():
            folder = Path(mount + group)
            folder.mkdir()
            if self.tree.version == 2:
                control = folder.parent / "cgroup.subtree_control"
                control.write_text("+cpuset +cpu +memory")
            elif (folder / "cpuset.cpus").exists():
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (folder / file).write_text((folder.parent / file).read_text())

    def start(self, pod: str, *argv: str, quota: str | None = None, number: int = 0) -> int:
        """Start a container of a pod, which begins with number 0, and return its program's PID."""
        if number == 0:
            self.make(pod_group(self.layout, pod))
        self.make(self.container(pod, number))
        if quota:
            self.tree.write(self.quota(pod), quota)
        process = subprocess.Popen(argv or ("sleep", "600"))
        self.processes.append(process)
        for mount in self.mounts():
            procs = Path(f"{mount}{self.container(pod, number)}/cgroup.procs")
            procs.write_text(str(process.pid))
        return process.pid

    def container(self, pod: str, number: int = 0) -> str:
        return f"{pod_group(self.layout, pod)}/{(pod.encode().hex() * 16)[:63]}{number}"

    def quota(self, pod: str) -> CgroupFile:
        file = "cpu.max" if self.tree.version == 2 else "cpu.cfs_quota_us"
        return CgroupFile("cpu", self.container(pod), file)

    def kill(self, group: str) -> None:
        """Kill all that runs in a group, and remove it."""
        groups = KernelGroups(self.tree.version, self.tree.mounts)
        groups.kill(group)
        for process in self.processes:
            process.poll()
        groups.remove(group)

    def close(self) -> None:
        """End all processes, and remove all groups."""
        self.kill(self.layout.root)
        for process in self.processes:
            process.wait()


def allowed(pid: int) -> CpuSet:
    """Return the CPUs that a process may use by ``/proc/PID/status`` (proc(5))."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    listed = next(line for line in lines if line.startswith("Cpus_allowed_list:"))
    return CpuSet.parse(listed.partition(":")[2])
