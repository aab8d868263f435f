"""Apply: the agent's own group, where the kernel keeps it from it: held by the agent's affinity.

Kubernetes gives a container that is not privileged a cgroup namespace of its own. Where cgroup v2
is mounted with ``nsdelegate``, as systemd does, a process in such a namespace may not write the
files of the namespace's root (``Documentation/admin-guide/cgroup-v2.rst``, "Delegation"), and that
is the group of its container. All other groups it may write, by the host's mount, as root.

So of all pods of a node the agent could not confine one, itself, to the CPUs that nobody owns. What
`OwnGroup` is asked to write there it has the agent's threads do: sched_setaffinity(2) of one's own
threads takes no right.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from walras_agent import procfs
from walras_agent.cpuset import CpuSet
from walras_agent.moves import CPUS
from walras_agent.observe import EFFECTIVE
from walras_agent.tree import CgroupError, below

if TYPE_CHECKING:
    from walras_agent.kubepods import Layout
    from walras_agent.tree import Cgroups, Setting


def unwritable(cgroups: Cgroups, layout: Layout, top: Path = Path("/sys/fs/cgroup")) -> str | None:
    """Return the group of this container, if it is the root of a cgroup namespace.

    Args:
        cgroups: The host's, as they are mounted for the agent.
        layout: Where pods are among them.
        top: Where the container's runtime has mounted what the namespace shows: its root, which is
            the same directory as that group, and so has its inode number.
    """
    if cgroups.version == 1 or not top.exists():
        return None
    root = top.stat().st_ino
    groups = below(cgroups, layout.pods)
    return next((group for group in groups if cgroups.identity(group) == root), None)


class OwnGroup:
    """The cgroups of a node, in one of which this process is and which it may not write.

    See `Cgroups`. A thread that is started while all are moved is met by the next pass.
    """

    def __init__(self, cgroups: Cgroups, group: str) -> None:
        self._cgroups, self._group = cgroups, group
        self._asked = ""
        self.identity, self.children = cgroups.identity, cgroups.children

    @property
    def version(self) -> Literal[1, 2]:
        """See `Cgroups`."""
        return self._cgroups.version

    def read(self, setting: Setting) -> str:
        """See `Cgroups`."""
        text = self._cgroups.read(setting)
        if setting.group != self._group:
            return text
        if setting.file == CPUS:
            return self._asked
        if setting.file == EFFECTIVE[2]:
            return str(CpuSet.parse(text) & CpuSet(os.sched_getaffinity(0)))
        return text

    def write(self, setting: Setting, value: str) -> None:
        """See `Cgroups`."""
        if setting.group != self._group or setting.file != CPUS:
            self._cgroups.write(setting, value)
            return
        try:
            _move(CpuSet.parse(value) or self._allowed(setting))
        except OSError as error:
            raise CgroupError(setting, error.errno or 0, value) from error
        self._asked = value

    def _allowed(self, setting: Setting) -> CpuSet:
        """The CPUs that the group itself allows."""
        return CpuSet.parse(self._cgroups.read(setting._replace(file=EFFECTIVE[2])))


def _move(cpus: CpuSet) -> None:
    """Move all threads of this process, until there is none that is elsewhere.

    Raises:
        OSError: Not all of these CPUs are allowed to them.
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
    """Move a thread; False if it is there already."""
    if CpuSet(os.sched_getaffinity(thread)) == cpus:
        return False
    os.sched_setaffinity(thread, cpus)
    # Of CPUs that a cpuset does not allow the kernel says nothing.
    if CpuSet(os.sched_getaffinity(thread)) != cpus:
        raise OSError(errno.EINVAL, "not all of these CPUs are allowed")
    return True
