"""Worlds for the operator to decide about: builders of objects, and the effects of decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from walras_api.assembly import Objects
from walras_api.cluster import Namespace, NodeObject, Pod, Workload
from walras_api.kinds import EntitlementObject, Market, MarketJob, SpeedupProfile
from walras_api.parse import ResourceError, parse_allocation, parse_object
from walras_operator.decide.world import Broken, Document, Reference, World, reference_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_api.node_allocation import NodeAllocation
    from whole_decisions import Decision

NOW = "2026-01-31T12:00:00Z"
LATER = "2026-01-31T12:00:05Z"
NEXT_QUANTUM = "2026-01-31T12:00:15Z"
T = TypeVar("T")


def document(kind: str, name: str, namespace: str | None = None, **fields: Any) -> Document:
    """Return an object of a cluster as the API server gives it."""
    own = kind in {"Entitlement", "MarketJob", "SpeedupProfile", "Market"}
    metadata = {
        "name": name,
        "uid": f"{kind}-{namespace or ''}-{name}",
        "generation": 1,
        **fields.pop("metadata", {}),
    }
    if namespace is not None:
        metadata["namespace"] = namespace
    return {
        "apiVersion": "walras.dev/v1alpha1" if own else "v1",
        "kind": kind,
        "metadata": metadata,
        **fields,
    }


def market(name: str = "default", **spec: Any) -> Document:
    """Return a Market that moves cores for small gains, and never only because time passes."""
    cores = {"hysteresis": "0", "requests": "Always", **spec.pop("cores", {})}
    return document("Market", name, spec={"cores": cores, **spec})


def entitlement(name: str = "vision", **spec: Any) -> Document:
    """Return an Entitlement of one share that the namespace ``lab`` may draw on."""
    least = {} if "namespaceSelector" in spec else {"namespaces": ["lab"]}
    return document("Entitlement", name, spec={"shares": 1, **least, **spec})


def job(
    name: str = "train", entitlement: str = "vision", namespace: str = "lab", **spec: Any
) -> Document:
    """Return a MarketJob whose pods are labelled ``app: NAME``."""
    created = {"creationTimestamp": spec.pop("created", None)}
    if not {"selector", "targetRef", "command"} & spec.keys():
        spec["selector"] = {"matchLabels": {"app": name}}
    if not {"profile", "parallelFraction", "auto"} & spec.keys():
        spec["parallelFraction"] = "0.9"
    spec.pop("auto", None)
    return document(
        "MarketJob", name, namespace, metadata=created, spec={"entitlement": entitlement, **spec}
    )


def profile(name: str, namespace: str = "lab", **spec: Any) -> Document:
    """Return a SpeedupProfile."""
    return document("SpeedupProfile", name, namespace, spec=spec)


def node(name: str = "n1", cpu: str = "8", *, ready: bool = True, **spec: Any) -> Document:
    """Return a Node."""
    return document(
        "Node",
        name,
        spec=spec,
        status={
            "allocatable": {"cpu": cpu, "memory": "16Gi"},
            # As the API server gives a time that nobody has set.
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": None}],
        },
    )


def pod(
    name: str,
    app: str = "train",
    place: str | None = "n1",
    *,
    namespace: str = "lab",
    phase: str = "Running",
    cpu: str = "1",
    **metadata: Any,
) -> Document:
    """Return a Pod that is labelled ``app: APP``."""
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    return document(
        "Pod",
        name,
        namespace,
        metadata={"labels": {"app": app}, "uid": f"u-{namespace}-{name}", **metadata},
        spec={"nodeName": place, "containers": [{"name": "main", "resources": resources}]},
        status={"phase": phase},
    )


def world(*documents: Document, agents: set[str] | None = None, **fields: Any) -> World:
    """Return a world of these objects, sorted as the runtime does; all agents live if not given."""
    found: list[Any] = []
    broken: dict[Reference, Broken] = {}
    for each in documents:
        try:
            found.append(parse_object(each))
        except ResourceError as error:
            metadata = each["metadata"]
            namespace = metadata.get("namespace", "")
            reference = Reference(each["kind"], metadata["name"], namespace, metadata["uid"])
            broken[reference] = Broken(error.problems, 1, each.get("status"))

    def those(kind: type[T]) -> list[T]:
        return [each for each in found if isinstance(each, kind)]

    nodes = those(NodeObject)
    return World(
        now=NOW,
        objects=Objects(
            entitlements=those(EntitlementObject),
            jobs=those(MarketJob),
            profiles=those(SpeedupProfile),
            nodes=nodes,
            pods=those(Pod),
            namespaces=those(Namespace),
            workloads=those(Workload),
        ),
        markets=those(Market),
        broken=broken,
        agents=frozenset({each.metadata.name for each in nodes} if agents is None else agents),
        **fields,
    )


def allocation(name: str, spec: Document, status: Document | None = None) -> NodeAllocation:
    """Return a NodeAllocation as the API server gives it."""
    return parse_allocation(
        {
            "apiVersion": "walras.dev/v1alpha1",
            "kind": "NodeAllocation",
            "metadata": {"name": name},
            "spec": spec,
            **({} if status is None else {"status": status}),
        }
    )


def outcome(before: World, decision: Decision, *, leader_changes: bool = False) -> World:
    """Return the world after all of a decision has been written; the rest are the same objects."""
    written = {each.object: _stamped(each.object, each.status) for each in decision.statuses}

    def shown(resource: Any) -> Any:
        status = written.get(reference_of(resource))
        return resource if status is None else resource.model_copy(update={"status": status})

    placed = {each.pod.uid: each.after for each in decision.placements}
    objects = before.objects
    allocations = dict(before.allocations)
    for each in decision.nodes:
        present = allocations.get(each.node)
        epoch = 1 if present is None else present.spec.epoch + 1
        status = None if present is None else present.status
        allocations[each.node] = allocation(each.node, {"epoch": epoch, **each.spec}, status)
    return replace(
        before,
        now=LATER,
        objects=replace(
            objects,
            entitlements=[shown(each) for each in objects.entitlements],
            jobs=[shown(each) for each in jobs_after(objects.jobs, decision)],
            profiles=[shown(each) for each in (*objects.profiles, *made(decision))],
            pods=[placed.get(each.metadata.uid, each) for each in objects.pods],
        ),
        markets=[shown(each) for each in before.markets],
        broken={
            reference: replace(each, status=written.get(reference, each.status))
            for reference, each in before.broken.items()
        },
        allocations=allocations,
        carried=None if leader_changes else decision.carried,
    )


def made(decision: Decision) -> list[SpeedupProfile]:
    """Return the profiles that a decision creates, as the API server gives them."""
    found = []
    for each in decision.profiles:
        metadata = {**each.document["metadata"], "uid": f"SpeedupProfile-{each.object.name}"}
        resource = parse_object({**each.document, "metadata": metadata})
        assert isinstance(resource, SpeedupProfile)
        found.append(resource)
    return found


def jobs_after(jobs: Sequence[MarketJob], decision: Decision) -> list[MarketJob]:
    """Return the MarketJobs after a decision's writes of those that belong to workloads."""
    after = {reference_of(each): each for each in jobs}
    for write in decision.jobs:
        if write.document is None:
            del after[write.object]
            continue
        uid = f"MarketJob-{write.object.namespace}-{write.object.name}"
        metadata = {**write.document["metadata"], "uid": uid}
        resource = parse_object({**write.document, "metadata": metadata})
        assert isinstance(resource, MarketJob)
        after[reference_of(resource)] = resource
    return list(after.values())


