"""Facts: reads the memory limits, usage and pressure of a cgroup.

The files are described in ``Documentation/admin-guide/cgroup-v2.rst``, "Memory",
``Documentation/accounting/psi.rst`` and ``Documentation/admin-guide/cgroup-v1/memory.rst``. A group
has two limits in both versions. At the *hard* limit (``memory.max``, ``memory.limit_in_bytes``) the
kernel kills if it finds nothing to reclaim. At the *soft* limit (``memory.high``,
``memory.soft_limit_in_bytes``) it never kills: v2 reclaims and throttles the tasks, v1 reclaims
from this group first when the node is short of memory.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from walras.numerics.byte_text import format_bytes
from walras_agent.tree import CgroupError, CgroupFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from walras_agent.tree import Cgroups

Knob = Literal["hard", "soft", "swap", "kills"]

UNLIMITED = 1 << 62
"""The value for no limit; the kernel's own is the largest multiple of a page below 2 ** 63."""

LIMIT_FILES: Mapping[Literal[1, 2], Mapping[Knob, str]] = {
    1: {
        "hard": "memory.limit_in_bytes",
        "soft": "memory.soft_limit_in_bytes",
        "swap": "memory.memsw.limit_in_bytes",
        "kills": "memory.oom_control",
    },
    2: {"hard": "memory.max", "soft": "memory.high"},
}
"""Names of the files with a group's limits, by cgroup version."""

USAGE_FILES: Mapping[Literal[1, 2], str] = {1: "memory.usage_in_bytes", 2: "memory.current"}
"""Name of the file with the bytes charged to a group, by cgroup version."""

_REACHED = {1: "memory.failcnt", 2: "memory.events"}  # counts how often a limit was reached

_PAGE = os.sysconf("SC_PAGE_SIZE")
_REFAULTS = ("workingset_refault_anon", "workingset_refault_file")


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """The memory limits of a group, in bytes.

    Attributes:
        hard: Limit above which the kernel kills.
        soft: Limit above which the kernel reclaims.
        swap: Limit of memory and swap together, never below ``hard``; `UNLIMITED` if the kernel
            has no such limit (v2, and v1 without swap accounting).
        kills: Whether the kernel kills at the hard limit; otherwise tasks wait there (v1 only).
    """

    hard: int = UNLIMITED
    soft: int = UNLIMITED
    swap: int = UNLIMITED
    kills: bool = True

    @classmethod
    def read(
        cls, version: Literal[1, 2], group: str, read: Callable[[CgroupFile], str]
    ) -> MemoryLimits:
        """Read a group's limits.

        Args:
            version: Version of the cgroup interface.
            group: Path of the group.
            read: Function that returns the text of a file, from the kernel or from a journal.

        Raises:
            CgroupError: The group was deleted, or it has no limits.
        """
        texts = {
            knob: read(CgroupFile("memory", group, file))
            for knob, file in LIMIT_FILES[version].items()
            if knob != "swap"
        }
        swap = UNLIMITED
        if version == 1:
            swap = _limit(_if_there(read, group, LIMIT_FILES[1]["swap"]) or "max")
        return cls(
            hard=_limit(texts["hard"]),
            soft=_limit(texts["soft"]),
            swap=swap,
            kills=_table(texts.get("kills", "")).get("oom_kill_disable", 0) == 0,
        )


@dataclass(frozen=True, slots=True)
class MemoryStall:
    """The time in which at least one task (some) or all tasks (full) waited for memory.

    Attributes:
        some: Percentage of time for one task, as a running average over ten seconds.
        full: Percentage of time for all tasks, as a running average over ten seconds.
        some_total: Total seconds for one task.
        full_total: Total seconds for all tasks.
    """

    some: float = 0.0
    full: float = 0.0
    some_total: float = 0.0
    full_total: float = 0.0


