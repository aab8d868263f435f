"""Clusters in files for the dashboard: decided on by the operator, and reported on by agents."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from large_worlds import cluster
from walras_agent.cpuset import CpuSet
from walras_agent.node_plan import EnforcedGrant
from walras_agent.pod_cpus import allocate_cpus
from walras_agent.topology import Cpu, Topology
from walras_api.contract import MARKET_NAME, OPERATOR
from walras_service.kinds import LEASES
from whole_decisions import decide
from worlds import NOW, allocation, document, entitlement, job, market, node, outcome, pod, world

if TYPE_CHECKING:
    from pathlib import Path

    from walras_api.node_allocation import NodeAllocation, PodGrant

Document = dict[str, Any]

SOCKETS = 2


def lab(shares: int = 2) -> list[Document]:
    """Return three nodes of two sockets, four users in a tree, and jobs of all sizes.

    Args:
        shares: Shares of one of the users.
    """
    documents = [
        market(
            MARKET_NAME,
            epochSeconds=5,
            cores={"reservedCores": 1},
            memory={"sliceSize": "1Gi"},
        ),
        _node("node-1", 32, "large"),
        _node("node-2", 32, "large"),
        _node("node-3", 16, "small"),
        entitlement("engineering", shares=3),
        entitlement("vision-lab", shares=2, parent="engineering", namespaces=["vision"]),
        entitlement("speech-lab", shares=1, parent="engineering", namespaces=["speech"]),
        entitlement("batch", shares=1, namespaces=["batch"]),
        entitlement("astronomy", shares=shares, namespaces=["astronomy"]),
    ]
    documents += [
        _profile("train", "vision", 0.985),
        _profile("simulate", "astronomy", 0.94),
        *_job("train", "vision-lab", "vision", "12Gi", ["node-1", "node-2"], profile="train"),
        *_job("render", "vision-lab", "vision", "3Gi", ["node-1"], parallelFraction="0.82"),
        *_job("label", "vision-lab", "vision", "1Gi", ["node-3"], parallelFraction="0.1"),
        *_job("decode", "speech-lab", "speech", "6Gi", ["node-2", "node-3"]),
        *_job("align", "speech-lab", "speech", "2Gi", ["node-1"], parallelFraction="0.7"),
        *_job("serve", "speech-lab", "speech", "1Gi", ["node-3"], parallelFraction="0.05"),
        *_job("index", "batch", "batch", "16Gi", ["node-2"], parallelFraction="0.96"),
        *_job("report", "batch", "batch", "2Gi", ["node-3"], parallelFraction="0.6", isolated=True),
        *_job("simulate", "astronomy", "astronomy", "9Gi", ["node-1"], profile="simulate"),
        *_job(
            "reduce",
            "astronomy",
            "astronomy",
            "4Gi",
            ["node-3"],
            parallelFraction="0.88",
            isolated=True,
        ),
        job("lost", "nobody", "batch"),
        pod("web-0", "web", "node-2", namespace="default", cpu="1500m"),
    ]
    return _decided(documents)


def troubled() -> list[Document]:
    """Return two nodes on which two pods starve, and a user has less than its entitlement.

    The pods belong to a user with hardly any shares; the user is short of cores that the request of
    another one keeps.
    """
    documents = [
        market(MARKET_NAME, cores={"floor": "Requests"}),
        _node("node-1", 32, "large"),
        _node("node-2", 16, "small"),
        entitlement("guests", shares=1, namespaces=["guests"]),
        entitlement("research", shares=400, namespaces=["research"]),
        entitlement("operations", shares=200, namespaces=["operations"]),
        job("notebook", "guests", "guests", parallelFraction="0.5"),
        pod("notebook-0", "notebook", "node-2", namespace="guests", cpu="20m"),
        pod("notebook-1", "notebook", "node-2", namespace="guests", cpu="20m"),
        *_job("train", "research", "research", "8Gi", ["node-1"], parallelFraction="0.98"),
        *_job("sweep", "research", "research", "4Gi", ["node-2"], parallelFraction="0.9"),
        job("serve", "operations", "operations", parallelFraction="0.7"),
        pod("serve-0", "serve", "node-1", namespace="operations", cpu="26"),
    ]
    return _decided(documents)


def leases(nodes: list[str]) -> list[Document]:
    """Return the Leases of an operator and of agents that are alive for a day."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return [
        {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "walras-system", "labels": labels},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 86400, "renewTime": now},
        }
        for name, holder, labels in (
            (OPERATOR, OPERATOR, {}),
            *((f"walras-agent-{each}", each, {"walras.dev/lease": "agent"}) for each in nodes),
        )
    ]


def large(nodes: int = 1000, pods: int = 10_000, users: int = 100) -> list[Document]:
    """Return nodes, and as many jobs of one pod each as there are pods, of up to 100 users."""
    documents = [each for each in cluster(nodes, 0, "64Gi") if each["kind"] != "MarketJob"]
    documents[0]["metadata"]["name"] = MARKET_NAME
    for index in range(pods):
        user, fraction = f"user-{index % users}", f"0.{500 + index * 37 % 490}"
        memory = {"demand": f"{1 + index % 4}Gi"}
        name = f"job-{index}"
        documents.append(job(name, user, parallelFraction=fraction, memory=memory))
        documents.append(pod(f"{name}-0", name, f"node-{(index + index // 100 * 37) % nodes}"))
    return _decided(documents)


