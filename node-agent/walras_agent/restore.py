"""Effects: restores the original texts of cgroup files from the journal.

The order is one that the kernel accepts at every step:

- cpuset: in v1, and in v2 before Linux 6.1, a group must always have all CPUs of its children. So
  all groups first get the union of present and original, parents first; then they release what they
  did not have originally, children first.
- CPU bandwidth: a quota may not be below the burst, and in v1 no group may have more than its
  parent. So all quotas are removed first, then periods and bursts are set, then quotas, parents
  first.
- Memory of v1: ``memory.memsw.limit_in_bytes`` may not be below ``memory.limit_in_bytes``. So it is
  raised first and lowered last.

A memory limit is not lowered to the memory in use or close to it: v2 would kill tasks, and v1 would
leave them no room. It stays pending until less is in use (``cgroup-v2.rst``, memory.max;
``cgroup-v1/memory.rst``, section 2.3).

A cpuset that was empty, which means all CPUs of the parent, cannot be emptied again while it has
tasks: ENOSPC, in v2 as in v1. In v2 it first gets all CPUs that the machine may ever have, with
those that are offline now, so that its tasks may use all CPUs of the parent. Then, if no child of
the parent has a cpuset that must stay, the controller is disabled for these children and enabled
again, which makes all their cpusets empty. CPUs and memory nodes are restored one after the other,
so a cpuset with all that the machine has need not stay: it has the same effect if it is empty.
Where the kernel refuses this (EBUSY, because a container has enabled the controller for cgroups of
its own), one thing differs until the group is deleted: no sibling can become a partition of CPUs
(``cpuset.cpus.partition``), which neither the kubelet nor a container runtime makes.
"""

from __future__ import annotations

import contextlib
import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.cpuset import CpuSet
from walras_agent.journal import JournalError
from walras_agent.tree import CgroupError, CgroupFile, is_gone

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from walras_agent.journal import Journal, Original
    from walras_agent.tree import Cgroups

HEADROOM = 32 << 20  # bytes

_NOTHING = CpuSet()

_CPUS = "cpuset.cpus"
_CPUSETS = (_CPUS, "cpuset.mems")
_QUOTAS = {"cpu.cfs_quota_us": "-1", "cpu.max": "max"}  # with the value for no quota
_WITH_QUOTA = ("cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.max.burst")
_LIMITS = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max", "memory.high")
_USAGE = {
    "memory.limit_in_bytes": "memory.usage_in_bytes",
    "memory.memsw.limit_in_bytes": "memory.memsw.usage_in_bytes",
    "memory.max": "memory.current",
    "memory.high": "memory.current",
}


