"""Pure: chooses the CPUs of every granted pod of a node, and how much of their time it bought.

Pods share the CPUs of a domain (`domains`); weights divide their time (`weights`). Two kinds of
pods have whole cores of their own, which no domain has: isolated ones, for the whole cores of their
grant, and pods whose speedup is measured, since that is seen only where nobody disturbs. These use
some of their cores at a time; the others stay idle.

Pods without a grant may use all CPUs that no pod owns; at least one core stays shared if any pod
needs it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from operator import and_
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from walras.analysis.domain_of_pod import TimeDemand, place
from walras_agent.assign import CoreDemand, assign
from walras_agent.cpuset import CpuSet
from walras_agent.domains import domains_of, nearest_domain, only_domain
from walras_agent.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_agent.node_plan import EnforcedGrant
    from walras_agent.observe import ObservedPod
    from walras_agent.topology import Unit

MEASURED_CORES = 2
"""Least cores of a pod that is measured, since a speedup shows on two."""

NO_LIMITS: Mapping[str, int] = MappingProxyType({})

_MILLI = 1000
_NOTHING = CpuSet()
_NOWHERE: Mapping[str, CpuSet] = MappingProxyType({})


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
    """The CPUs that a pod is to have, and the time on them that it bought.

    Attributes:
        exclusive: CPUs that no other pod may use.
        shared: CPUs that the pod shares with others: its domain.
        milli: Time that it bought, in thousandths of a CPU.
        missing: Granted whole cores that it cannot have for itself alone.
        limit: Cores that the pod may use during a measurement; None for all of its CPUs.
        user: Name of the user who bought the time; empty if unknown.
    """

    exclusive: CpuSet
    shared: CpuSet
    milli: int
    missing: int = 0
    limit: MeasurementLimit | None = None
    user: str = ""

    @property
    def cpus(self) -> CpuSet:
        """All CPUs that the pod may use now."""
        return self.exclusive | self.shared if self.limit is None else self.limit.cpus


@dataclass(frozen=True, slots=True)
class NodeCpus:
    """The CPUs that all pods of a node are to have.

    Attributes:
        pods: CPUs of the pods with a grant, by pod UID.
        shared: CPUs that may be assigned, but that no pod owns.
        ungranted: CPUs of the containers of all other pods, by cgroup; a container that is not in
            it uses the shared CPUs (`ungranted.ungranted_cpus`).
    """

    pods: Mapping[str, PodCpus]
    shared: CpuSet
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
    limits: Mapping[str, int] = NO_LIMITS,
) -> NodeCpus:
    """Choose the CPUs of every grant and change as few assignments as possible.

    When the node lacks cores, because CPUs went offline, isolated pods are served in the order of
    their UIDs. A pod that gets fewer whole cores shares CPUs instead (`PodCpus.missing`).

    Args:
        topology: The node's online CPUs, without isolated ones.
        grants: Grants of the node's pods, at most one for each pod.
        previous: Exclusive CPUs of each pod so far, by pod UID.
        unit: Whether grants count physical cores or single CPUs.
        reserved: CPUs that stay shared (the kubelet's ``--reserved-cpus``).
        shared_before: Shared CPUs of each pod so far, by pod UID.
        others: Whether there may be pods without a grant; at least one core is left for these.
        limits: Cores that each pod under measurement may use now, by UID: the first of its own, and
            no shared CPU. All of its own stay reserved for it.

    Raises:
        ValueError: Two grants name the same pod.
    """
    ordered = sorted(grants, key=lambda grant: grant.pod)
    for one, other in pairwise(ordered):
        if one.pod == other.pod:
            raise ValueError(f"two grants are for the pod {one.title}")
    saleable = Topology(tuple(cpu for cpu in topology.cpus if cpu.id not in reserved))
    units = saleable.cores(unit)
    threads = max((len(each) for each in units), default=1)
    least_shared = 0 if topology.cpuset & reserved else 1
    cores = _own_cores(ordered, limits, len(units), least_shared, others=others)
    demands = [
        CoreDemand(grant.pod, cores[grant.pod], grant.partner)
        for grant in ordered
        if cores[grant.pod]
    ]
    assignment = assign(saleable, demands, previous, unit)
    own, shared = assignment.exclusive, assignment.shared | (topology.cpuset & reserved)
    measured = {pod: _limit(own[pod], count, units) for pod, count in limits.items() if pod in own}
    domains = domains_of(topology)
    times = [
        TimeDemand(
            grant.pod,
            milli * threads,
            only_domain(domains, shared_before.get(grant.pod, _NOTHING)),
            nearest_domain(domains, own.get(grant.pod, _NOTHING)),
            grant.partner,
        )
        for grant in ordered
        if (milli := grant.millicores - cores[grant.pod] * _MILLI) > 0 and grant.pod not in measured
    ]
    shares = [domain & shared for domain in domains]
    placed = place(map(len, shares), times)
    pods = {
        grant.pod: PodCpus(
            own.get(grant.pod, _NOTHING),
            CpuSet(cpu for number in placed.get(grant.pod, ()) for cpu in shares[number]),
            grant.millicores * threads,
            max(grant.whole_cores - cores[grant.pod], 0) if grant.isolated else 0,
            measured.get(grant.pod),
            grant.user,
        )
        for grant in ordered
    }
    return NodeCpus(pods, shared)


def _own_cores(
    grants: Sequence[EnforcedGrant],
    limits: Mapping[str, int],
    supply: int,
    spared: int,
    *,
    others: bool,
) -> Counter[str]:
    """Return the number of cores that each pod has of its own, as far as there are enough.

    Args:
        grants: All grants, in the order in which they are served.
        limits: Cores of pods under measurement, by UID.
        supply: Number of cores that can be owned.
        spared: Number of cores that stay shared if any pod needs them.
        others: Whether there may be pods without a grant, which do.
    """
    isolated = {grant.pod: grant.whole_cores for grant in grants if grant.isolated}
    measured = {
        grant.pod: max(grant.whole_cores, MEASURED_CORES) for grant in grants if grant.pod in limits
    }
    wanted = Counter(isolated) | Counter(measured)
    shares = others or wanted.total() > supply
    shares |= any(grant.millicores > wanted[grant.pod] * _MILLI for grant in grants)
    left = supply - spared if shares else supply
    cores: Counter[str] = Counter()
    for each in (isolated, measured):  # what was bought comes before what is lent to be measured
        for pod, count in each.items():
            more = max(min(count - cores[pod], left), 0)
            cores[pod] += more
            left -= more
    return cores


def _limit(own: CpuSet, count: int, units: Iterable[CpuSet]) -> MeasurementLimit:
    """Return the first of a pod's own cores, in assignment order; at least one."""
    # A core of which some CPUs are reserved counts with its other CPUs.
    mine = [exclusive for each in units if (exclusive := each & own)]
    used = mine[: max(count, 1)]
    return MeasurementLimit(len(used), CpuSet(cpu for each in used for cpu in each))


def unshared_cpus(
    pods: Sequence[ObservedPod], available: Mapping[str, CpuSet]
) -> dict[str, CpuSet]:
    """Return, by pod UID, the CPUs that no other pod is confined to, as observed after a start.

    Containers that may use all CPUs do not count: they began while no agent could confine them.

    Args:
        pods: All pods of the node.
        available: CPUs that the cgroup of each pod has, by UID.
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
    return {uid: CpuSet(cpu for cpu in cpus if users[cpu] == 1) for uid, cpus in confined.items()}


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


def common_cpus(pod: ObservedPod) -> CpuSet:
    """Return the CPUs that all containers of a pod may use now.

    One that has just begun may use any, until an agent has confined it like the others.
    """
    cpus = [each.group.cpus for each in pod.containers]
    return reduce(and_, cpus) if cpus else CpuSet()
