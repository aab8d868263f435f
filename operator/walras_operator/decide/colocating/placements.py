"""Pure: choose which waiting pods are bound to a node, and which are left to the scheduler.

A pod is left to the scheduler once it has waited for `colocation.timeoutSeconds`, whatever the
reason: no usable rules, no free socket, a job that is refused or missing. A pod with constraints
that only a scheduler can evaluate is left to it at once. A pod whose scheduler is Walras is bound
then, but never beside one that its job avoids, or one of its own namespace that avoids it: a pod of
another namespace could keep it waiting for ever.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from walras.market.snapshot import title
from walras_api.assembly import placing_of
from walras_api.kinds import MarketSpec
from walras_api.selection import select
from walras_api.supply import takes_pods, why_closed
from walras_api.waiting import (
    left_to_the_scheduler,
    may_take,
    node_of,
    room_of,
    waiting_method,
)
from walras_operator.decide.colocating.requests import binding, gate_removal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from walras.market.plan import Plan
    from walras_api.cluster import NodeObject, Pod
    from walras_api.contract import Mode
    from walras_api.job_inputs import Name
    from walras_api.kinds import MarketJob
    from walras_operator.decide.world import Placement, World


class Placements(NamedTuple):
    """What becomes of waiting pods.

    Attributes:
        sent: Placements; partners follow one another.
        kept_apart: Pods that have waited long enough, but on all nodes with room for them are pods
            that they avoid, or pods of their own namespace that avoid them.
    """

    sent: tuple[Placement, ...]
    kept_apart: frozenset[Name] = frozenset()


def placements(
    world: World,
    rules: MarketSpec | None,
    plan: Plan | None,
    modes: Mapping[str, Mode] = MappingProxyType({}),
) -> Placements:
    """Return the placements of waiting pods, and which of them are kept apart from others.

    Args:
        world: Contains the pods.
        rules: Rules of the market; None if none can be used.
        plan: Plan by these rules; None if there is none.
        modes: Modes of nodes; pairs are sent to nodes that enforce plans.
    """
    waiting = {_name(pod): pod for pod in world.objects.pods if waiting_method(pod) is not None}
    if not waiting:
        return Placements(())
    used = rules or MarketSpec()
    sent = [] if plan is None else list(_bind_pairs(waiting, world, plan, modes))
    gone = {(each.pod.namespace, each.pod.name) for each in sent}
    bound = timedelta(seconds=used.colocation.timeout_seconds)
    others = [pod for name, pod in sorted(waiting.items()) if name not in gone]
    since = datetime.fromisoformat(world.now) - bound
    kept_apart: set[Name] = set()
    sent += list(_time_out(others, world, since, [each.after for each in sent], kept_apart))
    return Placements(tuple(sent), frozenset(kept_apart))


def _bind_pairs(
    waiting: Mapping[Name, Pod], world: World, plan: Plan, modes: Mapping[str, Mode]
) -> Iterator[Placement]:
    """Yield placements of the plan's pairs on their nodes."""
    named = {title(each.namespace, each.name, each.pod): each for each in plan.grants}
    pods = {_name(pod): pod for pod in world.objects.pods} if plan.pairings else {}
    for pairing in plan.pairings:
        if modes.get(pairing.node) != "enforce":
            continue
        both = [pods[named[each].namespace, named[each].pod] for each in pairing.jobs]
        for pod, other in zip(both, both[1:] + both[:1], strict=True):
            if _name(pod) in waiting:
                partner = other.metadata.uid if len(both) > 1 else ""
                yield _placement(pod, pairing.node, partner)


def _placement(pod: Pod, node: str, partner: str = "") -> Placement:
    return (
        gate_removal(pod, node, partner)
        if waiting_method(pod) == "gate"
        else binding(pod, node, partner)
    )


