"""Assemble a snapshot of the market from a cluster's objects, with notes on what was left out.

Each pod of a MarketJob is a job of the snapshot. A node sells its allocatable resources, less the
Market's reserve and the requests of all other pods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from walras.market import snapshot as core
from walras.market.admission import AccessPolicy
from walras.market.snapshot import PlacementConstraints, PoolPrices
from walras_api.assembly_notes import fed_by_cpus, notes_on_gpus, notes_on_jobs, notes_on_pods
from walras_api.job_inputs import (
    Name,
    Speedup,
    bandwidth_of,
    bid_of,
    holds_whole_cores,
    measured_penalties,
    most_cpus,
    profile_of,
    shows_penalties,
    speedup_of,
    was_seen_alone,
)
from walras_api.jobs_of_pods import jobs_of_pods
from walras_api.kept import Kept
from walras_api.kinds import MarketJob, MarketSpec
from walras_api.market import CoreCreditsPolicy
from walras_api.modes import left_out, mode_of_namespace, mode_of_node
from walras_api.placings import with_placings
from walras_api.selection import Selection, select
from walras_api.supply import (
    Taken,
    Units,
    cores_per_cpu,
    for_sale,
    pool_of,
    taken_by,
    why_closed,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from walras_api.cluster import Namespace, NodeObject, Pod, Workload
    from walras_api.contract import Mode
    from walras_api.kinds import EntitlementObject, SpeedupProfile
    from walras_api.market_job import MarketJobSpec
    from walras_api.model import Metadata
    from walras_api.selection import Controllers
    from walras_api.supply import ProcessorCounts


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of a cluster.

    Attributes:
        workloads: Labelled Jobs, Deployments and StatefulSets.
        controllers: Controllers of the owners of pods that were looked up; None for owners without.
        topologies: Topologies that nodes' agents have reported, by name of the node.
        demands: Bytes of memory that pods could use, as agents have reported, by UID.
    """

    entitlements: Sequence[EntitlementObject] = ()
    jobs: Sequence[MarketJob] = ()
    profiles: Sequence[SpeedupProfile] = ()
    nodes: Sequence[NodeObject] = ()
    pods: Sequence[Pod] = ()
    namespaces: Sequence[Namespace] = ()
    workloads: Sequence[Workload] = ()
    controllers: Controllers = field(default_factory=dict)
    rules: MarketSpec = field(default_factory=MarketSpec)
    topologies: Mapping[str, ProcessorCounts] = field(default_factory=dict)
    demands: Mapping[str, int] = field(default_factory=dict)


class Assembled(NamedTuple):
    """A snapshot, and how it was assembled.

    Attributes:
        notes: One line for everything that takes no part or is unknown.
        selection: MarketJob of each pod, without its status.
        absent: Reason why a job's pod takes no part, by the pod's position.
        left_out: Those of them that modes of namespaces leave out.
        refused: Reason why a job may not use its entitlement, by namespace and name.
    """

    snapshot: core.Snapshot
    notes: tuple[str, ...]
    selection: Selection
    absent: Mapping[int, str]
    left_out: Mapping[int, str]
    refused: Mapping[Name, str]


