"""Apply: one look at a pod's memory and one step towards its grant.

Reclaim is asked for in whatever way the kernel has:

* v2 since Linux 5.19: ``memory.reclaim``, for which the agent pays with its own time.
* v2 before: the write to ``memory.high`` that follows reclaims by itself.
* v1: a hard limit below the use is refused (EBUSY) unless so much can be reclaimed, so it is
  lowered and put back at once. Between these two writes the limit is above the working set with
  its headroom, and kills are off: should the agent die right there, a program that grows by more
  waits until the agent is back and puts the limit right in its first step.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.memory.course import Limit, Pod, Report, next_step, progress
from walras_agent.memory.pressure import FILES, UNLIMITED, Limits, observe
from walras_agent.tree import CgroupError, Recorder, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_agent.memory.course import Course, Pace, Reclaim, Write
    from walras_agent.memory.pressure import Sample
    from walras_agent.tree import Cgroups

_SLOWS_SAFELY = (5, 9)


class Held(NamedTuple):
    """How one step went.

    Attributes:
        report: How far the grant is, by what the kernel says after the writes.
        courses: For the next step.
        refused: Writes that the kernel did not take; most are tried again in the next step.
        writes: Those that it took.
    """

    report: Report
    courses: Mapping[str, Course]
    refused: tuple[CgroupError, ...]
    writes: tuple[tuple[Setting, str], ...]


def hold(
    cgroups: Cgroups,
    pod: str,
    grant: int | None,
    originals: Mapping[str, Limits],
    courses: Mapping[str, Course],
    now: float,
    *,
    pace: Pace | None = None,
    release: str | None = None,
) -> Held:
    """Make one step towards a pod's grant, or back to its original limits.

    Args:
        cgroups: The kernel's.
        pod: The pod's group.
        grant: In bytes; None to put the original limits back, until the report says ``Held``.
        originals: By group, the limits that the pod and its containers had before the first step.
        courses: What the last step returned; nothing at first.
        now: Seconds, monotonic.
        pace: How carefully.
        release: Of the kernel; by default the running one's.

    Raises:
        CgroupError: The pod is gone, or one of its files cannot be read.
    """
    can_slow = cgroups.version == 1 or _release(release or os.uname().release) >= _SLOWS_SAFELY
    seen = Pod(pod, _look(cgroups, pod, originals), originals, can_slow)
    step = next_step(seen, grant, courses, now, pace)
    recorder = Recorder(cgroups)
    refused = apply(recorder, step.writes)
    if step.writes:
        seen = Pod(pod, _look(cgroups, pod, originals), originals, can_slow)
    report = progress(seen, grant, step.courses, now, pace)
    return Held(report, step.courses, tuple(refused), tuple(recorder.writes))


def apply(cgroups: Cgroups, writes: Iterable[Write]) -> list[CgroupError]:
    """Make writes in their order; after one that is refused, none of the same group.

    Returns:
        What the kernel refused.
    """
    refused: list[CgroupError] = []
    for write in writes:
        if any(error.setting.group == write.group for error in refused):
            continue
        try:
            if isinstance(write, Limit):
                _set(cgroups, write)
            else:
                _reclaim(cgroups, write)
        except CgroupError as error:
            refused.append(error)
    return refused


def _look(cgroups: Cgroups, pod: str, groups: Iterable[str]) -> dict[str, Sample]:
    samples = {}
    for group in groups:
        try:
            samples[group] = observe(cgroups, group)
        except CgroupError as error:
            if group == pod or error.kind != "gone":
                raise
    return samples


def _set(cgroups: Cgroups, write: Limit) -> None:
    setting = Setting("memory", write.group, FILES[cgroups.version][write.knob])
    if write.knob == "kills":
        cgroups.write(setting, str(1 - write.value))
    elif write.value >= UNLIMITED:
        cgroups.write(setting, "max" if cgroups.version == 2 else "-1")
    else:
        cgroups.write(setting, str(write.value))


def _reclaim(cgroups: Cgroups, write: Reclaim) -> None:
    if cgroups.version == 1:
        _squeeze(cgroups, write)
        return
    excess = observe(cgroups, write.group).usage - write.usage
    if excess <= 0:
        return
    try:
        cgroups.write(Setting("memory", write.group, "memory.reclaim"), str(excess))
    except CgroupError as error:
        if error.kind != "gone":
            raise


def _squeeze(cgroups: Cgroups, write: Reclaim) -> None:
    before = Limits.read(1, write.group, cgroups.read)
    _set(cgroups, Limit(write.group, "kills", 0))
    try:
        _set(cgroups, Limit(write.group, "hard", min(write.usage, before.hard)))
    finally:
        _set(cgroups, Limit(write.group, "hard", before.hard))
        _set(cgroups, Limit(write.group, "kills", int(before.kills)))


def _release(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
