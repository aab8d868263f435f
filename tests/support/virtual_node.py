"""An emulated node that is joined to the cluster, read and driven by a tool in WALRAS_VMNODE."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from cluster_tools import KUBECONFIG, get
from node_cgroups import FILES_V2, container_of, parse_cpus

if TYPE_CHECKING:
    from collections.abc import Mapping

_THREADS = "cgroup.threads"
READ_FILES = ("cpuset.cpus.effective", _THREADS, *FILES_V2)
READ = rf"""
cd /sys/fs/cgroup
find . \( -path '*-pod*.slice/cpu.weight' -o -path '*kubepods*.scope/*' \
  \( {" -o ".join(f"-name {name}" for name in READ_FILES)} \) \) -exec grep -H '' {{}} +
grep -Hs Cpus_allowed_list /proc/[0-9]*/task/[0-9]*/status
true
"""
"""Prints all files of all containers, and their pods' weights, by two processes.

Each of these takes a second there.
"""

_LINE = re.compile(r"\./(?P<group>.+)/(?P<file>[a-z.]+):(?P<text>.*)")
_AFFINITY = re.compile(r"/proc/\d+/task/(?P<thread>\d+)/status:Cpus_allowed_list:\s*(?P<cpus>\S+)")


class VirtualCgroups:
    """The cgroups of the node's pods as of the last call of `containers` (version 2)."""

    def __init__(self, node: VirtualNode) -> None:
        self._node = node
        self._seen: dict[str, dict[str, str | None]] = {}
        self._affinity: dict[str, frozenset[int]] = {}

    def containers(self) -> Mapping[str, str]:
        """Read all groups, and return that of every container of a pod, by the container's ID."""
        self.look()
        return {name: group for group in self._seen if (name := container_of(group))}

    def look(self, command: str = READ) -> None:
        """Read all groups by a shell command, which may do something else before."""
        self._seen, self._affinity = {}, {}
        threads: dict[str, list[str]] = {}
        allowed: dict[str, str] = {}
        for line in self._node.shell(command).splitlines():
            if found := _AFFINITY.fullmatch(line):
                allowed[found["thread"]] = found["cpus"]
            elif found := _LINE.fullmatch(line):
                if found["file"] == _THREADS:
                    threads.setdefault(found["group"], []).append(found["text"])
                else:
                    self._seen.setdefault(found["group"], {})[found["file"]] = found["text"]
        for group, those in threads.items():
            self._affinity[group] = frozenset().union(
                *(parse_cpus(allowed[each]) for each in those if each in allowed)
            )

    def cpus(self, group: str) -> frozenset[int] | None:
        """Return the CPUs that a group's threads may use; None if the group is gone."""
        text = self._seen.get(group, {}).get("cpuset.cpus.effective")
        if text is None:
            return None
        # The agent cannot write its own group, and keeps off others' CPUs by its threads' affinity.
        return self._affinity.get(group) or parse_cpus(text)

    def settings(self, group: str) -> dict[str, str | None]:
        """Return the files of a group that an agent may change, with their content or None."""
        return {file: self._seen.get(group, {}).get(file) for file in FILES_V2}


PATIENT_RUNTIME = r"""
grep -q task.state /etc/containerd/config.toml && exit
cat >>/etc/containerd/config.toml <<'END'
[timeouts]
  "io.containerd.timeout.shim.cleanup" = "60s"
  "io.containerd.timeout.shim.load" = "60s"
  "io.containerd.timeout.task.state" = "60s"
END
systemctl restart containerd
"""
"""Commands that let containerd wait for its shims, which take seconds while this machine is busy.

After two seconds it would call their state unknown, and the kubelet would start their pods again.
"""

NAME = os.environ.get("VMNODE_NAME", "node-v")


class VirtualNode:
    """The emulated node of the cluster.

    Attributes:
        name: Name of the node in the cluster.
        cgroups: Cgroups of the node.
    """

    def __init__(self) -> None:
        found = get(f"/api/v1/nodes/{NAME}")
        self.name = NAME
        self.cpus = int(found["status"]["capacity"]["cpu"])
        self.cgroups = VirtualCgroups(self)
        self.shell(PATIENT_RUNTIME)

    def shell(self, command: str) -> str:
        """Run a shell command as root on the node; return what it prints."""
        return self._do("sh", command)

    def restart(self, part: str) -> None:
        """Kill kubelet or containerd, and start it again."""
        self._do("restart", part)

    def load(self, archive: Path) -> None:
        """Do nothing, since the node was booted with the images."""

    def reserves(self, cpu: str) -> bool:
        """Return whether an amount of CPU, in thousandths such as 500m, is reserved from pods."""
        status = get(f"/api/v1/nodes/{self.name}")["status"]
        left = 1000 * self.cpus - int(cpu.removesuffix("m"))
        return bool(status["allocatable"]["cpu"] == f"{left}m")

    def kubelet_folders(self) -> dict[str, str]:
        """Return where the node's kubelet has its folders, as values of the chart."""
        return {"folder": "/var/lib/kubelet", "configFolder": ""}

    def _do(self, *arguments: str) -> str:
        where = os.environ | {"KUBE_RUN": str(Path(KUBECONFIG).parent)}
        command = [os.environ["WALRAS_VMNODE"], *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=where)
        assert done.returncode == 0, f"{' '.join(arguments)[:60]}: {done.stderr}"
        return done.stdout