def write(path: Path, documents: list[Document]) -> Path:
    """Write documents into a file, as a list like kubectl prints it."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    return path


def _node(name: str, cpus: int, pool: str) -> Document:
    made = node(name, str(cpus))
    made["metadata"]["labels"] = {"pool": pool}
    made["status"]["allocatable"]["memory"] = f"{cpus}Gi"
    return made


def _job(
    name: str, user: str, namespace: str, memory: str, nodes: list[str], **spec: Any
) -> list[Document]:
    pods = [
        pod(f"{name}-{index}", name, place, namespace=namespace)
        for index, place in enumerate(nodes)
    ]
    return [job(name, user, namespace, memory={"demand": memory}, **spec), *pods]


def _profile(name: str, namespace: str, fraction: float) -> Document:
    """Return measurements that scatter around a parallel fraction, always the same."""
    measurements = []
    for index, cores in enumerate((1, 2, 4, 8, 12)):
        mean = 60 * (1 - fraction + fraction / cores) * (1 + 0.004 * (cores - 1))
        scatter = 0.03 * (1 + index % 3) / 2
        seconds = [f"{mean * (1 + each * scatter):.3f}" for each in (-1, 0.2, 0.8)]
        measurements.append({"cores": cores, "seconds": seconds})
    made = document("SpeedupProfile", name, namespace, spec={"measurements": measurements})
    made["metadata"].pop("generation")
    return made


def _decided(documents: list[Document]) -> list[Document]:
    """Return documents with the statuses after a decision that agents have enforced."""
    nodes = [each for each in documents if each["kind"] == "Node"]
    known = {
        each["metadata"]["name"]: allocation(
            each["metadata"]["name"], {"epoch": 0}, {"topology": _topology(each)}
        )
        for each in nodes
    }
    at = world(*documents, allocations=known)
    at = outcome(at, decide(at))
    for _ in range(2):  # an agent that has answered is told fields of a plan that are new
        reports = {name: _reported(each) for name, each in at.allocations.items()}
        at = replace(at, allocations=reports)
        at = outcome(at, decide(at))
    found = [*at.objects.entitlements, *at.objects.jobs, *at.objects.profiles, *at.markets]
    statuses = {each.metadata.uid: dict(each.status) for each in found if each.status}
    for each in at.markets:
        statuses[each.metadata.uid]["epoch"] = {
            "number": 19,
            "time": NOW,
            "durationMilliseconds": 4,
        }
    return [_with_status(each, statuses) for each in documents] + [
        _document_of(each) for each in at.allocations.values()
    ]


def _document_of(of: NodeAllocation) -> Document:
    made: Document = of.model_dump(mode="json", by_alias=True, exclude_none=True)
    metadata = {"name": of.metadata.name, "uid": f"NodeAllocation-{of.metadata.name}"}
    return {**made, "metadata": {**metadata, "generation": 1}, "status": of.status}


def _with_status(of: Document, statuses: dict[str, Document]) -> Document:
    status = statuses.get(of["metadata"]["uid"])
    return of if status is None else {**of, "status": status}


def _topology(of: Document) -> Document:
    """Return two threads for each core, the second ones numbered after all first ones."""
    cpus = int(of["status"]["allocatable"]["cpu"])
    cores = cpus // 2
    layout = [
        {
            "socket": core * SOCKETS // cores,
            "numaNode": core * SOCKETS // cores,
            "cpus": f"{core},{core + cores}",
        }
        for core in range(cores)
    ]
    return {
        "cpus": f"0-{cpus - 1}",
        "cores": cores,
        "threads": cpus,
        "sockets": SOCKETS,
        "numaNodes": SOCKETS,
        "reserved": f"0,{cores}",
        "memory": str(cpus * 2**30),
        "layout": layout,
    }


def _reported(of: NodeAllocation) -> NodeAllocation:
    """Return a plan with the report of an agent that has chosen CPUs as the real one does."""
    status: Document = dict(of.status or {})
    machine, reserved = _machine(status["topology"]), CpuSet.parse(status["topology"]["reserved"])
    placed = allocate_cpus(machine, map(_enforced, of.spec.grants), {}, reserved=reserved)
    pods = [_report(grant, placed.pods[grant.pod_uid].cpus) for grant in of.spec.grants]
    status |= {
        "epoch": of.spec.epoch,
        "enforcedEpoch": of.spec.epoch,
        "acceptsNewFields": True,
        "mode": "enforce",
        "sharedCpus": str(placed.shared),
        "pods": pods,
        "conditions": [_condition(len(pods))],
    }
    return of.model_copy(update={"status": status})


def _machine(topology: Document) -> Topology:
    """Return the CPUs of a report; those of a socket have their last-level cache in common."""
    cores = [(place["socket"], list(CpuSet.parse(place["cpus"]))) for place in topology["layout"]]
    first = {socket: min(min(cpus) for at, cpus in cores if at == socket) for socket, _ in cores}
    return Topology(
        tuple(
            Cpu(id=cpu, core=min(cpus), socket=socket, numa=socket, l3=first[socket])
            for socket, cpus in cores
            for cpu in cpus
        )
    )


def _enforced(grant: PodGrant) -> EnforcedGrant:
    """Return what an agent makes of a grant."""
    title = f"{grant.namespace}/{grant.name}"
    millicores = max(1, int(1000 * Fraction(grant.cores)))
    return EnforcedGrant(grant.pod_uid, title, millicores, isolated=bool(grant.isolated))


def _condition(grants: int) -> Document:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "Enforced",
        "message": f"{grants} grants enforced",
        "lastTransitionTime": NOW,
    }


def _report(grant: PodGrant, cpus: CpuSet) -> Document:
    report = {
        "podUID": grant.pod_uid,
        "namespace": grant.namespace,
        "name": grant.name,
        "cpus": str(cpus),
        "state": "Enforced",
        "reason": "",
    }
    return report if grant.memory is None else {**report, "memory": str(grant.memory)}
