"""Pure choice: every cpuset write that brings a node's pods to the CPUs they are to hold.

`transition` orders the containers; this module adds what the kernel's hierarchy demands
(``Documentation/admin-guide/cgroup-v1/cpusets.rst``, ``cgroup-v2.rst``). Where a container has
groups of its own inside (v1), they widen after it and narrow before it. The groups above it are
widened first if they lack one of its CPUs; they are never narrowed, because containers that are
created later would fail on that (koordinator 395, 546; kubernetes 104147).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.cpuset import CpuSet
from walras_agent.transition import Change, transition
from walras_agent.tree import Setting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from walras_agent.holdings import Holdings
    from walras_agent.observe import Container, Pod

CPUS = "cpuset.cpus"

_NOTHING = CpuSet()


@dataclass(frozen=True, slots=True)
class Move:
    """The writes that take one container to its CPUs, or one step towards them.

    Attributes:
        container: Its group.
        writes: In order.
        cpus: What the container's tasks may use afterwards.
    """

    container: str
    writes: tuple[tuple[Setting, str], ...]
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Moves:
    """All moves, in an order in which no CPU has two owners at any time.

    Attributes:
        moves: In order.
        stuck: Containers that do not get to their CPUs; see `transition.Transition`.
    """

    moves: tuple[Move, ...]
    stuck: tuple[str, ...]


def plan_moves(
    pods: Sequence[Pod],
    holdings: Holdings,
    originals: Mapping[Setting, str],
    own: Mapping[str, CpuSet],
    fixed: Collection[str] = (),
) -> Moves:
    """Order the writes that bring every container of every pod to its CPUs.

    Args:
        pods: What is there now.
        holdings: What is to be.
        originals: What cpusets said before the agent came. A group inside a container that
            was on some of its CPUs only gets those of them that the container has now.
        own: By pod, the CPUs that it has had for itself until now.
        fixed: Containers that cannot be moved for now.
    """
    containers = {each.group.name: each for pod in pods for each in pod.containers}
    changes = [
        Change(
            each.group.name,
            pod.uid,
            before=each.group.cpus,
            after=target(pod, holdings),
            own=own.get(pod.uid, _NOTHING),
            fixed=each.group.name in fixed,
        )
        for pod in pods
        for each in pod.containers
    ]
    ordered = transition(changes, holdings.shared)
    now = {each.name: each.cpus for one in containers.values() for each in (one.group, *one.inside)}
    moves = [_move(containers[write.group], write.cpus, now, originals) for write in ordered.writes]
    # What is inside may be elsewhere also where the container itself is on the right CPUs.
    moves.extend(
        _move(containers[change.group], change.after, now, originals)
        for change in changes
        if now[change.group] == change.after and not change.fixed
    )
    return Moves(tuple(move for move in moves if move.writes), ordered.stuck)


def target(pod: Pod, holdings: Holdings) -> CpuSet:
    """The CPUs that a pod's containers are to use."""
    holding = holdings.pods.get(pod.uid)
    return holding.cpus if holding else holdings.shared


def _move(
    container: Container, cpus: CpuSet, now: dict[str, CpuSet], originals: Mapping[Setting, str]
) -> Move:
    names = [container.group.name, *(each.name for each in container.inside)]
    resized = resize(names, cpus, now, originals)
    now |= resized.after
    return Move(container.group.name, resized.writes, cpus)


class Resized(NamedTuple):
    """A group with those inside it, and how they get there.

    Attributes:
        after: What every group has afterwards.
        writes: In order; a group has at any time what those inside it have.
    """

    after: Mapping[str, CpuSet]
    writes: tuple[tuple[Setting, str], ...]


def resize(
    names: Sequence[str],
    wanted: CpuSet,
    now: Mapping[str, CpuSet],
    originals: Mapping[Setting, str],
    file: str = CPUS,
) -> Resized:
    """Give a group CPUs or memory nodes, and those inside it their part.

    Args:
        names: The group, then those inside it, parents first.
        wanted: What the group is to have. One inside gets what of it it had before the agent came,
            or all of it.
        now: What each has.
        originals: What files said before the agent came; those of others say what they do now.
        file: In which that is written.
    """
    top, *inside = names
    after = {top: wanted}
    for name in inside:
        original = CpuSet.parse(originals.get(Setting("cpuset", name, file), str(now[name])))
        above = after[name.rpartition("/")[0]]
        after[name] = original & above or above
    steps = _through(names, after, now)
    return Resized(after, tuple((Setting("cpuset", name, file), str(held)) for name, held in steps))


def _through(
    names: Sequence[str], after: Mapping[str, CpuSet], now: Mapping[str, CpuSet]
) -> Iterator[tuple[str, CpuSet]]:
    """Widen from the top down to what is and will be, then narrow from the bottom up."""
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
