"""Pure choice: the next step from the memory that a pod is held to now to what it is granted.

A raise takes effect at once, the pod's limits before its containers'. Lowering must never end in
an OOM kill, and a program may grow faster than any agent looks: no distance between use and a
hard limit is safe for sure. Hence the rule that all else here follows from:

    The hard limit is only ever raised, and later put back to what the user had set.
    A grant below it is held by the soft limit, where the kernel never kills.

**In cgroup v2** the soft limit is ``memory.high``: a program that grows beyond is slowed down
while the kernel reclaims. Before Linux 5.9 that could livelock, so there a grant is not lowered.

**In cgroup v1** the soft limit is ``memory.soft_limit_in_bytes``: it slows nobody, but the kernel
takes from this pod first when the node is short of memory, which is when the grants of others
need it. The alternative, a lowered hard limit with ``oom_kill_disable`` and an agent that raises
it when ``under_oom`` shows, holds a grant to the byte, but with no agent alive a growing program
hangs for good, and even with one its system calls fail with ENOMEM at the limit, which few
programs survive. A pod that has more than its grant while nobody lacks it is the lesser evil.

**Lowering goes in steps**, each an eighth of the use. The soft limit keeps a headroom over the
working set, which is use without the inactive file cache. Where that stays above the grant, what
the kernel calls active may still be idle (a file read twice, long ago), so it is probed by ever
so little at a time; what no file backs is never taken. Where pressure, refaults or a program that
outgrows its soft limit show trouble, the soft limit is raised again, and the next attempt waits
twice as long as the last.

**Putting the hard limit back** waits until the soft limit has for a while held the program a
little below it: a program that grows in the very moment of the write is slowed down first, and v1
refuses the write. Growth past it later meets the limit that the user set, as without Walras.

With no agent alive, a program that outgrows its soft limit is slow in v2, and lives.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras_agent.memory.pressure import UNLIMITED, size
from walras_agent.memory.strain import Tolerance, headroom, strain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras_agent.memory.pressure import Knob, Limits, Sample

_MIB = 1 << 20

# Limits are whole pages, and pages are up to 64 KiB.
_GRAIN = 1 << 16


@dataclass(frozen=True, slots=True)
class Pace:
    """How carefully memory is taken; the defaults suit a look every one to ten seconds.

    Attributes:
        pause: Seconds between two steps; pressure is averaged by the kernel every two.
        patience: Seconds for which a program may outgrow its soft limit, and in which pressure
            fades after a step back.
        settle: Seconds for which the working set must leave room before the hard limit is put
            back.
        first_wait: Seconds without an attempt after the first step back; then doubled.
        longest_wait: Seconds.
        tolerance: What is still no trouble.
    """

    pause: float = 2.0
    patience: float = 10.0
    settle: float = 30.0
    first_wait: float = 15.0
    longest_wait: float = 600.0
    tolerance: Tolerance = field(default_factory=Tolerance)


@dataclass(frozen=True, slots=True)
class Limit:
    """A write: from now on a group has this limit (for ``kills``: 1 to kill, 0 to wait)."""

    group: str
    knob: Knob
    value: int


@dataclass(frozen=True, slots=True)
class Reclaim:
    """A write: have the kernel take what it can until the group uses no more than this."""

    group: str
    usage: int


Write = Limit | Reclaim


@dataclass(frozen=True, slots=True)
class Course:
    """What is remembered of a group from one step to the next.

    Attributes:
        sample: The last look, and when it was.
        seen: Seconds, on the clock of all times here.
        stepped: When the soft limit was last lowered.
        relaxed: When it was last raised for trouble.
        outgrown: Since when the working set is above the soft limit; None while it is not.
        roomy: Since when there has been room below the original hard limit without trouble.
        wait: How long no attempt is made after the last step back.
        trouble: Why it was made.
    """

    sample: Sample | None = None
    seen: float = -inf
    stepped: float = -inf
    relaxed: float = -inf
    outgrown: float | None = None
    roomy: float | None = None
    wait: float = 0.0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """How far a grant is.

    Attributes:
        state: Whether the limits are as granted and the pod is within.
        reason: While pending: how far it is and what it waits for, as a sentence.
        limit: What the pod is held to now, in bytes.
    """

    state: Literal["Held", "Pending"]
    reason: str
    limit: int


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod's groups as they are, and as they were before Walras.

    Attributes:
        group: The pod's own group.
        samples: Of it and of its containers.
        originals: The limits of each before the first write; groups without are left alone.
        can_slow: Whether the soft limit can be relied on: not in cgroup v2 before Linux 5.9.
    """

    group: str
    samples: Mapping[str, Sample]
    originals: Mapping[str, Limits]
    can_slow: bool = True


