"""Pure: choose which waiting pods are bound to a node, and which are left to the scheduler.

A pod is left to the scheduler once it has waited for `colocation.timeoutSeconds`, whatever the
reason: no usable rules, no free socket, a job that is refused or missing. A pod with constraints
that only a scheduler can evaluate is left to it at once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from walras.resources.kinds import MarketSpec
from walras.resources.supply import why_closed
from walras.resources.waiting import (
    left_to_the_scheduler,
    may_take,
    needs_of,
    room_of,
    waiting_method,
)
from walras.snapshot import title
from walras_operator.colocating.requests import binding, gate_removal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from walras.plan import Plan
    from walras.resources.cluster import NodeObject, Pod
    from walras.resources.terms import Name
    from walras_operator.world import Placement, World


def placements(world: World, rules: MarketSpec | None, plan: Plan | None) -> tuple[Placement, ...]:
    """Return the placements of waiting pods; partners follow one another.

    Args:
        world: Contains the pods.
        rules: Rules of the market; None if none can be used.
        plan: Plan by these rules; None if there is none.
    """
    waiting = {_name(pod): pod for pod in world.objects.pods if waiting_method(pod) is not None}
    if not waiting:
        return ()
    used = rules or MarketSpec()
    sent = (
        list(_bind_pairs(waiting, world, plan))
        if plan is not None and used.mode == "enforce"
        else []
    )
    gone = {(each.pod.namespace, each.pod.name) for each in sent}
    bound = timedelta(seconds=used.colocation.timeout_seconds)
    others = [pod for name, pod in sorted(waiting.items()) if name not in gone]
    return (*sent, *_time_out(others, world, datetime.fromisoformat(world.now) - bound, sent))


def _bind_pairs(waiting: Mapping[Name, Pod], world: World, plan: Plan) -> Iterator[Placement]:
    """Yield placements of the plan's pairs on their nodes."""
    named = {title(each.namespace, each.name, each.pod): each for each in plan.grants}
    pods = {_name(pod): pod for pod in world.objects.pods} if plan.pairings else {}
    for pairing in plan.pairings:
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
    pods: Iterable[Pod], world: World, since: datetime, sent: Iterable[Placement]
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
    yield from _spread(unscheduled, world, [each.after for each in sent])


def _spread(pods: Iterable[Pod], world: World, sent: Iterable[Pod]) -> Iterator[Placement]:
    """Yield bindings, each to the eligible node with the most free CPUs."""
    waiting = list(pods)
    if not waiting:
        return
    open_ = [node for node in world.objects.nodes if why_closed(node) is None]
    room = room_of(open_, (*world.objects.pods, *sent))
    for pod in waiting:
        needs = needs_of(pod)
        able = [node for node in open_ if may_take(node, pod) and _fits(needs, room[_of(node)])]
        if able:
            best = max(able, key=lambda node: (room[_of(node)].get("cpu", 0), _of(node)))
            for resource, amount in needs:
                room[_of(best)][resource] -= amount
            yield binding(pod, _of(best))


def _fits(needs: Iterable[tuple[str, int]], room: Mapping[str, int]) -> bool:
    return all(room.get(resource, 0) >= amount for resource, amount in needs)


def _created(pod: Pod, world: World) -> datetime:
    """Return when a pod was created; now if it does not say."""
    return datetime.fromisoformat(pod.metadata.creation_timestamp or world.now)


def _of(node: NodeObject) -> str:
    return node.metadata.name


def _name(pod: Pod) -> Name:
    return pod.metadata.namespace, pod.metadata.name
