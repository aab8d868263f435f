"""Pure: chooses the CPUs and the CPU weight of every granted pod of a node.

The whole cores of a grant become exclusive CPUs of the pod. A fraction beyond them is time on
shared CPUs, usually on one (`shared_cpus`): the pod may use these too, and its weight decides its
share of them under contention; what others leave idle it uses, too. Pods without a grant use the
shared CPUs; at least one core stays shared if any pod needs it.

The weight is that of the whole grant, since the kernel spreads a group's weight over all CPUs that
its threads run on, and only a part of it counts on the shared ones. With it, also a pod that has
only CPUs of its own weighs as much on each of them as others on theirs, against programs outside.

While its speedup is measured, a pod uses only some of its exclusive cores; the others stay idle. A
pod with one core borrows a second one meanwhile (`guests`), since a speedup shows on two.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.assign import CoreDemand, assign
from walras_agent.cpuset import CpuSet
from walras_agent.shared_cpus import Fraction, place_fractions
from walras_agent.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from walras_agent.node_plan import EnforcedGrant
    from walras_agent.observe import ObservedPod
    from walras_agent.topology import Unit

_MILLI = 1000
_NOTHING = CpuSet()
_NOWHERE: Mapping[str, CpuSet] = MappingProxyType({})


class WeightRule(NamedTuple):
    """How grants become weights on the shared CPUs.

    Attributes:
        scale: Weight of a core, as a multiple of that of a pod that requests one. Pods beside those
            of others keep 1; a larger scale makes the whole numbers of small weights exact.
        by_thread: Whether every thread has the weight to itself, wherever it runs. Then the
            fraction of the grant alone is weighed, since threads on exclusive CPUs compete with
            nobody; those that have no others weigh as much as a core.
    """

    scale: int = 1
    by_thread: bool = False

    def milliweight(self, millicores: int, exclusive: int) -> int:
        """Return the weight of a grant of which some whole cores are exclusive ones."""
        if self.by_thread:
            return (millicores - exclusive * _MILLI or _MILLI) * self.scale
        return millicores * self.scale

    def cpus(self, milliweight: int) -> float:
        """Return the CPUs of a grant with this weight, unless weights are by thread."""
        return milliweight / self.scale / _MILLI


KUBELETS_WEIGHTS = WeightRule()
"""Rule by which a grant has the weight that the kubelet gives for a request of as much."""


class MeasurementLimit(NamedTuple):
    """The cores that a pod may use while its speedup is measured.

    Attributes:
        units: Number of cores, or of CPUs if single CPUs are sold (`Unit`).
        cpus: The CPUs of these cores.
    """

    units: int
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class PodCpus:
    """The CPUs and the weight that a pod is to have.

    Attributes:
        exclusive: CPUs that no other pod may use.
        shared: CPUs that the pod shares with others; empty for a grant of whole cores only.
        milliweight: Weight, as the CPU request in thousandths for which the kubelet sets the same.
        missing: Granted whole cores that the node does not have.
        limit: Cores that the pod may use during a measurement; None for all of its CPUs.
        isolated: Whether the pod lends nothing while it sleeps.
        borrows: Whether it is to be measured on two cores, and has only one.
        guest: CPUs that the pod may use while others lend it some; None if it is no guest.
    """

    exclusive: CpuSet
    shared: CpuSet
    milliweight: int
    missing: int = 0
    limit: MeasurementLimit | None = None
    isolated: bool = False
    borrows: bool = False
    guest: CpuSet | None = None

    @property
    def held(self) -> CpuSet:
        """The CPUs that the pod may use by its grant."""
        return self.exclusive | self.shared if self.limit is None else self.limit.cpus

    @property
    def cpus(self) -> CpuSet:
        """All CPUs that the pod may use now."""
        return self.held if self.guest is None else self.guest


@dataclass(frozen=True, slots=True)
class NodeCpus:
    """The CPUs that all pods of a node are to have.

    Attributes:
        pods: CPUs of the pods with a grant, by pod UID.
        shared: CPUs that may be assigned, but that no pod owns.
        cores: CPUs of each core that may be owned, or single CPUs if these are sold.
        ungranted: CPUs of the containers of all other pods, by cgroup; a container that is not in
            it uses the shared CPUs (`ungranted.ungranted_cpus`).
    """

    pods: Mapping[str, PodCpus]
    shared: CpuSet
    cores: tuple[CpuSet, ...] = ()
    ungranted: Mapping[str, CpuSet] = field(default_factory=dict)


def allocate_cpus(
    topology: Topology,
    grants: Iterable[EnforcedGrant],
    previous: Mapping[str, CpuSet],
    unit: Unit = "core",
    reserved: CpuSet = _NOTHING,
    *,
    shared_before: Mapping[str, CpuSet] = _NOWHERE,
    others: bool = True,
    weights: WeightRule = KUBELETS_WEIGHTS,
) -> NodeCpus:
    """Choose the CPUs of every grant and change as few assignments as possible.

    When the node lacks cores, because CPUs went offline, grants are served in the order of their
    pods' UIDs. A pod that gets fewer whole cores uses the shared CPUs instead (`PodCpus.missing`).

    Args:
        topology: The node's online CPUs, without isolated ones.
        grants: Grants of the node's pods, at most one for each pod.
        previous: Exclusive CPUs of each pod so far, by pod UID.
        unit: Whether grants count physical cores or single CPUs.
        reserved: CPUs that stay shared (the kubelet's ``--reserved-cpus``).
        shared_before: Shared CPUs of each pod so far, by pod UID.
        others: Whether there may be pods without a grant; at least one core is left for these.
        weights: How grants become weights.

    Raises:
        ValueError: Two grants name the same pod.
    """
    saleable = Topology(tuple(cpu for cpu in topology.cpus if cpu.id not in reserved))
    units = saleable.cores(unit)
    threads = max((len(each) for each in units), default=1)
    demands, missing = [], {}
    ordered = sorted(grants, key=lambda grant: grant.pod)
    shares = others or any(grant.uses_shared for grant in ordered)
    shares = shares or sum(grant.whole_cores for grant in ordered) > len(units)
    left = len(units) - 1 if shares and not topology.cpuset & reserved else len(units)
    for one, other in pairwise(ordered):
        if one.pod == other.pod:
            raise ValueError(f"two grants are for the pod {one.title}")
    for grant in ordered:
        whole = min(grant.whole_cores, max(left, 0))
        left -= whole
        missing[grant.pod] = grant.whole_cores - whole
        if whole:
            demands.append(CoreDemand(grant.pod, whole, grant.partner))
    assignment = assign(saleable, demands, previous, unit)
    shared = assignment.shared | (topology.cpuset & reserved)
    fractions = [
        Fraction(grant.pod, milli * threads, assignment.exclusive.get(grant.pod, _NOTHING))
        for grant in ordered
        if (milli := grant.millicores - (grant.whole_cores - missing[grant.pod]) * _MILLI)
    ]
    placed = place_fractions(topology, shared, fractions, shared_before, reserved)
    pods = {}
    for grant in ordered:
        whole = grant.whole_cores - missing[grant.pod]
        pods[grant.pod] = PodCpus(
            assignment.exclusive.get(grant.pod, _NOTHING),
            placed.get(grant.pod, _NOTHING),
            weights.milliweight(grant.millicores, whole) * threads,
            missing[grant.pod],
            isolated=grant.isolated,
        )
    return NodeCpus(pods, shared, units)


def limit_measured_pods(node_cpus: NodeCpus, limits: Mapping[str, int]) -> NodeCpus:
    """Limit pods under measurement to the first of their exclusive cores, in assignment order.

    All of its exclusive CPUs stay reserved for the pod. A limited pod uses no shared CPU: it runs
    at the speed of that many whole cores. A pod that has one core and is to use more keeps all that
    it has until it has borrowed a second one.

    Args:
        node_cpus: CPUs of all pods, without limits.
        limits: Number of cores by pod UID, raised to 1 and lowered to the pod's exclusive cores.
            Pods without exclusive cores are not limited.
    """
    limited = {
        uid: _limited(node_cpus.pods[uid], count, node_cpus.cores)
        for uid, count in limits.items()
        if uid in node_cpus.pods and node_cpus.pods[uid].exclusive
    }
    return replace(node_cpus, pods={**node_cpus.pods, **limited}) if limited else node_cpus


def _limited(pod_cpus: PodCpus, count: int, units: Iterable[CpuSet]) -> PodCpus:
    # A core of which some CPUs are reserved counts with its other CPUs.
    mine = [exclusive for each in units if (exclusive := each & pod_cpus.exclusive)]
    if len(mine) == 1 < count:
        return replace(pod_cpus, borrows=True)
    used = mine[: max(count, 1)]
    cpus = CpuSet(cpu for each in used for cpu in each)
    return replace(pod_cpus, shared=_NOTHING, limit=MeasurementLimit(len(used), cpus))


def unshared_cpus(
    pods: Sequence[ObservedPod], available: Mapping[str, CpuSet], guests: Collection[str] = ()
) -> dict[str, CpuSet]:
    """Return, by pod UID, the CPUs that no other pod is confined to, as observed after a start.

    Containers that may use all CPUs do not count: they began while no agent could confine them.
    Nor do guests on the CPUs of others.

    Args:
        pods: All pods of the node.
        available: CPUs that the cgroup of each pod has, by UID.
        guests: Pods that may have been guests, by UID.
    """
    confined = {
        pod.uid: {
            cpu
            for each in pod.containers
            if each.group.cpus != available.get(pod.uid)
            for cpu in each.group.cpus
        }
        for pod in pods
    }
    users = Counter(cpu for cpus in confined.values() for cpu in cpus)
    hosts = Counter(cpu for uid, cpus in confined.items() if uid not in guests for cpu in cpus)
    return {
        uid: CpuSet(cpu for cpu in cpus if (users if uid in guests else hosts)[cpu] == 1)
        for uid, cpus in confined.items()
    }


def still_exclusive(
    pods: Sequence[ObservedPod], before: Mapping[str, CpuSet], node_cpus: NodeCpus
) -> dict[str, CpuSet]:
    """Return the exclusive CPUs of every pod, by UID, after some of the moves have been made.

    Args:
        pods: The pods as observed now.
        before: Exclusive CPUs of each pod before the moves, by UID.
        node_cpus: The CPUs that the moves lead to.
    """
    owned = {}
    for pod in pods:
        pod_cpus = node_cpus.pods.get(pod.uid)
        mine = pod_cpus.exclusive if pod_cpus else CpuSet()
        had = before.get(pod.uid, CpuSet())
        # CPUs that the pod keeps are still exclusive, even if a measurement leaves them idle.
        owned[pod.uid] = (had | mine) & occupied_cpus(pod) | had & mine
    return owned


def occupied_cpus(pod: ObservedPod) -> CpuSet:
    """Return the CPUs that the containers of a pod may use now."""
    return CpuSet(cpu for each in pod.containers for cpu in each.group.cpus)
