"""Chooses (pure): what every node is to hold, and which NodeAllocations that changes.

A pod's whole cores are its own; pods that share have parts of their node's pool, in thousandths,
which together are never more than the pool.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from walras.memory import PAGE
from walras.resources.allocation import MOST_GRANTS, POD_UID
from walras.resources.fields import as_quantity
from walras_operator.world import MOST_REPORTED, NodeWrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.plan import Grant
    from walras.resources.allocation import NodeAllocation, ProfilingRequest
    from walras.resources.cluster import Pod
    from walras.resources.kinds import MarketSpec
    from walras_operator.world import Document, World

MILLI = 1000

_UID = re.compile(POD_UID)


class Portion(NamedTuple):
    """What one pod is to hold.

    Attributes:
        uid: what the kubelet calls it by.
        namespace: of the pod.
        name: of the pod.
        millicores: thousandths of the market's unit.
        memory: bytes; None to leave it alone.
    """

    uid: str
    namespace: str
    name: str
    millicores: int
    memory: int | None


class Orders(NamedTuple):
    """What one node is to do."""

    mode: str
    unit: str
    memory_nodes: str
    portions: tuple[Portion, ...]
    profiling: ProfilingRequest | None


class Allotted(NamedTuple):
    """What all nodes are to do.

    Attributes:
        orders: by node.
        present: the orders that they have, by node.
        without: why a grant cannot be given to its pod, by the pod's namespace and name.
    """

    orders: Mapping[str, Orders]
    present: Mapping[str, Orders]
    without: Mapping[tuple[str, str], str]


def allot(
    world: World, rules: MarketSpec, held: Iterable[tuple[Grant, Pod]], mode: str
) -> Allotted:
    """Turn grants to pods into orders for nodes.

    Every node has some whose agent lives or that had some before, none granted if need be. What it
    measures it goes on to measure (`with_measurements`).

    Args:
        world: names nodes, and the orders that they have.
        rules: have the unit.
        held: every grant, and its pod.
        mode: enforce or observe.
    """
    by_node: defaultdict[str, list[tuple[Grant, Pod]]] = defaultdict(list)
    for grant, pod in held:
        if pod.spec.node_name == grant.node:
            by_node[grant.node].append((grant, pod))
    present = {name: orders_of(each) for name, each in world.allocations.items()}
    orders: dict[str, Orders] = {}
    without: dict[tuple[str, str], str] = {}
    for node in world.objects.nodes:
        name = node.metadata.name
        if name not in present and name not in world.agents and name not in by_node:
            continue
        mine = _fitting(by_node.get(name, ()), without)
        new = Orders(
            mode,
            rules.cores.unit,
            rules.cores.memory_nodes,
            _portions(mine),
            None if name not in present else present[name].profiling,
        )
        orders[name] = _settled(new, present.get(name), float(rules.cores.hysteresis))
    return Allotted(orders, present, without)


def with_measurements(allotted: Allotted, requests: Mapping[str, ProfilingRequest]) -> Allotted:
    """Have nodes measure what is asked for, and nothing else.

    Args:
        allotted: what all nodes are to do.
        requests: by node.
    """
    orders = {
        node: each._replace(profiling=requests.get(node)) for node, each in allotted.orders.items()
    }
    return allotted._replace(orders=orders)


def writes(world: World, allotted: Allotted) -> tuple[NodeWrite, ...]:
    """Return the NodeAllocations that differ from what is ordered, or are outgrown, by name."""
    uids = {node.metadata.name: node.metadata.uid for node in world.objects.nodes}
    return tuple(
        NodeWrite(node, uids[node], document(orders))
        for node, orders in sorted(allotted.orders.items())
        if orders != allotted.present.get(node) or _outgrown(world.allocations[node])
    )


def _outgrown(allocation: NodeAllocation) -> bool:
    """Whether its agent holds to a later plan, and so refuses this one until it has a new epoch.

    So it is where Walras was removed without being asked to release its nodes, and is back: the
    agents remember, and a new Lease counts terms from the beginning.
    """
    epoch = (allocation.status or {}).get("epoch")
    return isinstance(epoch, int) and allocation.spec.epoch < epoch <= MOST_REPORTED


def orders_of(allocation: NodeAllocation) -> Orders:
    """Return what a NodeAllocation orders."""
    spec = allocation.spec
    portions = sorted(
        Portion(each.pod_uid, each.namespace, each.name, int(each.cores * MILLI), each.memory)
        for each in spec.grants
    )
    return Orders(spec.mode, spec.unit, spec.memory_nodes, tuple(portions), spec.profiling)


def document(orders: Orders) -> Document:
    """Return orders as the spec of a NodeAllocation, but for its epoch."""
    spec: Document = {
        "mode": orders.mode,
        "unit": orders.unit,
        "memoryNodes": orders.memory_nodes,
        "grants": [_grant(each) for each in orders.portions],
    }
    if orders.profiling is not None:
        spec["profiling"] = orders.profiling.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
    return spec


def _grant(portion: Portion) -> Document:
    whole, part = divmod(portion.millicores, MILLI)
    grant = {
        "podUID": portion.uid,
        "namespace": portion.namespace,
        "name": portion.name,
        "cores": f"{whole}.{part:03d}".rstrip("0").rstrip("."),
    }
    if portion.memory is not None:
        grant["memory"] = as_quantity(portion.memory)
    return grant


def _fitting(
    held: Sequence[tuple[Grant, Pod]], without: dict[tuple[str, str], str]
) -> list[tuple[Grant, Pod]]:
    """Leave out what a NodeAllocation has no room or no name for.

    A pod may claim by annotation to be another's mirror: who really has a UID comes first.
    """
    seen: set[str] = set()
    fitting: list[tuple[Grant, Pod]] = []
    for grant, pod in sorted(held, key=_claim):
        uid = pod.cgroup_uid
        if _UID.fullmatch(uid) is None:
            without[_name(pod)] = f"its UID {uid[:64]!r} is none; delete it and have it made again"
        elif uid in seen:
            without[_name(pod)] = f"another pod of {grant.node} has its UID; delete one of them"
        elif len(fitting) == MOST_GRANTS:
            without[_name(pod)] = f"{grant.node} has {MOST_GRANTS} pods in the market, no more fit"
        else:
            seen.add(uid)
            fitting.append((grant, pod))
    return fitting


def _claim(held: tuple[Grant, Pod]) -> tuple[bool, str, str]:
    _, pod = held
    return pod.cgroup_uid != pod.metadata.uid, *_name(pod)


def _name(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name


def _portions(held: Sequence[tuple[Grant, Pod]]) -> tuple[Portion, ...]:
    """Return what the pods of one node hold, in the order of their UIDs."""
    pools: defaultdict[tuple[int, ...], list[tuple[Grant, Pod]]] = defaultdict(list)
    millicores: dict[str, int] = {}
    for grant, pod in held:
        if grant.granted_cores:
            millicores[pod.cgroup_uid] = grant.granted_cores * MILLI
        else:
            pools[grant.sockets].append((grant, pod))
    for members in pools.values():
        size = min(grant.shared_cores for grant, _ in members) * MILLI
        parts = divide(size, [grant.weight for grant, _ in members])
        for (_, pod), part in zip(members, parts, strict=True):
            millicores[pod.cgroup_uid] = part
    return tuple(
        sorted(
            Portion(
                pod.cgroup_uid,
                pod.metadata.namespace,
                pod.metadata.name,
                millicores[pod.cgroup_uid],
                None if grant.memory is None else max(grant.memory, PAGE),
            )
            for grant, pod in held
        )
    )


def divide(size: int, weights: Sequence[int]) -> list[int]:
    """Divide a pool by weight into whole parts of at least one, never more than it together."""
    total = sum(weights)
    parts = [max(size * weight // total, 1) for weight in weights]
    parts[parts.index(max(parts))] -= max(sum(parts) - size, 0)
    return parts


def _settled(new: Orders, present: Orders | None, threshold: float) -> Orders:
    """Keep present orders that differ only in parts of the pool, each by less than the threshold.

    Weights follow prices, and these follow everything in the cluster.
    """
    if present is None or present == new:
        return new
    if present._replace(portions=_rough(present)) != new._replace(portions=_rough(new)):
        return new
    before, after = (sum(each.millicores for each in orders.portions) for orders in (present, new))
    near = all(
        abs(one.millicores - other.millicores) <= threshold * one.millicores
        for one, other in zip(present.portions, new.portions, strict=True)
    )
    same_pool = -(-before // MILLI) == -(-after // MILLI)
    return present if near and same_pool else new


def _rough(orders: Orders) -> tuple[Portion, ...]:
    """Return portions without the number of cores of pods that share."""
    return tuple(
        each._replace(millicores=0) if each.millicores % MILLI else each for each in orders.portions
    )
