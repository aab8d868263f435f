"""Pure: turn the grants of a plan into NodeAllocation specs, and find those to be written."""

from __future__ import annotations

import re
from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras_api.contract import PARTNER_ANNOTATION
from walras_api.fields import as_quantity
from walras_api.job_inputs import has_own_cpus
from walras_api.node_allocation import MIN_MEMORY_GRANT, MOST_GRANTS, POD_UID
from walras_operator.decide.world import MOST_REPORTED, NodeWrite

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from walras.market.plan import Grant
    from walras_api.cluster import Pod
    from walras_api.contract import Mode
    from walras_api.kinds import CoresPolicy, MarketSpec
    from walras_api.node_allocation import (
        CounterRequest,
        NodeAllocation,
        NodeAllocationSpec,
        ProfilingRequest,
    )
    from walras_api.selection import Selection
    from walras_operator.decide.world import Document, World

MILLI = 1000

NOTHING_FROZEN: Mapping[str, str] = MappingProxyType({})

_UID = re.compile(POD_UID)


class GrantSpec(NamedTuple):
    """An entry of ``spec.grants`` of a NodeAllocation.

    Attributes:
        uid: UID by which the kubelet names the pod's cgroup.
        namespace: Namespace of the pod.
        name: Name of the pod.
        millicores: Thousandths of the market's unit, a core or a thread.
        memory: Bytes; None leaves the pod's memory alone.
        isolated: Whether its whole cores are CPUs that no other pod uses.
        partner: UID of the pod with which it was matched; empty for none.
        entitlement: Entitlement that pays for it; empty where the agent would refuse to be told.
    """

    uid: str
    namespace: str
    name: str
    millicores: int
    memory: int | None
    isolated: bool = False
    partner: str = ""
    entitlement: str = ""


class AllocationSpec(NamedTuple):
    """The spec of a NodeAllocation, without its epoch."""

    mode: str
    unit: str
    memory_nodes: str
    grants: tuple[GrantSpec, ...]
    profiling: ProfilingRequest | None
    counters: tuple[CounterRequest, ...] = ()
    limits: Literal["Lifted", "Kept"] | None = None


class Allocations(NamedTuple):
    """The specs of all NodeAllocations.

    Attributes:
        desired: Specs as decided, by node.
        current: Specs as they are in the cluster, by node.
        ungranted: Why a pod cannot have its grant, by the pod's namespace and name.
        frozen: Nodes whose NodeAllocations stay as they are.
    """

    desired: Mapping[str, AllocationSpec]
    current: Mapping[str, AllocationSpec]
    ungranted: Mapping[tuple[str, str], str]
    frozen: Collection[str] = ()


def granted_on(
    grants: Iterable[Grant], selection: Selection, pods: Sequence[Pod]
) -> dict[str, list[tuple[Grant, Pod]]]:
    """Return the grants of a plan with their pods, by the node that these are on.

    Args:
        grants: Grants of the plan.
        selection: MarketJob of each pod.
        pods: Pods of the cluster.
    """
    of_nodes: defaultdict[str, list[tuple[Grant, Pod]]] = defaultdict(list)
    named = {_name(pod): pod for pod in (pods[number] for number in selection.job)}
    for grant in grants:
        pod = named[grant.namespace, grant.pod]
        if pod.spec.node_name == grant.node:
            of_nodes[grant.node].append((grant, pod))
    return dict(of_nodes)


def allocate(
    world: World,
    rules: MarketSpec,
    granted: Mapping[str, Sequence[tuple[Grant, Pod]]],
    modes: Mapping[str, Mode],
    frozen: Mapping[str, str] = NOTHING_FROZEN,
) -> Allocations:
    """Return the NodeAllocation specs that carry out the grants of a plan.

    Every node that has a live agent or a NodeAllocation gets a spec, without grants if need be. A
    running measurement continues until `with_measurements` says otherwise.

    Args:
        world: Nodes, their agents, and their current NodeAllocations.
        rules: Market rules; they set the unit.
        granted: Grants with their pods, by node.
        modes: Modes of nodes; the agent of a node that is off restores it, as of one that observes.
        frozen: Why nodes keep their NodeAllocation as it is, by name.
    """
    current = {
        name: world.kept.of(name, current_spec, each.spec)
        for name, each in world.allocations.items()
    }
    isolated = _isolated(world, rules)
    desired: dict[str, AllocationSpec] = {}
    ungranted: dict[tuple[str, str], str] = {}
    for node in world.objects.nodes:
        name = node.metadata.name
        if name not in current and name not in world.agents and name not in granted:
            continue
        here = granted.get(name, ())
        if name in frozen:
            desired[name] = current[name]
            ungranted.update(_without_grant(here, current[name], frozen[name]))
            continue
        desired[name], without = world.kept.of(
            name,
            _desired,
            here,
            current.get(name),
            "enforce" if modes.get(name) == "enforce" else "observe",
            rules.cores,
            isolated,
            _accepts_new_fields(world.allocations.get(name)),
        )
        ungranted.update(without)
    return Allocations(desired, current, ungranted, frozenset(frozen))


