"""Facts: follows how pods divide the shared CPUs, and computes the weights that correct it.

While nobody is short of what it bought, nothing has to be looked at often (`SharedTime.competing`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from walras_agent.correction import (
    UNCORRECTED,
    Correction,
    CpuRate,
    Purchase,
    compete,
    correct,
    is_busy,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from walras_agent.cpu_use import CpuUseReader
    from walras_agent.observe import ObservedPod
    from walras_agent.pod_cpus import NodeCpus, WeightRule


@dataclass(slots=True)
class SharedTime:
    """The corrections of weights on one node, and which pods are busy.

    Attributes:
        reader: Reader of the pods' CPU time.
        weights: How grants become weights; if every thread has its own, nothing is corrected.
        competing: Whether pods on shared CPUs were short of what they bought, or could have been,
            or were seen for the first time.
    """

    reader: CpuUseReader
    weights: WeightRule
    competing: bool = False
    _corrections: dict[str, Correction] = field(default_factory=dict)
    _busy: dict[str, float] = field(default_factory=dict)
    _looked: float = float("-inf")

    def age(self) -> float:
        """Return the seconds since the last look."""
        return self.reader.clock() - self._looked

    def look(
        self, pods: Sequence[ObservedPod], node_cpus: NodeCpus, classes: Collection[str] = ()
    ) -> None:
        """Read what pods used since the last look, and correct weights by it.

        Args:
            pods: Pods of the node.
            node_cpus: CPUs of the pods with a grant, before any correction.
            classes: Cgroups of QoS classes whose pods are read, too, if they share no CPU.
        """
        self._looked = self.reader.clock()
        bought = {} if self.weights.by_thread else self._purchases(node_cpus)
        if not bought:
            self.competing, self._corrections, self._busy = False, {}, {}
            return
        read = [pod for pod in pods if pod.uid in bought or pod.parent in classes]
        # How long pods waited that own their CPUs need not be known: nobody competes with them.
        needs = {pod.uid: 0.0 if pod.uid in node_cpus.pods else 1.0 for pod in read}
        needs |= {pod: purchase.cpus for pod, purchase in bought.items()}
        rates = self.reader.rates(read, needs)
        unknown = (bought.keys() & self.reader.seen) - rates.keys()
        self.competing = bool(unknown) or compete(bought, rates)
        self._corrections = correct(bought, rates, self._corrections)
        self._busy = {pod: _busy_part(bought.get(pod), rate) for pod, rate in rates.items()}

    def corrected(self, node_cpus: NodeCpus) -> NodeCpus:
        """Return the same CPUs with corrected weights."""
        pods = {
            pod: replace(pod_cpus, milliweight=round(pod_cpus.milliweight * correction.factor))
            for pod, correction in self._corrections.items()
            if (pod_cpus := node_cpus.pods.get(pod)) and pod_cpus.milliweight is not None
        }
        return replace(node_cpus, pods={**node_cpus.pods, **pods}) if pods else node_cpus

    def correction(self, pod: str) -> Correction:
        """Return the correction of a pod's weight."""
        return self._corrections.get(pod, UNCORRECTED)

    def busy(self, pod: str) -> float:
        """Return the part of the time in which a thread of a pod ran or waited; 1 if unknown."""
        return self._busy.get(pod, 1.0)

    def _purchases(self, node_cpus: NodeCpus) -> dict[str, Purchase]:
        return {
            pod: Purchase(self.weights.cpus(each.milliweight), len(each.exclusive), each.shared)
            for pod, each in node_cpus.pods.items()
            if each.milliweight is not None
        }


def _busy_part(bought: Purchase | None, rate: CpuRate) -> float:
    if bought is not None and is_busy(bought, rate):
        return 1.0
    return min(1.0, rate.wanted)
