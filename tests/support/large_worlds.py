"""Objects of clusters as large as are asked for, to decide about or to be made through an API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from walras_operator.decide.world import Document

USERS = 100
PODS_OF_JOB = 10


def cluster(nodes: int, pods: int, memory: str = "16Gi") -> list[Document]:
    """Return the objects of a cluster: nodes of 48 CPUs, pods of ten to a job, 100 users.

    Ten pods want up to 52 GiB of a node. Where it has less, Karma divides that anew every quantum.
    """
    jobs = pods // PODS_OF_JOB
    documents = [market(), *(node(f"node-{i}", "48") for i in range(nodes))]
    for each in documents[1:]:
        each["status"]["allocatable"]["memory"] = memory
    documents += [entitlement(f"user-{i}", shares=1 + i % 7) for i in range(USERS)]
    documents += [
        job(
            f"job-{i}",
            f"user-{i % USERS}",
            parallelFraction=f"0.{500 + i * 37 % 490}",
            memory={"demand": f"{1 + i % 8}Gi"},
        )
        for i in range(jobs)
    ]
    documents += [
        pod(f"job-{i % jobs}-{i // jobs}", f"job-{i % jobs}", f"node-{(i + i // jobs * 7) % nodes}")
        for i in range(pods)
    ]
    return documents
