"""Resources that nodes sell: allocatable, less the reserve and the requests of other pods."""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.market.snapshot import DEFAULT_POOL
from walras.market.snapshot import Node as Supply
from walras_api.contract import MODE_LABEL, SOCKETS_LABEL
from walras_api.node_allocation_status import MOST_CPUS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_api.cluster import NodeObject, Pod
    from walras_api.kinds import CoresPolicy

MILLI = 1000
MOST_CORES = 1 << 20
MOST_MEMORY = 1 << 48
"""Bytes, more than any machine has; sums over a cluster stay exact."""


class ProcessorCounts(NamedTuple):
    """A node's physical cores, hardware threads (CPUs to Kubernetes) and sockets."""

    cores: int
    threads: int
    sockets: int


def reported_processors(status: Mapping[str, Any] | None) -> ProcessorCounts | None:
    """Return a node's processors from the status of its NodeAllocation.

    None if its agent reports none, or none that can be: an API server whose definition bounds no
    number stores any.
    """
    topology = (status or {}).get("topology")
    if not isinstance(topology, dict):
        return None
    # Numbers that were read from a file are of a class of their own.
    given = [
        int(each)
        for each in map(topology.get, ProcessorCounts._fields)
        if isinstance(each, int) and not isinstance(each, bool)
    ]
    if len(given) < len(ProcessorCounts._fields):
        return None
    cores, threads, sockets = given
    if not 0 < sockets <= cores <= threads <= MOST_CPUS:
        return None
    return ProcessorCounts(cores, threads, sockets)


class Taken(NamedTuple):
    """The CPUs and bytes that pods outside the market request, by node."""

    cpus: Mapping[str, Decimal]
    memory: Mapping[str, int]


class Units(NamedTuple):
    """What counts on a node, in the market's units.

    Attributes:
        of_cpu: Units in a CPU.
        kept_for_gpu: Units that a pod keeps for each of its GPUs.
    """

    of_cpu: float
    kept_for_gpu: float


def taken_by(pods: Iterable[Pod]) -> Taken:
    """Return the total requests of the pods that their kubelets have admitted, by node.

    Any user can create a pod with a ``nodeName`` and requests beyond the node's size. Its kubelet
    refuses it, but until then it must not take the node from the market.
    """
    cpus: defaultdict[str, Decimal] = defaultdict(Decimal)
    memory: defaultdict[str, int] = defaultdict(int)
    for pod in pods:
        node = pod.spec.node_name
        if pod.admitted and node is not None:
            cpus[node] += pod.cpus_requested
            memory[node] += pod.memory_requested
    return Taken(cpus, memory)


def why_closed(node: NodeObject) -> str | None:
    """Return why a node sells nothing to anybody; None if it is open."""
    if is_off(node):
        return f"has the label {MODE_LABEL}=off"
    return None if node.ready else "is not ready"


def is_off(node: NodeObject) -> bool:
    """Return whether a label takes a node out of the market."""
    return node.metadata.labels.get(MODE_LABEL) == "off"


def takes_pods(node: NodeObject) -> bool:
    """Return whether waiting pods may be placed on an open node.

    A cordon, and a deletion that waits for finalizers, say that no pod is to come. Those that run
    go on, often for days, and the node sells its cores to them. Autoscalers that drain a node taint
    it, too, and which pods stand a taint is judged for each pod.
    """
    return not (node.spec.unschedulable or node.metadata.deletion_timestamp)


def pool_of(node: NodeObject, labels: Sequence[str]) -> str:
    """Return the node pool of a node: the value of the first of the labels that it has."""
    values = (node.metadata.labels.get(label) for label in labels)
    return next(filter(None, values), DEFAULT_POOL)


def for_sale(
    node: NodeObject,
    taken: Taken,
    policy: CoresPolicy,
    topology: ProcessorCounts | None,
    notes: list[str],
    pool: str = DEFAULT_POOL,
) -> Supply:
    """Return the resources that a node sells, in thousandths of the market's unit.

    Args:
        node: A node that is not closed.
        taken: Requests of pods outside the market.
        policy: Rules for the reserved cores and the unit of sale.
        topology: Topology of the node; None if unknown, and then every CPU counts as a core.
        notes: List to which warnings are appended.
        pool: Node pool of the node.
    """
    name = node.metadata.name
    each = cores_per_cpu(policy, topology)
    cpus = Fraction(node.cores - taken.cpus.get(name, Decimal(0)))
    left = math.floor(MILLI * (cpus * each - policy.reserved_cores))
    if left < 1:
        have = f"{node.cores.normalize():f}"
        notes.append(f"Node {name}: other pods and the reserved cores use all {have} CPUs")
    memory = node.memory - taken.memory.get(name, 0)
    return Supply(
        name,
        min(max(left, 0) / MILLI, float(MOST_CORES)),
        min(max(memory, 0), MOST_MEMORY),
        _sockets(node, topology, notes),
        pool=pool,
    )


def cores_per_cpu(policy: CoresPolicy, topology: ProcessorCounts | None) -> Fraction:
    """Return how many of the market's units a CPU of Kubernetes is.

    Args:
        policy: Rules for the unit of sale.
        topology: Topology of the node; None if unknown, and then every CPU counts as a core.
    """
    if policy.unit == "thread" or topology is None or not 0 < topology.cores < topology.threads:
        return Fraction(1)
    return Fraction(topology.cores, topology.threads)


def _sockets(node: NodeObject, topology: ProcessorCounts | None, notes: list[str]) -> int:
    text = node.metadata.labels.get(SOCKETS_LABEL)
    if text is None:
        # No more than its kubelet reports CPUs: an agent may report anything.
        return 1 if topology is None else max(min(topology.sockets, math.ceil(node.cores)), 1)
    if text.isdecimal() and 0 < int(text) < 1000:
        return int(text)
    notes.append(f"Node {node.metadata.name}: label {SOCKETS_LABEL}: is {text!r}; using 1")
    return 1
