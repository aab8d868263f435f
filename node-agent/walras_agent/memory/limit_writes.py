"""Effects: samples a pod's memory and makes one step towards its grant.

Memory is reclaimed in the way that the kernel has:

* v2 since Linux 5.19: ``memory.reclaim``, which takes the agent's own CPU time.
* v2 before: the write to ``memory.high`` that follows reclaims by itself.
* v1: a hard limit below the usage is refused (EBUSY) unless that much can be reclaimed, so it is
  lowered and restored at once. Between the two writes the limit is above the working set with its
  headroom, and OOM kills are off: if the agent dies there, a program that grows beyond the limit
  waits until a new agent restores the limit in its first step.

The kernel may reclaim less than asked, for example because pages are dirty or protected by
``memory.min``. Then the soft limit is lowered no further than to what the group still uses, since
v2 would throttle the program until the rest is reclaimed, and its hard limit stays as it is.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.memory.limit_steps import (
    LimitProgress,
    PodMemory,
    Reclaim,
    SetLimit,
    next_step,
    progress,
)
from walras_agent.memory.stats import LIMIT_FILES, UNLIMITED, MemoryLimits, read_sample
from walras_agent.tree import CgroupError, CgroupFile, RecordingCgroups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from walras_agent.memory.limit_steps import LimitHistory, MemoryWrite, ReclaimPace
    from walras_agent.memory.stats import MemorySample
    from walras_agent.tree import Cgroups, FileWrite

_THROTTLES_SAFELY = (5, 9)

# Answers to a request to reclaim of which the kernel met only a part: of v2 and of v1.
_RECLAIMED_LESS = frozenset({errno.EAGAIN, errno.EINTR, errno.EBUSY})


class StepResult(NamedTuple):
    """The result of one step for a pod.

    Attributes:
        report: How far the grant is enforced, as sampled after the writes.
        histories: Histories for the next step, by group.
        refused: Writes that the kernel refused; most are tried again in the next step.
        writes: Writes that succeeded.
    """

    report: LimitProgress
    histories: Mapping[str, LimitHistory]
    refused: tuple[CgroupError, ...]
    writes: tuple[tuple[CgroupFile, str], ...]


def take_step(
    cgroups: Cgroups,
    pod: str,
    grant: int | None,
    originals: Mapping[str, MemoryLimits],
    histories: Mapping[str, LimitHistory],
    now: float,
    *,
    pace: ReclaimPace | None = None,
    release: str | None = None,
    record: Callable[[Sequence[FileWrite]], None] = lambda _: None,
) -> StepResult:
    """Make one step towards a pod's grant, or back to its original limits.

    Args:
        cgroups: Cgroups of the node.
        pod: Cgroup of the pod.
        grant: Grant in bytes; None to restore the original limits, until the report says ``Held``.
        originals: Limits of the pod and its containers before the first step, by group.
        histories: Histories that the last step returned; empty at first.
        now: Monotonic time in seconds.
        pace: Timing of reclaim.
        release: Release of the kernel; by default that of the running kernel.
        record: Function that takes the writes before they are made.

    Raises:
        CgroupError: The pod was deleted, or one of its files cannot be read.
    """
    seen = _seen(cgroups, pod, originals, release)
    step = next_step(seen, grant, histories, now, pace)
    if step.writes:
        record([each for write in step.writes for each in _file_writes(cgroups, write)])
    recorder = RecordingCgroups(cgroups)
    refused = apply_writes(recorder, step.writes, record)
    if step.writes:
        seen = _seen(cgroups, pod, originals, release)
    report = progress(seen, grant, step.histories, now, pace)
    return StepResult(report, step.histories, tuple(refused), tuple(recorder.writes))


def planned_writes(
    cgroups: Cgroups,
    pod: str,
    grant: int,
    originals: Mapping[str, MemoryLimits],
    histories: Mapping[str, LimitHistory],
    now: float,
    pace: ReclaimPace | None = None,
) -> list[FileWrite]:
    """Return the writes that the next step of a pod would make now; arguments as of `take_step`.

    Raises:
        CgroupError: The pod was deleted, or one of its files cannot be read.
    """
    step = next_step(_seen(cgroups, pod, originals), grant, histories, now, pace)
    return [each for write in step.writes for each in _file_writes(cgroups, write)]


def apply_writes(
    cgroups: Cgroups,
    writes: Iterable[MemoryWrite],
    record: Callable[[Sequence[FileWrite]], None] = lambda _: None,
) -> list[CgroupError]:
    """Make writes in their order; after one that is refused, none to the same group.

    After a `Reclaim` of which the kernel met only a part, the soft limit of the group is lowered to
    its usage at most, and its other limits are not written.

    Args:
        cgroups: Cgroups of the node.
        writes: The writes.
        record: Function that takes writes with other values before they are made.

    Returns:
        The errors of the writes that the kernel refused.
    """
    refused: list[CgroupError] = []
    above: set[str] = set()
    for write in writes:
        if any(error.setting.group == write.group for error in refused):
            continue
        try:
            if isinstance(write, Reclaim):
                if not _reclaim(cgroups, write):
                    above.add(write.group)
            elif write.group not in above:
                _set(cgroups, write)
            elif write.knob == "soft":
                _lower_to_usage(cgroups, write, record)
        except CgroupError as error:
            refused.append(error)
    return refused


def _seen(
    cgroups: Cgroups, pod: str, originals: Mapping[str, MemoryLimits], release: str | None = None
) -> PodMemory:
    can_slow = cgroups.version == 1 or _release(release or os.uname().release) >= _THROTTLES_SAFELY
    return PodMemory(pod, _samples(cgroups, pod, originals), originals, can_slow)


def _samples(cgroups: Cgroups, pod: str, groups: Iterable[str]) -> dict[str, MemorySample]:
    samples = {}
    for group in groups:
        try:
            samples[group] = read_sample(cgroups, group)
        except CgroupError as error:
            if group == pod or error.kind != "gone":
                raise
    return samples


def _set(cgroups: Cgroups, write: SetLimit) -> None:
    ((setting, value),) = _file_writes(cgroups, write)
    cgroups.write(setting, value)


def _lower_to_usage(
    cgroups: Cgroups, write: SetLimit, record: Callable[[Sequence[FileWrite]], None]
) -> None:
    """Lower a soft limit as far as the group's usage allows without reclaim."""
    sample = read_sample(cgroups, write.group)
    eased = SetLimit(write.group, "soft", max(write.value, sample.usage))
    if eased.value < sample.limits.soft:
        record(_file_writes(cgroups, eased))
        _set(cgroups, eased)


