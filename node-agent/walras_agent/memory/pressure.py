"""Facts: what memory a group of tasks has, what of it it needs, and how short of it it is.

What the files say: cgroup v2 ``Documentation/admin-guide/cgroup-v2.rst``, "Memory", and
``Documentation/accounting/psi.rst``; cgroup v1 ``Documentation/admin-guide/cgroup-v1/memory.rst``.
A group has two limits in both versions. At the *hard* limit (``memory.max``,
``memory.limit_in_bytes``) the kernel kills when it finds nothing to reclaim. At the *soft* limit
(``memory.high``, ``memory.soft_limit_in_bytes``) it never kills: v2 reclaims and slows the tasks
down, v1 takes from this group first when the node is short of memory.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walras_agent.tree import Cgroups

Knob = Literal["hard", "soft", "swap", "kills"]

UNLIMITED = 1 << 62
"""A limit that is none; the kernel's own is the largest multiple of a page below 2 ** 63."""

FILES: Mapping[Literal[1, 2], Mapping[Knob, str]] = {
    1: {
        "hard": "memory.limit_in_bytes",
        "soft": "memory.soft_limit_in_bytes",
        "swap": "memory.memsw.limit_in_bytes",
        "kills": "memory.oom_control",
    },
    2: {"hard": "memory.max", "soft": "memory.high"},
}
"""The files of a group that hold its limits."""

_PAGE = os.sysconf("SC_PAGE_SIZE")
_REFAULTS = ("workingset_refault_anon", "workingset_refault_file")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a group of tasks is held to, in bytes.

    Attributes:
        hard: Beyond it the kernel kills.
        soft: Beyond it the kernel reclaims.
        swap: Of memory and swap together, never below ``hard``; `UNLIMITED` where the kernel has
            no such limit (v2, and v1 without swap accounting).
        kills: Whether the kernel kills at the hard limit; otherwise tasks wait there (v1 only).
    """

    hard: int = UNLIMITED
    soft: int = UNLIMITED
    swap: int = UNLIMITED
    kills: bool = True

    @classmethod
    def read(cls, version: Literal[1, 2], group: str, read: Callable[[Setting], str]) -> Limits:
        """Read a group's limits.

        Args:
            version: Of the cgroup interface.
            group: The group.
            read: The text of a file: from the kernel, or of the time before Walras from a journal.

        Raises:
            CgroupError: The group is gone, or it has no limits.
        """
        texts = {
            knob: read(Setting("memory", group, file))
            for knob, file in FILES[version].items()
            if knob != "swap"
        }
        swap = UNLIMITED
        if version == 1:
            swap = _limit(_if_there(read, group, FILES[1]["swap"]) or "max")
        return cls(
            hard=_limit(texts["hard"]),
            soft=_limit(texts["soft"]),
            swap=swap,
            kills=_table(texts.get("kills", "")).get("oom_kill_disable", 0) == 0,
        )


@dataclass(frozen=True, slots=True)
class Stall:
    """For how long at least one task (some), or all at once (full), waited for memory.

    Attributes:
        some: Percent of the last ten seconds, as an average that fades for half a minute.
        full: The same.
        some_total: Seconds, ever.
        full_total: The same.
    """

    some: float = 0.0
    full: float = 0.0
    some_total: float = 0.0
    full_total: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a group of tasks and all below it.

    Attributes:
        limits: In force.
        usage: Bytes charged to the group.
        inactive_file: Of these, files' contents not used of late.
        active_file: Files' contents used more than once.
        stall: Pressure stall information; None where the kernel has none (v1, or ``psi=0``).
        refaulted: Bytes that had to be read back soon after they were reclaimed, ever; where the
            kernel does not count these, bytes that were waited for from a disk.
        refused: How often the group came up against its hard limit, ever.
        slowed: How often its tasks were slowed down beyond its soft limit, ever (v2 only).
        killed: How many tasks were killed for want of memory, ever; in v1 without those of the
            groups below.
    """

    limits: Limits
    usage: int
    inactive_file: int = 0
    active_file: int = 0
    stall: Stall | None = None
    refaulted: int = 0
    refused: int = 0
    slowed: int = 0
    killed: int = 0

    @property
    def working_set(self) -> int:
        """What the kernel cannot take without taking what is in use; as the kubelet has it."""
        return max(0, self.usage - self.inactive_file)

    @property
    def pinned(self) -> int:
        """What the kernel cannot drop at all; without a swap device it can only be freed."""
        return max(0, self.usage - self.inactive_file - self.active_file)


def observe(cgroups: Cgroups, group: str) -> Sample:
    """Look at a group.

    Raises:
        CgroupError: The group is gone, or a file that every kernel has cannot be read.
    """
    read = cgroups.read
    limits = Limits.read(cgroups.version, group, read)
    stat = _table(read(Setting("memory", group, "memory.stat")))
    if cgroups.version == 2:
        events = _table(read(Setting("memory", group, "memory.events")))
        return Sample(
            limits,
            usage=int(read(Setting("memory", group, "memory.current"))),
            inactive_file=stat["inactive_file"],
            active_file=stat["active_file"],
            stall=_stall(_if_there(read, group, "memory.pressure")),
            refaulted=_refaulted(stat, ""),
            refused=events["max"],
            slowed=events["high"],
            killed=events["oom_kill"],
        )
    oom = _table(read(Setting("memory", group, "memory.oom_control")))
    return Sample(
        limits,
        usage=int(read(Setting("memory", group, "memory.usage_in_bytes"))),
        inactive_file=stat["total_inactive_file"],
        active_file=stat["total_active_file"],
        refaulted=_refaulted(stat, "total_"),
        refused=int(read(Setting("memory", group, "memory.failcnt"))),
        killed=oom.get("oom_kill", 0),  # since Linux 4.13
    )


def size(amount: int) -> str:
    """Bytes for a person, such as 1.5 GiB."""
    if amount >= UNLIMITED:
        return "no limit"
    for power, unit in ((30, "GiB"), (20, "MiB")):
        if amount >= 1 << power:
            return f"{amount / (1 << power):.4g} {unit}"
    return f"{amount / 1024:.4g} KiB"


def _limit(text: str) -> int:
    return UNLIMITED if text == "max" else min(int(text), UNLIMITED)


def _refaulted(stat: Mapping[str, int], prefix: str) -> int:
    """Split by kind since Linux 5.9; one number before; v1 of older kernels has none."""
    counted = [stat[name] for each in _REFAULTS if (name := prefix + each) in stat]
    pages = sum(counted) if counted else stat.get(prefix + "workingset_refault")
    return (stat[prefix + "pgmajfault"] if pages is None else pages) * _PAGE


def _stall(text: str | None) -> Stall | None:
    if text is None:
        return None
    found = re.findall(r"^(some|full) avg10=([0-9.]+) .* total=([0-9]+)$", text, re.MULTILINE)
    recent = {kind: float(percent) for kind, percent, _ in found}
    totals = {kind: int(microseconds) / 1e6 for kind, _, microseconds in found}
    return Stall(recent["some"], recent["full"], totals["some"], totals["full"])


def _table(text: str) -> dict[str, int]:
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def _if_there(read: Callable[[Setting], str], group: str, file: str) -> str | None:
    """What only some kernels have; of one that does not, missing says nothing of the group."""
    try:
        return read(Setting("memory", group, file))
    except CgroupError:
        return None
