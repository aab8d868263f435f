"""The cluster of docs/tutorial.md after each of its steps, as documents for the dashboard.

The files of examples/cluster are applied, and programs are annotated and labelled by the page's own
commands. The operator's decisions are real; the node is a model kernel with the real agent on it.
Only the measurements of `train` are simulated: it speeds up as the program in programs.yaml.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from machines import machine
from measured_worlds import SAMPLE, Cluster, counts
from model_kernel import ModelKernel
from model_node import CORES, Node
from walras_agent.cpuset import CpuSet
from walras_agent.daemon.plans import node_plan
from walras_agent.daemon.report import ReconcileReport, status_of, topology_of
from walras_api import kinds
from walras_api.cluster import OwnerReference
from walras_api.selection import OwnerKey
from worlds import NOW, document, node, pod, world

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from walras_api.cluster import Pod
    from walras_api.kinds import AnyResource, Market
    from walras_api.node_allocation import NodeAllocation, ProfilingRequest

Document = dict[str, Any]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
EXAMPLES = ROOT / "examples" / "cluster"
NODE = "node-a"
MEMORY = 16 << 30

PODS = {
    "train": ("7d5df89548", "kgzbz"),
    "decode": ("5b9c7d6f4f", "x2lqm"),
    "align": ("6f4d8b7c95", "h7wnt"),
}
"""Names that a ReplicaSet and its pod get behind that of their Deployment."""

FIELDS = {"annotate": "annotations", "label": "labels"}
"""Fields that kubectl's commands write."""

SCATTER = (0.992, 1.0, 1.008)
"""Scatter of the three samples at each core count."""


def section(title: str) -> str:
    """Return a section of the page."""
    found = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert found, title
    return found


def figures(title: str, first: str) -> list[str]:
    """Return the rest of the row of a table in a section, by its first cell."""
    rows = [line.split() for line in section(title).splitlines()]
    found = [row[1:] for row in rows if row[:1] == [first]]
    assert len(found) == 1, (title, first)
    return found[0]


class AgentOfNode:
    """The real agent on a model kernel of eight cores.

    Args:
        folder: Folder for the agent's journal.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._node = Node(ModelKernel(2, cpus=CORES), folder)
        self._node.start_pod(uid_of("system"))

    def start_pod(self, name: str) -> None:
        """Start a container of a program, which begins with a thread that waits for the others."""
        self._node.start_pod(uid_of(name))
        container = self._node.container(uid_of(name))
        self._node.kernel.make(container, tasks=program_of(name).threads)

    def report(self, allocation: NodeAllocation) -> Document:
        """Let the agent enforce a plan, and return the status that it reports."""
        assert self._node.agent.offer(node_plan(allocation))
        for each in allocation.spec.grants:  # all programs compute, so that each has what it bought
            self._node.kernel.use(self._node.pod(each.pod_uid), float(each.cores), waited=1.0)
        for _ in range(20):
            status = self._node.step()
        topology = topology_of(machine(cores=CORES), CpuSet(), MEMORY)
        report = ReconcileReport(status, 0.0, topology, enforced=allocation.spec.epoch)
        return status_of(report, NOW).document()


def uid_of(name: str) -> str:
    """Return the UID of a program's pod."""
    return f"uid-{name}"


