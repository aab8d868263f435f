"""Pods whose programs are measured: nothing else on the machine takes much time from them."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pod_groups import pod_group
from real_pods import RealPods
from waiting import eventually

if TYPE_CHECKING:
    from walras_agent.tree import CgroupTree


NICE = -10
"""Niceness at which a test gets time even beside pods that use all CPUs."""


class MeasuredPods(RealPods):
    """Pods whose programs begin inside of their container.

    Args:
        tree: Cgroups of the machine.
        beside: Mounts of further v1 hierarchies in which the same groups are created.
    """

    def __init__(self, tree: CgroupTree, *beside: Path) -> None:
        self.beside = beside
        super().__init__(tree)
        self._weigh("10000" if tree.version == 2 else "262144")
        self.niceness = os.getpriority(os.PRIO_PROCESS, 0)
        with suppress(PermissionError):  # root of a container without CAP_SYS_NICE
            os.setpriority(os.PRIO_PROCESS, 0, min(self.niceness, NICE))

    def share_evenly(self) -> None:
        """Let all pods together have no more time than any other group of the machine."""
        self._weigh("100" if self.tree.version == 2 else "1024")

    def _weigh(self, weight: str) -> None:
        file = "cpu.weight" if self.tree.version == 2 else "cpu.shares"
        Path(self.tree.folder("cpu", self.layout.root), file).write_text(weight)

    def mounts(self) -> set[str]:
        return {*super().mounts(), *map(str, self.beside)}

    def pod(self, uid: str) -> str:
        """Return the group of a pod."""
        return pod_group(self.layout, uid)

    def run(self, uid: str, *argv: str) -> subprocess.Popen[bytes]:
        """Start a program in a pod; return it once it is in the pod, with a pipe for its output."""
        self.make(self.pod(uid))
        self.make(self.container(uid))
        procs = [Path(f"{mount}{self.container(uid)}/cgroup.procs") for mount in self.mounts()]
        enter = f'for each in {" ".join(map(str, procs))}; do echo 0 > "$each"; done; exec "$@"'
        process = subprocess.Popen(("sh", "-c", enter, "sh", *argv), stdout=subprocess.PIPE)
        self.processes.append(process)

        def inside() -> bool:
            return all(str(process.pid) in each.read_text().split() for each in procs)

        assert eventually(lambda: process.poll() is not None or inside())
        return process

    def close(self) -> None:
        super().close()
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, self.niceness)
        for process in self.processes:
            if process.stdout:
                process.stdout.close()
        for mount in self.beside:
            for folder in sorted(Path(mount).glob(f"{self.layout.root[1:]}/**/"), reverse=True):
                folder.rmdir()
