"""Pure: plans the cpuset writes that bring all pods of a node to their CPUs.

`transition` orders the containers; this module adds what the kernel's hierarchy demands
(``Documentation/admin-guide/cgroup-v1/cpusets.rst``, ``cgroup-v2.rst``). The child groups of a
container (`Container.inside`) widen after it and narrow before it. `enforce` widens the ancestors
of a container first if they lack one of its CPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.cpuset import CpuSet
from walras_agent.transition import CpusetChange, transition
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from walras_agent.observe import Container, ObservedPod
    from walras_agent.pod_cpus import NodeCpus
    from walras_agent.tree import FileWrite

CPUS = "cpuset.cpus"

_NOTHING = CpuSet()


@dataclass(frozen=True, slots=True)
class Move:
    """The writes that move one container to other CPUs.

    Attributes:
        container: Cgroup of the container.
        writes: Writes in the order in which they must be made.
        cpus: CPUs that the container's tasks may use afterwards.
    """

    container: str
    writes: tuple[FileWrite, ...]
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Moves of containers during which every CPU has at most one exclusive owner.

    Attributes:
        moves: Moves in the order in which they must be made.
        stuck: Containers that do not reach their CPUs; see `transition.Transition`.
    """

    moves: tuple[Move, ...]
    stuck: tuple[str, ...]


def plan_moves(
    pods: Sequence[ObservedPod],
    node_cpus: NodeCpus,
    originals: Mapping[CgroupFile, str],
    exclusive: Mapping[str, CpuSet],
    fixed: Collection[str] = (),
) -> MovePlan:
    """Plan the writes that bring every container of every pod to its CPUs.

    Args:
        pods: The pods as observed now.
        node_cpus: The CPUs that they are to have.
        originals: Texts of cpuset files before the agent's first write. A child group of a
            container that had a part of its CPUs keeps to that part, if the container has any of
            it now.
        exclusive: Exclusive CPUs of each pod so far, by pod UID.
        fixed: Containers that must not be moved now.
    """
    containers = {each.group.name: each for pod in pods for each in pod.containers}
    changes = [
        CpusetChange(
            each.group.name,
            pod.uid,
            before=each.group.cpus,
            after=target(pod, each, node_cpus),
            exclusive=exclusive.get(pod.uid, _NOTHING),
            fixed=each.group.name in fixed,
        )
        for pod in pods
        for each in pod.containers
    ]
    ordered = transition(changes, node_cpus.shared)
    now = {each.name: each.cpus for one in containers.values() for each in (one.group, *one.inside)}
    moves = [_move(containers[write.group], write.cpus, now, originals) for write in ordered.writes]
    # Child groups may be on other CPUs although their container is on the right ones.
    moves.extend(
        _move(containers[change.group], change.after, now, originals)
        for change in changes
        if now[change.group] == change.after and not change.fixed
    )
    return MovePlan(tuple(move for move in moves if move.writes), ordered.stuck)


def target(pod: ObservedPod, container: Container, node_cpus: NodeCpus) -> CpuSet:
    """Return the CPUs that a container of a pod is to use."""
    pod_cpus = node_cpus.pods.get(pod.uid)
    if pod_cpus:
        return pod_cpus.cpus
    return node_cpus.ungranted.get(container.group.name, node_cpus.shared)


def _move(
    container: Container, cpus: CpuSet, now: dict[str, CpuSet], originals: Mapping[CgroupFile, str]
) -> Move:
    names = [container.group.name, *(each.name for each in container.inside)]
    resized = plan_resize(names, cpus, now, originals)
    now |= resized.after
    return Move(container.group.name, resized.writes, cpus)


class ResizePlan(NamedTuple):
    """The writes that give a group and its descendants other CPUs or memory nodes.

    Attributes:
        after: CPUs or memory nodes of every group afterwards, by group.
        writes: Writes in order; a group always has everything that its descendants have.
    """

    after: Mapping[str, CpuSet]
    writes: tuple[FileWrite, ...]


def plan_resize(
    names: Sequence[str],
    wanted: CpuSet,
    now: Mapping[str, CpuSet],
    originals: Mapping[CgroupFile, str],
    file: str = CPUS,
) -> ResizePlan:
    """Plan the writes that give CPUs or memory nodes to a group and its descendants.

    Args:
        names: The group, then its descendants, parents first.
        wanted: CPUs or memory nodes of the group. A descendant gets those of its parent's that it
            had originally, or all of its parent's if it had none of them.
        now: Present CPUs or memory nodes of every group.
        originals: Original texts of files; for a file that is not in it the present text counts.
        file: Name of the cpuset file to write.
    """
    top, *inside = names
    after = {top: wanted}
    for name in inside:
        original = CpuSet.parse(originals.get(CgroupFile("cpuset", name, file), str(now[name])))
        above = after[name.rpartition("/")[0]]
        after[name] = original & above or above
    steps = _through(names, after, now)
    return ResizePlan(
        after, tuple((CgroupFile("cpuset", name, file), str(held)) for name, held in steps)
    )


def _through(
    names: Sequence[str], after: Mapping[str, CpuSet], now: Mapping[str, CpuSet]
) -> Iterator[tuple[str, CpuSet]]:
    """Yield the union of before and after from the top down, then the rest from the bottom up."""
    if len(names) == 1:
        if now[names[0]] != after[names[0]]:
            yield names[0], after[names[0]]
        return
    held = {name: now[name] for name in names}
    for name in names:
        if not after[name] <= held[name]:
            held[name] = held[name] | after[name]
            yield name, held[name]
    for name in reversed(names):
        if held[name] != after[name]:
            yield name, after[name]