def assemble(
    objects: Objects,
    without: Collection[Name] = frozenset(),
    frozen: Collection[str] = frozenset(),
    kept: Kept | None = None,
    modes: Mapping[str, Mode] | None = None,
) -> Assembled:
    """Assemble a snapshot of a cluster.

    Pods whose job may not use its entitlement keep what they have requested, like all pods outside
    the market.

    Args:
        objects: Objects of the cluster.
        without: MarketJobs that take no part; no other job owns their pods.
        frozen: Nodes that keep their division, and therefore count even if they are not ready.
        kept: Results of the last time; none if not given.
        modes: Modes of nodes; those that they are to have if not given.

    Raises:
        ValueError: A profile that a job names does not exist or cannot be used.
    """
    kept = kept or Kept()
    notes: list[str] = []
    bare, selection = select_pods(objects, kept)
    known = _Known.of(objects, bare, without, kept)
    refused = known.refused()
    outside = frozenset({*without, *refused})
    barred = _barred(objects, selection, modes, kept)
    taken = kept.of("", _taken_outside, selection, outside, objects.pods, barred)
    nodes, units = _nodes(objects, taken, frozen, notes, kept)
    jobs, absent = kept.of(
        "",
        jobs_of_pods,
        selection,
        known.jobs,
        objects.pods,
        units,
        objects.demands,
        known.most_cpus,
        objects.rules.cores,
        kept.part("jobs of pods"),
        barred,
    )
    if any(not job.node for job in jobs):
        now = {_key(job): job for job in objects.jobs}
        owners = {number: now[_key(job)] for number, job in selection.job.items()}
        nodes, jobs = with_placings(objects.pods, owners, objects.nodes, nodes, jobs)
    notes += notes_on_pods(objects.pods, selection, absent)
    told: Sequence[Name] = ()
    if objects.rules.cores.per_gpu is None:
        told = fed_by_cpus(objects.pods, selection, known.speedups)
    notes += notes_on_gpus(told, objects.nodes)
    with_pods = {id(job): _key(job) for job in selection.job.values()}.values()
    notes += notes_on_jobs(known.speedups, with_pods, told)
    return Assembled(
        core.Snapshot(known.entitlements, tuple(nodes), jobs, _penalties(objects.profiles)),
        tuple(notes),
        selection,
        absent,
        barred,
        refused,
    )


def select_pods(objects: Objects, kept: Kept) -> tuple[list[MarketJob], Selection]:
    """Return the MarketJobs without their statuses, and which of them owns each pod.

    Args:
        objects: Objects of the cluster.
        kept: Results of the last time.
    """
    bare = [
        kept.of(job.metadata.uid, _without_status, job.metadata, job.spec) for job in objects.jobs
    ]
    return bare, kept.of("", select, bare, objects.pods, objects.controllers)


DEBTS_ALONE = CoreCreditsPolicy(lending="Ignored")
"""Credits of a Market that names none: budgets pay back debts, and nothing is lent."""


def policy_of(rules: MarketSpec) -> core.Policy:
    """Return a Market's rules as a policy for `walras.clearing.clear`."""
    fades = rules.memory.half_life_hours
    account = rules.cores.credits or DEBTS_ALONE
    quantum = rules.memory.quantum_seconds
    return core.Policy(
        cores=rules.cores.mechanism,
        memory=rules.memory.mechanism,
        sold_by=rules.cores.sold_by,
        colocation=rules.colocation.policy,
        break_away_gain=float(rules.colocation.break_away_gain),
        exploration=float(rules.colocation.exploration),
        hysteresis=float(rules.cores.hysteresis),
        least_part=float(rules.cores.least_part),
        requests=rules.cores.requests or "Always",
        core_half_life=3600.0 * account.half_life_hours,
        most_credit=float(account.most_share),
        lending=account.lending == "Counted",
        interference=rules.cores.interference == "counted",
        guaranteed_fraction=Fraction(rules.memory.guaranteed_fraction),
        fading=0.0 if fades is None else 1 - 2.0 ** (-quantum / (3600 * fades)),
        slice_bytes=rules.memory.slice_size,
        exponent=float(rules.auction.exponent),
        seed=rules.colocation.seed,
    )


def pool_prices_of(rules: MarketSpec) -> PoolPrices:
    """Return what a Market says that nodes cost and work is worth."""
    priced, worth = rules.node_pools.prices, rules.node_pools.value_per_core_hour
    return PoolPrices(
        {each.pool: float(each.per_node_hour) for each in priced},
        None if worth is None else float(worth),
    )


