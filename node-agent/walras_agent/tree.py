"""The cgroups of a node: where the controllers are mounted, how their files are read and written.

A group is named by its path from the top of the hierarchies, such as ``/kubepods/pod1``, the same
in each of them. One group is one directory in cgroup v2
(``Documentation/admin-guide/cgroup-v2.rst``) and one directory in each controller's own hierarchy
in v1 (``Documentation/admin-guide/cgroup-v1/cgroups.rst``).

All other modules of the agent reach the kernel through the interface `Cgroups`, so that tests can
put a model of the kernel in its place that fails and stops wherever they say.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self, get_args

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Controller = Literal["cpuset", "cpu", "cpuacct", "memory", "freezer"]
CONTROLLERS: tuple[Controller, ...] = get_args(Controller)

_REQUIRED: tuple[Controller, ...] = ("cpuset", "cpu", "memory")

_LINKS_OF_A_LEAF = 2  # its name, and its own "."

_GONE = frozenset({errno.ENOENT, errno.ENODEV})
_TRANSIENT = frozenset({errno.EBUSY, errno.EAGAIN, errno.EINTR, errno.ENOMEM})


class TreeError(Exception):
    """The cgroup file system is not as it must be; one line: what, why, and the way out."""


class Setting(NamedTuple):
    """One file of one group.

    Attributes:
        controller: Whose hierarchy it is in.
        group: The group.
        file: The file's name, such as ``cpuset.cpus``.
    """

    controller: Controller
    group: str
    file: str

    def __str__(self) -> str:
        return f"{self.group}/{self.file}"


class CgroupError(Exception):
    """The kernel refused to have a file read or written.

    Attributes:
        setting: The file.
        errno: The kernel's answer.
    """

    def __init__(self, setting: Setting, number: int, value: str | None = None) -> None:
        self.setting, self.errno = setting, number
        did = "cannot be read" if value is None else f"does not take {value!r}"
        super().__init__(f"{setting} {did}: {os.strerror(number)}")

    @property
    def kind(self) -> Literal["gone", "transient", "permanent"]:
        """Whether the group is gone, another try may do, or the same would fail again."""
        if self.errno in _GONE:
            return "gone"
        return "transient" if self.errno in _TRANSIENT else "permanent"


class Cgroups(Protocol):
    """The cgroups of a node.

    Attributes:
        version: Of the cgroup interface.
    """

    @property
    def version(self) -> Literal[1, 2]:
        """The version of the cgroup interface."""

    def read(self, setting: Setting) -> str:
        """The text of a file, without its last line's end.

        Raises:
            CgroupError: The kernel refuses, or the group or file is not there.
        """

    def write(self, setting: Setting, value: str) -> None:
        """Write a value in one go, as the kernel wants it; an empty one empties a cpuset.

        Raises:
            CgroupError: The kernel refuses, or the group or file is not there.
        """

    def identity(self, group: str) -> int | None:
        """A number that no other group has, not even one made later under the same name.

        None when the group is not there.
        """

    def children(self, group: str) -> tuple[str, ...]:
        """The groups right below one, sorted; none when it is gone."""


@dataclass(frozen=True, slots=True)
class CgroupTree:
    """The cgroups of this node's kernel.

    Attributes:
        version: Of the cgroup interface.
        mounts: The top directory of each controller; one and the same for all in v2. Plain
            strings, as the groups are: an idle agent looks at hundreds of files a second.
    """

    version: Literal[1, 2]
    mounts: Mapping[Controller, str]

    @classmethod
    def at(cls, mount: Path = Path("/sys/fs/cgroup")) -> Self:
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

    def read(self, setting: Setting) -> str:
        """See `Cgroups`."""
        try:
            descriptor = os.open(self._path(setting), os.O_RDONLY | os.O_CLOEXEC)
            try:
                # The kernel makes the text of such a file within a page at once.
                return os.read(descriptor, 65536).decode("ascii").rstrip("\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise CgroupError(setting, error.errno or 0) from error

    def write(self, setting: Setting, value: str) -> None:
        """See `Cgroups`."""
        try:
            # Not created when missing: the kernel's answer to that would hide what is wrong.
            descriptor = os.open(self._path(setting), os.O_WRONLY | os.O_CLOEXEC)
            try:
                # A write of no bytes would not get to the file.
                os.write(descriptor, value.encode("ascii") or b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise CgroupError(setting, error.errno or 0, value) from error

    def identity(self, group: str) -> int | None:
        """See `Cgroups`; the inode number, of which kernfs never gives one twice."""
        try:
            return os.stat(self.folder("cpuset", group)).st_ino  # noqa: PTH116 - see `mounts`
        except FileNotFoundError:
            return None

    def children(self, group: str) -> tuple[str, ...]:
        """See `Cgroups`."""
        folder = self.folder("cpuset", group)
        try:
            # A directory has a link from each one inside it. In v1 containers are asked, too, and
            # most have no groups inside: to list their files takes four times as long.
            if self.version == 1 and os.stat(folder).st_nlink == _LINKS_OF_A_LEAF:  # noqa: PTH116
                return ()
            with os.scandir(folder) as entries:
                names = sorted([entry.name for entry in entries if entry.is_dir()])
        except FileNotFoundError:
            return ()
        return tuple(f"{group.rstrip('/')}/{name}" for name in names)

    def _path(self, setting: Setting) -> str:
        return f"{self.folder(setting.controller, setting.group)}/{setting.file}"


class Recorder:
    """Cgroups that take note of what is written to them; see `Cgroups`.

    Attributes:
        writes: Those that the kernel took, in their order.
    """

    def __init__(self, cgroups: Cgroups) -> None:
        self.writes: list[tuple[Setting, str]] = []
        self._cgroups = cgroups
        self.read, self.identity = cgroups.read, cgroups.identity
        self.children = cgroups.children

    @property
    def version(self) -> Literal[1, 2]:
        """See `Cgroups`."""
        return self._cgroups.version

    def write(self, setting: Setting, value: str) -> None:
        """See `Cgroups`."""
        self._cgroups.write(setting, value)
        self.writes.append((setting, value))


def below(cgroups: Cgroups, group: str) -> Iterator[str]:
    """All groups below one, parents first."""
    for child in cgroups.children(group):
        yield child
        yield from below(cgroups, child)
