"""Where the pods of a node pool are once they have spread over another number of its nodes.

Pods do not move by themselves, but those that end are followed by others, which schedulers send to
the emptiest nodes. So pods move here one by one from the fullest node, by pods for each core, to
the emptiest, as long as this leaves it less full than the other was. A pod is on one node, so that
no more nodes are of use than there are pods.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from walras.market.snapshot import Node


class SpreadPool(NamedTuple):
    """The nodes of a pool, and the numbers of the pods on each of them."""

    nodes: tuple[Node, ...]
    pods: tuple[tuple[int, ...], ...]


def spread(pool: SpreadPool, number: int, job_of: Sequence[Hashable]) -> SpreadPool:
    """Return a pool with another number of nodes, or the same, over which its pods have spread.

    Nodes that are added have the mean of its nodes' cores; those with the fewest pods go first.

    Args:
        pool: The pool with at least one node.
        number: Number of nodes, at least 1.
        job_of: Job of each pod, by the pod's number.
    """
    order = sorted(range(len(pool.nodes)), key=lambda index: (-len(pool.pods[index]), index))
    kept = sorted(order[:number])
    homeless = [pod for index in sorted(order[number:]) for pod in pool.pods[index]]
    nodes = [pool.nodes[index] for index in kept]
    there = [list(pool.pods[index]) for index in kept]
    mean = sum(node.cores for node in pool.nodes) / len(pool.nodes)
    for more in range(number - len(nodes)):
        # No node of a cluster can have such a name.
        nodes.append(replace(pool.nodes[0], name=f"{pool.nodes[0].pool}+{more}", cores=mean))
        there.append([])
    _level(there, homeless, [node.cores for node in nodes], job_of)
    return SpreadPool(tuple(nodes), tuple(map(tuple, there)))


def _level(
    there: list[list[int]],
    homeless: Sequence[int],
    cores: Sequence[float],
    job_of: Sequence[Hashable],
) -> None:
    """Give pods without a node to the emptiest ones, then move pods from the fullest to these."""
    with_one_more = [((len(pods) + 1) / cores[k], k) for k, pods in enumerate(there)]
    heapify(with_one_more)
    for pod in homeless:
        _, emptiest = with_one_more[0]
        there[emptiest].append(pod)
        heapreplace(with_one_more, ((len(there[emptiest]) + 1) / cores[emptiest], emptiest))
    # From here on no node that gave a pod takes one, and none that took one gives one: it would
    # have at least the most of all then, or at most the least. So a heap needs its own news only.
    now = [(-len(pods) / cores[k], k) for k, pods in enumerate(there)]
    heapify(now)
    while True:
        (least, emptiest), (most, fullest) = with_one_more[0], now[0]
        if least >= -most:
            return
        there[emptiest].append(_leaving(there[fullest], job_of))
        heapreplace(with_one_more, ((len(there[emptiest]) + 1) / cores[emptiest], emptiest))
        heapreplace(now, (-len(there[fullest]) / cores[fullest], fullest))


def _leaving(pods: list[int], job_of: Sequence[Hashable]) -> int:
    """Take the pod of a node that leaves it first: one of the job that has most pods there."""
    copies = Counter([job_of[pod] for pod in pods])
    most = max(copies.values())
    index = next(k for k in reversed(range(len(pods))) if copies[job_of[pods[k]]] == most)
    return pods.pop(index)
