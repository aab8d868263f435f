"""Pure: computes the next step from a pod's memory limits to its grant.

A raise takes effect at once, the pod's limits before its containers'. Lowering must never end in
an OOM kill, and a program may grow faster than an agent can react, so no distance between usage and
a hard limit is safe. Hence the rule:

    The hard limit is only ever raised, and later restored to the user's own.
    A lower grant is enforced by the soft limit, at which the kernel never kills.

**In cgroup v2** the soft limit is ``memory.high``: a program that exceeds it is throttled while
the kernel reclaims. Before Linux 5.9 that could livelock, so there limits are not lowered.

**In cgroup v1** the soft limit is ``memory.soft_limit_in_bytes``: it throttles nobody, but the
kernel reclaims from this pod first when the node is short of memory, which is when the grants of
others need it. The alternative is a lowered hard limit with ``oom_kill_disable``, which the agent
raises when ``under_oom`` shows. It enforces a grant to the byte, but without an agent a growing
program hangs for good, and even with one its system calls fail with ENOMEM at the limit, which few
programs survive. It is better that a pod has more than its grant while no other pod needs it.

**Lowering goes in steps** of an eighth of the usage. The soft limit keeps a headroom over the
working set, which is the usage without the inactive file cache. If that stays above the grant, some
of the active file cache may still be unused (a file read twice, long ago), so the limit is lowered
further in very small steps; memory that no file backs is never reclaimed. If pressure, refaults or
a program that outgrows its soft limit show a shortage, the soft limit is raised again, and the next
attempt waits twice as long as the last.

**Restoring the hard limit** waits until the soft limit has kept the program a little below it for a
while: a program that grows at the moment of the write is throttled first, and v1 refuses the write.
Later growth meets the limit that the user set, as without Walras.

Without an agent, a program that outgrows its soft limit is slow in v2, but lives.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras.numerics.byte_text import format_bytes
from walras_agent.memory.pressure import Tolerance, headroom, memory_shortage
from walras_agent.memory.stats import UNLIMITED, limit_text
from walras_agent.observe import SUBGROUP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras_agent.memory.stats import Knob, MemoryLimits, MemorySample

_MIB = 1 << 20

# Limits are whole pages, and pages are up to 64 KiB.
_GRAIN = 1 << 16


@dataclass(frozen=True, slots=True)
class ReclaimPace:
    """The timing of memory reclaim; the defaults suit one step every one to ten seconds.

    Attributes:
        pause: Seconds between two steps down; the kernel averages pressure every two.
        patience: Seconds for which a program may outgrow its soft limit, and in which pressure
            fades after a step back.
        settle: Seconds for which the working set must leave room before the hard limit is
            restored.
        first_wait: Seconds until the next attempt after the first step back; then doubled.
        longest_wait: Longest wait in seconds.
        tolerance: Pressure and refaults that are not a shortage yet.
    """

    pause: float = 2.0
    patience: float = 10.0
    settle: float = 30.0
    first_wait: float = 15.0
    longest_wait: float = 600.0
    tolerance: Tolerance = field(default_factory=Tolerance)


@dataclass(frozen=True, slots=True)
class SetLimit:
    """A write that sets a limit of a group, in bytes (for ``kills``: 1 to kill, 0 to wait)."""

    group: str
    knob: Knob
    value: int


@dataclass(frozen=True, slots=True)
class Reclaim:
    """A write that has the kernel reclaim memory until the group uses no more than ``usage``."""

    group: str
    usage: int


MemoryWrite = SetLimit | Reclaim


@dataclass(frozen=True, slots=True)
class LimitHistory:
    """The history of a group's limits that the next step needs; all times are monotonic seconds.

    Attributes:
        sample: Sample of the last step; None before the first.
        seen: Time of the last step.
        stepped: Time when the soft limit was last lowered.
        relaxed: Time when the soft limit was last raised because of a shortage.
        outgrown_since: Time when the working set grew above the soft limit; None while it is not.
        fits_since: Time since when the usage fits below the original hard limit without a shortage;
            None while it does not.
        wait: Seconds without an attempt after the last step back.
        trouble: Message why the last step back was made.
    """

    sample: MemorySample | None = None
    seen: float = -inf
    stepped: float = -inf
    relaxed: float = -inf
    outgrown_since: float | None = None
    fits_since: float | None = None
    wait: float = 0.0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class LimitProgress:
    """How far a memory grant is enforced.

    Attributes:
        state: ``Held`` once the limits are as granted and the pod is within them.
        reason: Message what a pending grant waits for; empty if it is held.
        limit: Lower one of the pod's limits in bytes.
    """

    state: Literal["Held", "Pending"]
    reason: str
    limit: int


@dataclass(frozen=True, slots=True)
class PodMemory:
    """The memory of a pod's groups, now and before the first write.

    Attributes:
        group: Cgroup of the pod.
        samples: Samples of the pod and its containers, by group.
        originals: Limits before the first write, by group; groups without are not changed.
        can_slow: Whether the soft limit may be lowered: not in cgroup v2 before Linux 5.9.
    """

    group: str
    samples: Mapping[str, MemorySample]
    originals: Mapping[str, MemoryLimits]
    can_slow: bool = True


class LimitStep(NamedTuple):
    """The writes of one step, in order, and the history for the next step, by group."""

    writes: tuple[MemoryWrite, ...]
    histories: Mapping[str, LimitHistory]


def next_step(
    pod: PodMemory,
    grant: int | None,
    histories: Mapping[str, LimitHistory],
    now: float,
    pace: ReclaimPace | None = None,
) -> LimitStep:
    """Compute the next writes for a pod.

    The grant is for the pod. Its containers keep their own limits, except those that are lower than
    the grant, which would keep the pod from using it.

    Args:
        pod: Memory of the pod as observed.
        grant: Grant in bytes, of which whole 64 KiB count, at least one; None to restore the
            original limits.
        histories: Histories that the last step returned, by group; empty at first.
        now: Monotonic time in seconds.
        pace: Timing of reclaim.

    Raises:
        ValueError: The samples lack the pod's own group.
    """
    groups = _groups(pod, grant, histories, now, pace or ReclaimPace())
    raises = [write for group in groups for write in group.raises()]
    after = {group.name: group.lower() for group in groups}
    return LimitStep(
        writes=(*raises, *(write for writes, _ in after.values() for write in writes)),
        histories={name: history for name, (_, history) in after.items()},
    )


def progress(
    pod: PodMemory,
    grant: int | None,
    histories: Mapping[str, LimitHistory],
    now: float,
    pace: ReclaimPace | None = None,
) -> LimitProgress:
    """Return how far a grant is enforced after a step.

    Args:
        pod: Memory of the pod as observed after the step.
        grant: Grant in bytes; None if the original limits are restored.
        histories: Histories that the step returned, by group.
        now: Monotonic time of the step in seconds.
        pace: Timing of reclaim.

    Raises:
        ValueError: The samples are invalid; see `next_step`.
    """
    groups = _groups(pod, grant, histories, now, pace or ReclaimPace())
    reasons = [reason for group in groups if (reason := group.why_pending())]
    limits = pod.samples[pod.group].limits
    held_to = min(limits.hard, limits.soft)
    return LimitProgress("Pending" if reasons else "Held", "; ".join(reasons), held_to)


def _groups(
    pod: PodMemory,
    grant: int | None,
    histories: Mapping[str, LimitHistory],
    now: float,
    pace: ReclaimPace,
) -> list[_Group]:
    """Return the groups whose limits are changed, the pod's own first."""
    if pod.group not in pod.samples or pod.group not in pod.originals:
        raise ValueError(f"{pod.group}: the pod's group has no sample or no original limits")
    groups = sorted(pod.samples.keys() & pod.originals.keys(), key=lambda g: (g != pod.group, g))
    return [
        _Group(
            name=name,
            sample=pod.samples[name],
            original=pod.originals[name],
            grant=None if grant is None else max(grant - grant % _GRAIN, _GRAIN),
            is_pod=name == pod.group,
            last=histories.get(name, LimitHistory()),
            now=now,
            pace=pace,
            can_slow=pod.can_slow,
        )
        for name in groups
    ]


