"""Effects: reads and writes the cgroup files of a node, of version 1 or 2.

A group is named by its path from the root of the hierarchies, such as ``/kubepods/pod1``, which is
the same in all of them. It is one directory in cgroup v2
(``Documentation/admin-guide/cgroup-v2.rst``), and one directory in each controller's hierarchy in
v1 (``Documentation/admin-guide/cgroup-v1/cgroups.rst``).

All other modules of the agent use the interface `Cgroups`, so that tests can replace the kernel by
a model that fails at chosen points.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self, get_args

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Controller = Literal["cpuset", "cpu", "cpuacct", "memory", "freezer"]
CONTROLLERS: tuple[Controller, ...] = get_args(Controller)

_REQUIRED: tuple[Controller, ...] = ("cpuset", "cpu", "memory")

_WHOLE = 1 << 16  # bytes of one read, more than the kernel gives at once
_PART = os.sysconf("SC_PAGE_SIZE") // 2  # a shorter answer is the last one

DEEPEST = 64
"""Levels of child groups that are looked at, more than any runtime or program makes."""

_LINKS_OF_A_LEAF = 2  # link count of a directory without subdirectories: its name, and "."

_GONE = frozenset({errno.ENOENT, errno.ENODEV})
_TRANSIENT = frozenset({errno.EBUSY, errno.EAGAIN, errno.EINTR, errno.ENOMEM})


class TreeError(Exception):
    """The cgroup file system lacks what the agent needs; one line with cause and remedy."""


class CgroupFile(NamedTuple):
    """The address of one file of one cgroup.

    Attributes:
        controller: Controller in whose hierarchy the file is.
        group: Path of the cgroup, such as ``/kubepods/pod1``.
        file: Name of the file, such as ``cpuset.cpus``.
    """

    controller: Controller
    group: str
    file: str

    def __str__(self) -> str:
        return f"{self.group}/{self.file}"


FileWrite = tuple[CgroupFile, str]
"""A file and the value to write to it."""


class CgroupError(Exception):
    """The kernel refused to read or write a cgroup file.

    Attributes:
        setting: The file.
        errno: Error number of the kernel.
    """

    def __init__(self, setting: CgroupFile, number: int, value: str | None = None) -> None:
        self.setting, self.errno = setting, number
        did = "cannot be read" if value is None else f"does not accept {value!r}"
        super().__init__(f"{setting} {did}: {os.strerror(number)}")

    @property
    def kind(self) -> Literal["gone", "transient", "permanent"]:
        """``gone`` for a deleted group, ``transient`` if a retry may help, or ``permanent``."""
        if self.errno in _GONE:
            return "gone"
        return "transient" if self.errno in _TRANSIENT else "permanent"


class Cgroups(Protocol):
    """Interface to the cgroups of a node.

    Attributes:
        version: Version of the cgroup interface.
    """

    @property
    def version(self) -> Literal[1, 2]:
        """Version of the cgroup interface."""

    def read(self, setting: CgroupFile) -> str:
        """Return the text of a file, without the final line break.

        Raises:
            CgroupError: The kernel refuses, or the group or file does not exist.
        """

    def write(self, setting: CgroupFile, value: str) -> None:
        """Write a value with one system call; an empty value empties a cpuset.

        Raises:
            CgroupError: The kernel refuses, or the group or file does not exist.
        """

    def identity(self, group: str) -> int | None:
        """Return a number that no other group has, not even a later one of the same name.

        None if the group does not exist.

        Raises:
            CgroupError: It may not be looked at.
        """

    def children(self, group: str) -> tuple[str, ...]:
        """Return the child groups of a group, sorted; empty if the group does not exist.

        Raises:
            CgroupError: They cannot be listed.
        """


def read_text(descriptor: int) -> str:
    """Return the text of an open cgroup file from its beginning, without the final line break.

    The kernel makes the text of most files at once, within a page. Long lists, such as those of
    processes, come in parts that nearly fill a page each.
    """
    part = text = os.pread(descriptor, _WHOLE, 0)
    while len(part) > _PART:
        part = os.pread(descriptor, _WHOLE, len(text))
        text += part
    return text.decode("ascii").rstrip("\n")


@dataclass(frozen=True, slots=True)
class CgroupTree:
    """The cgroups of this node's kernel (implements `Cgroups`).

    Attributes:
        version: Version of the cgroup interface.
        mounts: Root directory of each controller; the same for all in v2. Plain strings instead of
            paths, because an idle agent reads hundreds of files a second.
    """

    version: Literal[1, 2]
    mounts: Mapping[Controller, str]

    @classmethod
    def at(cls, mount: Path = Path("/sys/fs/cgroup")) -> Self:
        """Find the controllers below a mount point.

        Raises:
            TreeError: A controller that the agent needs is missing.
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
        """Return the directory of a group in a controller's hierarchy."""
        return self.mounts[controller] + group.rstrip("/")

    def read(self, setting: CgroupFile) -> str:
        """Return the text of a file; see `Cgroups`."""
        try:
            descriptor = os.open(self._path(setting), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return read_text(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise CgroupError(setting, error.errno or 0) from error

    def write(self, setting: CgroupFile, value: str) -> None:
        """Write a value to a file; see `Cgroups`."""
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
        """Return the group's inode number, which kernfs never reuses; see `Cgroups`."""
        try:
            return os.stat(self.folder("cpuset", group)).st_ino  # noqa: PTH116 - see `mounts`
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CgroupError(CgroupFile("cpuset", group, "."), error.errno or 0) from error

    def children(self, group: str) -> tuple[str, ...]:
        """Return the child groups of a group; see `Cgroups`."""
        folder = self.folder("cpuset", group)
        try:
            # Each subdirectory links to its parent. In v1 containers are listed as well, most of
            # which have no child groups; to list their files would take four times as long.
            if self.version == 1 and os.stat(folder).st_nlink == _LINKS_OF_A_LEAF:  # noqa: PTH116
                return ()
            with os.scandir(folder) as entries:
                names = sorted([entry.name for entry in entries if entry.is_dir()])
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise CgroupError(CgroupFile("cpuset", group, "."), error.errno or 0) from error
        return tuple(f"{group.rstrip('/')}/{name}" for name in names)

    def _path(self, setting: CgroupFile) -> str:
        if setting.controller not in self.mounts:  # one that the agent can do without
            raise CgroupError(setting, errno.ENOENT)
        return f"{self.folder(setting.controller, setting.group)}/{setting.file}"


class RecordingCgroups:
    """Cgroups that record the writes to them (implements `Cgroups`).

    Attributes:
        writes: Writes that succeeded, in order.
    """

    def __init__(self, cgroups: Cgroups) -> None:
        self.writes: list[FileWrite] = []
        self._cgroups = cgroups
        self.read, self.identity = cgroups.read, cgroups.identity
        self.children = cgroups.children

    @property
    def version(self) -> Literal[1, 2]:
        """Version of the cgroup interface."""
        return self._cgroups.version

    def write(self, setting: CgroupFile, value: str) -> None:
        """Write a value to a file; see `Cgroups`."""
        self._cgroups.write(setting, value)
        self.writes.append((setting, value))


class ReadOnce:
    """Cgroups that read each file once, until something is written (implements `Cgroups`)."""

    def __init__(self, cgroups: Cgroups) -> None:
        self._cgroups = cgroups
        self._texts: dict[CgroupFile, str] = {}
        self.identity, self.children = cgroups.identity, cgroups.children

    @property
    def version(self) -> Literal[1, 2]:
        """Version of the cgroup interface."""
        return self._cgroups.version

    def read(self, setting: CgroupFile) -> str:
        """Return the text of a file as it was read first; see `Cgroups`."""
        text = self._texts.get(setting)
        if text is None:
            text = self._texts[setting] = self._cgroups.read(setting)
        return text

    def write(self, setting: CgroupFile, value: str) -> None:
        """Write a value to a file; see `Cgroups`."""
        self.forget()
        self._cgroups.write(setting, value)

    def forget(self, *settings: CgroupFile) -> None:
        """Read these files again from now on, or all if none is given."""
        for setting in settings:
            self._texts.pop(setting, None)
        if not settings:
            self._texts.clear()


def descendants(cgroups: Cgroups, group: str) -> Iterator[str]:
    """Yield all groups below a group, parents first.

    A container whose cgroups can be written may make a tree of any depth, and hide what is in it:
    groups that are deeper than `DEEPEST`, or below one that cannot be listed, are left out.
    """
    left = [(group, 0)]
    while left:
        above, depth = left.pop()
        with suppress(CgroupError):
            children = cgroups.children(above) if depth < DEEPEST else ()
            left.extend((child, depth + 1) for child in reversed(children))
        if above != group:
            yield above


def is_gone(cgroups: Cgroups, group: str, identity: int) -> bool:
    """Whether a group was deleted, or replaced by another of its name; False if unknown."""
    try:
        return cgroups.identity(group) != identity
    except CgroupError:
        return False


def members(cgroups: Cgroups, group: str) -> Iterator[int]:
    """Yield the PIDs of a group and its descendants, without those of other PID namespaces."""
    for each in (group, *descendants(cgroups, group)):
        try:
            listed = cgroups.read(CgroupFile("cpuset", each, "cgroup.procs"))
        except CgroupError:
            continue
        yield from (pid for pid in map(int, listed.split()) if pid)  # others are listed as 0


def read_cpu_seconds(cgroups: Cgroups, group: str) -> float:
    """Return the CPU time in seconds of all processes that a group and its descendants had.

    Raises:
        CgroupError: The group was deleted, or its file cannot be read.
    """
    if cgroups.version == 1:
        return int(cgroups.read(CgroupFile("cpuacct", group, "cpuacct.usage"))) / 1e9
    lines = cgroups.read(CgroupFile("cpu", group, "cpu.stat")).splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("usage_usec ")) / 1e6