@dataclass
class TutorialCluster(Cluster):
    """The cluster of somebody who follows the page.

    Attributes:
        agent: The agent of its node.
    """

    agent: AgentOfNode = field(kw_only=True)

    def apply(self, *documents: Document) -> None:
        """Put objects, as kubectl apply does: statuses stay."""
        new, old = world(*documents).objects, self.world.objects
        known = {each.metadata.name: each.status for each in old.entitlements}
        entitlements = {each.metadata.name: each for each in old.entitlements} | {
            each.metadata.name: each.model_copy(update={"status": known.get(each.metadata.name)})
            for each in new.entitlements
        }
        controllers = dict(old.controllers)
        for each in new.pods:
            controllers |= controllers_of(each)
        objects = replace(
            old,
            entitlements=list(entitlements.values()),
            namespaces=[*old.namespaces, *new.namespaces],
            pods=[*old.pods, *new.pods],
            workloads=[*old.workloads, *new.workloads],
            controllers=controllers,
        )
        self.world = replace(self.world, objects=objects)

    def run(self, name: str) -> None:
        """Start the pod of a program."""
        self.agent.start_pod(name)

    def documents(self, others: Iterable[Document]) -> list[Document]:
        """Return all objects with their statuses, as kubectl prints them."""
        objects = self.world.objects
        ours: list[AnyResource | NodeAllocation] = [
            *objects.entitlements,
            *objects.jobs,
            *objects.profiles,
        ]
        ours += self.world.allocations.values()
        return [
            *others,
            *map(_document_of, ours),
            *(self._market_of(each) for each in self.world.markets),
        ]

    def _market_of(self, market: Market) -> Document:
        """Return the Market, with what the runtime of an operator adds to its status."""
        found = _document_of(market)
        (allocation,) = self.world.allocations.values()
        number = allocation.spec.epoch  # each decision has changed the only node's plan
        found["status"]["epoch"] = {"number": number, "time": NOW, "durationMilliseconds": 4}
        return found

    def _told(self, each: NodeAllocation) -> NodeAllocation:
        status = super()._told(each).status or {}
        measured = {"profiling": status["profiling"]} if "profiling" in status else {}
        return each.model_copy(update={"status": self.agent.report(each) | measured})

    def _complete(self, asked: ProfilingRequest, each: NodeAllocation) -> Document:
        """Return a complete measurement of `train`, which speeds up as programs.yaml says."""
        (grant,) = (one for one in each.spec.grants if one.pod_uid == asked.pod_uid)
        parallel, threads = program_of("train")
        samples = [
            {"cores": cores, "seconds": str(SAMPLE), "progress": f"{rate * SAMPLE * scatter:.6f}"}
            for scatter in SCATTER
            for cores in counts(int(grant.cores))
            for rate in [1e9 / (1 - parallel + parallel / min(cores, threads))]
        ]
        head = {"id": asked.id, "podUID": asked.pod_uid, "source": "instructions"}
        return {**head, "state": "Complete", "samples": samples}


class Program(NamedTuple):
    """A program in programs.yaml.

    Attributes:
        parallel: Part of its work that its threads share.
        threads: Number of its threads.
    """

    parallel: float
    threads: int


def program_of(name: str) -> Program:
    """Return a program in programs.yaml."""
    made = next(each for each in applied("programs") if each["metadata"]["name"] == name)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    (parallel,) = (each["value"] for each in container["env"] if each["name"] == "PARALLEL")
    threads = re.search(r"THREADS, PARALLEL = [\d_]+, (\d+),", container["command"][-1])
    assert threads is not None
    return Program(float(parallel), int(threads[1]))


def applied(name: str) -> list[Document]:
    """Return the documents of a file of examples/cluster, as the API server gives them."""
    found: list[Document] = []
    for each in yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()):
        found += each["items"] if each["kind"] == "List" else [each]
    for each in found:
        metadata = each["metadata"]
        metadata["uid"] = f"{each['kind']}-{metadata['name']}"
        metadata["generation"] = 1
    return found


def marked(workloads: Iterable[Document]) -> list[Document]:
    """Return Deployments with the annotations and labels that the page's commands give them."""
    found = {each["metadata"]["name"]: each for each in workloads}
    command = re.compile(r"^kubectl (annotate|label) (.*) -n \w+ (\S+)=(\S*)$", re.MULTILINE)
    marks = command.findall(section("Programs, and what a job is"))
    assert len(marks) == 4
    for verb, names, key, value in marks:
        for name in names.split():
            metadata = found[name.removeprefix("deployment/")]["metadata"]
            metadata.setdefault(FIELDS[verb], {})[key] = value
    return list(found.values())


