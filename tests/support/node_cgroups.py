"""Facts: reads the cgroups of a node's containers without any code of Walras.

It knows cgroup v1 and v2, the drivers cgroupfs and systemd, and any runtime: a container's group is
below its pod's, and its name contains the container's ID.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")

_CONTAINER = re.compile(r"(?:^|-)([0-9a-f]{64})(?:\.scope)?$")

_FILES_V1 = {
    "cpuset": ("cpuset.cpus", "cpuset.mems"),
    "cpu": ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "memory": ("memory.limit_in_bytes", "memory.soft_limit_in_bytes"),
}
FILES_V2 = ("cpuset.cpus", "cpuset.mems", "cpu.weight", "cpu.max", "memory.high", "memory.max")


@dataclass(frozen=True, slots=True)
class NodeCgroups:
    """The cgroups of this machine.

    Attributes:
        version: Version of the node's cgroups, 1 or 2.
    """

    version: int

    @classmethod
    def here(cls) -> NodeCgroups:
        return cls(2 if (MOUNT / "cgroup.controllers").exists() else 1)

    def containers(self) -> dict[str, str]:
        """Return the group of every container of a pod, by the container's ID."""
        top, found = self._mount("cpuset"), {}
        for pods in top.glob("kubepods*"):
            for folder, groups, _ in os.walk(pods):  # which passes over what goes meanwhile
                for group in groups:
                    if name := container_of(group):
                        found[name] = str(Path(folder, group).relative_to(top))
        return found

    def cpus(self, group: str) -> frozenset[int] | None:
        """Return the CPUs that a group's processes may use; None if the group is gone."""
        file = "cpuset.cpus.effective" if self.version == 2 else "cpuset.cpus"
        text = self._read("cpuset", group, file)
        return None if text is None else parse_cpus(text)

    def busy(self, group: str) -> bool:
        """Return whether there are processes in a group."""
        return bool(self._read("cpuset", group, "cgroup.procs"))

    def processes(self, group: str) -> list[int]:
        """Return the PIDs of a group's processes."""
        return [int(each) for each in (self._read("cpuset", group, "cgroup.procs") or "").split()]

    def threads(self, group: str) -> list[int]:
        """Return the IDs of a group's threads."""
        file = "cgroup.threads" if self.version == 2 else "tasks"
        return [int(each) for each in (self._read("cpu", group, file) or "").split()]

    def cpu_seconds(self, group: str) -> float:
        """Return the CPU seconds of a group's processes so far; 0 if it is gone."""
        if self.version == 1:
            return int(self._read("cpuacct", group, "cpuacct.usage") or 0) / 1e9
        found = re.search(
            r"^usage_usec (\d+)$", self._read("", group, "cpu.stat") or "", re.MULTILINE
        )
        return int(found[1]) / 1e6 if found else 0.0

    def outside_seconds(self) -> dict[int, float]:
        """Return the seconds in which each CPU ran something that is in no pod, or was stolen.

        Cgroup v2 does not count time by CPU; then nothing is known.
        """
        if self.version == 2:
            return {}
        texts = (self._read("cpuacct", group, "cpuacct.usage_percpu") for group in ("", "kubepods"))
        everything, in_pods = ([int(each) / 1e9 for each in (text or "").split()] for text in texts)
        stolen = stolen_seconds()
        return {
            cpu: total - mine + stolen.get(cpu, 0.0)
            for cpu, (total, mine) in enumerate(zip(everything, in_pods, strict=False))
        }

    def oom_kills(self, group: str) -> int:
        """Return the number of processes of a group that the OOM killer has killed."""
        file = "memory.events" if self.version == 2 else "memory.oom_control"
        counters = self._read("memory", group, file) or ""
        found = re.search(r"^oom_kill (\d+)$", counters, re.MULTILINE)
        return int(found[1]) if found else 0

    def pod_memory(self, group: str, file: str) -> str | None:
        """Return the content of a memory file of a container's pod; None if it is gone."""
        return self._read("memory", str(Path(group).parent), file)

    def settings(self, group: str) -> dict[str, str | None]:
        """Return the files of a group that an agent may change, with their content or None."""
        if self.version == 2:
            return {file: self._read("", group, file) for file in FILES_V2}
        return {
            file: self._read(controller, group, file)
            for controller, files in _FILES_V1.items()
            for file in files
        }

    def _mount(self, controller: str) -> Path:
        return MOUNT if self.version == 2 else MOUNT / controller

    def _read(self, controller: str, group: str, file: str) -> str | None:
        try:
            return (self._mount(controller) / group / file).read_text().strip()
        except OSError:
            return None


def stolen_seconds() -> dict[int, float]:
    """Return the seconds that other machines had each CPU while this one wanted it."""
    rows = re.findall(r"^cpu(\d+) (.+)$", Path("/proc/stat").read_text(), re.MULTILINE)
    tick = os.sysconf("SC_CLK_TCK")
    return {int(cpu): int(times.split()[7]) / tick for cpu, times in rows}


def container_of(group: str) -> str:
    """Return the ID of the container that a group belongs to; empty if it belongs to none."""
    found = _CONTAINER.search(group)
    return found[1] if found else ""


def parse_cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a list as the kernel writes it, such as 0-3,8."""
    ranges = (part.partition("-")[::2] for part in text.split(",") if part)
    return frozenset(
        cpu for first, last in ranges for cpu in range(int(first), int(last or first) + 1)
    )