@dataclass(frozen=True, slots=True)
class _Group:
    """One group with its present limits and the limits to reach."""

    name: str
    sample: MemorySample
    original: MemoryLimits
    grant: int | None
    is_pod: bool
    last: LimitHistory
    now: float
    pace: ReclaimPace
    can_slow: bool

    @property
    def level(self) -> int:
        """Bytes that the group may use: the grant, or a container's own limit if that is higher."""
        if self.is_pod and self.grant is not None:
            return self.grant
        return max(self.original.hard, self.grant or 0)

    @property
    def hard(self) -> int:
        """Hard limit until the original can be restored."""
        return max(self.sample.limits.hard, self.original.hard, self.level)

    @property
    def loosest_soft_limit(self) -> int:
        """Soft limit while the hard limit enforces the level: the user's, raised to the grant."""
        return max(self.original.soft, self.grant or 0)

    @property
    def goal(self) -> int:
        """Soft limit to reach."""
        if not self.is_enforced_softly:
            return self.loosest_soft_limit
        goal = min(self.level, self.loosest_soft_limit)
        return min(goal, self._room()) if self._is_to_go_back() else goal

    @property
    def is_enforced_softly(self) -> bool:
        """Whether the soft limit enforces the level, because the hard limit is above it."""
        return self.can_slow and self.level < self.hard

    def raises(self) -> Iterator[MemoryWrite]:
        """Yield the writes that raise limits; none of them reclaims memory."""
        limits = self.sample.limits
        if limits.swap < self._swap():
            yield SetLimit(self.name, "swap", self._swap())
        if limits.hard < self.hard:
            yield SetLimit(self.name, "hard", self.hard)
        if limits.kills != self.original.kills:
            yield SetLimit(self.name, "kills", int(self.original.kills))
        if limits.soft < self.goal:
            yield SetLimit(self.name, "soft", self.goal)

    def lower(self) -> tuple[list[MemoryWrite], LimitHistory]:
        """Return the writes that lower limits or raise the soft limit again, and the history."""
        trouble = self._trouble()
        soft, needed = self.sample.limits.soft, self.sample.working_set
        outgrown_since = None
        if soft < self.loosest_soft_limit and needed > soft:
            outgrown_since = (
                self.now if self.last.outgrown_since is None else self.last.outgrown_since
            )
        fits_since = None
        slowed = soft <= self._room() or not self.can_slow
        if self._is_to_go_back() and slowed and needed <= self._room() and not trouble:
            fits_since = self.now if self.last.fits_since is None else self.last.fits_since
        history = replace(
            self.last,
            sample=self.sample,
            seen=self.now,
            outgrown_since=outgrown_since,
            fits_since=fits_since,
        )
        if self.is_enforced_softly and trouble:
            return self._relax(history, trouble)
        writes = [*self._tighten(history), *self._put_back(history)]
        lowered = any(isinstance(w, Reclaim) or w.knob == "soft" for w in writes)
        return writes, replace(history, stepped=self.now) if lowered else history

    def why_pending(self) -> str:
        """Return what the group's limits wait for; empty if they are as granted."""
        sample, goal = self.sample, self.goal
        limits = sample.limits
        container = self.name.removesuffix(f"/{SUBGROUP}").rpartition("/")[2]
        who = "the pod" if self.is_pod else f"container {container}"
        if limits.hard < self.hard or limits.soft < goal:
            return f"raising the limit of {who} to {limit_text(min(self.level, self.hard))}"
        if self.level < self.hard and not self.can_slow:
            return (
                f"the limit of {who} stays at {limit_text(self.hard)}: lowering it is not safe "
                "before Linux 5.9"
            )
        if limits.soft > goal:
            return f"lowering the limit of {who} to {format_bytes(goal)}: {self._why_above()}"
        if self.is_enforced_softly and sample.usage > goal + _MIB:
            over = format_bytes(sample.usage - goal)
            return (
                f"{who} uses {over} more than {format_bytes(goal)}: waits for the kernel to "
                "reclaim it"
            )
        if self._is_to_go_back():
            return (
                f"restoring the original limit of {who}, {limit_text(self.original.hard)}: waits "
                f"until it has needed less than {format_bytes(self._room())} for "
                f"{self.pace.settle:.0f} s"
            )
        return ""

    def _why_above(self) -> str:
        left = self.last.relaxed + self.last.wait - self.now
        if left > 0:
            return f"{self.last.trouble}; tries again in {left:.0f} s"
        uses, floor = format_bytes(self.sample.usage), self._floor()
        if floor > self.goal:
            return (
                f"it uses {uses} and needs {format_bytes(self.sample.working_set)}, with headroom "
                f"{format_bytes(floor)}; waits until it frees {format_bytes(floor - self.goal)}"
            )
        return f"it uses {uses}; memory is reclaimed in steps"

    def _trouble(self) -> str:
        """Return by what the program shows a memory shortage; empty if it shows none."""
        sample, last = self.sample, self.last
        shortage = memory_shortage(sample, last.sample, self.now - last.seen, self.pace.tolerance)
        if shortage:
            return shortage
        soft, needed = sample.limits.soft, sample.working_set
        if (
            last.outgrown_since is None
            or needed <= soft
            or self.now - last.outgrown_since < self.pace.patience
        ):
            return ""
        return f"it needs {format_bytes(needed)}, more than the {format_bytes(soft)} it was held to"

    def _relax(self, history: LimitHistory, trouble: str) -> tuple[list[MemoryWrite], LimitHistory]:
        """Raise the soft limit again, unless the last raise has not had time to work yet."""
        since = self.now - history.relaxed
        if since < self.pace.patience:
            return [], history
        wait = history.wait or self.pace.first_wait
        if history.stepped > history.relaxed:  # the last attempt caused a shortage
            soon = since <= 4 * wait + self.pace.settle
            wait = min(2 * wait, self.pace.longest_wait) if soon else self.pace.first_wait
        history = replace(
            history, relaxed=self.now, wait=wait, trouble=trouble, outgrown_since=None
        )
        sample = self.sample
        eased = min(_up(sample.usage + headroom(sample.working_set)), self.loosest_soft_limit)
        if max(sample.limits.soft, self.goal) >= eased:
            return [], history
        return [SetLimit(self.name, "soft", eased)], history

    def _tighten(self, history: LimitHistory) -> Iterator[MemoryWrite]:
        """Yield the writes of one step down, or back to the goal after file caches have grown."""
        usage, soft = self.sample.usage, self.sample.limits.soft
        early = self.now - history.stepped < self.pace.pause
        waits = self.now - history.relaxed < history.wait
        if self.last.sample is None or early or waits or soft < self.goal:
            return
        if soft == self.goal:
            within = max(self.goal, self._floor())
            if self.is_enforced_softly and usage > within + _MIB:
                yield Reclaim(self.name, within)
            return
        lower = self._next_soft()
        if lower < soft:
            if usage > lower:
                yield Reclaim(self.name, lower)
            yield SetLimit(self.name, "soft", lower)

    def _next_soft(self) -> int:
        usage, pinned = self.sample.usage, self.sample.pinned
        here = min(self.sample.limits.soft, usage)
        stride = max(16 * _MIB, usage // 8)
        lower = max(self.goal, self._floor(), _up(here - stride))
        if lower < self.sample.limits.soft:
            return lower
        probe = max(_MIB, usage // 64)
        return max(self.goal, _up(pinned + headroom(pinned)), _up(here - probe))

    def _put_back(self, history: LimitHistory) -> Iterator[MemoryWrite]:
        limits, original, usage = self.sample.limits, self.original, self.sample.usage
        if self._is_to_go_back():
            settled = (
                history.fits_since is not None and self.now - history.fits_since >= self.pace.settle
            )
            if not settled or usage > original.hard:
                return
            if usage > self._room():
                yield Reclaim(self.name, self._room())
            yield SetLimit(self.name, "hard", original.hard)
        elif self.hard > original.hard:
            return
        if limits.swap > original.swap:
            yield SetLimit(self.name, "swap", original.swap)

    def _is_to_go_back(self) -> bool:
        return self.level <= self.original.hard < self.sample.limits.hard

    def _room(self) -> int:
        """Return the soft limit that throttles a program before its hard limit is restored."""
        room = self.original.hard - self.original.hard // 64
        return room - room % _GRAIN

    def _floor(self) -> int:
        """Return the least soft limit: working set and headroom, less if the hard one returns."""
        needed = self.sample.working_set
        floor = _up(needed + headroom(needed))
        is_back = self._is_to_go_back() and needed <= self._room()
        return min(floor, self._room()) if is_back else floor

    def _swap(self) -> int:
        """Return the limit of memory and swap that allows as much swap as the user's limits."""
        if UNLIMITED in (self.hard, self.original.swap):
            return UNLIMITED
        return self.hard + self.original.swap - self.original.hard


def _up(amount: int) -> int:
    return max(-(-amount // _GRAIN), 1) * _GRAIN
