"""Pure: the processors of a node with the owner of each CPU, as its agent last reported them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet
from walras_dashboard.node_models import Core, CpuLayout, NumaNode, Owner, Pool, Socket, Thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_api.node_allocation_status import CorePlace, NodeAllocationStatus


def cpus_in(text: str) -> CpuSet:
    """Return the CPUs in a report; none if it cannot be read."""
    try:
        return CpuSet.parse(text)
    except ValueError:
        return CpuSet()


class Ownership:
    """Owners of the CPUs of a node.

    Args:
        status: Report of the node's agent.
        owners: Pods with a grant, by UID.
    """

    def __init__(self, status: NodeAllocationStatus, owners: Mapping[str, Owner]) -> None:
        self._of: dict[int, list[Owner]] = {}
        for pod in status.pods:
            owner = owners.get(pod.pod_uid) or Owner(
                namespace=pod.namespace, pod=pod.name, job=None, user=None
            )
            for cpu in cpus_in(pod.cpus or ""):
                self._of.setdefault(cpu, []).append(owner)
        self._status = status
        self._shared = cpus_in(status.shared_cpus)
        reported = status.topology
        self._managed = CpuSet() if reported is None else cpus_in(reported.cpus)
        self._reserved = CpuSet() if reported is None else cpus_in(reported.reserved)

    def thread(self, cpu: int) -> Thread:
        """Return a CPU and its owner."""
        owners = self._of.get(cpu, [])
        if cpu not in self._managed:
            return Thread(cpu=cpu, owner=None, state="outside")
        if len(owners) == 1 and cpu not in self._shared:
            return Thread(cpu=cpu, owner=owners[0], state="owned")
        if owners:
            return Thread(cpu=cpu, owner=None, state="shared")
        return Thread(cpu=cpu, owner=None, state="reserved" if cpu in self._reserved else "free")

    def topology(self) -> CpuLayout | None:
        """Return the processors; None where the agent has not reported where its CPUs are."""
        reported = self._status.topology
        if reported is None or not reported.layout:
            return None
        places = sorted(reported.layout, key=lambda each: (each.socket, each.numa_node))
        return CpuLayout(
            sockets=[
                Socket(id=socket, numa_nodes=self._numa_nodes(list(of_socket)))
                for socket, of_socket in groupby(places, key=lambda each: each.socket)
            ]
        )

    def _numa_nodes(self, places: Sequence[CorePlace]) -> list[NumaNode]:
        return [
            NumaNode(id=numa, cores=[self._core(each) for each in of_node])
            for numa, of_node in groupby(places, key=lambda each: each.numa_node)
        ]

    def _core(self, place: CorePlace) -> Core:
        cpus = list(cpus_in(place.cpus))
        return Core(id=min(cpus, default=0), threads=[self.thread(cpu) for cpu in cpus])

    def pools(self) -> list[Pool]:
        """Return the CPUs that several pods share, those of the same pods together."""
        cpus_of_pods: dict[tuple[tuple[str, str], ...], list[int]] = {}
        named: dict[tuple[str, str], Owner] = {}
        for cpu in sorted(self._of):
            owners = self._of[cpu]
            if len(owners) < 2 and cpu not in self._shared:
                continue
            named.update({(each.namespace, each.pod): each for each in owners})
            key = tuple(sorted((each.namespace, each.pod) for each in owners))
            cpus_of_pods.setdefault(key, []).append(cpu)
        return [_pool(cpus, (named[each] for each in key)) for key, cpus in cpus_of_pods.items()]


def _pool(cpus: Iterable[int], owners: Iterable[Owner]) -> Pool:
    return Pool(cpus=str(CpuSet(cpus)), owners=list(owners))
