"""Apply: writes to cgroup files what they said before the agent first wrote to them.

The order is one that the kernel accepts at every step:

- cpuset: v1, and v2 before Linux 6.1, demand at any time that a group has all that its children
  have. So all groups first get what they have and had, parents first; then they give up what they
  had not, children first.
- CPU bandwidth: a quota may not be below the burst, and in v1 no group may have more than its
  parent. So all quotas are lifted first, then periods and bursts are set, then quotas, parents
  first.
- Memory of v1: ``memory.memsw.limit_in_bytes`` may not be below ``memory.limit_in_bytes``. So it is
  raised first and lowered last.

A limit on memory is not lowered to what is in use, or close to it: v2 would kill tasks, and v1
would leave them no room. That is pending until the use is lower (``cgroup-v2.rst``, memory.max;
``cgroup-v1/memory.rst``, section 2.3).

A cpuset that was empty, and so stood for all that the parent has, cannot be emptied again while
there are tasks in it: ENOSPC, in v2 as in v1. In v2 it is left at all CPUs that the machine may
ever have, those that are offline now included, which is the same for its tasks: they get what the
parent has, now and later. One thing differs until the group goes: no sibling can become a partition
of CPUs (``cpuset.cpus.partition``), which neither the kubelet nor a container runtime makes.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.cpuset import CpuSet
from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from walras_agent.journal import Journal, Original
    from walras_agent.tree import Cgroups

HEADROOM = 32 << 20  # bytes

_NOTHING = CpuSet()

_CPUSETS = ("cpuset.cpus", "cpuset.mems")
_QUOTAS = {"cpu.cfs_quota_us": "-1", "cpu.max": "max"}  # and what lifts them
_WITH_QUOTA = ("cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.max.burst")
_LIMITS = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max", "memory.high")
_USAGE = {
    "memory.limit_in_bytes": "memory.usage_in_bytes",
    "memory.memsw.limit_in_bytes": "memory.memsw.usage_in_bytes",
    "memory.max": "memory.current",
    "memory.high": "memory.current",
}


class Write(NamedTuple):
    """One step on the way back.

    Attributes:
        setting: The file.
        value: What is written to it.
        enough: Errors after which the file may stay as it is.
    """

    setting: Setting
    value: str
    enough: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Restored:
    """How it went, file by file.

    Attributes:
        restored: They hold what they held before the agent.
        gone: Their groups are no more, or others have taken the names.
        pending: They wait for less memory to be in use; with the reason, for people.
        failed: The kernel refused; by file.
    """

    restored: tuple[Setting, ...]
    gone: tuple[Setting, ...]
    pending: Mapping[Setting, str]
    failed: Mapping[Setting, CgroupError]


def restore(
    journal: Journal,
    cgroups: Cgroups,
    settings: Collection[Setting] | None = None,
    headroom: int = HEADROOM,
    possible: CpuSet = _NOTHING,
) -> Restored:
    """Put files back, as far as it goes, and have the journal forget those that are done.

    What is pending or has failed stays in the journal, for another try. Stopped anywhere in
    between, the same call does the rest.

    Args:
        journal: Has the originals.
        cgroups: Of this node.
        settings: Which files; all that the journal has by default.
        headroom: By how many bytes a limit must exceed the memory in use to be lowered.
        possible: CPUs that the machine may have (`topology.possible_cpus`); those that are online
            are known without.

    Raises:
        JournalError: The files have been put back, and the journal cannot be written.
    """
    wanted = [
        original
        for setting, original in sorted(journal.originals.items())
        if settings is None or setting in settings
    ]
    done = _Restoration(cgroups, wanted, headroom, possible).run()
    journal.forget([*done.restored, *done.gone])
    return done


class _Restoration:
    def __init__(
        self, cgroups: Cgroups, originals: Iterable[Original], headroom: int, possible: CpuSet
    ) -> None:
        self._cgroups, self._headroom, self._possible = cgroups, headroom, possible
        self._originals = {original.setting: original for original in originals}
        self._gone: set[Setting] = set()
        self._pending: dict[Setting, str] = {}
        self._failed: dict[Setting, CgroupError] = {}

    def run(self) -> Restored:
        there = {
            setting: (now, original.text)
            for setting, original in self._originals.items()
            if (now := self._look(setting)) is not None
        }
        everything = {file: self._everything(file) for file in _CPUSETS}
        for write in order(self._cgroups.version, there, everything):
            if write.setting not in self._gone and write.setting not in self._pending:
                self._write(write)
        restored = self._originals.keys() - self._gone - self._pending.keys() - self._failed.keys()
        return Restored(
            tuple(sorted(restored)), tuple(sorted(self._gone)), self._pending, self._failed
        )

    def _look(self, setting: Setting) -> str | None:
        """What a file says now; None if it is not to be written."""
        if self._is_gone(setting):
            return None
        try:
            return self._cgroups.read(setting)
        except CgroupError as error:
            self._refused(setting, error)
            return None

    def _everything(self, file: str) -> CpuSet:
        """What tasks of the topmost group may use; nothing if that is not to be had."""
        shown = file if self._cgroups.version == 1 else f"{file}.effective"
        try:
            now = CpuSet.parse(self._cgroups.read(Setting("cpuset", "/", shown)))
        except CgroupError:
            return CpuSet()
        # In v2 a CPU may be listed before it comes online, but a memory node may not.
        return now | self._possible if shown == "cpuset.cpus.effective" else now

    def _write(self, write: Write) -> None:
        setting = write.setting
        if self._is_gone(setting):
            return
        try:
            if reason := self._in_use(write):
                self._pending[setting] = reason
                return
            self._cgroups.write(setting, write.value)
        except CgroupError as error:
            if error.errno not in write.enough:
                self._refused(setting, error)
        else:
            self._failed.pop(setting, None)

    def _in_use(self, write: Write) -> str:
        """Why a limit is not lowered now; empty if it may be written."""
        setting = write.setting
        if setting.file not in _LIMITS:
            return ""
        if _limit(write.value) >= _limit(self._cgroups.read(setting)):
            return ""
        without_swap = setting._replace(file="memory.limit_in_bytes")
        if without_swap in self._pending and without_swap != setting:
            return f"waits for {without_swap}"
        usage = int(self._cgroups.read(setting._replace(file=_USAGE[setting.file])))
        if usage + self._headroom <= _limit(write.value):
            return ""
        return f"{usage} bytes are in use, {self._headroom} more must fit below {write.value}"

    def _refused(self, setting: Setting, error: CgroupError) -> None:
        if not self._is_gone(setting):
            self._failed[setting] = error

    def _is_gone(self, setting: Setting) -> bool:
        if self._cgroups.identity(setting.group) == self._originals[setting].identity:
            return False
        self._gone.add(setting)
        self._failed.pop(setting, None)
        return True


def order(
    version: int, files: Mapping[Setting, tuple[str, str]], everything: Mapping[str, CpuSet]
) -> Iterator[Write]:
    """The writes that lead from what files say now to what they are to say.

    Args:
        version: Of the cgroup interface.
        files: What each file says now and is to say.
        everything: By file, the CPUs or memory nodes that the topmost group has.
    """
    parents_first = sorted(files, key=lambda setting: (setting.group.count("/"), setting))
    changing = [setting for setting in parents_first if files[setting][0] != files[setting][1]]
    yield from _cpusets(version, changing, files, everything)
    yield from _bandwidths(parents_first, changing, files)
    yield from _limits([each for each in changing if each.file in _LIMITS], files)
    special = {*_CPUSETS, *_QUOTAS, *_WITH_QUOTA, *_LIMITS}
    for setting in changing:
        if setting.file not in special:
            yield Write(setting, files[setting][1])


def _cpusets(
    version: int,
    changing: Iterable[Setting],
    files: Mapping[Setting, tuple[str, str]],
    everything: Mapping[str, CpuSet],
) -> Iterator[Write]:
    back = []
    for setting in changing:
        if setting.file not in _CPUSETS:
            continue
        all_of_them = everything[setting.file]
        now, original = (CpuSet.parse(text) for text in files[setting])
        if version == 1:
            # The kernel has taken CPUs that went offline out of all groups, and refuses them.
            original = original & all_of_them or original
            wide = now | original
        else:
            wide = (now or all_of_them) | (original or all_of_them)
        if wide != now:
            yield Write(setting, str(wide))
        if not original and version == 2:
            stays = (errno.ENOSPC, errno.EBUSY) if all_of_them else ()
            back.append(Write(setting, "", stays))
        elif wide != original:
            back.append(Write(setting, str(original)))
    yield from reversed(back)


def _bandwidths(
    parents_first: Iterable[Setting],
    changing: Collection[Setting],
    files: Mapping[Setting, tuple[str, str]],
) -> Iterator[Write]:
    groups = {each.group for each in changing if each.file in {*_QUOTAS, *_WITH_QUOTA}}
    quotas = [each for each in parents_first if each.file in _QUOTAS and each.group in groups]
    lifted = {}
    for setting in quotas:
        now, original = files[setting]
        if not _unlimited(setting, now):
            lifted[setting] = original if _unlimited(setting, original) else _QUOTAS[setting.file]
            yield Write(setting, lifted[setting])
    for setting in changing:
        if setting.file in _WITH_QUOTA:
            yield Write(setting, files[setting][1])
    for setting in quotas:
        now, original = files[setting]
        if lifted.get(setting, now) != original:
            yield Write(setting, original)


def _unlimited(setting: Setting, quota: str) -> bool:
    return quota.startswith(_QUOTAS[setting.file])


def _limits(
    changing: Iterable[Setting], files: Mapping[Setting, tuple[str, str]]
) -> Iterator[Write]:
    memsw_last = sorted(changing, key=lambda each: (each.group, "memsw" in each.file))
    raised = [each for each in memsw_last if _limit(files[each][1]) > _limit(files[each][0])]
    for setting in reversed(raised):
        yield Write(setting, files[setting][1])
    for setting in memsw_last:
        if setting not in raised:
            yield Write(setting, files[setting][1])


def _limit(text: str) -> float:
    return float("inf") if text == "max" else int(text)