def pod_of(deployment: Document) -> Document:
    """Return the pod that controllers and scheduler make of a Deployment."""
    name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
    template = deployment["spec"]["template"]
    code, suffix = PODS[name]
    controller = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{name}-{code}",
        "uid": f"ReplicaSet-{name}",
        "controller": True,
    }
    metadata = {
        "uid": uid_of(name),
        "labels": {**template["metadata"]["labels"], "pod-template-hash": code},
        "ownerReferences": [controller],
    }
    spec = {**template["spec"], "nodeName": NODE}
    return document(
        "Pod",
        f"{name}-{code}-{suffix}",
        namespace,
        metadata=metadata,
        spec=spec,
        status={"phase": "Running"},
    )


def controllers_of(each: Pod) -> Mapping[OwnerKey, OwnerReference | None]:
    """Return what the operator reads of a pod's ReplicaSet and Deployment."""
    namespace, owners = each.metadata.namespace, each.metadata.owner_references
    above = [
        OwnerReference.model_validate(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": owner.name.rpartition("-")[0],
                "uid": f"Deployment-{owner.name.rpartition('-')[0]}",
                "controller": True,
            }
        )
        for owner in owners
    ]
    chain = [*owners, *above, None]
    return {
        OwnerKey(namespace, lower): upper for lower, upper in pairwise(chain) if lower is not None
    }


def steps(folder: Path) -> Iterator[tuple[str, list[Document]]]:
    """Yield the cluster after each step of the page, with the step's name.

    Args:
        folder: Folder for the agents' journals.
    """
    first, others = _started(folder / "agent", measures=False)
    yield "entitled", first.documents(others)
    more = _with_programs(first, others)
    yield "labelled", first.documents(more)
    _change(first)
    yield "changed", first.documents(more)
    second, others = _started(folder / "measuring-agent", measures=True)
    more = _with_programs(second, others)
    second.steps(3)
    yield "measured", second.documents(more)


def _started(folder: Path, *, measures: bool) -> tuple[TutorialCluster, list[Document]]:
    """Return a cluster with the two teams, and its objects of Kubernetes."""
    others = [
        node(NODE, str(CORES)),
        pod("system", "system", NODE, namespace="walras-system", cpu="120m"),
        *(each for each in applied("teams") if each["kind"] == "Namespace"),
    ]
    others[1]["metadata"]["uid"] = uid_of("system")
    market = document(
        "Market", "default", spec={"epochSeconds": 5, "cores": {"requests": "WithinShare"}}
    )
    teams = [each for each in applied("teams") if each["kind"] == "Entitlement"]
    cluster = TutorialCluster(
        world(market, *others, *teams),
        {},
        mute=set() if measures else {NODE},
        agent=AgentOfNode(folder),
    )
    cluster.steps(2)
    return cluster, others


def _with_programs(cluster: TutorialCluster, others: list[Document]) -> list[Document]:
    """Let the three programs take part; return all objects of Kubernetes."""
    workloads = marked(applied("programs"))
    pods = [pod_of(each) for each in workloads]
    cluster.apply(*workloads, *pods)
    for each in workloads:
        cluster.run(each["metadata"]["name"])
    cluster.steps(3)
    return [*others, *pods]


def _change(cluster: TutorialCluster) -> None:
    cluster.apply(*applied("more-for-speech"))
    cluster.steps(9)  # until what is used is seen for as long as means last


def _document_of(of: AnyResource | NodeAllocation) -> Document:
    """Return an object as the API server gives it: with what was written, and no defaults."""
    made: Document = of.model_dump(mode="json", by_alias=True, exclude_unset=True)
    metadata = {key: value for key, value in of.metadata.model_dump(by_alias=True).items() if value}
    if of.kind not in kinds.NAMESPACED:
        metadata.pop("namespace")
    return {**made, "metadata": metadata, "status": dict(of.status or {})}
