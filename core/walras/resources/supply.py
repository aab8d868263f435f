"""What nodes have for sale: what pods may use, less the reserve and what other pods requested."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from walras.resources.contract import SOCKETS_LABEL
from walras.snapshot import Node as Supply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras.resources.cluster import Node, Pod
    from walras.resources.kinds import CoresPolicy

MOST_CORES = 1 << 20
MOST_MEMORY = 1 << 48
"""Bytes. More than any machine has; sums over a cluster stay exact."""


class Topology(NamedTuple):
    """A node's processors, as its agent reports them.

    Attributes:
        cores: physical.
        threads: hardware threads, which Kubernetes calls CPUs.
        sockets: processors.
    """

    cores: int
    threads: int
    sockets: int


class Taken(NamedTuple):
    """What pods that are not in the market have requested on each node.

    Attributes:
        cpus: by node.
        memory: bytes, by node.
    """

    cpus: Mapping[str, Decimal]
    memory: Mapping[str, int]


def taken_by(pods: Iterable[Pod]) -> Taken:
    """Sum up the requests of pods that are alive, by node."""
    cpus: defaultdict[str, Decimal] = defaultdict(Decimal)
    memory: defaultdict[str, int] = defaultdict(int)
    for pod in pods:
        node = pod.spec.node_name
        if pod.alive and node is not None:
            cpus[node] += pod.cpus_requested
            memory[node] += pod.memory_requested
    return Taken(cpus, memory)


def closed(node: Node) -> str | None:
    """Return why a node sells nothing to anybody; None if it is open."""
    if node.spec.unschedulable:
        return "is cordoned"
    return None if node.ready else "is not ready"


def for_sale(
    node: Node, taken: Taken, policy: CoresPolicy, topology: Topology | None, notes: list[str]
) -> Supply:
    """Return what a node sells, in whole cores of the market's unit.

    Args:
        node: that is open.
        taken: by other pods.
        policy: says how many cores are kept back, and what a core is.
        topology: of the node; where it is not known every CPU counts as a core.
        notes: takes a line on what is odd.
    """
    name = node.metadata.name
    each = _cores_of_cpu(policy, topology)
    asked = Fraction(taken.cpus.get(name, Decimal(0))) * each
    left = int(Fraction(node.cores) * each) - -(-asked // 1) - policy.reserved_cores
    if left < 1:
        notes.append(f"Node {name}: other pods and the reserve leave none of {node.cores} CPUs")
    memory = node.memory - taken.memory.get(name, 0)
    return Supply(
        name,
        min(max(left, 0), MOST_CORES),
        min(max(memory, 0), MOST_MEMORY),
        _sockets(node, topology, notes),
    )


def _cores_of_cpu(policy: CoresPolicy, topology: Topology | None) -> Fraction:
    if policy.unit == "thread" or topology is None or not 0 < topology.cores < topology.threads:
        return Fraction(1)
    return Fraction(topology.cores, topology.threads)


def _sockets(node: Node, topology: Topology | None, notes: list[str]) -> int:
    text = node.metadata.labels.get(SOCKETS_LABEL)
    if text is None:
        return 1 if topology is None else max(topology.sockets, 1)
    if text.isdecimal() and 0 < int(text) < 1000:
        return int(text)
    notes.append(f"Node {node.metadata.name}: label {SOCKETS_LABEL}: is {text!r}; 1 is taken")
    return 1
