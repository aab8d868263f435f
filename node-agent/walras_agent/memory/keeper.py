"""Apply: the memory of granted pods, held by the kernel, and put back when a grant is lost.

What limits were before is in the journal, so the steps of `shrink.hold` know their way back after
a crash as well. The journal forgets a pod's limits when they are back, not before.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.backoff import Backoff
from walras_agent.memory.demand import estimate
from walras_agent.memory.pressure import FILES, Limits, observe
from walras_agent.memory.shrink import hold
from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from walras_agent.journal import Journal
    from walras_agent.memory.course import Course, Pace, Report
    from walras_agent.memory.demand import Demand
    from walras_agent.memory.pressure import Sample
    from walras_agent.memory.shrink import Held
    from walras_agent.observe import Pod
    from walras_agent.tree import Cgroups


class Step(NamedTuple):
    """What one step came to.

    Attributes:
        pods: By UID, how far every grant is.
        refused: By UID, for pods of which a file could not be read or written, why.
        writes: That were made.
        demands: By UID, bytes that a pod could use.
    """

    pods: Mapping[str, Report]
    refused: Mapping[str, CgroupError]
    writes: Sequence[tuple[Setting, str]]
    demands: Mapping[str, int]


@dataclass(slots=True)
class MemoryKeeper:
    """Holds pods to memory grants, a step in every call.

    Attributes:
        cgroups: Of this node.
        journal: Has the originals.
        pace: How carefully memory is taken back; None is the default.
    """

    cgroups: Cgroups
    journal: Journal
    pace: Pace | None = None
    _courses: dict[str, Mapping[str, Course]] = field(default_factory=dict)
    _demands: dict[str, Demand] = field(default_factory=dict)
    _recalled: dict[str, int] = field(default_factory=dict)
    _refused: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=60.0))
    _refusals: dict[str, CgroupError] = field(default_factory=dict)

    def step(self, pods: Sequence[Pod], grants: Mapping[str, int], now: float) -> Step:
        """Make one step for every pod that has a grant, or is on its way back without one.

        What will be refused again is tried ever less often.

        Args:
            pods: Of this node, as seen now.
            grants: Bytes, by pod UID.
            now: Seconds, monotonic.

        Raises:
            JournalError: Originals cannot be kept; nothing was written for the pod then.
        """
        reports: dict[str, Report] = {}
        refusals: dict[str, CgroupError] = {}
        writes: list[tuple[Setting, str]] = []
        waiting = self._refused.waiting(now)
        journaled = self._journaled()
        self._forget_gone(journaled, {pod.uid for pod in pods})
        for pod in pods:
            grant = grants.get(pod.uid)
            known = [setting for group in _groups(pod) for setting in journaled.get(group, ())]
            if grant is None and not known:
                continue
            if pod.uid in waiting:
                refusals[pod.uid] = self._refusals[pod.uid]
                continue
            try:
                held = self._hold(pod, grant, journaled, now)
            except CgroupError as error:
                if error.kind != "gone":
                    refusals[pod.uid] = error
                continue
            reports[pod.uid] = held.report
            self._estimate(pod, {name: each.sample for name, each in held.courses.items()}, now)
            writes += held.writes
            if held.refused:
                refusals[pod.uid] = held.refused[0]
            if grant is None and held.report.state == "Held":
                self.journal.forget(known)
        self._note(refusals, frozenset(pod.uid for pod in pods), now)
        return Step(reports, refusals, writes, self._told(grants))

    def measure(self, pods: Sequence[Pod], uids: Collection[str], now: float) -> Mapping[str, int]:
        """Return the bytes that some pods could use, by UID; nothing is written.

        Args:
            pods: Of this node, as seen now.
            uids: Of those that are asked about.
            now: Seconds, monotonic.
        """
        for pod in pods:
            if pod.uid in uids:
                self._estimate(pod, {name: self._seen(name) for name in _groups(pod)}, now)
        for uid in self._demands.keys() - {pod.uid for pod in pods}:
            del self._demands[uid]
        return self._told(uids)

    def recall(self, demands: Mapping[str, int]) -> None:
        """Go on from the bytes that pods could use, by UID, as an agent before this one told them.

        They count with the next look at each pod, as far as they can be.
        """
        self._recalled = dict(demands)

    def _seen(self, group: str) -> Sample | None:
        with contextlib.suppress(CgroupError):
            return observe(self.cgroups, group)
        return None

    def _estimate(self, pod: Pod, seen: Mapping[str, Sample | None], now: float) -> None:
        """Estimate a pod's demand by what was seen of its groups; without its own, not at all."""
        samples = {name: sample for name, sample in seen.items() if sample is not None}
        own = samples.pop(pod.group, None)
        if own is not None:
            before, recalled = self._demands.get(pod.uid), self._recalled.pop(pod.uid, 0)
            self._demands[pod.uid] = estimate(own, before, now, samples, recalled)

    def _told(self, uids: Collection[str]) -> dict[str, int]:
        return {uid: self._demands[uid].told for uid in uids if uid in self._demands}

    def _hold(self, pod: Pod, grant: int | None, journaled: Collection[str], now: float) -> Held:
        if grant is not None:
            self._remember([group for group in _groups(pod) if group not in journaled])
        courses = self._courses.get(pod.uid, {})
        originals = self._originals(pod)
        held = hold(self.cgroups, pod.group, grant, originals, courses, now, pace=self.pace)
        self._courses[pod.uid] = held.courses
        return held

    def _note(self, refusals: Mapping[str, CgroupError], there: frozenset[str], now: float) -> None:
        waiting = self._refused.waiting(now)
        for uid, refusal in refusals.items():
            if uid not in waiting and refusal.kind == "permanent":
                self._refused.failed(uid, now)
        self._refused.keep(there)
        self._refusals = dict(refusals)

    def _remember(self, groups: Iterable[str]) -> None:
        # A kernel without swap accounting does not have all of them.
        files = FILES[self.cgroups.version].values()
        settings = (Setting("memory", group, file) for group in groups for file in files)
        self.journal.take_down(settings, self.cgroups)

    def _originals(self, pod: Pod) -> dict[str, Limits]:
        """The limits of a pod and its containers before the first step.

        Raises:
            CgroupError: The pod is gone, or has no limits; so with its containers, but for those
                that are gone.
        """
        limits = {}
        for group in _groups(pod):
            try:
                limits[group] = Limits.read(self.cgroups.version, group, self._text)
            except CgroupError as error:
                if group == pod.group or error.kind != "gone":
                    raise
        return limits

    def _text(self, setting: Setting) -> str:
        kept = self.journal.originals.get(setting)
        return self.cgroups.read(setting) if kept is None else kept.text

    def _journaled(self) -> dict[str, list[Setting]]:
        """The memory files that the journal has, by their group; those of gone groups left out."""
        found: dict[str, list[Setting]] = {}
        identities: dict[str, int | None] = {}
        for setting, kept in self.journal.originals.items():
            group = setting.group
            if setting.controller != "memory":
                continue
            if group not in identities:
                identities[group] = self.cgroups.identity(group)
            if kept.identity == identities[group]:
                found.setdefault(group, []).append(setting)
        return found

    def _forget_gone(self, journaled: Mapping[str, Collection[Setting]], there: set[str]) -> None:
        for uid in self._courses.keys() - there:
            del self._courses[uid]
        for uid in self._demands.keys() - there:
            del self._demands[uid]
        alive = {setting for settings in journaled.values() for setting in settings}
        originals = self.journal.originals
        self.journal.forget(
            [each for each in originals if each.controller == "memory" and each not in alive]
        )


def _groups(pod: Pod) -> Iterable[str]:
    yield pod.group
    for container in pod.containers:
        yield container.group.name
