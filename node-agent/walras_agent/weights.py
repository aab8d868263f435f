"""Pure: makes the final weights of all pods and QoS classes of a node, on one scale.

A pod weighs the CPUs that it bought, times the factor that corrects what it used (`correction`). A
pod without a grant weighs those that it requested, as if it had bought them; one that requested
none keeps the least weight, with which it has what others leave.

Pods are weighed against those of their own QoS class, and classes against each other. So a class
weighs what those of its pods weigh together that run at once: then each has the part that it would
have if there were no classes.

Where the kernel counts a group's weight once for each CPU that the group runs on, instead of
dividing it among these, it is divided here (`concurrent`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

BOOSTED = 1.25
"""Most that the weights of all pods add up to, as a multiple of what they add up to uncorrected."""

_SHARES_OF_A_CPU = 1024


class WeightRange(NamedTuple):
    """The weights that a file takes.

    Attributes:
        least: The least of them.
        most: The largest.
        of_a_cpu: Largest weight of one CPU.
    """

    least: int
    most: int
    of_a_cpu: int


RANGES: Mapping[Literal[1, 2], WeightRange] = {
    # In v1 the scale is the kubelet's, so that a pod that has just begun needs no write; in v2 that
    # one is too coarse.
    1: WeightRange(2, 262_144, _SHARES_OF_A_CPU),
    2: WeightRange(1, 10_000, 10_000),
}
"""The kernel's ranges of ``cpu.shares`` and ``cpu.weight``, by cgroup version."""


def cpu_shares(milli: int) -> int:
    """Return the ``cpu.shares`` that the kubelet writes for a request in thousandths of a CPU."""
    least, most, _ = RANGES[1]
    return min(max(milli * _SHARES_OF_A_CPU // 1000, least), most)


def requested_cpus(version: Literal[1, 2], weight: int) -> float:
    """Return the CPUs for whose request the kubelet writes a weight; 0 for the least weight.

    In v2 it is the middle of those that have the same weight, as the kubelet turns shares of 2 to
    262144 into weights of 1 to 10000: 13 thousandths of a CPU around it.
    """
    if weight <= RANGES[version].least:
        return 0.0
    shares = weight if version == 1 else 2 + (weight - 0.5) * 262_142 / 9999
    return shares / _SHARES_OF_A_CPU


class WeighedPod(NamedTuple):
    """What a pod is weighed by.

    Attributes:
        group: Cgroup of the pod.
        parent: Cgroup that it lies in.
        cpus: CPUs that it bought or requested.
        factor: Factor of its weight that corrects what it used.
        busy: Part of the time in which it runs, or would.
        at_once: CPUs that it runs on at once, or would.
    """

    group: str
    parent: str
    cpus: float
    factor: float = 1.0
    busy: float = 1.0
    at_once: int = 1


def weight_of_a_cpu(total: float, cpus: int, allowed: WeightRange) -> float:
    """Return the scale on which all of a node's pods fit the kernel's range together.

    It stays the same while they have no more than the node's CPUs, so that few files are written.

    Args:
        total: CPUs that all pods bought or requested.
        cpus: CPUs of the node.
        allowed: Weights that the kernel takes.
    """
    room = float(cpus)
    while room < total:
        room *= 2
    return min(allowed.of_a_cpu, allowed.most / (BOOSTED * room))


def final_weights(
    pods: Sequence[WeighedPod],
    classes: Collection[str],
    scale: float,
    allowed: WeightRange,
    cpus: int,
    *,
    concurrent: bool = False,
) -> dict[str, int]:
    """Return the weights of all pods that bought or requested CPUs, and of their classes, by group.

    Args:
        pods: All pods of the node.
        classes: Cgroups of QoS classes.
        scale: Weight of a CPU.
        allowed: Weights that the kernel takes.
        cpus: CPUs of the node.
        concurrent: Whether the kernel counts a weight once for each CPU that a group runs on.
    """
    raw = {pod.group: max(pod.cpus * pod.factor * scale, allowed.least) for pod in pods}
    at_once = {pod.group: float(pod.at_once) for pod in pods}
    weighed = [pod.group for pod in pods if pod.cpus]
    for group in classes:
        below = [pod for pod in pods if pod.parent == group]
        if any(pod.cpus for pod in below):
            raw[group] = _of_who_runs(below, raw)
            at_once[group] = _of_who_runs(below, at_once)
            weighed.append(group)
    weights = {}
    for group in weighed:
        parts = min(max(at_once[group], 1.0), cpus) if concurrent else 1.0
        weights[group] = min(max(round(raw[group] / parts), allowed.least), allowed.most)
    return weights


def _of_who_runs(pods: Sequence[WeighedPod], amounts: Mapping[str, float]) -> float:
    """Return the sum of what the pods of a class have that run at once, on average while any does.

    While none ever runs, it is the sum of all, for whichever is the next.
    """
    any_runs = 1.0 - math.prod(1.0 - pod.busy for pod in pods)
    if not any_runs:
        return sum(amounts[pod.group] for pod in pods)
    return sum(pod.busy * amounts[pod.group] for pod in pods) / any_runs