@dataclass(frozen=True, slots=True)
class MemorySample:
    """The memory of a group and its descendants at one moment.

    Attributes:
        limits: Limits in force.
        usage: Bytes charged to the group.
        inactive_file: Bytes of file cache that was not used recently.
        active_file: Bytes of file cache that was used more than once.
        stall: Pressure stall information; None if the kernel has none (v1, or ``psi=0``).
        refaulted: Total bytes read back soon after they were reclaimed; if the kernel does not
            count these, total bytes of major page faults.
        refused: Total number of times that the group reached its hard limit.
        slowed: Total number of times that its tasks were throttled at its soft limit (v2 only).
    """

    limits: MemoryLimits
    usage: int
    inactive_file: int = 0
    active_file: int = 0
    stall: MemoryStall | None = None
    refaulted: int = 0
    refused: int = 0
    slowed: int = 0

    @property
    def working_set(self) -> int:
        """Bytes in use, without the inactive file cache; as the kubelet defines it."""
        return max(0, self.usage - self.inactive_file)

    @property
    def pinned(self) -> int:
        """Bytes that the kernel cannot reclaim without swap: all but the file cache."""
        return max(0, self.usage - self.inactive_file - self.active_file)


def read_sample(cgroups: Cgroups, group: str) -> MemorySample:
    """Read the memory of a group.

    Raises:
        CgroupError: The group was deleted, or a file that every kernel has cannot be read.
    """
    read = cgroups.read
    limits = MemoryLimits.read(cgroups.version, group, read)
    stat = _table(read(CgroupFile("memory", group, "memory.stat")))
    usage = int(read(CgroupFile("memory", group, USAGE_FILES[cgroups.version])))
    reached = read(CgroupFile("memory", group, _REACHED[cgroups.version]))
    if cgroups.version == 2:
        events = _table(reached)
        return MemorySample(
            limits,
            usage=usage,
            inactive_file=stat["inactive_file"],
            active_file=stat["active_file"],
            stall=_stall(_if_there(read, group, "memory.pressure")),
            refaulted=_refaulted(stat, ""),
            refused=events["max"],
            slowed=events["high"],
        )
    return MemorySample(
        limits,
        usage=usage,
        inactive_file=stat["total_inactive_file"],
        active_file=stat["total_active_file"],
        refaulted=_refaulted(stat, "total_"),
        refused=int(reached),
    )


def read_signs(cgroups: Cgroups, pod: str, containers: Iterable[str]) -> tuple[str | None, ...]:
    """Return texts that are the same while no sample of a pod or its containers changes.

    The files of a pod's group count what its containers do, but for how often one reached its
    limit (in v1, and in v2 with ``memory_localevents``). Limits are left out: they change only when
    somebody writes them.

    Args:
        cgroups: Cgroups of the node.
        pod: Cgroup of the pod.
        containers: Cgroups of its containers.

    Raises:
        CgroupError: A group was deleted, or a file that every kernel has cannot be read.
    """
    read = cgroups.read
    usage, reached = USAGE_FILES[cgroups.version], _REACHED[cgroups.version]
    texts = [read(CgroupFile("memory", pod, file)) for file in ("memory.stat", usage)]
    texts += [read(CgroupFile("memory", group, reached)) for group in (pod, *containers)]
    return (*texts, _if_there(read, pod, "memory.pressure") if cgroups.version == 2 else None)


def limit_text(limit: int) -> str:
    """Return a limit in a readable unit, such as 1.5Gi; it may be no limit."""
    return "no limit" if limit >= UNLIMITED else format_bytes(limit)


def _limit(text: str) -> int:
    return UNLIMITED if text == "max" else min(int(text), UNLIMITED)


def _refaulted(stat: Mapping[str, int], prefix: str) -> int:
    """Return the refaulted bytes: two counters since Linux 5.9, one before, none in older v1."""
    counted = [stat[name] for each in _REFAULTS if (name := prefix + each) in stat]
    pages = sum(counted) if counted else stat.get(prefix + "workingset_refault")
    return (stat[prefix + "pgmajfault"] if pages is None else pages) * _PAGE


def _stall(text: str | None) -> MemoryStall | None:
    if text is None:
        return None
    averages = re.findall(r"^(some|full) avg10=([0-9.]+) .* total=([0-9]+)$", text, re.MULTILINE)
    recent = {kind: float(percent) for kind, percent, _ in averages}
    totals = {kind: int(microseconds) / 1e6 for kind, _, microseconds in averages}
    return MemoryStall(recent["some"], recent["full"], totals["some"], totals["full"])


def _table(text: str) -> dict[str, int]:
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def _if_there(read: Callable[[CgroupFile], str], group: str, file: str) -> str | None:
    """Return the text of a file that only some kernels have; None if it cannot be read."""
    try:
        return read(CgroupFile("memory", group, file))
    except CgroupError:
        return None