def entitlement_of(resource: EntitlementObject) -> core.Entitlement:
    """Return an Entitlement as it stands in a snapshot."""
    spec = resource.spec
    selector = spec.namespace_selector
    return core.Entitlement(
        name=resource.metadata.name,
        shares=spec.shares,
        parent=spec.parent,
        namespaces=None if spec.namespaces is None else frozenset(spec.namespaces),
        namespace_labels=None if selector is None else selector.match_labels,
        memory_shares=spec.memory_share,
        max_nodes=spec.max_nodes,
    )


def _without_status(metadata: Metadata, spec: MarketJobSpec) -> MarketJob:
    """Return a MarketJob that stays the same object where only its status changes."""
    return MarketJob.model_construct(metadata=metadata, spec=spec)


def _barred(
    objects: Objects, selection: Selection, modes: Mapping[str, Mode] | None, kept: Kept
) -> dict[int, str]:
    """Return why modes of namespaces leave pods of jobs out, by position."""
    rules = objects.rules
    if modes is None:
        modes = {node.metadata.name: mode_of_node(node, rules) for node in objects.nodes}
    of_namespaces = {
        each.metadata.name: mode
        for each in objects.namespaces
        if (mode := mode_of_namespace(each, rules)) != rules.mode
    }
    return kept.of("", left_out, objects.pods, selection, dict(modes), of_namespaces)


def _taken_outside(
    selection: Selection,
    outside: Collection[Name],
    pods: Sequence[Pod],
    barred: Collection[int],
) -> Taken:
    """Return the requests of pods of no job, of one that takes no part, and of those barred."""
    return taken_by(
        pod
        for number, pod in enumerate(pods)
        if number not in selection.job or number in barred or _key(selection.job[number]) in outside
    )


def _nodes(
    objects: Objects,
    taken: Taken,
    frozen: Collection[str],
    notes: list[str],
    kept: Kept,
) -> tuple[list[core.Node], dict[str, Units]]:
    """Return what open nodes sell, and what a CPU and a GPU count for on each, by its name."""
    nodes: list[core.Node] = []
    units: dict[str, Units] = {}
    for node in objects.nodes:
        name = node.metadata.name
        why = None if name in frozen else why_closed(node)
        if why is None:
            cpus, memory = taken.cpus.get(name, Decimal(0)), taken.memory.get(name, 0)
            topology = objects.topologies.get(name)
            supply, units[name], told = kept.of(
                name, _supply, node, cpus, memory, topology, objects.rules
            )
            nodes.append(supply)
            notes += told
        else:
            notes.append(f"Node {name}: {why}; it sells nothing")
    return nodes, units


def _supply(
    node: NodeObject,
    cpus: Decimal,
    memory: int,
    topology: ProcessorCounts | None,
    rules: MarketSpec,
) -> tuple[core.Node, Units, list[str]]:
    """Return what a node sells beside pods that request CPUs and bytes, with notes on it.

    Between them is what a CPU and a GPU of it count for.
    """
    notes: list[str] = []
    name, pool = node.metadata.name, pool_of(node, rules.node_pools.pool_labels)
    taken = Taken({name: cpus}, {name: memory})
    sold = for_sale(node, taken, rules.cores, topology, notes, pool)
    of_gpu = 0.0 if rules.cores.per_gpu is None else float(rules.cores.per_gpu)
    if node.gpus:
        of_gpu = min(of_gpu, sold.cores / node.gpus)
    return sold, Units(float(cores_per_cpu(rules.cores, topology)), of_gpu), notes


