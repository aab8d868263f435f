"""From the objects of a cluster to a snapshot of its market, and notes on what was left out.

Pods of MarketJobs are the jobs. What a node sells is what its kubelet lets pods use, less what the
Market reserves and what all other pods have requested.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from walras import snapshot as core
from walras.resources.kinds import MarketSpec
from walras.resources.speedups import fit_of, full_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.resources.cluster import Namespace, Node, Pod
    from walras.resources.kinds import Entitlement, MarketJob, SpeedupProfile

ASSUMED_FRACTION = 0.9
"""Of a job that comes without a profile and cannot be measured."""

GATE = "walras.dev/colocation"
"""Scheduling gate of pods that wait to be placed beside another."""

SOCKETS = "walras.dev/sockets"
"""Label of a node: its processors, if there are several."""


@dataclass(frozen=True, slots=True)
class Objects:
    """What there is in a cluster."""

    entitlements: Sequence[Entitlement] = ()
    jobs: Sequence[MarketJob] = ()
    profiles: Sequence[SpeedupProfile] = ()
    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    namespaces: Sequence[Namespace] = ()
    rules: MarketSpec = field(default_factory=MarketSpec)


MOST_NAMED = 8
"""Objects that a note names; it counts the others."""


class Speedup(NamedTuple):
    """A parallel fraction and whether it is only assumed."""

    fraction: float
    assumed: bool


class Assembled(NamedTuple):
    """A snapshot, and one line on everything that takes no part or is not known."""

    snapshot: core.Snapshot
    notes: tuple[str, ...]


def assemble(objects: Objects) -> Assembled:
    """Make a snapshot of a cluster.

    Raises:
        ValueError: a profile that a job names does not exist or cannot be used.
    """
    notes: list[str] = []
    managed = _managed(objects, notes)
    nodes = _nodes(objects, managed, notes)
    jobs = _jobs(objects, managed, {node.name for node in nodes}, notes)
    return Assembled(
        core.Snapshot(
            tuple(map(entitlement_of, objects.entitlements)),
            tuple(nodes),
            tuple(jobs),
            _penalties(objects.profiles),
        ),
        tuple(notes),
    )


def assemble_on_one_node(objects: Objects, name: str, cores: int) -> Assembled:
    """Make a snapshot in which every MarketJob is one job, all of them on one node.

    Raises:
        ValueError: a profile that a job names does not exist or cannot be used.
    """
    notes: list[str] = []
    known = _Known.of(objects)
    jobs = tuple(known.job(resource, name, "", 0) for resource in objects.jobs)
    _note_jobs(objects, {id(job) for job in objects.jobs}, known, notes)
    entitlements = tuple(map(entitlement_of, objects.entitlements))
    return Assembled(
        core.Snapshot(entitlements, (core.Node(name, cores),), jobs, _penalties(objects.profiles)),
        tuple(notes),
    )


def policy_of(rules: MarketSpec) -> core.Policy:
    """Return the rules of a Market as the core takes them."""
    return core.Policy(
        cores=rules.cores.mechanism,
        memory=rules.memory.mechanism,
        sold_by=rules.cores.sold_by,
        colocation=rules.colocation.policy,
        guaranteed_fraction=Fraction(rules.memory.guaranteed_fraction),
        slice_bytes=rules.memory.slice_size,
        exponent=float(rules.auction.exponent),
        seed=rules.colocation.seed,
    )


def entitlement_of(resource: Entitlement) -> core.Entitlement:
    """Return an Entitlement as the core takes it."""
    spec = resource.spec
    selector = spec.namespace_selector
    return core.Entitlement(
        name=resource.metadata.name,
        shares=spec.shares,
        parent=spec.parent,
        namespaces=None if spec.namespaces is None else frozenset(spec.namespaces),
        namespace_labels=None if selector is None else selector.match_labels,
        memory_shares=spec.memory_share,
    )


def bid_of(resource: MarketJob) -> core.Bid:
    """Return how a MarketJob takes part in auctions."""
    auction = resource.spec.auction
    least = auction.minimum_utility
    return core.Bid(
        budget=float(auction.budget),
        utility=auction.utility,
        cores=float(auction.weights.cores),
        memory=float(auction.weights.memory),
        minimum_utility=None if least is None else float(least),
    )


def _managed(objects: Objects, notes: list[str]) -> dict[int, MarketJob]:
    """Return the MarketJob of each pod, by the pod's position; the first by name if several."""
    jobs: defaultdict[str, list[MarketJob]] = defaultdict(list)
    for job in sorted(objects.jobs, key=lambda job: job.metadata.name):
        jobs[job.metadata.namespace].append(job)
    managed: dict[int, MarketJob] = {}
    for number, pod in enumerate(objects.pods):
        if not pod.alive:
            continue
        mine = [job for job in jobs[pod.metadata.namespace] if _selects(job, pod)]
        if mine:
            managed[number] = mine[0]
        if len(mine) > 1:
            names = " and ".join(job.metadata.name for job in mine)
            notes.append(
                f"Pod {_title(pod)}: is selected by MarketJobs {names}; "
                f"{mine[0].metadata.name} has it, correct the selectors"
            )
    return managed