def _stamped(reference: Reference, status: Document) -> Document:
    """Return a status with the fields that the operator's runtime adds when it writes it."""
    if reference.kind != "Market":
        return status
    return {**status, "leader": "operator-0", "epoch": {"number": 7, "time": NOW}}


def enforced(before: World, state: str = "Enforced", reason: str = "") -> World:
    """Return the world after all agents have reported a state for every grant of their plans."""

    def told(each: NodeAllocation) -> NodeAllocation:
        pods = [
            {"podUID": grant.pod_uid, "state": state, "reason": reason}
            for grant in each.spec.grants
        ]
        status = {
            "epoch": each.spec.epoch,
            "mode": each.spec.mode,
            "acceptsNewFields": True,
            "pods": pods,
        }
        return each.model_copy(update={"status": status})

    return replace(
        before, allocations={name: told(each) for name, each in before.allocations.items()}
    )


def status(decision: Decision, kind: str, name: str, namespace: str = "") -> Document:
    """Return the status that a decision writes for one object."""
    wanted = Reference(kind, name, namespace)
    return next(each.status for each in decision.statuses if each.object == wanted)


def condition(
    decision: Decision, kind: str, name: str, namespace: str = "", *, type_: str = "Ready"
) -> tuple[str, str, str]:
    """Return status, reason and message of a condition that a decision writes for one object."""
    conditions = status(decision, kind, name, namespace)["conditions"]
    found = next(each for each in conditions if each["type"] == type_)
    return found["status"], found["reason"], found["message"]


def grants(decision: Decision) -> dict[str, dict[str, str]]:
    """Return the cores that a decision grants to each pod, by node."""
    return {
        each.node: {grant["name"]: grant["cores"] for grant in each.spec["grants"]}
        for each in decision.nodes
    }
