"""Facts: reads the mounted cgroup hierarchies and this process's group in each.

Read from ``/proc/self/mountinfo`` (proc(5)) and ``/proc/self/cgroup`` (cgroups(7)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted cgroup hierarchy.

    Attributes:
        version: Version of the cgroup interface.
        controllers: Controllers of a v1 hierarchy; empty for v2, whose files list them.
        mount: Directory of the topmost visible group.
        own_group: Directory of this process's group.
    """

    version: Literal[1, 2]
    controllers: frozenset[str]
    mount: Path
    own_group: Path


def read_hierarchies() -> tuple[Hierarchy, ...]:
    """Read the hierarchies of the calling process; empty if /proc does not show them."""
    try:
        return parse_hierarchies(
            Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
        )
    except OSError:
        return ()


def parse_hierarchies(mountinfo: str, membership: str) -> tuple[Hierarchy, ...]:
    """Return the hierarchies in which the process's own group is visible.

    If a hierarchy is mounted several times, the first such mount counts.
    """
    mounts = [mount for line in mountinfo.splitlines() if (mount := _parse_mount(line))]
    hierarchies = []
    for line in membership.splitlines():
        _, listed, path = line.split(":", 2)
        controllers = frozenset(listed.split(",")) if listed else frozenset()
        version: Literal[1, 2] = 1 if controllers else 2
        for mount in mounts:
            own = mount.locate(path)
            if mount.version == version and controllers <= mount.options and own:
                hierarchies.append(Hierarchy(version, controllers, mount.point, own))
                break
    return tuple(hierarchies)


@dataclass(frozen=True, slots=True)
class _Mount:
    version: Literal[1, 2]
    options: frozenset[str]
    root: str
    point: Path

    def locate(self, path: str) -> Path | None:
        """Return the directory of a group of the hierarchy; None if it is not in this mount."""
        group = PurePosixPath(path)
        # The path of a group outside of the cgroup namespace begins with `/..`.
        if not group.is_relative_to(self.root) or ".." in group.parts:
            return None
        return self.point / group.relative_to(self.root)


def _parse_mount(line: str) -> _Mount | None:
    """Parse a line like ``32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu``."""
    before, _, after = line.partition(" - ")
    kind, _, options = after.split(" ")[:3]
    if kind not in {"cgroup", "cgroup2"}:
        return None
    root, point = (_unescape(field) for field in before.split(" ")[3:5])
    return _Mount(1 if kind == "cgroup" else 2, frozenset(options.split(",")), root, Path(point))


def _unescape(field: str) -> str:
    """Undo the kernel's octal escapes of blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