def _accepts_new_fields(allocation: NodeAllocation | None) -> bool:
    """Return whether a node's agent takes fields that plans of 0.1.0 did not have."""
    status = None if allocation is None else allocation.status
    return not status or status.get("acceptsNewFields") is True


def _desired(
    granted: Sequence[tuple[Grant, Pod]],
    current: AllocationSpec | None,
    mode: str,
    rules: CoresPolicy,
    isolated: Collection[tuple[str, str]],
    accepts_new_fields: bool,
) -> tuple[AllocationSpec, dict[tuple[str, str], str]]:
    """Return the spec of a node, which is the current one itself if that is equal.

    Args:
        granted: Grants with their pods.
        current: The spec as it is; None if the node has no NodeAllocation.
        mode: ``enforce`` or ``observe``.
        rules: Rules for cores.
        isolated: Jobs whose pods have CPUs of their own, by namespace and name.
        accepts_new_fields: Whether the agent takes a plan that names users and partners, and says
            what becomes of CPU limits.

    Returns:
        The spec, and why pods cannot have their grants, by the pod's namespace and name.
    """
    ungranted: dict[tuple[str, str], str] = {}
    grants = _grants(_grantable(granted, current, ungranted), isolated)
    if not accepts_new_fields:
        grants = tuple(each._replace(entitlement="", partner="") for each in grants)
    spec = AllocationSpec(
        mode,
        rules.unit,
        rules.memory_nodes,
        grants,
        None if current is None else current.profiling,
        () if current is None else current.counters,
        "Kept" if accepts_new_fields and rules.limits == "Kept" else None,
    )
    return current if current == spec else spec, ungranted


