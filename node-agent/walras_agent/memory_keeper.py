"""Apply: the memory of granted pods, held by the kernel, and put back when a grant is lost.

What limits were before is in the journal, so the steps of `shrink.hold` know their way back after
a crash as well. The journal forgets a pod's limits when they are back, not before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_agent.journal import Original
from walras_agent.pressure import FILES, Limits
from walras_agent.shrink import hold
from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_agent.journal import Journal
    from walras_agent.memory import Course, Pace, Report
    from walras_agent.observe import Pod
    from walras_agent.tree import Cgroups


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

    def step(
        self, pods: Sequence[Pod], grants: Mapping[str, int], now: float
    ) -> tuple[dict[str, Report], dict[str, CgroupError]]:
        """Make one step for every pod that has a grant, or is on its way back without one.

        Args:
            pods: Of this node, as seen now.
            grants: Bytes, by pod UID.
            now: Seconds, monotonic.

        Returns:
            By pod UID, how far its grant is; and for pods of which a file could not be read or
            written, the kernel's refusal.

        Raises:
            JournalError: Originals cannot be kept; nothing was written for the pod then.
        """
        reports: dict[str, Report] = {}
        refusals: dict[str, CgroupError] = {}
        journaled = self._journaled()
        for pod in pods:
            grant = grants.get(pod.uid)
            known = [setting for group in _groups(pod) for setting in journaled.get(group, ())]
            if grant is None and not known:
                continue
            try:
                if grant is not None:
                    self._remember(pod)
                held = hold(
                    self.cgroups,
                    pod.group,
                    grant,
                    self._originals(pod),
                    self._courses.get(pod.uid, {}),
                    now,
                    pace=self.pace,
                )
            except CgroupError as error:
                if error.kind != "gone":
                    refusals[pod.uid] = error
                continue
            self._courses[pod.uid] = held.courses
            reports[pod.uid] = held.report
            if held.refused:
                refusals[pod.uid] = held.refused[0]
            if grant is None and held.report.state == "Held":
                self.journal.forget(known)
        self._forget_gone({pod.uid for pod in pods})
        return reports, refusals

    def _remember(self, pod: Pod) -> None:
        found = []
        for group in _groups(pod):
            identity = self.cgroups.identity(group)
            for file in FILES[self.cgroups.version].values():
                setting = Setting("memory", group, file)
                kept = self.journal.originals.get(setting)
                if identity is None or (kept is not None and kept.identity == identity):
                    continue
                try:
                    found.append(Original(setting, identity, self.cgroups.read(setting)))
                except CgroupError:
                    continue  # a kernel without swap accounting, or a group that is gone
        self.journal.remember(found)

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
        for setting, kept in self.journal.originals.items():
            if setting.controller != "memory":
                continue
            if kept.identity == self.cgroups.identity(setting.group):
                found.setdefault(setting.group, []).append(setting)
        return found

    def _forget_gone(self, there: set[str]) -> None:
        for uid in self._courses.keys() - there:
            del self._courses[uid]
        self.journal.forget(
            [
                setting
                for setting, kept in self.journal.originals.items()
                if setting.controller == "memory"
                and self.cgroups.identity(setting.group) != kept.identity
            ]
        )


def _groups(pod: Pod) -> Iterable[str]:
    yield pod.group
    for container in pod.containers:
        yield container.group.name