def _file_writes(cgroups: Cgroups, write: MemoryWrite) -> tuple[FileWrite, ...]:
    """Return the files that a write changes, and their new texts; transient ones included."""
    if isinstance(write, Reclaim):
        if cgroups.version == 2:
            return ()
        limits = (SetLimit(write.group, "kills", 0), SetLimit(write.group, "hard", write.usage))
        return tuple(each for limit in limits for each in _file_writes(cgroups, limit))
    setting = CgroupFile("memory", write.group, LIMIT_FILES[cgroups.version][write.knob])
    if write.knob == "kills":
        return ((setting, str(1 - write.value)),)
    if write.value >= UNLIMITED:
        return ((setting, "max" if cgroups.version == 2 else "-1"),)
    return ((setting, str(write.value)),)


def _reclaim(cgroups: Cgroups, write: Reclaim) -> bool:
    """Have the kernel reclaim memory; return False if it reclaimed less than asked."""
    try:
        if cgroups.version == 1:
            _squeeze(cgroups, write)
            return True
        excess = read_sample(cgroups, write.group).usage - write.usage
        if excess > 0:
            cgroups.write(CgroupFile("memory", write.group, "memory.reclaim"), str(excess))
    except CgroupError as error:
        if error.errno in _RECLAIMED_LESS:
            return False
        if cgroups.version == 1 or error.kind != "gone":
            raise
    return True


def _squeeze(cgroups: Cgroups, write: Reclaim) -> None:
    before = MemoryLimits.read(1, write.group, cgroups.read)
    _set(cgroups, SetLimit(write.group, "kills", 0))
    try:
        _set(cgroups, SetLimit(write.group, "hard", min(write.usage, before.hard)))
    finally:
        try:
            _set(cgroups, SetLimit(write.group, "hard", before.hard))
        finally:
            _set(cgroups, SetLimit(write.group, "kills", int(before.kills)))


def _release(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
