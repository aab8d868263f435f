"""Pure choice: what the agent would write, found by letting it write to nothing.

The very code that enforces runs on top of this, so a dry run cannot tell other than it would be.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Literal

from walras_agent.memory.pressure import UNLIMITED
from walras_agent.tree import CgroupError

if TYPE_CHECKING:
    from walras_agent.tree import Cgroups, Setting

# What the kernel shows of a cpuset once it is written, by the file that shows it.
_SHOWN = {
    "cpuset.effective_cpus": "cpuset.cpus",
    "cpuset.cpus.effective": "cpuset.cpus",
    "cpuset.effective_mems": "cpuset.mems",
    "cpuset.mems.effective": "cpuset.mems",
}


class Rehearsal:
    """The cgroups of a node as they would be after writes that are not made; see `Cgroups`.

    It takes every value: that a real kernel might refuse one is not foreseen.

    Attributes:
        writes: In the order in which they would be made.
    """

    def __init__(self, cgroups: Cgroups) -> None:
        self.writes: list[tuple[Setting, str]] = []
        self._cgroups = cgroups
        self._texts: dict[Setting, str] = {}

    @property
    def version(self) -> Literal[1, 2]:
        """See `Cgroups`."""
        return self._cgroups.version

    def read(self, setting: Setting) -> str:
        """See `Cgroups`."""
        written = setting._replace(file=_SHOWN.get(setting.file, setting.file))
        text = self._texts.get(written)
        return self._cgroups.read(setting) if text is None else text

    def write(self, setting: Setting, value: str) -> None:
        """Note a write.

        Raises:
            CgroupError: The group is gone.
        """
        if self.identity(setting.group) is None:
            raise CgroupError(setting, errno.ENOENT, value)
        self.writes.append((setting, value))
        self._texts[setting] = _as_read(setting, value)

    def identity(self, group: str) -> int | None:
        """See `Cgroups`."""
        return self._cgroups.identity(group)

    def children(self, group: str) -> tuple[str, ...]:
        """See `Cgroups`."""
        return self._cgroups.children(group)


def _as_read(setting: Setting, value: str) -> str:
    """What a file says when this was written; two of cgroup v1 say it otherwise (memory.rst)."""
    if setting.file == "memory.oom_control":
        return f"oom_kill_disable {value}"
    if setting.file.endswith("_in_bytes") and value == "-1":
        return str(UNLIMITED)
    return value.strip()
