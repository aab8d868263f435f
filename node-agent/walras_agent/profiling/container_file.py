"""Facts: a number that a job keeps in a file of its container.

The container decides what is in its file system, so nothing there is believed: links are followed
as if the container's root were the machine's, never out of it; only a plain file is opened, because
opening a device or a pipe may do something or wait; and only its beginning is read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_agent import procfs
from walras_agent.profiling.counters import CounterError, parse_number
from walras_agent.tree import CgroupError, Setting, below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walras_agent.profiling.request import Source
    from walras_agent.tree import Cgroups

_LARGEST = 4096  # bytes
_LINKS = 40  # as many as Linux follows
_DEEP = 64  # folders
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class ContainerFile:
    """The number at the start of a file; of all of a pod's containers that have it, the sum.

    Attributes:
        cgroups: Of the node.
        containers: Finds the groups of the pod's containers; one that is started again has a new
            one.
        path: From a container's root.
        source: What is counted.
    """

    cgroups: Cgroups
    containers: Callable[[], tuple[str, ...]]
    path: str
    source: Source = field(default="file", init=False)

    def read(self) -> float:
        """See `Counter`."""
        found = []
        problem = "no process is seen in them; the agent needs hostPID: true"
        for container in self.containers():
            try:
                found.append(self._read(container))
            except LookupError:
                continue
            except OSError as error:
                problem = f"{os.strerror(error.errno or 0)}; let the job write it there"
        if not found:
            raise CounterError(f"{self.path} in the pod's containers: {problem}")
        return sum(found)

    def close(self) -> None:
        """See `Counter`."""

    def _read(self, container: str) -> float:
        pid = self._first_process(container)
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Now the root is held: it was the container's unless the process had gone before.
            if pid not in self._processes(container):
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
            return parse_number(read_inside(root, self.path), f"{self.path} in the container")
        finally:
            os.close(root)

    def _first_process(self, container: str) -> int:
        """The oldest: one that the runtime has just put in may still have the machine's root.

        Raises:
            LookupError: None is seen.
        """
        started = [
            (process.start, process.pid)
            for pid in self._processes(container)
            if (process := procfs.read_process(pid)) and process.alive
        ]
        if not started:
            raise LookupError(container)
        return min(started)[1]

    def _processes(self, container: str) -> frozenset[int]:
        return frozenset(self._members(container))

    def _members(self, container: str) -> Iterator[int]:
        for group in (container, *below(self.cgroups, container)):
            try:
                listed = self.cgroups.read(Setting("cpuset", group, "cgroup.procs"))
            except CgroupError:
                continue
            # Those of another PID namespace are 0 here.
            yield from (pid for pid in map(int, listed.split()) if pid)


def read_inside(root: int, path: str) -> bytes:
    """The beginning of a plain file below a folder that is taken for the root.

    Args:
        root: Descriptor of the folder.
        path: From there; ``..`` and links lead nowhere else.

    Raises:
        OSError: As the kernel has it; ELOOP also for paths that lead astray, EINVAL for what is
            no plain file.
    """
    handle = _resolve(root, path)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        # The handle, not the name, is opened: behind the name may be something else by now.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(f"/proc/self/fd/{handle}", flags)
    finally:
        os.close(handle)
    try:
        return os.read(descriptor, _LARGEST)
    finally:
        os.close(descriptor)


def _resolve(root: int, path: str) -> int:
    """A handle (O_PATH) of what a path names, a step at a time, as path_resolution(7) says.

    openat2(2) does this with RESOLVE_IN_ROOT, from Linux 5.6 on.
    """
    names = deque(path.split("/"))
    way: list[int] = []  # from below the root to here
    links = 0
    try:
        while names:
            name = names.popleft()
            if name == "..":
                if way:
                    os.close(way.pop())
                continue
            if name in {"", "."}:
                continue
            handle = os.open(name, _HANDLE, dir_fd=way[-1] if way else root)
            way.append(handle)
            if stat.S_ISLNK(os.fstat(handle).st_mode):
                links += 1
                target = os.readlink("", dir_fd=handle)
                os.close(way.pop())
                while target.startswith("/") and way:
                    os.close(way.pop())
                names.extendleft(reversed(target.split("/")))
            if links > _LINKS or len(way) > _DEEP:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return os.dup(way[-1] if way else root)
    finally:
        for handle in way:
            os.close(handle)
