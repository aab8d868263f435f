"""Facts: reads a job's progress from a file in its container.

The container controls its file system, so nothing there is trusted: links are resolved within the
container's root and never lead out of it; only a regular file is opened, because opening a device
or a pipe may have effects or block; and only its beginning is read.
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
from walras_agent.tree import members

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_agent.profiling.request import Source
    from walras_agent.tree import Cgroups

_MAX_BYTES = 4096
_MAX_LINKS = 40  # as many as Linux follows
_MAX_DEPTH = 64  # folders
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class ContainerFile:
    """Counter that reads the number at the start of a file, summed over the pod's containers.

    Attributes:
        cgroups: Cgroups of the node.
        containers: Returns the cgroups of the pod's containers; a restarted one has a new cgroup.
        path: Path of the file in a container, from its root.
        source: Kind of the counter.
    """

    cgroups: Cgroups
    containers: Callable[[], tuple[str, ...]]
    path: str
    source: Source = field(default="file", init=False)

    def read(self) -> float:
        """Return the progress so far, as `Counter.read` does."""
        counts = []
        problem = "no process is visible in them; the agent needs hostPID: true"
        for container in self.containers():
            try:
                counts.append(self._read(container))
            except LookupError:
                continue
            except OSError as error:
                problem = _explain(error)
        if not counts:
            raise CounterError(f"{self.path} in the pod's containers: {problem}")
        return sum(counts)

    def close(self) -> None:
        """Do nothing: no resource is held between reads."""

    def _read(self, container: str) -> float:
        pid = self._first_process(container)
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # The root is open now: it is the container's unless the process had ended before.
            if pid not in self._processes(container):
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
            return parse_number(read_inside(root, self.path), f"{self.path} in the container")
        finally:
            os.close(root)

    def _first_process(self, container: str) -> int:
        """Return the PID of the oldest process: a newer one may still have the machine's root.

        Raises:
            LookupError: No process of the container is visible.
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
        return frozenset(members(self.cgroups, container))


def _explain(error: OSError) -> str:
    """Return why a file was not read, and what to do."""
    if error.errno in {errno.EACCES, errno.EPERM}:
        way = "set agent.profiling.files in the chart's values, or serve the counter by HTTP"
    else:
        way = "let the job write its counter there"
    return f"{os.strerror(error.errno or 0)}; {way}"


def read_inside(root: int, path: str) -> bytes:
    """Return the beginning of a regular file below a folder that is taken for the root.

    Args:
        root: Descriptor of the folder.
        path: Path from there; ``..`` and links never lead out of it.

    Raises:
        OSError: The file cannot be read; ELOOP also for a path that is too deep, EINVAL for
            anything but a regular file.
    """
    handle = _resolve(root, path)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        # Opened by the handle, not by the name, which may denote another file by now.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(f"/proc/self/fd/{handle}", flags)
    finally:
        os.close(handle)
    try:
        return os.read(descriptor, _MAX_BYTES)
    finally:
        os.close(descriptor)


def _resolve(root: int, path: str) -> int:
    """Return a handle (O_PATH) of the file at a path, resolved as path_resolution(7) describes.

    openat2(2) with RESOLVE_IN_ROOT would do this, but exists only since Linux 5.6.
    """
    names = deque(path.split("/"))
    way: list[int] = []  # handles of the folders below the root, down to the present one
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
            if links > _MAX_LINKS or len(way) > _MAX_DEPTH:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return os.dup(way[-1] if way else root)
    finally:
        for handle in way:
            os.close(handle)
