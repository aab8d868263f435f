"""Pure: what workloads should request, by what their pods use and what they buy.

A request is what the scheduler keeps free for a pod. More than a pod uses keeps other pods out, and
its user's share does not pay for more than it buys. So a pod should request the smaller of the two,
and its workload, whose pods have one template, the largest of these. As long as the use of a pod is
unknown, its request is only lowered, to what it buys.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from walras_view.documents import Shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

HEADROOM = 1.15
"""What a request is of the CPUs that a pod uses, which are more at some moments."""

LEAST = 0.01
"""CPUs of the smallest request, and of the steps of larger ones."""

WORTH_IT = 0.1
"""Part of a request below which a change is not worth a new rollout."""

SETTABLE = {
    "Deployment": "deployment",
    "StatefulSet": "statefulset",
    "DaemonSet": "daemonset",
    "ReplicaSet": "replicaset",
    "CronJob": "cronjob",
}
"""Kinds whose requests ``kubectl set resources`` sets."""


class Room(NamedTuple):
    """What is left of a node for more pods: CPUs, bytes of memory, and pods."""

    cpus: float
    memory: float
    pods: int


class PodOfWorkload(NamedTuple):
    """A pod of a workload that may be advised.

    Attributes:
        workload: Namespace, kind and name of what made it.
        node: Its node.
        requested: CPUs that it requests.
        memory: Bytes of memory that it requests.
        used: CPUs that it uses; None if unknown.
        bought: CPUs that it would hold in the market.
        containers: Number of its containers.
    """

    workload: tuple[str, str, str]
    node: str
    requested: float
    memory: float
    used: float | None
    bought: float
    containers: int


@dataclass(frozen=True, slots=True)
class Advice(Shown):
    """What each pod of a workload should request.

    Attributes:
        namespace: Its namespace.
        kind: Its kind.
        name: Its name.
        pods: Number of its pods.
        requested: CPUs that each pod requests now, the most of any.
        used: CPUs that the pod uses that uses most; None if unknown.
        bought: CPUs that the pod buys that buys least.
        request: CPUs that each pod should request.
        fit_now: More pods like its own that fit on the nodes now.
        fit_then: More of them once all workloads request what they should.
        command: Command that sets the request; empty if it stays, or no command can set it.
    """

    namespace: str
    kind: str
    name: str
    pods: int
    requested: float
    used: float | None
    bought: float
    request: float
    fit_now: int
    fit_then: int
    command: str

    @property
    def changes(self) -> bool:
        """Whether it should request something else than it does."""
        return self.request != self.requested


def advice_on(pods: Sequence[PodOfWorkload], rooms: Mapping[str, Room]) -> tuple[Advice, ...]:
    """Return what workloads should request, where the request changes most first.

    Args:
        pods: Their pods.
        rooms: What is left of each node beside all pods, by what they request now.
    """
    groups: defaultdict[tuple[str, str, str], list[PodOfWorkload]] = defaultdict(list)
    for pod in pods:
        groups[pod.workload].append(pod)
    requests = {workload: _request(each) for workload, each in groups.items()}
    freed = _with_requests(rooms, pods, requests)
    made = [_advice(each, requests[of], rooms, freed) for of, each in groups.items()]
    return tuple(sorted(made, key=lambda each: (_change(each), each.namespace, each.name)))


def _change(advice: Advice) -> float:
    return -abs(advice.request - advice.requested) * advice.pods


def _request(pods: Sequence[PodOfWorkload]) -> float:
    """Return the request of each pod of a workload."""
    wanted, now = max(map(_need, pods)), max(pod.requested for pod in pods)
    return now if abs(wanted - now) < WORTH_IT * now else wanted


def _need(pod: PodOfWorkload) -> float:
    """Return what a pod should request, in steps of `LEAST`."""
    used = pod.requested if pod.used is None else HEADROOM * pod.used
    steps = min(math.ceil(round(used / LEAST, 6)), math.floor(round(pod.bought / LEAST, 6)))
    return round(max(steps, 1) * LEAST, 2) if used > 0 else 0.0


def _with_requests(
    rooms: Mapping[str, Room],
    pods: Iterable[PodOfWorkload],
    requests: Mapping[tuple[str, str, str], float],
) -> dict[str, Room]:
    """Return what would be left of each node if workloads requested something else."""
    freed: defaultdict[str, float] = defaultdict(float)
    for pod in pods:
        freed[pod.node] += pod.requested - requests[pod.workload]
    return {name: room._replace(cpus=room.cpus + freed[name]) for name, room in rooms.items()}


def _advice(
    pods: Sequence[PodOfWorkload],
    request: float,
    now: Mapping[str, Room],
    then: Mapping[str, Room],
) -> Advice:
    namespace, kind, name = pods[0].workload
    used = [pod.used for pod in pods if pod.used is not None]
    requested, memory = max(pod.requested for pod in pods), max(pod.memory for pod in pods)
    one = all(pod.containers == 1 for pod in pods)
    return Advice(
        namespace=namespace,
        kind=kind,
        name=name,
        pods=len(pods),
        requested=requested,
        used=max(used) if len(used) == len(pods) else None,
        bought=min(pod.bought for pod in pods),
        request=request,
        fit_now=sum(_fitting(room, requested, memory) for room in now.values()),
        fit_then=sum(_fitting(room, request, memory) for room in then.values()),
        command=_command(namespace, kind, name, request)
        if request != requested and one and kind in SETTABLE
        else "",
    )


def _fitting(room: Room, cpus: float, memory: float) -> int:
    """Return how many more pods of these requests fit on a node."""
    parts = ((room.cpus, cpus), (room.memory, memory))
    most = [math.floor(round(left / asked, 6)) for left, asked in parts if asked > 0]
    return max(0, min([room.pods, *most]))


def _command(namespace: str, kind: str, name: str, request: float) -> str:
    return (
        f"kubectl set resources {SETTABLE[kind]}/{name} -n {namespace} "
        f"--requests=cpu={round(1000 * request)}m"
    )
