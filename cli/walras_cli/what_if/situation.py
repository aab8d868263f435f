"""Pure: a market that can be cleared, from documents or as the operator would take a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walras_api import cluster, kinds
from walras_api.contract import MARKET_NAME
from walras_api.market_job import TargetRef
from walras_cli.cluster.use import use_in
from walras_cli.documents import time_of
from walras_cli.what_if.owners import controllers_in
from walras_operator.decide.conditions import Problem
from walras_operator.decide.credits.account import account_now
from walras_operator.decide.deadlines.follow import follow, with_deadlines
from walras_operator.decide.last_decision import (
    carried,
    core_account,
    ledger_account,
    names_of_entitlements,
)
from walras_operator.decide.validation import validate
from walras_operator.decide.workload_jobs import workload_jobs
from walras_operator.decide.world import World, reference_of
from walras_service.failures import BadInput
from walras_service.times import rfc3339
from walras_view.facts import NOT_ASKED
from walras_view.text import listed, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from walras.market.snapshot import Node, Snapshot
    from walras_api.assembly import Objects
    from walras_api.kinds import AnyResource, MarketSpec
    from walras_cli.cluster_documents import Documents
    from walras_operator.decide.deadlines.follow import FollowedJob
    from walras_operator.decide.validation import Validated
    from walras_view.facts import Use

MOST_NAMED = 3
"""Nodes that a note names."""

NODE = "localhost"
"""The name of the one node that --cores stands for."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A market that can be cleared.

    Attributes:
        snapshot: Input of the market.
        objects: Objects that the snapshot was made of, with the rules of the Market.
        notes: Lines for people about objects that take no part, and figures that are unknown.
        use: What pods use, as far as that is known.
    """

    snapshot: Snapshot
    objects: Objects
    notes: tuple[str, ...]
    use: Use = NOT_ASKED

    @property
    def rules(self) -> MarketSpec:
        """Rules of the Market."""
        return self.objects.rules


def situation_of_documents(documents: Documents, names: str, cores: int | None) -> Situation:
    """Take documents as the operator would take a cluster, but accept none that is unusable.

    Args:
        documents: Documents that describe a whole cluster.
        names: Names of their files, for messages.
        cores: Cores of one node in place of Nodes and Pods; None to use those of the documents.

    Raises:
        BadInput: Some documents cannot be used; it has a line for each.
    """
    objects = with_jobs_of_labels(documents)
    if not objects.jobs:
        raise WithoutMarketError(
            f"{names}: contains no MarketJob, and no pod with the label walras.dev/job to make one "
            "for; start the labelled workload and run `kubectl get nodes,pods,ns -A -o yaml | "
            "walras what-if -f -`, or write a MarketJob for it as in examples/cluster/jobs.yaml",
            documents,
            use_in(documents.written),
        )
    if cores is not None:
        objects = on_one_node(objects, cores)
    agents = frozenset(node.metadata.name for node in objects.nodes)
    allocations = documents.allocations if cores is None else {}
    world = World(
        now="",
        objects=objects,
        markets=documents.markets,
        allocations=allocations,
        agents=agents,
    )
    validated = validate(world, objects.rules)
    if unusable := tuple(_unusable(validated)):
        raise BadInput(*(f"{names}: {each}" for each in unusable))
    made = _situation_of(replace(world, now=rfc3339(time_of(documents.written))), validated)
    return replace(made, use=use_in(documents.written))


class WithoutMarketError(BadInput):
    """A cluster has no jobs in a market, since Walras is not installed in it.

    Args:
        problem: What is missing, and the way out.
        documents: The objects that the cluster has.
        use: What its pods use, as far as that is known.
    """

    def __init__(self, problem: str, documents: Documents, use: Use = NOT_ASKED) -> None:
        super().__init__(problem)
        self.documents, self.use = documents, use


def with_jobs_of_labels(documents: Documents) -> Objects:
    """Return the objects of documents with the MarketJobs that the operator would make for labels.

    MarketJobs that are there already stay as they are.
    """
    objects = documents.objects
    objects = replace(objects, controllers=controllers_in(documents.written, objects.pods))
    world = World(now="", objects=objects, markets=documents.markets)
    there = {reference_of(each) for each in objects.jobs}
    made = [
        kinds.MarketJob.model_validate(each.document)
        for each in workload_jobs(world, objects.rules).writes
        if each.document is not None and each.object not in there
    ]
    return replace(objects, jobs=[*objects.jobs, *made])


def on_one_node(objects: Objects, cores: int) -> Objects:
    """Return the same jobs with a single pod each, all on one node that sells that many cores."""
    rules = objects.rules.cores.model_copy(update={"reserved_cores": 0})
    node = {"kind": "Node", "metadata": {"name": NODE}, "status": {"allocatable": {"cpu": cores}}}
    return replace(
        objects,
        nodes=[cluster.NodeObject.model_validate(node)],
        pods=[_only_pod(job.metadata.namespace, job.metadata.name) for job in objects.jobs],
        jobs=[_with_only_pod(job) for job in objects.jobs],
        rules=objects.rules.model_copy(update={"cores": rules}),
    )


def _only_pod(namespace: str, name: str) -> cluster.Pod:
    metadata = {"namespace": namespace, "name": name, "uid": f"{namespace}/{name}"}
    return cluster.Pod.model_validate(
        {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": NODE}}
    )


def _with_only_pod(job: kinds.MarketJob) -> kinds.MarketJob:
    target = {"apiVersion": "v1", "kind": "Pod", "name": job.metadata.name}
    spec = job.spec.model_copy(
        update={"target_ref": TargetRef.model_validate(target), "selector": None}
    )
    return job.model_copy(update={"spec": spec})


def situation_of_world(world: World, objects: Objects) -> Situation:
    """Take a cluster as the operator would.

    Args:
        world: Live cluster.
        objects: Objects to use in place of those of the cluster, with their rules.
    """
    changed = _changed(world, objects)
    validated = validate(changed, objects.rules)
    broken = [
        f"{reference.title}: {'; '.join(each.problems)}"
        for reference, each in sorted(world.broken.items())
        if reference in changed.broken
    ]
    return _situation_of(changed, validated, *broken, *_unusable(validated))


def _situation_of(world: World, validated: Validated, *notes: str) -> Situation:
    """Return what the market would clear, with the cores and credits of its last decision."""
    before, credit, stored = carried(world), ledger_account(world), core_account(world)
    ledger = None
    if not isinstance(credit, Problem):
        names = names_of_entitlements(world)
        ledger = None if credit.closing is None else credit.closing.part_of(names)
    elif validated.objects.rules.memory.mechanism == "Karma":
        notes += (f"Market {MARKET_NAME}: its credits cannot be read; all users get the same",)
    followed = follow(world, validated)
    snapshot = with_deadlines(validated.assembled.snapshot, followed, world.now)
    if not isinstance(stored, Problem):
        rules, entitlements = validated.objects.rules, snapshot.entitlements
        unusable = set(names_of_entitlements(world)) - {each.name for each in entitlements}
        owed = account_now(stored, world.now, rules, entitlements, unusable)
        snapshot = replace(snapshot, account=owed)
    snapshot = replace(snapshot, held=before.held, ledger=ledger)
    notes = (*notes, *_closed_nodes(validated), *_uncounted(validated.objects, snapshot.nodes))
    notes += (*_unknown_namespaces(validated.objects), *_unknown_work(followed))
    notes += validated.assembled.notes
    return Situation(snapshot, validated.objects, notes)


def _unknown_namespaces(objects: Objects) -> Iterator[str]:
    """Yield which Entitlements admit namespaces that are none; without any, all may be."""
    known = {each.metadata.name for each in objects.namespaces}
    for each in objects.entitlements if known else ():
        if names := unknown(each.spec.namespaces or (), known):
            yield f"Entitlement {each.metadata.name}: there is no namespace {names}"


def _uncounted(objects: Objects, selling: Iterable[Node]) -> Iterator[str]:
    """Yield which nodes sell CPUs as if each was a core, since nobody has counted their cores."""
    if objects.rules.cores.unit == "core":
        names = [each.name for each in selling if each.name not in objects.topologies]
        if names and names != [NODE]:
            yield (
                f"nodes whose cores no agent has counted, so that each CPU counts as a core, with "
                f"hyperthreads, too: {listed(names, MOST_NAMED)}"
            )


def _unknown_work(followed: Mapping[tuple[str, str], FollowedJob]) -> Iterator[str]:
    """Yield a line on each deadline that cannot be taken into account."""
    for (namespace, name), job in followed.items():
        if any(each.left is None for each in job.pods):
            yield (
                f"MarketJob {namespace}/{name}: its deadline is ignored, since its remaining work "
                f"is unknown; see docs/deadlines.md"
            )


def _changed(world: World, objects: Objects) -> World:
    """Return a cluster with other objects: what was broken may be right, and new nodes sell."""
    own: tuple[AnyResource, ...] = (*objects.entitlements, *objects.jobs, *objects.profiles)
    right = {reference_of(each) for each in own}
    nodes = {each.metadata.name for each in world.objects.nodes}
    new = {each.metadata.name for each in objects.nodes} - nodes
    return replace(
        world,
        objects=objects,
        broken={name: each for name, each in world.broken.items() if name not in right},
        agents=world.agents | new,
    )


def _unusable(validated: Validated) -> Iterator[str]:
    """Yield a line on each object that takes no part; refused jobs are listed in the plan."""
    for name, problem in validated.entitlements.items():
        yield f"Entitlement {name}: {problem.message}"
    for (namespace, name), problem in validated.jobs.items():
        if (namespace, name) not in validated.assembled.refused:
            yield f"MarketJob {namespace}/{name}: {problem.message}"


def _closed_nodes(validated: Validated) -> Iterator[str]:
    shut = [f"{name} {why}" for name, why in validated.closed.items()]
    if shut:
        yield f"nodes that sell no cores: {listed(shut)}"
