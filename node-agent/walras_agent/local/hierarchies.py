"""Facts: the cgroup hierarchies that are mounted, and this process's place in each.

Read from ``/proc/self/mountinfo`` (proc(5)) and ``/proc/self/cgroup`` (cgroups(7)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy.

    Attributes:
        version: Of the cgroup interface.
        controllers: Those bound to a v1 hierarchy; none for v2, whose files tell.
        mount: The directory of its topmost visible group.
        own: The directory of this process's group.
    """

    version: Literal[1, 2]
    controllers: frozenset[str]
    mount: Path
    own: Path


def read_hierarchies() -> tuple[Hierarchy, ...]:
    """Read the hierarchies of the calling process; none where /proc hides them."""
    try:
        return parse_hierarchies(
            Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
        )
    except OSError:
        return ()


def parse_hierarchies(mountinfo: str, membership: str) -> tuple[Hierarchy, ...]:
    """Match the cgroup mounts with the process's groups.

    A hierarchy in whose mount the process's own group is not visible is left out. Of several
    mounts of one hierarchy the first is taken.
    """
    mounts = [mount for line in mountinfo.splitlines() if (mount := _parse_mount(line))]
    found = []
    for line in membership.splitlines():
        _, listed, path = line.split(":", 2)
        controllers = frozenset(listed.split(",")) if listed else frozenset()
        version: Literal[1, 2] = 1 if controllers else 2
        for mount in mounts:
            own = mount.locate(path)
            if mount.version == version and controllers <= mount.options and own:
                found.append(Hierarchy(version, controllers, mount.point, own))
                break
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Mount:
    version: Literal[1, 2]
    options: frozenset[str]
    root: str
    point: Path

    def locate(self, path: str) -> Path | None:
        """Where the group ``path`` of the hierarchy appears; None if not under this mount."""
        group = PurePosixPath(path)
        # A group outside of the cgroup namespace is shown with leading `/..`.
        if not group.is_relative_to(self.root) or ".." in group.parts:
            return None
        return self.point / group.relative_to(self.root)


def _parse_mount(line: str) -> _Mount | None:
    """Read a line like ``32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu``."""
    before, _, after = line.partition(" - ")
    kind, _, options = after.split(" ")[:3]
    if kind not in {"cgroup", "cgroup2"}:
        return None
    root, point = (_unescape(field) for field in before.split(" ")[3:5])
    return _Mount(1 if kind == "cgroup" else 2, frozenset(options.split(",")), root, Path(point))


def _unescape(field: str) -> str:
    """Undo the kernel's octal escapes of blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
