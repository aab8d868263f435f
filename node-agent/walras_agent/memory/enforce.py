"""Effects: enforces the memory grants of pods, and restores their limits when a grant ends.

The original limits are in the journal, so they can be restored after a crash as well. They are
dropped from the journal only when they are restored.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.backoff import Backoff
from walras_agent.journal import JournaledCgroups, OvertakenError
from walras_agent.memory.demand import estimate
from walras_agent.memory.limit_writes import planned_writes, take_step
from walras_agent.memory.stats import MemoryLimits, read_sample, read_signs
from walras_agent.observe import limited_groups
from walras_agent.tree import CgroupError, CgroupFile, ReadOnce, is_gone

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from walras_agent.journal import Journal
    from walras_agent.memory.demand import PodDemand
    from walras_agent.memory.limit_steps import LimitHistory, LimitProgress, ReclaimPace
    from walras_agent.memory.limit_writes import StepResult
    from walras_agent.memory.stats import MemorySample
    from walras_agent.observe import ObservedPod
    from walras_agent.tree import Cgroups, FileWrite


class MemoryRound(NamedTuple):
    """The result of one step for all pods.

    Attributes:
        pods: Progress of every grant, and of every pod whose limits are being restored, by UID.
        refused: Errors by UID of pods of which a file could not be read or written.
        writes: Writes that were made.
        demands: Bytes that granted pods could use, by UID.
    """

    pods: Mapping[str, LimitProgress]
    refused: Mapping[str, CgroupError]
    writes: Sequence[tuple[CgroupFile, str]]
    demands: Mapping[str, int]


@dataclass(slots=True)
class _Rest:
    """The state of a pod in which a step changes nothing while its files show the same.

    Attributes:
        pod: The pod as observed.
        grant: Its grant in bytes.
        signs: Texts as of `read_signs`.
        report: Progress of the grant.
        seen: Time of the last look at the signs.
    """

    pod: ObservedPod
    grant: int
    signs: tuple[str | None, ...]
    report: LimitProgress
    seen: float


@dataclass(slots=True)
class MemoryEnforcer:
    """Enforces memory grants on a node, one step in every call.

    Of a pod whose grant is held, only a few files are read while these show the same, until
    somebody may have written another (`look_anew`).

    Attributes:
        cgroups: Cgroups of this node.
        journal: Original texts of the files that were written.
        pace: Timing of reclaim; None for the default.
    """

    cgroups: Cgroups
    journal: Journal
    pace: ReclaimPace | None = None
    _histories: dict[str, Mapping[str, LimitHistory]] = field(default_factory=dict)
    _demands: dict[str, PodDemand] = field(default_factory=dict)
    _prior: dict[str, int] = field(default_factory=dict)
    _refused: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=60.0))
    _refusals: dict[str, CgroupError] = field(default_factory=dict)
    _rests: dict[str, _Rest] = field(default_factory=dict)

    def step(
        self, pods: Sequence[ObservedPod], grants: Mapping[str, int], now: float
    ) -> MemoryRound:
        """Make one step for every pod that has a grant, or whose limits are being restored.

        A pod with a permanent error waits longer after every failure.

        Args:
            pods: Pods of this node as observed.
            grants: Grants in bytes, by pod UID.
            now: Monotonic time in seconds.

        Raises:
            JournalError: The journal cannot be written; nothing was written for the pod.
        """
        reports: dict[str, LimitProgress] = {}
        refusals: dict[str, CgroupError] = {}
        writes: list[tuple[CgroupFile, str]] = []
        waiting = self._refused.waiting(now)
        self._forget_pods_but({pod.uid for pod in pods})
        for uid in self._rests.keys() - grants.keys():
            self._end_rest(uid)
        journaled = self._journaled()
        self._forget_settings_but(journaled)
        self._record_first_writes(
            [pod for pod in pods if pod.uid not in waiting], grants, journaled, now
        )
        for pod in pods:
            grant = grants.get(pod.uid)
            cgroups = ReadOnce(JournaledCgroups(self.cgroups, self.journal))
            if rested := self._rested(cgroups, pod, grant, now):
                reports[pod.uid] = rested
                continue
            settings = [setting for group in pod.groups for setting in journaled.get(group, ())]
            if grant is None and not settings:
                continue
            if pod.uid in waiting:
                refusals[pod.uid] = self._refusals[pod.uid]
                continue
            try:
                self.journal.adopt_foreign(settings, cgroups)
                held = self._take_step(cgroups, pod, grant, now)
            except CgroupError as error:
                if error.kind != "gone":
                    refusals[pod.uid] = error
                continue
            reports[pod.uid] = held.report
            # The samples of containers contain those of their subgroups.
            samples = {
                name: held.histories[name].sample for name in _groups(pod) if name in held.histories
            }
            self._estimate(pod, samples, now)
            self._begin_rest(cgroups, pod, grant, held, now)
            writes += held.writes
            if held.refused:
                refusals[pod.uid] = held.refused[0]
            if grant is None and held.report.state == "Held":
                self.journal.forget(settings)
        self._note(refusals, frozenset(pod.uid for pod in pods), now)
        return MemoryRound(reports, refusals, writes, self._reported(grants))

    def measure(
        self, pods: Sequence[ObservedPod], uids: Collection[str], now: float
    ) -> Mapping[str, int]:
        """Return the bytes that some pods could use, by UID, without writing.

        Args:
            pods: Pods of this node as observed.
            uids: UIDs of the pods to measure.
            now: Monotonic time in seconds.
        """
        for pod in pods:
            if pod.uid in uids:
                self._estimate(pod, {name: self._sample(name) for name in _groups(pod)}, now)
        for uid in self._demands.keys() - {pod.uid for pod in pods}:
            del self._demands[uid]
        return self._reported(uids)

    def look_anew(self) -> None:
        """Read all files in the next step, since somebody may have written one of them."""
        for uid in list(self._rests):
            self._end_rest(uid)

    def restore_demands(self, demands: Mapping[str, int]) -> None:
        """Continue from the demands in bytes, by pod UID, that a previous agent reported.

        They are used in the first estimate of each pod, as far as they are plausible.
        """
        self._prior = dict(demands)

    def _sample(self, group: str) -> MemorySample | None:
        with contextlib.suppress(CgroupError):
            return read_sample(self.cgroups, group)
        return None

    def _estimate(
        self, pod: ObservedPod, seen: Mapping[str, MemorySample | None], now: float
    ) -> None:
        """Update the demand of a pod from samples by group, if its own group has one."""
        samples = {name: sample for name, sample in seen.items() if sample is not None}
        own = samples.pop(pod.group, None)
        if own is not None:
            before, prior = self._demands.get(pod.uid), self._prior.pop(pod.uid, 0)
            self._demands[pod.uid] = estimate(own, before, now, samples, prior)

    def _reported(self, uids: Collection[str]) -> dict[str, int]:
        return {uid: self._demands[uid].reported for uid in uids if uid in self._demands}

    def _rested(
        self, cgroups: Cgroups, pod: ObservedPod, grant: int | None, now: float
    ) -> LimitProgress | None:
        """Return the progress of a pod that shows the same as before; None if it must be read."""
        rest = self._rests.get(pod.uid)
        if rest is None:
            return None
        with contextlib.suppress(CgroupError):  # it shows when all files are read
            if (pod, grant) == (rest.pod, rest.grant) and read_signs(
                cgroups, pod.group, _containers(pod)
            ) == rest.signs:
                rest.seen = now
                return rest.report
        self._end_rest(pod.uid)
        return None

    def _begin_rest(
        self, cgroups: Cgroups, pod: ObservedPod, grant: int | None, held: StepResult, now: float
    ) -> None:
        """Let a pod rest if a step that sees the same again would do nothing, at any time."""
        if grant is None or held.report.state != "Held" or held.writes or held.refused:
            return
        timed = any(each.outgrown_since is not None for each in held.histories.values())
        if timed or not self._demands[pod.uid].is_settled:
            return
        with contextlib.suppress(CgroupError):  # a container has just ended
            signs = read_signs(cgroups, pod.group, _containers(pod))
            self._rests[pod.uid] = _Rest(pod, grant, signs, held.report, now)

    def _end_rest(self, uid: str) -> None:
        """Go on as if all files of a pod had been read with its signs, and shown the same."""
        rest = self._rests.pop(uid)
        histories = self._histories[uid]
        self._histories[uid] = {
            name: replace(each, seen=rest.seen) for name, each in histories.items()
        }
        self._demands[uid] = self._demands[uid].seen_again(rest.seen)

    def _record_first_writes(
        self,
        pods: Iterable[ObservedPod],
        grants: Mapping[str, int],
        journaled: Mapping[str, object],
        now: float,
    ) -> None:
        """Record the first writes of all pods at once, since each record is a durable write.

        Each pod's own step looks again, and records what has become different.
        """
        writes: list[FileWrite] = []
        for pod in pods:
            grant, known = grants.get(pod.uid), self._histories.get(pod.uid, {})
            if grant is None or pod.uid in self._rests:
                continue
            if journaled.keys().isdisjoint(pod.groups):
                cgroups = ReadOnce(self.cgroups)
                with contextlib.suppress(CgroupError):  # it shows in the pod's own step
                    originals = self._originals(cgroups, pod)
                    writes += planned_writes(
                        cgroups, pod.group, grant, originals, known, now, self.pace
                    )
        self.journal.record(writes, self.cgroups)

    def _take_step(
        self, cgroups: ReadOnce, pod: ObservedPod, grant: int | None, now: float
    ) -> StepResult:
        histories = self._histories.get(pod.uid, {})
        originals = self._originals(cgroups, pod)

        def record(writes: Sequence[FileWrite]) -> None:
            self.journal.record(writes, self.cgroups)
            cgroups.forget()
            # A limit that others have raised since must not be lowered by a step from the old one.
            changed = self._originals(cgroups, pod)
            for group, limits in originals.items():
                if changed.get(group) != limits:
                    raise OvertakenError(CgroupFile("memory", group, "memory"))

        held = take_step(
            cgroups,
            pod.group,
            grant,
            originals,
            histories,
            now,
            pace=self.pace,
            record=record,
        )
        for write in held.writes:
            self.journal.made(*write)
        self._histories[pod.uid] = held.histories
        return held

    def _note(self, refusals: Mapping[str, CgroupError], there: frozenset[str], now: float) -> None:
        waiting = self._refused.waiting(now)
        for uid, refusal in refusals.items():
            if uid not in waiting and refusal.kind == "permanent":
                self._refused.failed(uid, now)
        self._refused.keep(there)
        self._refusals = dict(refusals)

    def _originals(self, cgroups: Cgroups, pod: ObservedPod) -> dict[str, MemoryLimits]:
        """Return the limits of a pod and its containers before the first step, by group.

        Raises:
            CgroupError: The limits of the pod, or of a container that exists, cannot be read.
        """
        limits = {}
        read = partial(self._text, cgroups)
        for group in (pod.group, *limited_groups(cgroups, pod)):
            try:
                limits[group] = MemoryLimits.read(cgroups.version, group, read)
            except CgroupError as error:
                if group == pod.group or error.kind != "gone":
                    raise
        return limits

    def _text(self, cgroups: Cgroups, setting: CgroupFile) -> str:
        kept = self.journal.originals.get(setting)
        return cgroups.read(setting) if kept is None else kept.text

    def _journaled(self) -> dict[str, list[CgroupFile]]:
        """Return the memory files in the journal, by group, without those of deleted groups.

        Pods at rest are there: what becomes of their groups shows when their signs are read.
        """
        resting = {group for rest in self._rests.values() for group in rest.pod.groups}
        journaled: dict[str, list[CgroupFile]] = {}
        gone: dict[tuple[str, int], bool] = {}
        for setting, kept in self.journal.originals.items():
            if setting.controller != "memory":
                continue
            group = setting.group, kept.identity
            if group not in gone:
                gone[group] = setting.group not in resting and is_gone(self.cgroups, *group)
            if not gone[group]:
                journaled.setdefault(setting.group, []).append(setting)
        return journaled

    def _forget_pods_but(self, there: set[str]) -> None:
        for uid in self._rests.keys() - there:
            del self._rests[uid]
        for uid in self._histories.keys() - there:
            del self._histories[uid]
        for uid in self._demands.keys() - there:
            del self._demands[uid]

    def _forget_settings_but(self, journaled: Mapping[str, Collection[CgroupFile]]) -> None:
        alive = {setting for settings in journaled.values() for setting in settings}
        originals = self.journal.originals
        self.journal.forget(
            [each for each in originals if each.controller == "memory" and each not in alive]
        )


def _groups(pod: ObservedPod) -> Iterable[str]:
    return pod.group, *_containers(pod)


def _containers(pod: ObservedPod) -> list[str]:
    return [each.group.name for each in pod.containers]