class RestoreWrite(NamedTuple):
    """One write of a restore.

    Attributes:
        setting: The file.
        value: Text to write to it.
        tolerated: Error numbers after which the file may stay as it is.
    """

    setting: CgroupFile
    value: str
    tolerated: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restore, file by file.

    Attributes:
        restored: Files that have their original text, or one that others have written since.
        gone: Files whose group was deleted, or replaced by another of the same name.
        pending: Memory limits that wait until less memory is in use, with a message.
        failed: Files that the kernel refused to read or write, with the error.
    """

    restored: tuple[CgroupFile, ...]
    gone: tuple[CgroupFile, ...]
    pending: Mapping[CgroupFile, str]
    failed: Mapping[CgroupFile, CgroupError]


def restore(
    journal: Journal,
    cgroups: Cgroups,
    settings: Collection[CgroupFile] | None = None,
    headroom: int = HEADROOM,
    possible: CpuSet = _NOTHING,
) -> RestoreResult:
    """Restore files as far as possible, and drop those that are done from the journal.

    Pending and failed files stay in the journal, for another try. After a crash anywhere in
    between, the same call does the rest. What others have written since the agent did stays, also
    while the journal cannot be written.

    Args:
        journal: Journal with the originals.
        cgroups: Cgroups of this node.
        settings: Files to restore; by default all that the journal has.
        headroom: Bytes by which a limit must exceed the memory in use to be lowered.
        possible: CPUs that the machine may ever have (`topology.possible_cpus`), in addition to
            those that are online.

    Raises:
        JournalError: The files were restored, but the journal cannot be written.
    """
    chosen = sorted(each for each in journal.originals if settings is None or each in settings)
    wanted = [journal.originals[each] for each in chosen]
    done = _Restoration(journal, cgroups, wanted, headroom, possible).run()
    journal.forget([*done.restored, *done.gone])
    return done


class _Restoration:
    def __init__(
        self,
        journal: Journal,
        cgroups: Cgroups,
        originals: Iterable[Original],
        headroom: int,
        possible: CpuSet,
    ) -> None:
        self._cgroups, self._headroom, self._possible = cgroups, headroom, possible
        self._journal = journal
        self._originals = {original.setting: original for original in originals}
        self._gone: set[CgroupFile] = set()
        self._pending: dict[CgroupFile, str] = {}
        self._failed: dict[CgroupFile, CgroupError] = {}
        self._own: dict[CgroupFile, set[str]] = {}  # values that this restoration writes

    def run(self) -> RestoreResult:
        version, journal = self._cgroups.version, self._journal
        everything = {file: self._everything(file) for file in _CPUSETS}
        if everything[_CPUS]:
            journal.see_online(everything[_CPUS])
        there = {
            setting: (now, now if journal.is_foreign(original, now, version) else original.text)
            for setting, original in self._originals.items()
            if (now := self._look(setting)) is not None
        }
        writes = list(plan_restore(version, there, everything))
        with contextlib.suppress(JournalError):  # on a full disk, too, all goes back
            journal.record(((write.setting, write.value) for write in writes), self._cgroups)
        for write in writes:
            self._own.setdefault(write.setting, set()).add(write.value)
        for write in writes:
            if write.setting not in self._gone and write.setting not in self._pending:
                self._write(write)
        if version == 2:
            emptied = {each.setting for each in writes if each.value == ""}
            self._empty_cpusets(emptied, everything)
        restored = self._originals.keys() - self._gone - self._pending.keys() - self._failed.keys()
        return RestoreResult(
            tuple(sorted(restored)), tuple(sorted(self._gone)), self._pending, self._failed
        )

    def _look(self, setting: CgroupFile) -> str | None:
        """Return the text of a file; None if it must not be written."""
        if self._is_gone(setting):
            return None
        try:
            return self._cgroups.read(setting)
        except CgroupError as error:
            self._refused(setting, error)
            return None

    def _everything(self, file: str) -> CpuSet:
        """Return the CPUs or memory nodes of the root group; empty if they cannot be read."""
        shown = file if self._cgroups.version == 1 else f"{file}.effective"
        try:
            now = CpuSet.parse(self._cgroups.read(CgroupFile("cpuset", "/", shown)))
        except CgroupError:
            return CpuSet()
        # In v2 cpuset.cpus may list offline CPUs, but cpuset.mems no offline memory nodes.
        return now | self._possible if shown == "cpuset.cpus.effective" else now

    def _write(self, write: RestoreWrite) -> None:
        setting = write.setting
        if self._is_gone(setting):
            return
        try:
            if self._is_overtaken(setting):
                return
            if reason := self._in_use(write):
                self._pending[setting] = reason
                return
            self._cgroups.write(setting, write.value)
        except CgroupError as error:
            if error.errno not in write.tolerated and not self._is_bounded_by_parent(write):
                self._refused(setting, error)
        else:
            self._failed.pop(setting, None)

    def _is_overtaken(self, setting: CgroupFile) -> bool:
        """Whether others have written a file since this restoration began: that stays."""
        original, own = self._originals[setting], tuple(self._own[setting])
        if original.written is not None:
            original = original._replace(written=(*original.written, *own))
        now = self._cgroups.read(setting)
        return self._journal.is_foreign(original, now, self._cgroups.version)

    def _is_bounded_by_parent(self, write: RestoreWrite) -> bool:
        """Return whether a quota of v1 is above the parent's, which others have lowered meanwhile.

        The kernel refuses it, and without a quota of its own the group has the parent's.
        """
        setting = write.setting
        if setting.file != "cpu.cfs_quota_us":
            return False
        above = setting._replace(group=setting.group.rpartition("/")[0])
        try:
            parts = [self._part(above, self._cgroups.read(above)), self._part(setting, write.value)]
        except CgroupError:
            return False
        return 0 < parts[0] < parts[1]

    def _part(self, setting: CgroupFile, quota: str) -> float:
        """Return the CPUs that a quota of v1 allows; negative without one."""
        return int(quota) / int(self._cgroups.read(setting._replace(file="cpu.cfs_period_us")))

    def _empty_cpusets(self, settings: set[CgroupFile], everything: Mapping[str, CpuSet]) -> None:
        """Empty cpusets that the kernel does not let be written empty, as far as it can be done."""
        parents = {each.group.rpartition("/")[0] for each in settings - self._gone}
        for parent in sorted(parents):
            control = CgroupFile("cpuset", parent, "cgroup.subtree_control")
            with contextlib.suppress(CgroupError):
                children = self._cgroups.children(parent)
                files = [CgroupFile("cpuset", each, file) for each in children for file in _CPUSETS]
                lists = {each: CpuSet.parse(self._cgroups.read(each)) for each in files}
                may_go = [
                    each in settings
                    or bool(everything[each.file] and everything[each.file] <= cpus)
                    for each, cpus in lists.items()
                    if cpus
                ]
                enabled = "cpuset" in self._cgroups.read(control).split()
                if enabled and may_go and all(may_go):
                    self._cgroups.write(control, "-cpuset")
                    self._cgroups.write(control, "+cpuset")

    def _in_use(self, write: RestoreWrite) -> str:
        """Return why a limit must not be lowered now; empty if it may be written."""
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
        return (
            f"{usage} bytes are in use; a limit of {write.value} needs {self._headroom} bytes "
            "of headroom"
        )

    def _refused(self, setting: CgroupFile, error: CgroupError) -> None:
        if not self._is_gone(setting):
            self._failed[setting] = error

    def _is_gone(self, setting: CgroupFile) -> bool:
        if not is_gone(self._cgroups, setting.group, self._originals[setting].identity):
            return False
        self._gone.add(setting)
        self._failed.pop(setting, None)
        return True


def plan_restore(
    version: int, files: Mapping[CgroupFile, tuple[str, str]], everything: Mapping[str, CpuSet]
) -> Iterator[RestoreWrite]:
    """Yield the writes that restore files, in an order that the kernel accepts.

    Args:
        version: Version of the cgroup interface.
        files: Present and original text of each file.
        everything: All CPUs and memory nodes of the machine, by name of the cpuset file.
    """
    parents_first = sorted(files, key=lambda setting: (setting.group.count("/"), setting))
    changing = [setting for setting in parents_first if files[setting][0] != files[setting][1]]
    yield from _cpusets(version, changing, files, everything)
    yield from _bandwidths(parents_first, changing, files)
    yield from _limits([each for each in changing if each.file in _LIMITS], files)
    special = {*_CPUSETS, *_QUOTAS, *_WITH_QUOTA, *_LIMITS}
    for setting in changing:
        if setting.file not in special:
            yield RestoreWrite(setting, files[setting][1])


def _cpusets(
    version: int,
    changing: Iterable[CgroupFile],
    files: Mapping[CgroupFile, tuple[str, str]],
    everything: Mapping[str, CpuSet],
) -> Iterator[RestoreWrite]:
    back = []
    for setting in changing:
        if setting.file not in _CPUSETS:
            continue
        all_of_them = everything[setting.file]
        now, original = (CpuSet.parse(text) for text in files[setting])
        if version == 1:
            # The kernel removes CPUs that went offline from all groups, and refuses them.
            original = original & all_of_them or original
            wide = now | original
        else:
            wide = (now or all_of_them) | (original or all_of_them)
        if wide != now:
            yield RestoreWrite(setting, str(wide))
        if not original and version == 2:
            stays = (errno.ENOSPC, errno.EBUSY) if all_of_them else ()
            back.append(RestoreWrite(setting, "", stays))
        elif wide != original:
            back.append(RestoreWrite(setting, str(original)))
    yield from reversed(back)


def _bandwidths(
    parents_first: Iterable[CgroupFile],
    changing: Collection[CgroupFile],
    files: Mapping[CgroupFile, tuple[str, str]],
) -> Iterator[RestoreWrite]:
    groups = {each.group for each in changing if each.file in {*_QUOTAS, *_WITH_QUOTA}}
    quotas = [each for each in parents_first if each.file in _QUOTAS and each.group in groups]
    lifted = {}
    for setting in quotas:
        now, original = files[setting]
        if not _unlimited(setting, now):
            lifted[setting] = original if _unlimited(setting, original) else _QUOTAS[setting.file]
            yield RestoreWrite(setting, lifted[setting])
    for setting in changing:
        if setting.file in _WITH_QUOTA:
            yield RestoreWrite(setting, files[setting][1])
    for setting in quotas:
        now, original = files[setting]
        if lifted.get(setting, now) != original:
            yield RestoreWrite(setting, original)


def _unlimited(setting: CgroupFile, quota: str) -> bool:
    return quota.startswith(_QUOTAS[setting.file])


def _limits(
    changing: Iterable[CgroupFile], files: Mapping[CgroupFile, tuple[str, str]]
) -> Iterator[RestoreWrite]:
    memsw_last = sorted(changing, key=lambda each: (each.group, "memsw" in each.file))
    raised = [each for each in memsw_last if _limit(files[each][1]) > _limit(files[each][0])]
    for setting in reversed(raised):
        yield RestoreWrite(setting, files[setting][1])
    for setting in memsw_last:
        if setting not in raised:
            yield RestoreWrite(setting, files[setting][1])


def _limit(text: str) -> float:
    return float("inf") if text == "max" else int(text)
