"""Facts: follows how pods use CPUs; computes the weights that correct it, and finds guests.

While nobody is short of what it bought, or could use more, nothing has to be looked at often
(`SharedTime.competing`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from walras_agent.backoff import Backoff
from walras_agent.correction import (
    UNCORRECTED,
    Correction,
    CpuRate,
    Purchase,
    compete,
    correct,
    is_busy,
)
from walras_agent.cpuset import CpuSet
from walras_agent.guests import find_guests, lent_cpus, with_guests
from walras_agent.quota import MILLIWEIGHTS_BESIDE_GUESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from walras_agent.cpu_use import CpuUseReader
    from walras_agent.observe import ObservedPod
    from walras_agent.pod_cpus import NodeCpus, WeightRule

_ASLEEP = 0.01  # of a CPU, used at most by a pod that sleeps
_AWAKE = 0.05  # of a CPU, used at least by a pod of which waiting threads are looked for
_MORE = 0.1  # of a CPU, for which threads wait at least of a pod that could use more
_SHORT = 0.95  # of what was bought, used at least by a guest that is well off
_PAUSES = (10.0, 60.0)  # least and most seconds for which a pod that woke does not lend
_IDLE = 0.9  # of the time between two glances, for a CPU whose owner may sleep
_FORGOTTEN = 1.0  # seconds after which a glance says nothing
_CORRECTABLE = 0.9  # least seconds of an interval by which weights are corrected


@dataclass(slots=True)
class SharedTime:
    """The corrections of weights on one node, and which pods are busy.

    Attributes:
        reader: Reader of the pods' CPU time.
        weights: How grants become weights; if every thread has its own, nothing is corrected.
        competing: Whether pods on shared CPUs were short of what they bought, or could have been,
            or were seen for the first time, or whether a pod could use the CPUs of others.
        guests: CPUs that each guest may use, by UID, since the last call of `lend`.
        guests_due: Whether the next call of `lend` finds others.
        lendable: CPUs that a pod would borrow if their owners, who are awake, fell asleep.
        idle: Function that returns how long each CPU has been idle, in seconds.
    """

    reader: CpuUseReader
    weights: WeightRule
    idle: Callable[[], Mapping[int, float]]
    competing: bool = False
    guests: Mapping[str, CpuSet] = field(default_factory=dict)
    guests_due: bool = False
    lendable: CpuSet = field(default_factory=CpuSet)
    _glanced: float = -inf
    _idle: Mapping[int, float] = field(default_factory=dict)
    _quiet: Mapping[int, int] = field(default_factory=dict)
    _corrections: dict[str, Correction] = field(default_factory=dict)
    _busy: dict[str, float] = field(default_factory=dict)
    _looked: float = -inf
    _pauses: Backoff = field(default_factory=lambda: Backoff(*_PAUSES))
    _asleep: frozenset[str] = frozenset()
    _wanted: Mapping[str, float] = field(default_factory=dict)
    _refused: Collection[str] = ()

    def age(self) -> float:
        """Return the seconds since the last look."""
        return self.reader.clock() - self._looked

    def glance(self) -> bool:
        """Return whether a CPU that a pod would borrow fell idle, so that to look is worth while.

        It reads one file. True twice for such a CPU: a pod sleeps if it used no time between two
        looks, so a first one has to begin when the CPU is idle.
        """
        now, idle = self.reader.clock(), self.idle()
        since, before = now - self._glanced, self._idle
        self._glanced, self._idle = now, idle
        self._quiet = {
            cpu: self._quiet.get(cpu, 0) + 1
            for cpu in self.lendable
            if since < _FORGOTTEN and idle.get(cpu, 0.0) - before.get(cpu, inf) >= _IDLE * since
        }
        return any(times <= 2 for times in self._quiet.values())

    def look(
        self, pods: Sequence[ObservedPod], node_cpus: NodeCpus, classes: Collection[str] = ()
    ) -> None:
        """Read what pods used since the last look, correct weights by it, and find guests.

        Args:
            pods: Pods of the node.
            node_cpus: CPUs of the pods with a grant, before any correction, without guests.
            classes: Cgroups of QoS classes whose pods are read, too, if they have no grant.
        """
        self._looked = self.reader.clock()
        bought = {} if self.weights.by_thread else self._purchases(node_cpus)
        lendable = not self.weights.by_thread and len(node_cpus.pods) > 1
        if not bought and not lendable:
            self.reader.rates((), {})  # else, the next look would tell of all the time until then
            self.competing, self._corrections, self._busy = False, {}, {}
            self.guests_due = bool(self.guests)
            return
        granted = node_cpus.pods
        read = [pod for pod in pods if pod.uid in granted or pod.parent in classes]
        enough = {pod.uid: inf if pod.uid in granted else 1.0 for pod in read}
        least = dict.fromkeys(granted.keys() - bought.keys(), _AWAKE)
        rates = self.reader.rates(read, enough, least)
        bought = {pod: each for pod, each in bought.items() if pod not in self.guests}
        unknown = (bought.keys() & self.reader.seen) - rates.keys()
        kept = {pod: self.correction(pod) for pod in self.guests}
        long = {pod: rate for pod, rate in rates.items() if rate.seconds >= _CORRECTABLE}
        self._corrections = kept | correct(bought, long, self._corrections)
        self._busy = {pod: _busy_part(bought.get(pod), rate) for pod, rate in rates.items()}
        if lendable:
            self._find_sleepers(node_cpus, rates)
        self.guests_due = self._find_guests(node_cpus) != self.guests
        self.competing = bool(unknown) or compete(bought, rates) or bool(self._wanted)

    def _find_sleepers(self, node_cpus: NodeCpus, rates: Mapping[str, CpuRate]) -> None:
        """Find the pods that can lend, and those that could use more than they bought."""
        granted = node_cpus.pods
        seen = {pod: rate for pod, rate in rates.items() if pod in granted}
        asleep = frozenset(pod for pod, rate in seen.items() if rate.wanted <= _ASLEEP)
        bought = {pod: self.weights.cpus(each.milliweight) for pod, each in granted.items()}
        short = {
            pod
            for pod in seen.keys() & self.guests.keys()
            if seen[pod].used < _SHORT * min(bought[pod], seen[pod].wanted)
        }
        for pod in sorted((self._asleep & seen.keys()) - asleep | short):
            self._pauses.failed(pod, self._looked)
        self._pauses.keep(frozenset(granted))
        pausing = self._pauses.waiting(self._looked)
        self._asleep = asleep - pausing
        self._wanted = {
            pod: rate.wanted
            for pod, rate in seen.items()
            if pod not in pausing and (pod in self.guests or _needs_more(bought[pod], rate))
        }
        self.lendable = CpuSet()
        if self._wanted:
            lent = lent_cpus(node_cpus, self._asleep)
            self.lendable = lent_cpus(node_cpus, granted.keys() - pausing) - lent

    def _find_guests(self, node_cpus: NodeCpus) -> dict[str, CpuSet]:
        return find_guests(node_cpus, self._asleep, self._wanted, self.guests, self._refused)

    def lend(self, node_cpus: NodeCpus, refused: Collection[str] = ()) -> NodeCpus:
        """Return the same CPUs with guests on those of pods that sleep.

        Args:
            node_cpus: CPUs that pods hold.
            refused: Pods that can be no guests until the next call.
        """
        self._refused = refused
        if len(node_cpus.pods) <= 1:  # nobody looks who sleeps until there are more
            self._asleep, self._wanted, self.lendable = frozenset(), {}, CpuSet()
        self.guests, self.guests_due = self._find_guests(node_cpus), False
        least = MILLIWEIGHTS_BESIDE_GUESTS[self.reader.cgroups.version]
        return with_guests(node_cpus, self.guests, least)

    def corrected(self, node_cpus: NodeCpus) -> NodeCpus:
        """Return the same CPUs with corrected weights."""
        pods = {
            pod: replace(pod_cpus, milliweight=round(pod_cpus.milliweight * correction.factor))
            for pod, correction in self._corrections.items()
            if correction.factor != 1 and (pod_cpus := node_cpus.pods.get(pod))
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
            if each.shared
        }


def _needs_more(bought: float, rate: CpuRate) -> bool:
    """Whether a pod could use more than it bought, and more than others leave it."""
    waits = rate.waited is None or rate.waited > _MORE
    return waits and rate.wanted > bought + _MORE


def _busy_part(bought: Purchase | None, rate: CpuRate) -> float:
    if bought is not None and is_busy(bought, rate):
        return 1.0
    return min(1.0, rate.wanted)
