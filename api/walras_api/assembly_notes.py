"""Notes on what a snapshot of the market leaves out, or assumes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from walras_api.job_inputs import ASSUMED_FRACTION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from walras_api.cluster import NodeObject, Pod
    from walras_api.job_inputs import Name, Speedup
    from walras_api.selection import Selection

MOST_NAMED = 8
"""Number of objects that a note names; it counts the others."""


def notes_on_pods(
    pods: Sequence[Pod], selection: Selection, absent: Mapping[int, str]
) -> Iterator[str]:
    """Yield a line for each pod that several jobs select, or that takes no part.

    Args:
        pods: Pods of the cluster.
        selection: MarketJob of each pod.
        absent: Why pods take no part, by position.
    """
    for number, jobs in selection.contested.items():
        names = " and ".join(job.metadata.name for job in jobs[:MOST_NAMED])
        yield (
            f"Pod {_title(pods[number])}: is selected by MarketJobs {names}; "
            f"{jobs[0].metadata.name} has it, correct the selectors"
        )
    for number, why in absent.items():
        yield f"Pod {_title(pods[number])}: {why}"


def fed_by_cpus(
    pods: Sequence[Pod], selection: Selection, speedups: Mapping[Name, Speedup]
) -> list[Name]:
    """Return the jobs with GPUs of whose speedup with CPUs nothing is known, by their first pods.

    Args:
        pods: Pods of the cluster.
        selection: MarketJob of each pod.
        speedups: Speedups of the MarketJobs that take part, by namespace and name.
    """
    jobs = {
        (job.metadata.namespace, job.metadata.name): None
        for number, job in selection.job.items()
        if pods[number].gpus
    }
    return [key for key in jobs if key in speedups and speedups[key].source == "Assumed"]


def notes_on_gpus(jobs: Sequence[Name], nodes: Sequence[NodeObject]) -> Iterator[str]:
    """Yield a line on jobs with GPUs for which nobody has said how many CPUs they need.

    Args:
        jobs: The jobs, by namespace and name.
        nodes: Nodes of the cluster.
    """
    if not jobs:
        return
    of_gpu = [math.floor(node.cores / node.gpus) for node in nodes if node.gpus]
    have = f": the nodes have {min(of_gpu)} for each" if of_gpu else ""
    titles = [f"{namespace}/{name}" for namespace, name in jobs]
    yield (
        f"{_listed('MarketJob', titles)}: with GPUs, a speedup by CPUs is not assumed; bids are "
        f"as with a parallel fraction of {ASSUMED_FRACTION}, so others may buy the CPUs that feed "
        f"the GPUs. spec.cores.perGPU of the Market keeps CPUs for each GPU of a pod{have}"
    )


def notes_on_jobs(
    speedups: Mapping[Name, Speedup], with_pods: Iterable[Name], told: Collection[Name] = ()
) -> Iterator[str]:
    """Yield a line on all jobs without pods, and on those whose speedup is not known well.

    Args:
        speedups: Speedups of the MarketJobs that take part, by namespace and name.
        with_pods: Jobs that own pods, by namespace and name.
        told: Jobs of which another line tells that their speedup is not known.
    """
    present = set(with_pods)
    titles = {key: "/".join(key) for key in speedups}
    absent = [title for key, title in titles.items() if key not in present]
    assumed = [
        title
        for key, title in titles.items()
        if key in present and speedups[key].source == "Assumed" and key not in told
    ]
    refused = [title for key, title in titles.items() if speedups[key].refused]
    if absent:
        yield f"{_listed('MarketJob', absent)}: no pods of it are there"
    if refused:
        yield (
            f"{_listed('MarketJob', refused)}: F is too uncertain by the measurements in the "
            f"profile, which are not used; profile the program anew"
        )
    if assumed:
        yield (
            f"{_listed('MarketJob', assumed)}: speedup is not known; a parallel fraction of "
            f"{ASSUMED_FRACTION} is assumed, give parallelFraction or a profile"
        )


def _listed(kind: str, titles: Sequence[str]) -> str:
    shown = ", ".join(titles[:MOST_NAMED])
    more = f" and {len(titles) - MOST_NAMED} more" if len(titles) > MOST_NAMED else ""
    return f"{kind}{'s' * (len(titles) > 1)} {shown}{more}"


def _title(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
