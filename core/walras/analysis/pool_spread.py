"""Where the pods of a node pool are once they have spread over another number of its nodes.

Pods do not move by themselves, but those that end are followed by others, which schedulers send to
the emptiest nodes. So pods move here one by one from the fullest node, by pods for each core, to
the emptiest, as long as this leaves it less full than the other was. A pod is on one node, so that
no more nodes are of use than there are pods.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.market.snapshot import Job, Node


class SpreadPool(NamedTuple):
    """The nodes of a pool, and the jobs on them."""

    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]


def spread(pool: SpreadPool, number: int) -> SpreadPool:
    """Return a pool with another number of nodes, or the same, over which its jobs have spread.

    Nodes that are added have the mean of its nodes' cores; those with the fewest jobs go first.

    Args:
        pool: The pool with at least one node, and its jobs, all of which are on one of them.
        number: Number of nodes, at least 1.
    """
    place = {node.name: index for index, node in enumerate(pool.nodes)}
    on_node: list[list[Job]] = [[] for _ in pool.nodes]
    for job in pool.jobs:
        on_node[place[job.node]].append(job)
    order = sorted(range(len(pool.nodes)), key=lambda index: (-len(on_node[index]), index))
    kept = sorted(order[:number])
    homeless = [job for index in sorted(order[number:]) for job in on_node[index]]
    nodes = [pool.nodes[index] for index in kept]
    there = [on_node[index] for index in kept]
    mean = sum(node.cores for node in pool.nodes) / len(pool.nodes)
    for more in range(number - len(nodes)):
        # No node of a cluster can have such a name.
        nodes.append(replace(pool.nodes[0], name=f"{pool.nodes[0].pool}+{more}", cores=mean))
        there.append([])
    _level(there, homeless, np.array([node.cores for node in nodes]))
    jobs = [
        replace(job, node=node.name) for node, of in zip(nodes, there, strict=True) for job in of
    ]
    return SpreadPool(tuple(nodes), tuple(jobs))


def _level(there: list[list[Job]], homeless: Sequence[Job], cores: np.ndarray) -> None:
    """Give jobs without a node to the emptiest ones, then move jobs from the fullest to these."""
    count = np.array([len(jobs) for jobs in there])
    for job in homeless:
        emptiest = int(np.argmin((count + 1) / cores))
        there[emptiest].append(job)
        count[emptiest] += 1
    while True:
        fullest, emptiest = int(np.argmax(count / cores)), int(np.argmin((count + 1) / cores))
        if (count[emptiest] + 1) / cores[emptiest] >= count[fullest] / cores[fullest]:
            return
        there[emptiest].append(_leaving(there[fullest]))
        count[fullest] -= 1
        count[emptiest] += 1


def _leaving(jobs: list[Job]) -> Job:
    """Take the pod of a node that leaves it first: one of the job that has most pods there."""
    copies = Counter((job.namespace, job.name) for job in jobs)
    index = max(range(len(jobs)), key=lambda k: (copies[jobs[k].namespace, jobs[k].name], k))
    return jobs.pop(index)
