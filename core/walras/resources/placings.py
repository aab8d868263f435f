"""Constraints on the placement of pending jobs, and the free resources of nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from walras.resources.contract import PARTNER_ANNOTATION
from walras.resources.waiting import EligibleNodes, needs_of, node_of, room_of
from walras.snapshot import PlacementConstraints, title

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from walras.resources.cluster import NodeObject, Pod
    from walras.resources.kinds import MarketJob
    from walras.resources.selection import Selection
    from walras.snapshot import Job
    from walras.snapshot import Node as Supply


def placing_of(resource: MarketJob) -> PlacementConstraints:
    """Return a job's requirements on the jobs beside it."""
    asked, own = resource.spec.colocation, resource.metadata.namespace
    avoids = frozenset((each.namespace or own, each.name or "") for each in asked.avoid)
    return PlacementConstraints(exclusive=not asked.participate, avoids=avoids)


def with_placings(
    nodes: Sequence[NodeObject],
    pods: Sequence[Pod],
    selection: Selection,
    supplies: Sequence[Supply],
    jobs: Sequence[Job],
) -> tuple[list[Supply], list[Job]]:
    """Return nodes with their free resources, and pending jobs with their placement constraints.

    Args:
        nodes: Nodes of the cluster.
        pods: Pods of the cluster.
        selection: MarketJob of each pod.
        supplies: Nodes that take part in the market.
        jobs: Jobs that take part in the market, one for each pod.
    """
    names = {each.name for each in supplies}
    open_ = [node for node in nodes if node.metadata.name in names]
    room, eligible = room_of(open_, pods), EligibleNodes(open_)
    sent = _sent(pods, selection, names)
    mine = {_name(pods[number]): pods[number] for number in selection.job}

    def placed(job: Job) -> Job:
        pod = mine[job.namespace, job.pod]
        node, partner = sent.get(pod.metadata.uid, ("", ""))
        placement = replace(
            job.placement,
            requests=needs_of(pod),
            nodes=eligible.of(pod),
            partner_node=node,
            partner=partner,
        )
        return replace(job, placement=placement)

    return (
        [replace(each, room=room[each.name]) for each in supplies],
        [job if job.node else placed(job) for job in jobs],
    )


def _sent(
    pods: Sequence[Pod], selection: Selection, nodes: Collection[str]
) -> dict[str, tuple[str, str]]:
    """Return the node that a pod's partner was sent to and the partner's title, by pod UID."""
    sent = {}
    for number, resource in selection.job.items():
        pod = pods[number]
        other, node = pod.metadata.annotations.get(PARTNER_ANNOTATION), node_of(pod)
        if other and node is not None and node in nodes:
            name = resource.metadata.namespace, resource.metadata.name
            sent[other] = node, title(*name, pod.metadata.name)
    return sent


def _name(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name
