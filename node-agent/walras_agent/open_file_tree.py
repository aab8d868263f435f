"""Effects: reads and writes cgroup files, and keeps those that it has read open.

The kernel makes the text of such a file anew whenever it is read from its beginning, and a read of
an open file takes a fifth of the time of open, read and close. Once a group is deleted, its open
files fail with ENODEV, even if another group has its name.
"""

from __future__ import annotations

import errno
import os
import resource
from dataclasses import dataclass, field

from walras_agent.tree import CgroupError, CgroupFile, CgroupTree, read_text

_MOST = 8192

_NO_MORE = frozenset({errno.EMFILE, errno.ENFILE})


def _room() -> int:
    """Return how many files may be kept open: half of this process's limit, at most 8192."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(soft // 2, _MOST)


@dataclass(frozen=True, slots=True)
class OpenFileTree(CgroupTree):
    """A `CgroupTree` for frequent reads, which keeps files open between them.

    Attributes:
        most: Largest number of files that are kept open.
    """

    most: int = field(default_factory=_room)
    _open: dict[CgroupFile, int] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def read(self, setting: CgroupFile) -> str:
        """Return the text of a file; see `Cgroups`."""
        kept = self._open.get(setting)
        if kept is not None:
            try:
                return read_text(kept)
            except OSError as error:
                os.close(self._open.pop(setting))
                if error.errno != errno.ENODEV:
                    raise CgroupError(setting, error.errno or 0) from error
        try:
            return read_text(self._keep(setting))
        except OSError as error:
            raise CgroupError(setting, error.errno or 0) from error

    def close(self) -> None:
        """Close all files; later reads open them again."""
        while self._open:
            os.close(self._open.popitem()[1])

    def _keep(self, setting: CgroupFile) -> int:
        if len(self._open) >= self.most:
            self.close()
        if all(known.group != setting.group for known in reversed(self._open)):
            self._close_deleted()  # where a container is created, others have ended
        path = self._path(setting)
        try:
            self._open[setting] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in _NO_MORE:
                raise
            self.close()
            self._open[setting] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return self._open[setting]

    def _close_deleted(self) -> None:
        """Close the files of deleted groups, whose memory the kernel would keep otherwise."""
        groups = {known.group for known in self._open}
        deleted = {group for group in groups if self.identity(group) is None}
        for setting in [known for known in self._open if known.group in deleted]:
            os.close(self._open.pop(setting))