def _time_out(
    pods: Iterable[Pod],
    world: World,
    since: datetime,
    sent: Sequence[Pod],
    kept_apart: set[Name],
) -> Iterator[Placement]:
    """Yield placements of pods that have waited too long; some need a node from here."""
    unscheduled = []
    for pod in pods:
        beyond = bool(left_to_the_scheduler(pod))
        late = _created(pod, world) <= since
        if waiting_method(pod) == "gate" and (late or beyond):
            yield gate_removal(pod)
        elif waiting_method(pod) == "scheduler" and late and not beyond:
            unscheduled.append(pod)
    yield from _spread(unscheduled, world, sent, kept_apart)


def _spread(
    waiting: Sequence[Pod], world: World, sent: Sequence[Pod], kept_apart: set[Name]
) -> Iterator[Placement]:
    """Yield bindings, each to the eligible node with the most free CPUs; note who is kept apart."""
    if not waiting:
        return
    open_ = [node for node in world.objects.nodes if why_closed(node) is None and takes_pods(node)]
    room = room_of(open_, (*world.objects.pods, *sent))
    company = _Company(world, sent)
    for pod in waiting:
        needs = pod.effective_requests
        able = [node for node in open_ if may_take(node, pod) and _fits(needs, room[_of(node)])]
        free = [node for node in able if company.accepts(pod, _of(node))]
        if free:
            best = max(free, key=lambda node: (room[_of(node)].get("cpu", 0), _of(node)))
            for resource, amount in needs:
                room[_of(best)][resource] -= amount
            company.add(pod, _of(best))
            yield binding(pod, _of(best))
        elif able:
            kept_apart.add(_name(pod))


class _Company:
    """The jobs on each node, and those that they avoid.

    Args:
        world: Contains the pods and their jobs.
        sent: Pods that were just sent to a node, as they will be.
    """

    def __init__(self, world: World, sent: Sequence[Pod]) -> None:
        self._job: dict[Name, MarketJob] = {}
        self._there: defaultdict[str, set[Name]] = defaultdict(set)
        self._avoided: defaultdict[str, set[tuple[str, Name]]] = defaultdict(set)
        pods = world.objects.pods
        if any(job.spec.colocation.avoid for job in world.objects.jobs):
            selected = select(world.objects.jobs, pods, world.objects.controllers).job
            self._job = {_name(pods[number]): job for number, job in selected.items()}
        for pod in (*pods, *sent):
            node = node_of(pod)
            if node is not None:
                self.add(pod, node)

    def add(self, pod: Pod, node: str) -> None:
        """Count a pod as being on a node."""
        job = self._job.get(_name(pod))
        if job is not None:
            self._there[node] |= _names(job)
            avoids = placing_of(job).avoids
            self._avoided[node] |= {(job.metadata.namespace, each) for each in avoids}

    def accepts(self, pod: Pod, node: str) -> bool:
        """Return whether a pod avoids no pod on a node, and none of its namespace avoids it."""
        job = self._job.get(_name(pod))
        if job is None:
            return True
        asked = {(job.metadata.namespace, each) for each in _names(job)}
        return self._there[node].isdisjoint(placing_of(job).avoids) and self._avoided[
            node
        ].isdisjoint(asked)


def _names(job: MarketJob) -> set[Name]:
    """Return the names by which jobs avoid a job: its own, and its namespace's."""
    return {(job.metadata.namespace, job.metadata.name), (job.metadata.namespace, "")}


def _fits(needs: Iterable[tuple[str, int]], room: Mapping[str, int]) -> bool:
    return all(room.get(resource, 0) >= amount for resource, amount in needs)


def _created(pod: Pod, world: World) -> datetime:
    """Return when a pod was created; now if it does not say."""
    return datetime.fromisoformat(pod.metadata.creation_timestamp or world.now)


def _of(node: NodeObject) -> str:
    return node.metadata.name


def _name(pod: Pod) -> Name:
    return pod.metadata.namespace, pod.metadata.name