def _selects(job: MarketJob, pod: Pod) -> bool:
    """Say whether a pod is the job's, by its labels or by who made it."""
    spec, labels = job.spec, pod.metadata.labels
    if spec.selector is not None:
        wanted = spec.selector.match_labels
        return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())
    if spec.target_ref is None:
        return False
    target = spec.target_ref
    if target.kind == "Pod":
        return pod.metadata.name == target.name
    if target.kind == "Deployment":  # its pods belong to a ReplicaSet, named after it and a hash
        name = f"{target.name}-{labels.get('pod-template-hash', '')}"
        return _owned(pod, "ReplicaSet", name)
    return _owned(pod, target.kind, target.name)


def _owned(pod: Pod, kind: str, name: str) -> bool:
    return any(owner.kind == kind and owner.name == name for owner in pod.metadata.owner_references)


def _nodes(objects: Objects, managed: Mapping[int, MarketJob], notes: list[str]) -> list[core.Node]:
    """Return what every node that takes pods has for sale."""
    cores: defaultdict[str, Decimal] = defaultdict(Decimal)
    memory: defaultdict[str, Decimal] = defaultdict(Decimal)
    for number, pod in enumerate(objects.pods):
        if number not in managed and pod.alive and pod.spec.node_name is not None:
            cores[pod.spec.node_name] += pod.request("cpu")
            memory[pod.spec.node_name] += pod.request("memory")
    nodes = []
    for node in objects.nodes:
        name = node.metadata.name
        if node.spec.unschedulable or not node.ready:
            why = "is cordoned" if node.spec.unschedulable else "is not ready"
            notes.append(f"Node {name}: {why}; it sells nothing")
            continue
        taken = cores[name] + objects.rules.cores.reserved_cores
        left = int(node.cores) - int(taken.to_integral_value(ROUND_CEILING))
        if left < 1:
            notes.append(f"Node {name}: other pods and the reserve leave none of {node.cores} CPUs")
        nodes.append(
            core.Node(
                name,
                max(left, 0),
                max(node.memory - int(memory[name]), 0),
                _sockets(node, notes),
            )
        )
    return nodes


def _sockets(node: Node, notes: list[str]) -> int:
    text = node.metadata.labels.get(SOCKETS, "1")
    if text.isdecimal() and 0 < int(text) < 1000:
        return int(text)
    notes.append(f"Node {node.metadata.name}: label {SOCKETS}: is {text!r}; 1 is taken")
    return 1


def _jobs(
    objects: Objects, managed: Mapping[int, MarketJob], nodes: set[str], notes: list[str]
) -> list[core.Job]:
    known = _Known.of(objects)
    jobs = []
    for number, resource in managed.items():
        pod = objects.pods[number]
        node = _place(pod, nodes, notes)
        if node is not None:
            requested = int(pod.request("memory"))
            jobs.append(known.job(resource, node, pod.metadata.name, requested))
    _note_jobs(objects, {id(job) for job in managed.values()}, known, notes)
    return jobs


@dataclass(frozen=True, slots=True)
class _Known:
    """What is looked up for each job.

    Attributes:
        profiles: by namespace and name.
        labels: of namespaces, by name.
        speedups: of MarketJobs, by namespace and name.
    """

    profiles: Mapping[tuple[str, str], SpeedupProfile]
    labels: Mapping[str, Mapping[str, str]]
    speedups: Mapping[tuple[str, str], Speedup]

    @classmethod
    def of(cls, objects: Objects) -> _Known:
        profiles = {_key(each): each for each in objects.profiles}
        return cls(
            profiles,
            {each.metadata.name: each.metadata.labels for each in objects.namespaces},
            {_key(job): speedup_of(job, profiles) for job in objects.jobs},
        )

    def job(self, resource: MarketJob, node: str, pod: str, requested: int) -> core.Job:
        """Return a pod of a MarketJob as the core takes it; its requested memory is in bytes."""
        spec, namespace = resource.spec, resource.metadata.namespace
        profile = profile_of(resource, self.profiles)
        bandwidth = None if profile is None else profile.spec.memory_bandwidth
        return core.Job(
            namespace=namespace,
            name=resource.metadata.name,
            entitlement=spec.entitlement,
            node=node,
            fraction=self.speedups[_key(resource)].fraction,
            work=float(spec.work),
            min_cores=spec.min_cores,
            max_cores=spec.max_cores,
            namespace_labels=self.labels.get(namespace, {}),
            pod=pod,
            memory=memory_of(resource, requested),
            bid=bid_of(resource),
            program=f"{namespace}/{spec.profile or resource.metadata.name}",
            bandwidth=None if bandwidth is None else float(bandwidth),
        )