class Step(NamedTuple):
    """What to write, in this order, and what to remember."""

    writes: tuple[Write, ...]
    courses: Mapping[str, Course]


def next_step(
    pod: Pod, grant: int | None, courses: Mapping[str, Course], now: float, pace: Pace | None = None
) -> Step:
    """Choose the next writes.

    The grant is for the pod. Its containers are left at their own limits, but for those that are
    lower than the grant, which would otherwise keep the pod from it.

    Args:
        pod: What is observed.
        grant: In bytes; None to put the original limits back.
        courses: What the last step returned; nothing at first.
        now: Seconds, on a clock that does not run backwards.
        pace: How carefully.

    Raises:
        ValueError: The grant is not positive, or the pod's own group is not among the samples.
    """
    groups = _groups(pod, grant, courses, now, pace or Pace())
    raises = [write for group in groups for write in group.raises()]
    after = {group.name: group.lower() for group in groups}
    return Step(
        writes=(*raises, *(write for writes, _ in after.values() for write in writes)),
        courses={name: course for name, (_, course) in after.items()},
    )


def progress(
    pod: Pod, grant: int | None, courses: Mapping[str, Course], now: float, pace: Pace | None = None
) -> Report:
    """Say how far a grant is, by what is observed after a step.

    Args:
        pod: What is observed.
        grant: As for the step.
        courses: What the step returned.
        now: As for the step.
        pace: As for the step.

    Raises:
        ValueError: As for the step.
    """
    groups = _groups(pod, grant, courses, now, pace or Pace())
    reasons = [reason for group in groups if (reason := group.why_pending())]
    limits = pod.samples[pod.group].limits
    held_to = min(limits.hard, limits.soft)
    return Report("Pending" if reasons else "Held", "; ".join(reasons), held_to)


def _groups(
    pod: Pod, grant: int | None, courses: Mapping[str, Course], now: float, pace: Pace
) -> list[_Group]:
    """The groups to be changed, the pod's own first."""
    if grant is not None and grant < _GRAIN:
        raise ValueError(f"a grant of {grant} bytes is none")
    if pod.group not in pod.samples or pod.group not in pod.originals:
        raise ValueError(f"{pod.group}: nothing is known of the pod's group")
    known = sorted(pod.samples.keys() & pod.originals.keys(), key=lambda g: (g != pod.group, g))
    return [
        _Group(
            name=name,
            sample=pod.samples[name],
            original=pod.originals[name],
            grant=None if grant is None else grant - grant % _GRAIN,
            is_pod=name == pod.group,
            last=courses.get(name, Course()),
            now=now,
            pace=pace,
            can_slow=pod.can_slow,
        )
        for name in known
    ]


