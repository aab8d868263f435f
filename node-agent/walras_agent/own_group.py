"""Effects: pins the agent's own container by CPU affinity where its cgroup cannot be written.

A container that is not privileged has its own cgroup namespace. Where cgroup v2 is mounted with
``nsdelegate``, as systemd does, a process may not write the files of its namespace's root
(``Documentation/admin-guide/cgroup-v2.rst``, "Delegation"), which is the cgroup of its container.
All other cgroups it may write as root, by the host's mount.

So the agent could confine all pods of the node to the shared CPUs except its own. `OwnGroup` turns
writes to that cgroup's cpuset into sched_setaffinity(2) of the agent's threads, which needs no
privilege.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from walras_agent import procfs
from walras_agent.cpuset import CpuSet
from walras_agent.moves import CPUS
from walras_agent.observe import EFFECTIVE
from walras_agent.thread_affinity import set_affinity
from walras_agent.tree import CgroupError, descendants

if TYPE_CHECKING:
    from walras_agent.kubepods import Layout
    from walras_agent.tree import CgroupFile, Cgroups


# Root of the container's own cgroup namespace: it has the inode number of the container's cgroup.
_OWN_MOUNT = Path("/sys/fs/cgroup")


def find_unwritable_group(cgroups: Cgroups, layout: Layout) -> str | None:
    """Return the cgroup of this container if it is the root of a cgroup namespace, else None.

    Args:
        cgroups: Cgroups of the host, as mounted for the agent.
        layout: Naming scheme of the pods' cgroups.
    """
    if cgroups.version == 1 or not _OWN_MOUNT.exists():
        return None
    root = _OWN_MOUNT.stat().st_ino
    groups = descendants(cgroups, layout.pods)
    return next((group for group in groups if cgroups.identity(group) == root), None)


class OwnGroup:
    """Cgroups of a node, of which this process's own is written by affinity (implements `Cgroups`).

    A thread that starts during a move is moved in the next pass.
    """

    def __init__(self, cgroups: Cgroups, group: str) -> None:
        self._cgroups, self._group = cgroups, group
        self._asked = ""
        self.identity, self.children = cgroups.identity, cgroups.children

    @property
    def version(self) -> Literal[1, 2]:
        """Version of the cgroup interface."""
        return self._cgroups.version

    def read(self, setting: CgroupFile) -> str:
        """Return the text of a file; see `Cgroups`."""
        text = self._cgroups.read(setting)
        if setting.group != self._group:
            return text
        if setting.file == CPUS:
            return self._asked
        if setting.file == EFFECTIVE[2]:
            return str(CpuSet.parse(text) & CpuSet(os.sched_getaffinity(0)))
        return text

    def write(self, setting: CgroupFile, value: str) -> None:
        """Write a value to a file; see `Cgroups`."""
        if setting.group != self._group or setting.file != CPUS:
            self._cgroups.write(setting, value)
            return
        try:
            _move(CpuSet.parse(value) or self._allowed(setting))
        except OSError as error:
            raise CgroupError(setting, error.errno or 0, value) from error
        self._asked = value

    def _allowed(self, setting: CgroupFile) -> CpuSet:
        """Return the effective CPUs of the cgroup."""
        return CpuSet.parse(self._cgroups.read(setting._replace(file=EFFECTIVE[2])))


def _move(cpus: CpuSet) -> None:
    """Pin all threads of this process, in passes until none is on other CPUs.

    Raises:
        OSError: A thread may not use all of these CPUs.
    """
    moved = True
    while moved:
        moved = False
        for thread in procfs.threads(os.getpid()):
            try:
                moved |= _move_thread(thread, cpus)
            except ProcessLookupError:
                continue  # it has ended


def _move_thread(thread: int, cpus: CpuSet) -> bool:
    """Pin a thread; False if it was on these CPUs already."""
    if CpuSet(os.sched_getaffinity(thread)) == cpus:
        return False
    set_affinity(thread, cpus)
    return True