def _key(resource: MarketJob | SpeedupProfile) -> tuple[str, str]:
    return resource.metadata.namespace, resource.metadata.name


def _note_jobs(objects: Objects, present: set[int], known: _Known, notes: list[str]) -> None:
    titles = {id(job): f"{job.metadata.namespace}/{job.metadata.name}" for job in objects.jobs}
    absent = [titles[id(job)] for job in objects.jobs if id(job) not in present]
    assumed = [
        titles[id(job)]
        for job in objects.jobs
        if id(job) in present and known.speedups[_key(job)].assumed
    ]
    if absent:
        notes.append(f"{_listed('MarketJob', absent)}: no pods of it are there")
    if assumed:
        notes.append(
            f"{_listed('MarketJob', assumed)}: speedup is not known; a parallel fraction of "
            f"{ASSUMED_FRACTION} is assumed, give parallelFraction or a profile"
        )


def _listed(kind: str, titles: Sequence[str]) -> str:
    shown = ", ".join(titles[:MOST_NAMED])
    more = f" and {len(titles) - MOST_NAMED} more" if len(titles) > MOST_NAMED else ""
    return f"{kind}{'s' * (len(titles) > 1)} {shown}{more}"


def _place(pod: Pod, nodes: set[str], notes: list[str]) -> str | None:
    """Return the node of a pod, empty if it waits to be placed, None if it takes no part."""
    if pod.spec.node_name is None:
        if any(gate.name == GATE for gate in pod.spec.scheduling_gates):
            return ""
        notes.append(f"Pod {_title(pod)}: is not scheduled yet")
        return None
    if pod.spec.node_name not in nodes:
        notes.append(f"Pod {_title(pod)}: runs on {pod.spec.node_name}, which sells nothing")
        return None
    return pod.spec.node_name


def profile_of(
    job: MarketJob, profiles: Mapping[tuple[str, str], SpeedupProfile]
) -> SpeedupProfile | None:
    """Return the profile that a job names, or the one of its own name.

    Raises:
        ValueError: the named one is not there.
    """
    namespace = job.metadata.namespace
    profile = profiles.get((namespace, job.spec.profile or job.metadata.name))
    if job.spec.profile is not None and profile is None:
        raise ValueError(
            f"MarketJob {namespace}/{job.metadata.name}: spec.profile: there is no SpeedupProfile "
            f"{namespace}/{job.spec.profile}; add it, or remove the field"
        )
    return profile


def speedup_of(job: MarketJob, profiles: Mapping[tuple[str, str], SpeedupProfile]) -> Speedup:
    """Return what is known of a job's speedup: as given, as profiled, or assumed.

    Raises:
        ValueError: its profile is missing or cannot be used.
    """
    profile = profile_of(job, profiles)
    if job.spec.parallel_fraction is not None:
        return Speedup(float(job.spec.parallel_fraction), assumed=False)
    if profile is None:
        return Speedup(ASSUMED_FRACTION, assumed=True)
    if profile.spec.parallel_fraction is not None:
        return Speedup(float(profile.spec.parallel_fraction), assumed=False)
    if not profile.spec.measurements:
        return Speedup(ASSUMED_FRACTION, assumed=True)
    try:
        return Speedup(fit_of(profile.spec).fraction_at(full_size(job.spec.data)), assumed=False)
    except ValueError as error:
        name = f"{profile.metadata.namespace}/{profile.metadata.name}"
        raise ValueError(f"SpeedupProfile {name}: {error}") from error


def memory_of(job: MarketJob, requested: int) -> core.MemoryDemand | None:
    """Return a job's demand for memory; where it is measured, what its pod requests stands in."""
    memory = job.spec.memory
    if memory is None:
        return None
    least = memory.min or 0
    demand = max(requested, least) if memory.demand == "measured" else memory.demand
    most = memory.max
    return core.MemoryDemand(demand if most is None else min(demand, most), least, most)


def _penalties(profiles: Iterable[SpeedupProfile]) -> dict[tuple[str, str], float]:
    penalties = {}
    for profile in profiles:
        namespace = profile.metadata.namespace
        mine = f"{namespace}/{profile.metadata.name}"
        for each in profile.spec.penalties:
            penalties[mine, f"{namespace}/{each.profile}"] = float(each.penalty)
    return penalties


def _title(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
