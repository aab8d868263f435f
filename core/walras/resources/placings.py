"""What jobs that wait for a node ask of it and of their company, and what room nodes have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from walras.resources.contract import PARTNER_ANNOTATION
from walras.resources.waiting import Eligible, needs_of, node_of, room_of
from walras.snapshot import Placing, title

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from walras.resources.cluster import Node, Pod
    from walras.resources.kinds import MarketJob
    from walras.resources.selection import Selection
    from walras.snapshot import Job
    from walras.snapshot import Node as Supply


def placing_of(resource: MarketJob) -> Placing:
    """Return what a job asks of its company."""
    asked, own = resource.spec.colocation, resource.metadata.namespace
    avoids = frozenset((each.namespace or own, each.name or "") for each in asked.avoid)
    return Placing(apart=not asked.participate, avoids=avoids)


def with_placings(
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    selection: Selection,
    supplies: Sequence[Supply],
    jobs: Sequence[Job],
) -> tuple[list[Supply], list[Job]]:
    """Add what decides where pods that wait may go.

    Args:
        nodes: of the cluster.
        pods: likewise.
        selection: whose pods are whose.
        supplies: what nodes sell, those that take part.
        jobs: that take part, one for each pod.
    """
    names = {each.name for each in supplies}
    open_ = [node for node in nodes if node.metadata.name in names]
    room, eligible = room_of(open_, pods), Eligible(open_)
    sent = _sent(pods, selection, names)
    mine = {_name(pods[number]): pods[number] for number in selection.job}

    def placed(job: Job) -> Job:
        pod = mine[job.namespace, job.pod]
        node, partner = sent.get(pod.metadata.uid, ("", ""))
        placing = replace(
            job.placing,
            needs=needs_of(pod),
            nodes=eligible.of(pod),
            promised=node,
            partner=partner,
        )
        return replace(job, placing=placing)

    return (
        [replace(each, room=room[each.name]) for each in supplies],
        [job if job.node else placed(job) for job in jobs],
    )


def _sent(
    pods: Sequence[Pod], selection: Selection, nodes: Collection[str]
) -> dict[str, tuple[str, str]]:
    """Return where partners of pods were sent, and who these are, by the UIDs of the pods."""
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
