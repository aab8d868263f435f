"""Facts: where a node's cgroup controllers are mounted, and which groups they hold.

A group is named by its path from the top of the hierarchies, such as ``/kubepods/pod1``, the same
in each of them. One group is one directory in cgroup v2
(``Documentation/admin-guide/cgroup-v2.rst``) and one directory in each controller's own hierarchy
in v1 (``Documentation/admin-guide/cgroup-v1/cgroups.rst``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Controller = Literal["cpuset", "cpu", "cpuacct", "memory"]
CONTROLLERS: tuple[Controller, ...] = ("cpuset", "cpu", "cpuacct", "memory")

_REQUIRED: tuple[Controller, ...] = ("cpuset", "cpu", "memory")


class TreeError(Exception):
    """The cgroup file system is not as it must be; one line: what, why, and the way out."""


@dataclass(frozen=True, slots=True)
class CgroupTree:
    """The cgroups of a node.

    Attributes:
        version: Of the cgroup interface.
        mounts: The top directory of each controller; one and the same for all in v2. Plain
            strings, as the groups are: an idle agent looks at hundreds of files a second.
    """

    version: Literal[1, 2]
    mounts: Mapping[Controller, str]

    @classmethod
    def at(cls, mount: Path = Path("/sys/fs/cgroup")) -> CgroupTree:
        """Find the controllers below the usual mount point, or where a container has it.

        Raises:
            TreeError: A controller that the agent needs is not there.
        """
        listed = mount / "cgroup.controllers"
        if listed.exists():
            offered = listed.read_text(encoding="ascii").split()
            tree = cls(2, dict.fromkeys(CONTROLLERS, str(mount)))
        else:
            # Distributions mount cpu and cpuacct as one and link both names to it.
            offered = [name for name in CONTROLLERS if (mount / name).is_dir()]
            tree = cls(1, {name: str(mount / name) for name in CONTROLLERS if name in offered})
        missing = [name for name in _REQUIRED if name not in offered]
        if missing:
            raise TreeError(
                f"{mount}: no cgroup controller {', '.join(missing)}; mount the host's "
                "/sys/fs/cgroup there, or enable it on the kernel's command line"
            )
        return tree

    def folder(self, controller: Controller, group: str) -> str:
        """The directory of a group in a controller's hierarchy."""
        return self.mounts[controller] + group.rstrip("/")

    def exists(self, group: str) -> bool:
        """Whether a group is there now."""
        return Path(self.folder("cpuset", group)).is_dir()

    def children(self, group: str) -> tuple[str, ...]:
        """The groups right below one, sorted; none when it is gone."""
        try:
            with os.scandir(self.folder("cpuset", group)) as entries:
                names = sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return ()
        return tuple(f"{group.rstrip('/')}/{name}" for name in names)

    def below(self, group: str) -> Iterator[str]:
        """A group and all below it, parents first; nothing when it is gone."""
        if self.exists(group):
            yield group
            for child in self.children(group):
                yield from self.below(child)