def _without_grant(
    held: Iterable[tuple[Grant, Pod]], current: AllocationSpec, why: str
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield pods without a grant on a frozen node, and why they wait."""
    granted = {grant.uid for grant in current.grants}
    for grant, pod in held:
        if pod.metadata.uid not in granted:
            yield _name(pod), f"waits: grants on {grant.node} do not change now, because {why}"


def with_measurements(
    allocations: Allocations, requests: Mapping[str, ProfilingRequest]
) -> Allocations:
    """Return allocations in which exactly the requested measurements run.

    Args:
        allocations: Specs of all NodeAllocations.
        requests: Measurements to run, by node.
    """
    desired = {
        node: each
        if node in allocations.frozen or each.profiling == requests.get(node)
        else each._replace(profiling=requests.get(node))
        for node, each in allocations.desired.items()
    }
    return allocations._replace(desired=desired)


def with_counters(
    allocations: Allocations, counters: Mapping[str, Sequence[CounterRequest]]
) -> Allocations:
    """Return allocations in which agents read exactly these counters, of pods with grants.

    Args:
        allocations: Specs of all NodeAllocations.
        counters: Counters to read, by node.
    """

    def of(node: str, spec: AllocationSpec) -> tuple[CounterRequest, ...]:
        asked = counters.get(node, ())
        granted = {grant.uid for grant in spec.grants} if asked else ()
        return tuple(each for each in asked if each.pod_uid in granted)

    desired = {
        node: each
        if node in allocations.frozen or each.counters == (asked := of(node, each))
        else each._replace(counters=asked)
        for node, each in allocations.desired.items()
    }
    return allocations._replace(desired=desired)


def writes(world: World, allocations: Allocations) -> tuple[NodeWrite, ...]:
    """Return the NodeAllocations to write: those that differ, or that agents refuse as stale."""
    uids = {node.metadata.name: node.metadata.uid for node in world.objects.nodes}
    return tuple(
        NodeWrite(node, uids[node], document(spec))
        for node, spec in sorted(allocations.desired.items())
        if node not in allocations.frozen
        and (spec != allocations.current.get(node) or _epoch_is_stale(world.allocations[node]))
    )


def _epoch_is_stale(allocation: NodeAllocation) -> bool:
    """Return whether the agent has enforced a later epoch, and so refuses this one.

    This happens when Walras was removed without releasing its nodes, and installed again: agents
    remember their last epoch, and a new Lease starts from the first term.
    """
    epoch = (allocation.status or {}).get("epoch")
    return isinstance(epoch, int) and allocation.spec.epoch < epoch <= MOST_REPORTED


def current_spec(spec: NodeAllocationSpec) -> AllocationSpec:
    """Return the spec of a NodeAllocation in the form that decisions compare."""
    grants = sorted(
        GrantSpec(
            each.pod_uid,
            each.namespace,
            each.name,
            int(each.cores * MILLI),
            each.memory,
            bool(each.isolated),
            each.partner_uid or "",
            each.entitlement or "",
        )
        for each in spec.grants
    )
    return AllocationSpec(
        spec.mode,
        spec.unit,
        spec.memory_nodes,
        tuple(grants),
        spec.profiling,
        tuple(sorted(spec.counters, key=lambda each: each.pod_uid)),
        spec.limits,
    )


def document(desired: AllocationSpec) -> Document:
    """Return the spec of a NodeAllocation as the API server takes it, without its epoch."""
    spec: Document = {
        "mode": desired.mode,
        "unit": desired.unit,
        "memoryNodes": desired.memory_nodes,
        "grants": [_grant(each) for each in desired.grants],
    }
    if desired.limits is not None:
        spec["limits"] = desired.limits
    if desired.profiling is not None:
        spec["profiling"] = desired.profiling.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
    if desired.counters:
        spec["counters"] = [
            each.model_dump(mode="json", by_alias=True, exclude_none=True)
            for each in desired.counters
        ]
    return spec


def _grant(spec: GrantSpec) -> Document:
    whole, part = divmod(spec.millicores, MILLI)
    grant: Document = {
        "podUID": spec.uid,
        "namespace": spec.namespace,
        "name": spec.name,
        "cores": f"{whole}.{part:03d}".rstrip("0").rstrip("."),
    }
    if spec.memory is not None:
        grant["memory"] = as_quantity(spec.memory)
    if spec.isolated:
        grant["isolated"] = True
    if spec.partner:
        grant["partnerUID"] = spec.partner
    if spec.entitlement:
        grant["entitlement"] = spec.entitlement
    return grant


def _grantable(
    held: Sequence[tuple[Grant, Pod]],
    current: AllocationSpec | None,
    ungranted: dict[tuple[str, str], str],
) -> list[tuple[Grant, Pod]]:
    """Return the grants that a NodeAllocation can carry; add to ``ungranted`` why others cannot.

    Beyond the limit, pods that no kubelet has admitted, of which anybody can send any number to a
    node, stand back behind the others, and then pods without a grant behind those that have one.
    """
    seen: set[str] = set()
    valid: list[tuple[Grant, Pod]] = []
    for grant, pod in sorted(held, key=lambda each: _name(each[1])):
        uid = pod.metadata.uid
        if _UID.fullmatch(uid) is None:
            ungranted[_name(pod)] = f"its UID {uid[:64]!r} is invalid; delete and recreate the pod"
        elif uid in seen:
            ungranted[_name(pod)] = f"another pod on {grant.node} has its UID; delete one of them"
        else:
            seen.add(uid)
            valid.append((grant, pod))
    if len(valid) <= MOST_GRANTS:
        return valid
    has_grant = set() if current is None else {each.uid for each in current.grants}
    ranked = sorted(
        valid, key=lambda each: (not each[1].admitted, each[1].metadata.uid not in has_grant)
    )
    for grant, pod in ranked[MOST_GRANTS:]:
        ungranted[_name(pod)] = f"{grant.node} has {MOST_GRANTS} pods in the market, the limit"
    return sorted(ranked[:MOST_GRANTS], key=lambda each: _name(each[1]))


def _name(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name


def _isolated(world: World, rules: MarketSpec) -> frozenset[tuple[str, str]]:
    """Return the jobs whose pods have CPUs of their own, by namespace and name."""
    return frozenset(
        (job.metadata.namespace, job.metadata.name)
        for job in world.objects.jobs
        if has_own_cpus(job.spec, rules.cores)
    )


def _grants(
    held: Sequence[tuple[Grant, Pod]], isolated: Collection[tuple[str, str]]
) -> tuple[GrantSpec, ...]:
    """Return the grants of one node, sorted by pod UID.

    Partners are those that name each other, since whoever makes a pod can name any other one.
    """
    named = {pod.metadata.uid: pod.metadata.annotations.get(PARTNER_ANNOTATION) for _, pod in held}
    partners = {uid: other for uid, other in named.items() if other and named.get(other) == uid}
    return tuple(
        sorted(
            GrantSpec(
                pod.metadata.uid,
                pod.metadata.namespace,
                pod.metadata.name,
                max(round(grant.held * MILLI), 1),
                None if grant.memory is None else max(grant.memory, MIN_MEMORY_GRANT),
                (grant.namespace, grant.name) in isolated,
                partners.get(pod.metadata.uid, ""),
                grant.entitlement,
            )
            for grant, pod in held
        )
    )
