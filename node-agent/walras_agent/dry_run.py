"""Facts: cgroups for a dry run, which reads the kernel's files but only records writes.

The code that enforces runs unchanged on top of these, so a dry run makes the same decisions.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Literal

from walras_agent.memory.stats import UNLIMITED
from walras_agent.tree import CgroupError

if TYPE_CHECKING:
    from walras_agent.tree import CgroupFile, Cgroups

# The file that is written, by the file in which the kernel shows the effective value.
_SHOWN = {
    "cpuset.effective_cpus": "cpuset.cpus",
    "cpuset.cpus.effective": "cpuset.cpus",
    "cpuset.effective_mems": "cpuset.mems",
    "cpuset.mems.effective": "cpuset.mems",
}


class DryRunCgroups:
    """The cgroups of a node as they would be after the recorded writes (implements `Cgroups`).

    Every write to an existing group succeeds, even one that a kernel would refuse.

    Attributes:
        writes: Recorded writes, in order.
    """

    def __init__(self, cgroups: Cgroups) -> None:
        self.writes: list[tuple[CgroupFile, str]] = []
        self._cgroups = cgroups
        self._texts: dict[CgroupFile, str] = {}

    @property
    def version(self) -> Literal[1, 2]:
        """Version of the cgroup interface."""
        return self._cgroups.version

    def read(self, setting: CgroupFile) -> str:
        """Return the text of a file; see `Cgroups`."""
        written = setting._replace(file=_SHOWN.get(setting.file, setting.file))
        text = self._texts.get(written)
        return self._cgroups.read(setting) if text is None else text

    def write(self, setting: CgroupFile, value: str) -> None:
        """Record a write.

        Raises:
            CgroupError: The group does not exist.
        """
        if self.identity(setting.group) is None:
            raise CgroupError(setting, errno.ENOENT, value)
        self.writes.append((setting, value))
        self._texts[setting] = _as_read(setting, value)

    def identity(self, group: str) -> int | None:
        """Return the identity of a group; see `Cgroups`."""
        return self._cgroups.identity(group)

    def children(self, group: str) -> tuple[str, ...]:
        """Return the child groups of a group; see `Cgroups`."""
        return self._cgroups.children(group)


def _as_read(setting: CgroupFile, value: str) -> str:
    """Return the text of a file after a write; two files of v1 differ from it (memory.rst)."""
    if setting.file == "memory.oom_control":
        return f"oom_kill_disable {value}"
    if setting.file.endswith("_in_bytes") and value == "-1":
        return str(UNLIMITED)
    return value.strip()
