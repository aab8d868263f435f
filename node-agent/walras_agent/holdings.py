"""Pure choice: what each granted pod is to hold of this node's CPUs.

The whole cores of a grant are the pod's own. A fraction beyond them is time on the shared CPUs,
which the pod then may use too: its quota bounds its time on all of them to the grant, its weight
is its part of the shared ones when they are contended. Everybody else, pods without a grant
included, has the shared CPUs, of which there is always at least one core if anybody needs it.

A grant may also be a weight: then it is a part of the shared CPUs alone, not bound by a quota.

While its speedup is measured, a pod uses only some of its own cores; the others lie idle, and
nobody comes onto them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

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
        weight: None for what ``millicores`` say. Else the pod has no CPU of its own, however many
            they are, but a part of the shared ones, against others by weight, and all that these
            leave. 1000 is the weight of a group that was given none.

    Raises:
        ValueError: A quantity is negative, or nothing at all.
    """

    pod: str
    title: str
    millicores: int
    memory: int | None = None
    weight: int | None = None

    def __post_init__(self) -> None:
        if self.millicores <= 0:
            raise ValueError(f"{self.title}: {self.millicores}m cores were granted; 1m is least")
        if self.memory is not None and self.memory <= 0:
            raise ValueError(f"{self.title}: {self.memory} bytes were granted; 1 is least")
        if self.weight is not None and self.weight <= 0:
            raise ValueError(f"{self.title}: the weight {self.weight} was granted; 1 is least")

    @property
    def own(self) -> int:
        """How many cores of its own it is."""
        return 0 if self.weight is not None else self.millicores // _MILLI

    @property
    def shares(self) -> bool:
        """Whether a part of it is on the shared CPUs."""
        return self.weight is not None or self.millicores % _MILLI > 0


class Limit(NamedTuple):
    """What a pod is held to while it is measured.

    Attributes:
        units: How many of its own cores (`Unit`).
        cpus: These.
    """

    units: int
    cpus: CpuSet


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
        limit: The part of its own CPUs that it is to use for now; None for all that it holds.
    """

    own: CpuSet
    shared: CpuSet
    milliquota: int | None
    milliweight: int | None
    missing: int = 0
    limit: Limit | None = None

    @property
    def cpus(self) -> CpuSet:
        """All CPUs that it may use."""
        return self.own | self.shared if self.limit is None else self.limit.cpus


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
    *,
    others: bool = True,
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
        others: Whether there may be pods without a grant, for which one core at least is left.

    Raises:
        ValueError: Two grants are for one pod.
    """
    saleable = Topology(tuple(cpu for cpu in topology.cpus if cpu.id not in reserved))
    units = saleable.cores(unit)
    threads = max((len(each) for each in units), default=1)
    demands, missing = [], {}
    ordered = sorted(grants, key=lambda grant: grant.pod)
    shares = others or any(grant.shares for grant in ordered)
    shares = shares or sum(grant.own for grant in ordered) > len(units)
    left = len(units) - 1 if shares and not topology.cpuset & reserved else len(units)
    for one, other in pairwise(ordered):
        if one.pod == other.pod:
            raise ValueError(f"two grants are for the pod {one.title}")
    for grant in ordered:
        whole = min(grant.own, max(left, 0))
        left -= whole
        missing[grant.pod] = grant.own - whole
        if whole:
            demands.append(Demand(grant.pod, whole))
    assignment = assign(saleable, demands, previous, unit)
    shared = assignment.shared | (topology.cpuset & reserved)
    pods = {}
    for grant in ordered:
        own = assignment.exclusive.get(grant.pod, _NOTHING)
        fraction = grant.millicores % _MILLI
        if grant.weight is not None:
            pods[grant.pod] = Holding(_NOTHING, shared, None, grant.weight)
        elif fraction or missing[grant.pod] or not own:
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


def limit(
    holdings: Holdings, limits: Mapping[str, int], topology: Topology, unit: Unit = "core"
) -> Holdings:
    """Let some pods use only the first of their own cores, in assignment order.

    They go on to own all of them. A limited pod uses no shared CPU, so it needs no quota: its speed
    is that of so many whole cores.

    Args:
        holdings: Of all pods.
        limits: By pod UID, how many cores; at least one is used, and at most all that it owns.
            Pods without cores of their own are left as they are.
        topology: As for `divide`.
        unit: What is counted.
    """
    limited = {
        uid: _limited(holdings.pods[uid], count, topology.cores(unit))
        for uid, count in limits.items()
        if uid in holdings.pods and holdings.pods[uid].own
    }
    return replace(holdings, pods={**holdings.pods, **limited}) if limited else holdings


def _limited(holding: Holding, count: int, units: Iterable[CpuSet]) -> Holding:
    # Of a core that is in part reserved, the rest is one.
    mine = [own for each in units if (own := each & holding.own)]
    used = mine[: max(count, 1)]
    cpus = CpuSet(cpu for each in used for cpu in each)
    return replace(
        holding,
        shared=_NOTHING,
        milliquota=None,
        milliweight=None,
        limit=Limit(len(used), cpus),
    )