@dataclass(frozen=True, slots=True)
class _Known:
    """Lookup tables for assembling jobs.

    Attributes:
        speedups: Speedups of the MarketJobs that take part, by namespace and name.
        jobs: MarketJobs that take part, each as a job without a pod, by namespace and name.
        most_cpus: Most CPUs that a pod of a job can use at once, by its images, as far as the
            status says, by namespace and name of the job.
    """

    speedups: Mapping[Name, Speedup]
    jobs: Mapping[Name, core.Job]
    most_cpus: Mapping[Name, Mapping[str, float]]
    entitlements: tuple[core.Entitlement, ...]
    access: AccessPolicy

    @classmethod
    def of(
        cls,
        objects: Objects,
        bare: Sequence[MarketJob],
        without: Collection[Name],
        kept: Kept,
    ) -> _Known:
        profiles = {_key(each): each for each in objects.profiles}
        labels = {each.metadata.name: each.metadata.labels for each in objects.namespaces}
        patterns = {
            key: kept.of(
                job.metadata.uid,
                _pattern,
                job,
                profile_of(job, profiles),
                labels.get(job.metadata.namespace, {}),
                objects.rules,
            )
            for job in bare
            if (key := _key(job)) not in without
        }
        entitlements = tuple(map(entitlement_of, objects.entitlements))
        return cls(
            {key: speedup for key, (speedup, _) in patterns.items()},
            {key: job for key, (_, job) in patterns.items()},
            {_key(job): known for job in objects.jobs if (known := most_cpus(job.status))},
            entitlements,
            AccessPolicy(entitlements),
        )

    def refused(self) -> dict[Name, str]:
        """Return the reasons why jobs may not use their entitlements, by namespace and name."""
        why = {
            key: self.access.denial(job.entitlement, job.namespace, job.namespace_labels)
            for key, job in self.jobs.items()
        }
        return {key: reason for key, reason in why.items() if reason is not None}


def _pattern(
    resource: MarketJob,
    profile: SpeedupProfile | None,
    labels: Mapping[str, str],
    rules: MarketSpec,
) -> tuple[Speedup, core.Job]:
    """Return the speedup of a MarketJob, and it as a job of the market without a pod.

    Args:
        resource: The MarketJob; its status does not matter.
        profile: Its profile; None if there is none.
        labels: Labels of its namespace.
        rules: Rules of the market.

    Raises:
        ValueError: Its profile cannot be used.
    """
    spec, namespace = resource.spec, resource.metadata.namespace
    known = {} if profile is None else {(namespace, resource.profile_name): profile}
    speedup = speedup_of(resource, known)
    status = None if profile is None else profile.status
    automatic = speedup.source in {"Assumed", "Online"} and rules.profiling.automatic
    job = core.Job(
        namespace=namespace,
        name=resource.metadata.name,
        entitlement=spec.entitlement,
        node="",
        fraction=speedup.fraction,
        work=float(spec.work),
        min_cores=spec.min_cores,
        max_cores=spec.max_cores,
        namespace_labels=labels,
        bid=bid_of(resource, rules),
        program=f"{namespace}/{resource.profile_name}",
        bandwidth=None if profile is None else bandwidth_of(profile),
        placement=placing_of(resource),
        measured_beside=speedup.beside,
        whole_cores=holds_whole_cores(spec, rules.cores),
        observed=automatic and shows_penalties(status),
        seen_alone=was_seen_alone(status),
    )
    return speedup, job


def _key(resource: MarketJob | SpeedupProfile | Pod) -> Name:
    return resource.metadata.namespace, resource.metadata.name


def _penalties(profiles: Iterable[SpeedupProfile]) -> dict[tuple[str, str], float]:
    """Return the penalties of programs beside others, from profiles' specs, else from statuses."""
    penalties = {}
    for profile in profiles:
        namespace = profile.metadata.namespace
        mine = f"{namespace}/{profile.metadata.name}"
        for other, penalty in measured_penalties(profile.status):
            penalties[mine, other] = penalty
        for each in profile.spec.penalties:
            penalties[mine, f"{namespace}/{each.profile}"] = float(each.penalty)
    return penalties


def placing_of(resource: MarketJob) -> PlacementConstraints:
    """Return a job's requirements on the jobs beside it."""
    asked, own = resource.spec.colocation, resource.metadata.namespace
    avoids = frozenset((each.namespace or own, each.name or "") for each in asked.avoid)
    return PlacementConstraints(exclusive=not asked.participate, avoids=avoids)
