"""Pending pods as jobs that are to be placed on nodes, in pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from walras_api.supply import takes_pods
from walras_api.waiting import EligibleNodes, room_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras.market.snapshot import Job
    from walras.market.snapshot import Node as Supply
    from walras_api.cluster import NodeObject, Pod
    from walras_api.kinds import MarketJob


def with_placings(
    pods: Sequence[Pod],
    owners: Mapping[int, MarketJob],
    nodes: Sequence[NodeObject],
    supplies: Sequence[Supply],
    jobs: Sequence[Job],
) -> tuple[list[Supply], tuple[Job, ...]]:
    """Return nodes with their free resources, and pending jobs with their placement constraints.

    Args:
        pods: Pods of the cluster.
        owners: MarketJob of each selected pod, with its status, by the pod's position.
        nodes: Nodes of the cluster, of which some take no more pods.
        supplies: Nodes that take part in the market.
        jobs: Jobs that take part in the market, one for each pod.
    """
    names = {each.name for each in supplies}
    open_ = [node for node in nodes if node.metadata.name in names and takes_pods(node)]
    room, eligible = room_of(open_, pods), EligibleNodes(open_)
    mine = {
        (pods[number].metadata.namespace, pods[number].metadata.name): (pods[number], owner)
        for number, owner in owners.items()
    }

    def placed(job: Job) -> Job:
        pod, resource = mine[job.namespace, job.pod]
        node, partner = _announced_placement(pod, resource)
        placement = replace(
            job.placement,
            requests=pod.effective_requests,
            nodes=eligible.of(pod),
            partner_node=node,
            partner=partner,
        )
        return replace(job, placement=placement)

    return (
        [replace(each, room=room.get(each.name, {})) for each in supplies],
        tuple(job if job.node else placed(job) for job in jobs),
    )


def _announced_placement(pod: Pod, resource: MarketJob) -> tuple[str, str]:
    """Return the node and the partner's title that a waiting pod's job reports for it; else empty.

    The operator reports a placement before it carries it out, so the report survives an operator
    that ends in between. Nobody else may write it, unlike annotations of pods, by which a tenant
    could lure pods of others to a node.
    """
    reported = (resource.status or {}).get("pods")
    for each in reported if isinstance(reported, list) else ():
        if isinstance(each, dict) and each.get("podUID") == pod.metadata.uid:
            colocation = each.get("colocation")
            partner = colocation.get("partner") if isinstance(colocation, dict) else None
            return str(each.get("node") or ""), str(partner or "")
    return "", ""
