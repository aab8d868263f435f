"""Effects: reads and writes cgroup files, and keeps those that it has read open.

The kernel makes the text of such a file anew whenever it is read from its beginning, and a read of
an open file takes a fifth of the time of open, read and close. Once a group is deleted, its open
files fail with ENODEV, even if another group has its name. The kernel keeps the memory of a deleted
group while its files are open, so these are closed about a second after another file was opened:
where a container is created, others have ended.
"""

from __future__ import annotations

import errno
import os
import resource
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_agent.tree import CgroupError, CgroupFile, CgroupTree, read_text

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 8192
_UNTIL_CHECK = 1.0  # seconds from the opening of a file to the search for deleted groups

_NO_MORE = frozenset({errno.EMFILE, errno.ENFILE})


def raise_file_limit() -> None:
    """Let this process open as many files as its hard limit allows; the soft one is often 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _room() -> int:
    """Return how many files may be kept open: half of this process's limit, at most 8192."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(soft // 2, _MOST)


@dataclass(frozen=True, slots=True)
class OpenFileTree(CgroupTree):
    """A `CgroupTree` for frequent reads, which keeps files open between them.

    Attributes:
        most: Largest number of files that are kept open; others are opened for each read.
        clock: Function that returns the monotonic time in seconds.
    """

    most: int = field(default_factory=_room)
    clock: Callable[[], float] = time.monotonic
    _open: dict[CgroupFile, int] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    # When to look for deleted groups; empty if no file was opened since the last time.
    _due: list[float] = field(default_factory=list, init=False, compare=False, repr=False)

    def read(self, setting: CgroupFile) -> str:
        """Return the text of a file; see `Cgroups`."""
        if self._due and self.clock() >= self._due[0]:
            self._close_deleted()
        kept = self._open.get(setting)
        if kept is not None:
            try:
                return read_text(kept)
            except OSError as error:
                os.close(self._open.pop(setting))
                if error.errno != errno.ENODEV:
                    raise CgroupError(setting, error.errno or 0) from error
        try:
            return self._read_anew(setting)
        except OSError as error:
            raise CgroupError(setting, error.errno or 0) from error

    def close(self) -> None:
        """Close all files; later reads open them again."""
        while self._open:
            os.close(self._open.popitem()[1])

    def __del__(self) -> None:
        """Leave no file open, as those that Python opens."""
        self.close()

    def _read_anew(self, setting: CgroupFile) -> str:
        """Open a file and read it; keep it open if there is room."""
        path = self._path(setting)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in _NO_MORE:
                raise
            self.close()
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if not self._due:
            self._due.append(self.clock() + _UNTIL_CHECK)
        if len(self._open) < self.most:
            self._open[setting] = descriptor
            return read_text(descriptor)
        try:
            return read_text(descriptor)
        finally:
            os.close(descriptor)

    def _close_deleted(self) -> None:
        """Close the files of deleted groups."""
        self._due.clear()
        groups, deleted = {setting.group for setting in self._open}, set()
        for group in groups:
            with suppress(CgroupError):
                if self.identity(group) is None:
                    deleted.add(group)
        for setting in [setting for setting in self._open if setting.group in deleted]:
            os.close(self._open.pop(setting))
