"""Effects: lifts the CFS quotas of granted pods, and writes weights of pods and QoS classes.

Quotas and weights change only when somebody writes them. So each is read once, and then again only
after a word that others may have written (`BandwidthEnforcer.look_anew`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet
from walras_agent.quota import WEIGHT_FILES, bandwidth_writes, class_writes, weight_writes
from walras_agent.tree import CgroupError, CgroupFile, ReadOnce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from walras_agent.journal import Journal
    from walras_agent.observe import ObservedPod
    from walras_agent.pod_cpus import NodeCpus
    from walras_agent.round_log import RoundLog
    from walras_agent.tree import Cgroups, FileWrite


@dataclass(slots=True)
class BandwidthEnforcer:
    """Writes the quotas and weights of a node's pods and QoS classes.

    Attributes:
        cgroups: Cgroups of this node.
        journal: Original texts of the files that were written.
        classes: Cgroups of QoS classes, whose pods share CPUs with those outside.
        busy: Function that returns the part of the time in which a pod is busy, by UID.
    """

    cgroups: Cgroups
    journal: Journal
    classes: tuple[str, ...]
    busy: Callable[[str], float]
    _texts: ReadOnce = field(init=False)

    def __post_init__(self) -> None:
        self._texts = ReadOnce(self.cgroups)

    def look_anew(self) -> None:
        """Read all files again, since somebody may have written one of them."""
        self._texts.forget()

    def enforce(
        self, pods: Sequence[ObservedPod], node_cpus: NodeCpus, log: RoundLog
    ) -> list[CgroupFile]:
        """Lift quotas and set weights of granted pods; return the files of others to restore."""
        kept = set(self.raised_classes(pods, node_cpus))
        planned: dict[str, Sequence[FileWrite]] = {}
        for pod in pods:
            pod_cpus = node_cpus.pods.get(pod.uid)
            if pod_cpus is None:
                continue
            kept.update(pod.groups)
            steps = bandwidth_writes(self._texts, pod, pod_cpus)
            if steps and pod.group in log.fixed:
                log.back_off(pod.group)
            elif steps:
                planned[pod.group] = steps
        # For all pods at once, since each record is a durable write of the whole journal.
        self.journal.record(chain.from_iterable(planned.values()), self.cgroups)
        for group, lifted in planned.items():
            self._write(group, lifted, log)
        return [
            setting
            for setting in self.journal.originals
            if setting.controller == "cpu" and setting.group not in kept
        ]

    def weigh(
        self,
        pods: Sequence[ObservedPod],
        node_cpus: NodeCpus,
        weighed: Iterable[ObservedPod],
        log: RoundLog,
    ) -> None:
        """Write the weights of some pods, and weigh QoS classes by their busy pods with these.

        The kubelet writes its own weights of classes every minute, so that is neither a failure nor
        a repair.

        Args:
            pods: All pods of the node.
            node_cpus: CPUs and weights that they are to have.
            weighed: Pods with a grant whose weights are written.
            log: Of this round.
        """
        planned = [
            step
            for pod in weighed
            if pod.group not in log.fixed
            for step in weight_writes(self._texts, pod, node_cpus.pods[pod.uid])
        ]
        classes = self.raised_classes(pods, node_cpus)
        file = WEIGHT_FILES[self.cgroups.version]
        files = [CgroupFile("cpu", group, file) for group in classes]
        self.journal.adopt_foreign(files, self._texts)
        new = {setting.group: value for setting, value in planned}
        for group, below in classes.items():
            busy = {pod.group: self.busy(pod.uid) for pod in below}
            steps = class_writes(self._texts, group, busy, new)
            if steps and group in log.fixed:
                log.back_off(group)
            else:
                planned += steps
        self.journal.record(planned, self.cgroups)
        for step in planned:
            self._write(step[0].group, [step], log)

    def weigh_guests(
        self, pods: Sequence[ObservedPod], node_cpus: NodeCpus, log: RoundLog
    ) -> set[str]:
        """Weigh guests, their classes and who lends before guests get CPUs of others.

        An owner may wake at any moment, and the agent may be killed.

        Returns:
            UIDs of the guests whose weight cannot be written, which must be none.
        """
        lent = CpuSet(cpu for each in node_cpus.pods.values() for cpu in each.guest or ())
        guests: list[ObservedPod] = []
        lenders: list[ObservedPod] = []
        for pod in pods:
            if (pod_cpus := node_cpus.pods.get(pod.uid)) and pod_cpus.cpus & lent:
                (lenders if pod_cpus.guest is None else guests).append(pod)
        for some in (guests, lenders):
            free = [pod for pod in some if pod.group not in log.staying]
            if any(self._is_unweighed(pod, node_cpus) for pod in free):
                self.weigh(pods, node_cpus, free, log)
            if refused := {pod.uid for pod in guests if self._is_unweighed(pod, node_cpus)}:
                return refused
        return set()

    def _is_unweighed(self, pod: ObservedPod, node_cpus: NodeCpus) -> bool:
        return bool(weight_writes(self._texts, pod, node_cpus.pods[pod.uid]))

    def raised_classes(
        self, pods: Sequence[ObservedPod], node_cpus: NodeCpus
    ) -> Mapping[str, Sequence[ObservedPod]]:
        """Return the QoS classes in which a pod has a grant, with all their pods."""
        below: dict[str, list[ObservedPod]] = {each: [] for each in self.classes}
        granted = set()
        for pod in pods:
            if pod.parent in below:
                below[pod.parent].append(pod)
                if pod.uid in node_cpus.pods:
                    granted.add(pod.parent)
        return {group: inside for group, inside in below.items() if group in granted}

    def _write(self, group: str, steps: Iterable[FileWrite], log: RoundLog) -> None:
        """Make writes to a pod or a class until one fails."""
        for setting, value in steps:
            self._texts.forget(setting)
            try:
                self.journal.write(setting, value, self.cgroups)
            except CgroupError as error:
                log.note(group, error)
                return
            log.writes.append((setting, value))
            # From now on, an earlier value of the agent's is somebody else's.
            self.journal.made(setting, value)