@dataclass(frozen=True, slots=True)
class _Group:
    """One group between its limits and its goals."""

    name: str
    sample: Sample
    original: Limits
    grant: int | None
    is_pod: bool
    last: Course
    now: float
    pace: Pace
    can_slow: bool

    @property
    def level(self) -> int:
        """What the group is to be held to."""
        if self.is_pod and self.grant is not None:
            return self.grant
        return max(self.original.hard, self.grant or 0)

    @property
    def hard(self) -> int:
        """The hard limit until it can be put back."""
        return max(self.sample.limits.hard, self.original.hard, self.level)

    @property
    def loosest(self) -> int:
        """The soft limit where the hard limit holds the level: the user's, lifted to the grant."""
        return max(self.original.soft, self.grant or 0)

    @property
    def goal(self) -> int:
        """The soft limit to reach."""
        if not self.is_soft:
            return self.loosest
        goal = min(self.level, self.loosest)
        return min(goal, self._room()) if self._is_to_go_back() else goal

    @property
    def is_soft(self) -> bool:
        """Whether the level is held by the soft limit, because the hard one is above it."""
        return self.can_slow and self.level < self.hard

    def raises(self) -> Iterator[Write]:
        """What takes effect at once: nothing in it takes memory from anybody."""
        limits = self.sample.limits
        if limits.swap < self._swap():
            yield Limit(self.name, "swap", self._swap())
        if limits.hard < self.hard:
            yield Limit(self.name, "hard", self.hard)
        if limits.kills != self.original.kills:
            yield Limit(self.name, "kills", int(self.original.kills))
        if limits.soft < self.goal:
            yield Limit(self.name, "soft", self.goal)

    def lower(self) -> tuple[list[Write], Course]:
        """The step down or back, and what to remember."""
        trouble = self._trouble()
        soft, needed = self.sample.limits.soft, self.sample.working_set
        outgrown = None
        if soft < self.loosest and needed > soft:
            outgrown = self.now if self.last.outgrown is None else self.last.outgrown
        roomy = None
        slowed = soft <= self._room() or not self.can_slow
        if self._is_to_go_back() and slowed and needed <= self._room() and not trouble:
            roomy = self.now if self.last.roomy is None else self.last.roomy
        course = replace(
            self.last, sample=self.sample, seen=self.now, outgrown=outgrown, roomy=roomy
        )
        if self.is_soft and trouble:
            return self._relax(course, trouble)
        writes = [*self._tighten(course), *self._put_back(course)]
        lowered = any(isinstance(w, Reclaim) or w.knob == "soft" for w in writes)
        return writes, replace(course, stepped=self.now) if lowered else course

    def why_pending(self) -> str:
        """How far the group is from its goals; empty when it is there."""
        sample, goal = self.sample, self.goal
        limits = sample.limits
        who = "the pod" if self.is_pod else f"container {self.name.rpartition('/')[2]}"
        if limits.hard < self.hard or limits.soft < goal:
            return f"{who} is being raised to {size(min(self.level, self.hard))}"
        if self.level < self.hard and not self.can_slow:
            return f"{who} keeps {size(self.hard)}: before Linux 5.9 no limit is lowered safely"
        if limits.soft > goal:
            return f"{who} is to come down to {size(goal)}: {self._why_above()}"
        if self.is_soft and sample.usage > goal + _MIB:
            over = size(sample.usage - goal)
            return f"{who} uses {over} more than {size(goal)}: waits for the kernel to take it back"
        if self._is_to_go_back():
            return (
                f"{who} is to have its own limit of {size(self.original.hard)} back: waits until "
                f"it has needed less than {size(self._room())} for {self.pace.settle:.0f} s"
            )
        return ""

    def _why_above(self) -> str:
        left = self.last.relaxed + self.last.wait - self.now
        if left > 0:
            return f"{self.last.trouble}; tries again in {left:.0f} s"
        uses, floor = size(self.sample.usage), self._floor()
        if floor > self.goal:
            return (
                f"it uses {uses} and needs {size(self.sample.working_set)}, with headroom "
                f"{size(floor)}; waits until it frees {size(floor - self.goal)}"
            )
        return f"it uses {uses}; memory is taken back in steps"

    def _trouble(self) -> str:
        """What tells that the program lacks what was taken; empty when nothing does."""
        sample, last = self.sample, self.last
        found = strain(sample, last.sample, self.now - last.seen, self.pace.tolerance)
        if found:
            return found
        soft, needed = sample.limits.soft, sample.working_set
        if last.outgrown is None or needed <= soft or self.now - last.outgrown < self.pace.patience:
            return ""
        return f"it needs {size(needed)}, more than the {size(soft)} it was held to"

    def _relax(self, course: Course, trouble: str) -> tuple[list[Write], Course]:
        """Step back, but not on pressure that the last step back has not yet had time to end."""
        since = self.now - course.relaxed
        if since < self.pace.patience:
            return [], course
        wait = course.wait or self.pace.first_wait
        if course.stepped > course.relaxed:  # another attempt was too much, soon or late
            soon = since <= 4 * wait + self.pace.settle
            wait = min(2 * wait, self.pace.longest_wait) if soon else self.pace.first_wait
        course = replace(course, relaxed=self.now, wait=wait, trouble=trouble, outgrown=None)
        sample = self.sample
        eased = min(_up(sample.usage + headroom(sample.working_set)), self.loosest)
        if max(sample.limits.soft, self.goal) >= eased:
            return [], course
        return [Limit(self.name, "soft", eased)], course

    def _tighten(self, course: Course) -> Iterator[Write]:
        """One step down, or back down to the goal after the program filled its caches again."""
        usage, soft = self.sample.usage, self.sample.limits.soft
        early = self.now - course.stepped < self.pace.pause
        waits = self.now - course.relaxed < course.wait
        if self.last.sample is None or early or waits or soft < self.goal:
            return
        if soft == self.goal:
            within = max(self.goal, self._floor())
            if self.is_soft and usage > within + _MIB:
                yield Reclaim(self.name, within)
            return
        lower = self._next_soft()
        if lower < soft:
            if usage > lower:
                yield Reclaim(self.name, lower)
            yield Limit(self.name, "soft", lower)

    def _next_soft(self) -> int:
        usage, pinned = self.sample.usage, self.sample.pinned
        here = min(self.sample.limits.soft, usage)
        stride = max(16 * _MIB, usage // 8)
        lower = max(self.goal, self._floor(), _up(here - stride))
        if lower < self.sample.limits.soft:
            return lower
        probe = max(_MIB, usage // 64)
        return max(self.goal, _up(pinned + headroom(pinned)), _up(here - probe))

    def _put_back(self, course: Course) -> Iterator[Write]:
        limits, original, usage = self.sample.limits, self.original, self.sample.usage
        if self._is_to_go_back():
            settled = course.roomy is not None and self.now - course.roomy >= self.pace.settle
            if not settled or usage > original.hard:
                return
            if usage > self._room():
                yield Reclaim(self.name, self._room())
            yield Limit(self.name, "hard", original.hard)
        elif self.hard > original.hard:
            return
        if limits.swap > original.swap:
            yield Limit(self.name, "swap", original.swap)

    def _is_to_go_back(self) -> bool:
        return self.level <= self.original.hard < self.sample.limits.hard

    def _room(self) -> int:
        """Where a program is slowed down before the user's own hard limit is put back."""
        room = self.original.hard - self.original.hard // 64
        return room - room % _GRAIN

    def _floor(self) -> int:
        """What the soft limit is to leave; on the way back the headroom is the user's affair."""
        needed = self.sample.working_set
        floor = _up(needed + headroom(needed))
        is_back = self._is_to_go_back() and needed <= self._room()
        return min(floor, self._room()) if is_back else floor

    def _swap(self) -> int:
        """The limit of memory and swap that leaves as much swap as the user had allowed."""
        if UNLIMITED in (self.hard, self.original.swap):
            return UNLIMITED
        return self.hard + self.original.swap - self.original.hard


def _up(amount: int) -> int:
    return max(-(-amount // _GRAIN), 1) * _GRAIN
