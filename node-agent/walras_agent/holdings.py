"""Pure choice: what each granted pod is to hold of this node's CPUs.

The whole cores of a grant are the pod's own. A fraction beyond them is time on the shared CPUs,
which the pod then may use too: its quota bounds its time on all of them to the grant, its weight
is its part of the shared ones when they are contended. Everybody else, pods without a grant
included, has the shared CPUs, of which there is always at least one core.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from walras_agent.assign import Demand, assign
from walras_agent.cpuset import CpuSet
from walras_agent.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_agent.topology import Unit

_MILLI = 1000
_NOTHING = CpuSet()


@dataclass(frozen=True, slots=True)
class Grant:
    """What the market sold to a pod on this node.

    Attributes:
        pod: The pod's UID.
        title: The pod for people, ``namespace/name``.
        millicores: Thousandths of what the market sells, cores or single CPUs (`Unit`).
        memory: Bytes; None where the market does not divide memory.

    Raises:
        ValueError: A quantity is negative, or nothing at all.
    """

    pod: str
    title: str
    millicores: int
    memory: int | None = None

    def __post_init__(self) -> None:
        if self.millicores <= 0:
            raise ValueError(f"{self.title}: {self.millicores}m cores were granted; 1m is least")
        if self.memory is not None and self.memory <= 0:
            raise ValueError(f"{self.title}: {self.memory} bytes were granted; 1 is least")


@dataclass(frozen=True, slots=True)
class Holding:
    """What a pod is to hold.

    Attributes:
        own: CPUs that nobody else may use.
        shared: CPUs that it shares; none when it was granted whole cores only.
        milliquota: Bound on its CPU time, in thousandths of a CPU; None without a bound.
        milliweight: Its weight on the shared CPUs, as thousandths of a CPU that a pod of the
            same weight would have requested; None where it uses none.
        missing: Cores that it was granted and cannot have, because the node lacks them.
    """

    own: CpuSet
    shared: CpuSet
    milliquota: int | None
    milliweight: int | None
    missing: int = 0

    @property
    def cpus(self) -> CpuSet:
        """All CPUs that it may use."""
        return self.own | self.shared


@dataclass(frozen=True, slots=True)
class Holdings:
    """What all pods are to hold.

    Attributes:
        pods: By UID, of those with a grant.
        shared: The CPUs of all others.
    """

    pods: Mapping[str, Holding]
    shared: CpuSet


def divide(
    topology: Topology,
    grants: Iterable[Grant],
    previous: Mapping[str, CpuSet],
    unit: Unit = "core",
    reserved: CpuSet = _NOTHING,
) -> Holdings:
    """Choose the CPUs of every grant, so that as little as possible moves.

    When the node lacks cores, for CPUs that went offline, grants are served in the order of
    their pods' UIDs, and what is missing of one is noted with it: it shares instead.

    Args:
        topology: The node's CPUs that are online and not isolated.
        grants: At most one for each pod.
        previous: The CPUs that each pod had of its own until now.
        unit: What is sold.
        reserved: CPUs that nobody may have of their own (the kubelet's ``--reserved-cpus``).

    Raises:
        ValueError: Two grants are for one pod.
    """
    saleable = Topology(tuple(cpu for cpu in topology.cpus if cpu.id not in reserved))
    units = saleable.cores(unit)
    threads = max((len(each) for each in units), default=1)
    # One core at least is left to share.
    left = len(units) if topology.cpuset & reserved else len(units) - 1
    demands, missing = [], {}
    ordered = sorted(grants, key=lambda grant: grant.pod)
    for one, other in pairwise(ordered):
        if one.pod == other.pod:
            raise ValueError(f"two grants are for the pod {one.title}")
    for grant in ordered:
        wanted = grant.millicores // _MILLI
        whole = min(wanted, max(left, 0))
        left -= whole
        missing[grant.pod] = wanted - whole
        if whole:
            demands.append(Demand(grant.pod, whole))
    assignment = assign(saleable, demands, previous, unit)
    shared = assignment.shared | (topology.cpuset & reserved)
    pods = {}
    for grant in ordered:
        own = assignment.exclusive.get(grant.pod, _NOTHING)
        fraction = grant.millicores % _MILLI
        if fraction or missing[grant.pod] or not own:
            pods[grant.pod] = Holding(
                own=own,
                shared=shared,
                milliquota=grant.millicores * threads,
                milliweight=max(fraction + missing[grant.pod] * _MILLI, 1) * threads,
                missing=missing[grant.pod],
            )
        else:
            pods[grant.pod] = Holding(own, _NOTHING, milliquota=None, milliweight=None)
    return Holdings(pods, shared)
