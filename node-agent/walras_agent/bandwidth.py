"""Effects: writes the weights of pods and QoS classes, and lifts the CFS quotas of granted pods.

Nothing else writes these files, and no file is written twice in a pass. They change only when
somebody writes them, so each is read once, and then again only after a word that others may have
written (`BandwidthEnforcer.look_anew`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from walras_agent.quota import WEIGHT_FILES, quota_writes
from walras_agent.tree import CgroupError, CgroupFile, ReadOnce
from walras_agent.weights import requested_cpus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from walras_agent.journal import Journal
    from walras_agent.observe import ObservedPod
    from walras_agent.round_log import RoundLog
    from walras_agent.tree import Cgroups, FileWrite

_OF_PODS, _OF_CLASSES = 0.01, 0.02  # of a weight, by which another one is nearly right


@dataclass(slots=True)
class BandwidthEnforcer:
    """Writes the quotas and weights of a node's pods and QoS classes.

    Attributes:
        cgroups: Cgroups of this node.
        journal: Original texts of the files that were written.
    """

    cgroups: Cgroups
    journal: Journal
    _texts: ReadOnce = field(init=False)
    # What this agent wrote last to each file, until that is restored.
    _wrote: dict[CgroupFile, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._texts = ReadOnce(self.cgroups)

    def look_anew(self) -> None:
        """Read all files again, since somebody may have written one of them."""
        self._texts.forget()

    def forget(self, settings: Iterable[CgroupFile]) -> None:
        """Take note that files have been restored."""
        for setting in settings:
            self._wrote.pop(setting, None)
            self._texts.forget(setting)

    def requested(self, pod: ObservedPod) -> float:
        """Return the CPUs that a pod requested, by the weight that others gave it last."""
        setting = self._weight_file(pod.group)
        try:
            text = self._texts.read(setting)
        except CgroupError:  # it is being deleted
            return 0.0
        kept = self.journal.originals.get(setting)
        if kept is not None and not self.journal.is_foreign(kept, text, self.cgroups.version):
            text = kept.text
        return requested_cpus(self.cgroups.version, int(text))

    def enforce(
        self,
        pods: Sequence[ObservedPod],
        lifted: Collection[str],
        weights: Mapping[str, int],
        log: RoundLog,
    ) -> list[CgroupFile]:
        """Lift quotas and write weights; return the files that are to be restored.

        Args:
            pods: All pods of the node.
            lifted: UIDs of the pods whose quotas are lifted.
            weights: Weights of pods and QoS classes, by group; those of others stay.
            log: Of this round.
        """
        mine = [pod for pod in pods if pod.uid in lifted]
        without_quota = {pod.group: quota_writes(self._texts, pod) for pod in mine}
        self._write(pods, without_quota, weights, log)
        groups = {group for pod in mine for group in pod.groups}
        weighed = set(map(self._weight_file, weights))
        return [
            setting
            for setting in self.journal.originals
            if setting.controller == "cpu"
            and setting not in weighed
            and setting.group not in groups
        ]

    def weigh(self, pods: Sequence[ObservedPod], weights: Mapping[str, int], log: RoundLog) -> None:
        """Write weights only; see `enforce`."""
        self._write(pods, {}, weights, log)

    def _write(
        self,
        pods: Sequence[ObservedPod],
        lifted: Mapping[str, Sequence[FileWrite]],
        weights: Mapping[str, int],
        log: RoundLog,
    ) -> None:
        of_pods = {pod.group for pod in pods}
        self.journal.claim_weights(self._texts)
        # The kubelet weighs classes every minute, so that is neither a failure nor a repair.
        self.journal.adopt_foreign(map(self._weight_file, weights.keys() - of_pods), self._texts)
        planned: dict[str, list[FileWrite]] = {}
        for group in dict.fromkeys((*lifted, *weights)):
            tolerance = _OF_PODS if group in of_pods else _OF_CLASSES
            weight = self._weight_write(group, weights.get(group), tolerance)
            steps = [*lifted.get(group, ()), *weight]
            if steps and group in log.fixed:
                log.back_off(group)
            elif steps:
                planned[group] = steps
        log.overwritten.update(
            group
            for group, steps in planned.items()
            if group in of_pods and any(self._is_overwritten(setting) for setting, _ in steps)
        )
        # For all at once, since each record is a durable write of the whole journal.
        self.journal.record(chain.from_iterable(planned.values()), self.cgroups)
        for group, steps in planned.items():
            self._write_until_one_fails(group, steps, log)

    def _weight_write(
        self, group: str, weight: int | None, tolerance: float
    ) -> tuple[FileWrite, ...]:
        """Return the write that gives a group its weight; none if it nearly has it."""
        setting = self._weight_file(group)
        try:
            now = int(self._texts.read(setting))
        except CgroupError:  # it is being deleted
            return ()
        if weight is None or abs(weight - now) <= tolerance * weight:
            return ()
        return ((setting, str(weight)),)

    def _is_overwritten(self, setting: CgroupFile) -> bool:
        wrote = self._wrote.get(setting)
        return wrote is not None and self._texts.read(setting) != wrote

    def _write_until_one_fails(self, group: str, steps: Iterable[FileWrite], log: RoundLog) -> None:
        for setting, value in steps:
            self._texts.forget(setting)
            try:
                self.journal.write(setting, value, self.cgroups)
            except CgroupError as error:
                log.note(group, error)
                return
            log.writes.append((setting, value))
            self._wrote[setting] = value
            # From now on, an earlier value of the agent's is somebody else's.
            self.journal.made(setting, value)

    def _weight_file(self, group: str) -> CgroupFile:
        return CgroupFile("cpu", group, WEIGHT_FILES[self.cgroups.version])
