"""Facts: cgroup files that are read over and over, kept open in between.

The kernel writes the text of such a file anew whenever it is read from its beginning, and a read of
an open file takes a fifth of the time that it takes to find, open, read and close it. Once a group
is gone, its open files say so (ENODEV), also when there is another one under its name.
"""

from __future__ import annotations

import errno
import os
import resource
from dataclasses import dataclass, field

from walras_agent.tree import CgroupError, CgroupTree, Setting

_MOST = 8192
_WHOLE = 65536  # bytes; no file that is kept has more

_NO_MORE = frozenset({errno.EMFILE, errno.ENFILE})


def _room() -> int:
    """How many files may be kept open: half of those that this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(soft // 2, _MOST)


@dataclass(frozen=True, slots=True)
class KeptTree(CgroupTree):
    """The cgroups of this node's kernel, for one who looks at them all the time.

    Attributes:
        most: How many files are kept open at most.
    """

    most: int = field(default_factory=_room)
    _open: dict[Setting, int] = field(default_factory=dict, init=False, compare=False, repr=False)

    def read(self, setting: Setting) -> str:
        """See `Cgroups`."""
        kept = self._open.get(setting)
        if kept is not None:
            try:
                return _text(kept)
            except OSError as error:
                os.close(self._open.pop(setting))
                if error.errno != errno.ENODEV:
                    raise CgroupError(setting, error.errno or 0) from error
        try:
            return _text(self._keep(setting))
        except OSError as error:
            raise CgroupError(setting, error.errno or 0) from error

    def close(self) -> None:
        """Keep nothing any more; what is read later is opened again."""
        while self._open:
            os.close(self._open.popitem()[1])

    def _keep(self, setting: Setting) -> int:
        # Files of groups that are gone are not asked for again: they go when all do.
        if len(self._open) >= self.most:
            self.close()
        path = self._path(setting)
        try:
            self._open[setting] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in _NO_MORE:
                raise
            self.close()
            self._open[setting] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return self._open[setting]


def _text(descriptor: int) -> str:
    return os.pread(descriptor, _WHOLE, 0).decode("ascii").rstrip("\n")
