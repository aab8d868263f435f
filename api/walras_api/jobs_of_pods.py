"""The jobs of the market, one for each pod of a MarketJob that takes part."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from walras.market import snapshot as core
from walras_api.job_inputs import memory_of
from walras_api.supply import MILLI, MOST_CORES
from walras_api.waiting import node_of, placement_blocker, waiting_method

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_api.cluster import Pod
    from walras_api.job_inputs import Name
    from walras_api.kept import Kept
    from walras_api.kinds import CoresPolicy, MarketJob
    from walras_api.selection import Selection
    from walras_api.supply import Units


def jobs_of_pods(
    selection: Selection,
    patterns: Mapping[Name, core.Job],
    pods: Sequence[Pod],
    units: Mapping[str, Units],
    demands: Mapping[str, int],
    most_cpus: Mapping[Name, Mapping[str, float]],
    rules: CoresPolicy,
    kept: Kept,
    left_out: Mapping[int, str],
) -> tuple[tuple[core.Job, ...], Mapping[int, str]]:
    """Return the jobs of the market, and why pods take no part, by position.

    Args:
        selection: MarketJob of each pod.
        patterns: MarketJobs that take part, each as a job without a pod, by namespace and name.
        pods: Pods of the cluster.
        units: What a CPU and a GPU count for on each node that sells cores, by name.
        demands: Bytes of memory that pods could use, as agents have reported, by UID.
        most_cpus: Most CPUs that a pod of a MarketJob can use at once, by its images, as far as
            they were learned, by namespace and name of the MarketJob.
        rules: Rules for cores.
        kept: Jobs of the pods of each MarketJob as they were the last time.
        left_out: Why pods take no part though their nodes sell cores, by position.
    """
    kept.next()
    owners = {id(resource): resource for resource in selection.job.values()}
    numbers_of: defaultdict[int, list[int]] = defaultdict(list)
    for number, resource in selection.job.items():
        numbers_of[id(resource)].append(number)
    jobs: dict[int, core.Job] = {}
    absent: dict[int, str] = {}
    for each, numbers in numbers_of.items():
        owner = owners[each].metadata
        pattern = patterns.get((owner.namespace, owner.name))
        if pattern is None:
            continue
        mine = [pods[number] for number in numbers]
        unit = [units.get(node_of(pod) or "") for pod in mine]
        measured = [demands.get(pod.metadata.uid) for pod in mine]
        most = dict(most_cpus.get((owner.namespace, owner.name), {}))
        made = kept.of(owner.uid, _of_one, pattern, owners[each], mine, unit, measured, most, rules)
        for number, (job, why) in zip(numbers, made, strict=True):
            if job is None or number in left_out:
                absent[number] = why or left_out[number]
            else:
                jobs[number] = job
    ordered = tuple(jobs[number] for number in selection.job if number in jobs)
    return ordered, {number: absent[number] for number in sorted(absent)}


def _of_one(
    pattern: core.Job,
    resource: MarketJob,
    pods: Sequence[Pod],
    units: Sequence[Units | None],
    measured: Sequence[int | None],
    most: Mapping[str, float],
    rules: CoresPolicy,
) -> list[tuple[core.Job | None, str]]:
    """Return each pod of one MarketJob as a job of the market, or why it takes no part."""
    return [
        _job_of_pod(pattern, resource, pod, unit, bytes_, most.get(pod.images), rules)
        for pod, unit, bytes_ in zip(pods, units, measured, strict=True)
    ]


def _job_of_pod(
    pattern: core.Job,
    resource: MarketJob,
    pod: Pod,
    unit: Units | None,
    measured: int | None,
    most: float | None,
    rules: CoresPolicy,
) -> tuple[core.Job | None, str]:
    """Return a pod as a job of the market, or why it takes no part.

    Args:
        pattern: The pod's job, without a pod.
        resource: The same, without a status.
        pod: The pod.
        unit: What a CPU and a GPU count for on the pod's node; None if that sells nothing.
        measured: Bytes of memory that the pod could use, as its agent has reported.
        most: Most CPUs that it can use at once, as far as they were learned.
        rules: Rules for cores.
    """
    node, why = _place(pod, sells=unit is not None)
    if why:
        return None, why
    memory = memory_of(resource, pod.memory_requested, measured)
    requested, floor = _cores_requested(rules, pod, unit)
    cores = _most_cores(pattern, pod, unit)
    learned = None if most is None or unit is None else _learned(pattern, most * unit.of_cpu, floor)
    counts = learned is not None and (cores is None or learned < cores)
    cores = learned if counts else cores
    name = pod.metadata.name
    made = as_pod(pattern, node, name, memory, cores, requested, floor, learned=counts)
    return made, ""


def _learned(job: core.Job, cores: float, floor: float) -> float | None:
    """Return the most cores to sell to a pod by what was learned; None if its user says how many.

    They are never fewer than it keeps, or than it asks for.
    """
    if job.max_cores is not None:
        return None
    most = max(cores, floor, float(job.min_cores))
    return math.ceil(most) if job.whole_cores else most


def _most_cores(pattern: core.Job, pod: Pod, unit: Units | None) -> float | None:
    """Return the most cores that a pod can use: those of its job, or of its CPU limit if less.

    A limit counts in thousandths, as the kernel takes it. A pod without a node has none yet, since
    how many of the market's units a CPU is depends on the node.

    Args:
        pattern: The pod's job, without a pod.
        pod: The pod.
        unit: What a CPU and a GPU count for on its node; None while it has no node.
    """
    limit = math.inf if unit is None else pod.cpu_limit * unit.of_cpu
    if limit == math.inf:
        return pattern.max_cores
    limit = max(math.floor(limit * MILLI), 1) / MILLI
    return limit if pattern.max_cores is None else min(limit, pattern.max_cores)


def _cores_requested(rules: CoresPolicy, pod: Pod, unit: Units | None) -> tuple[float, float]:
    """Return the cores that a pod requested on its node, and those that it keeps.

    It keeps what it requested, or what the Market keeps for its GPUs if that is more. It keeps none
    before its kubelet has admitted it: any user can create a pod with a ``nodeName`` and requests
    beyond the node's size.

    Args:
        rules: Rules for cores.
        pod: The pod.
        unit: What a CPU and a GPU count for on its node; None while it has no node.
    """
    if unit is None or not pod.admitted:
        return 0.0, 0.0
    requested = min(float(pod.cpus_requested) * unit.of_cpu, float(MOST_CORES))
    keeps = rules.floor == "Requests" or (rules.floor == "Guaranteed" and pod.is_guaranteed)
    for_gpus = pod.gpus * unit.kept_for_gpu if unit.kept_for_gpu else 0.0
    return requested, max(requested if keeps else 0.0, min(for_gpus, float(MOST_CORES)))


def as_pod(
    job: core.Job,
    node: str,
    pod: str,
    memory: core.MemoryDemand | None,
    most: float | None,
    requested: float,
    floor: float,
    *,
    learned: bool,
) -> core.Job:
    """Return a copy of a job for one of its pods; five times as fast as dataclasses.replace."""
    return core.Job(
        job.namespace,
        job.name,
        job.entitlement,
        node,
        job.fraction,
        job.work,
        job.min_cores,
        most,
        job.namespace_labels,
        pod,
        memory,
        job.bid,
        job.program,
        job.bandwidth,
        job.placement,
        job.measured_beside,
        requested,
        floor,
        job.whole_cores,
        job.deadline,
        job.observed,
        job.seen_alone,
        learned,
    )


def _place(pod: Pod, *, sells: bool) -> tuple[str, str]:
    """Return a pod's node, empty if it is pending, and why it takes no part, empty if it does.

    Args:
        pod: The pod.
        sells: Whether its node sells cores.
    """
    if waiting_method(pod) is not None:
        return "", placement_blocker(pod)
    node = node_of(pod)
    if node is None:
        return "", "is not scheduled yet"
    return node, "" if sells else f"runs on {node}, which sells nothing"
