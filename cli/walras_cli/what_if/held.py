"""Pure: what the pods of a plan hold once agents have written it, by the kernel's rules.

A plan says what nodes are told to give. On a machine of the node's size, all pods are busy, those
outside the market too, and share its CPUs as agents have them do (`walras.analysis.domains`). What
nobody bought, they have by weight as well.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from walras.analysis.domains import BusyPod, Processors, losses, time_by_grants
from walras.market.snapshot import identity
from walras.speedup.amdahls_law import speedup_in_hardware
from walras_api.job_inputs import has_own_cpus
from walras_view.facts import NOT_ASKED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from walras.market.plan import Grant, Plan, UserOutcome
    from walras.market.snapshot import JobKey, Snapshot
    from walras_api.assembly import Objects
    from walras_api.cluster import Pod
    from walras_api.job_inputs import Name
    from walras_api.kinds import MarketJob
    from walras_view.facts import Use

MILLI = 1000

NO_ONE: frozenset[Name] = frozenset()

_DIGITS = 9  # of cores: sums of floating-point numbers differ in the later ones

MOST_CPUS = 8192
"""CPUs of the largest machine that Linux supports; documents can claim any number."""


class Machine(NamedTuple):
    """A node as its kernel sees it.

    Attributes:
        cores: Number of units that can be sold: physical cores, or CPUs.
        threads: CPUs of each of them.
        sockets: Number of sockets, with equal parts of the cores.
        others: Requests of the pods outside the market, in thousandths of a CPU.
    """

    cores: int
    threads: int = 1
    sockets: int = 1
    others: tuple[int, ...] = ()

    @property
    def processors(self) -> Processors:
        """Its CPUs."""
        return Processors(self.cores, self.threads, self.sockets)


def isolated_jobs(objects: Objects) -> frozenset[Name]:
    """Return the jobs whose pods have CPUs of their own, by namespace and name."""
    return frozenset(
        _key(job) for job in objects.jobs if has_own_cpus(job.spec, objects.rules.cores)
    )


def _key(job: MarketJob) -> Name:
    return job.metadata.namespace, job.metadata.name


def machines_of(plan: Plan, objects: Objects) -> dict[str, Machine]:
    """Return the machines of the nodes that have between 1 and `MOST_CPUS` CPUs, by name.

    Args:
        plan: Plan, without whose grants pods are outside the market.
        objects: Nodes, with the topologies that agents have reported, and all pods.
    """
    granted = {(grant.namespace, grant.pod) for grant in plan.grants}
    others: defaultdict[str, list[int]] = defaultdict(list)
    for pod in objects.pods:
        name = pod.metadata.namespace, pod.metadata.name
        if pod.spec.node_name and pod.admitted and name not in granted:
            others[pod.spec.node_name].append(int(pod.cpus_requested * MILLI))
    machines = {}
    for node in objects.nodes:
        reported = objects.topologies.get(node.metadata.name)
        cpus, threads, sockets = math.ceil(node.cores), 1, 1
        if reported is not None:
            cpus, sockets = reported.threads, reported.sockets
            if objects.rules.cores.unit == "core":
                threads = max(reported.threads // reported.cores, 1)
        if 0 < cpus <= MOST_CPUS:
            mine = tuple(others[node.metadata.name])
            machines[node.metadata.name] = Machine(max(cpus // threads, 1), threads, sockets, mine)
    return machines


def as_enforced(
    plan: Plan,
    snapshot: Snapshot,
    machines: Mapping[str, Machine],
    isolated: Collection[Name] = NO_ONE,
) -> Plan:
    """Return a plan in which pods hold, and users get done, what the kernel makes of it.

    Args:
        plan: Plan of the snapshot.
        snapshot: Jobs of the plan, with their work and their maximums.
        machines: Machines by the name of their node; pods on other nodes hold what the plan says.
        isolated: Jobs whose pods have CPUs of their own, by namespace and name.
    """
    of_nodes: defaultdict[str, dict[JobKey, Grant]] = defaultdict(dict)
    for grant in plan.grants:
        of_nodes[grant.node][identity(grant)] = grant
    most = {(job.namespace, job.pod): job.max_cores or math.inf for job in snapshot.jobs}
    held: dict[JobKey, float] = {}
    for node, grants in of_nodes.items():
        if node in machines:
            held |= _on_machine(grants, machines[node], isolated, most)
    changed = tuple(_holding(each, held.get(identity(each), each.held)) for each in plan.grants)
    return replace(plan, grants=changed, users=_users(plan, changed, snapshot))


class Bystander(NamedTuple):
    """A pod outside the market that has less beside it than on plain Kubernetes.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        node: Its node.
        plain: Cores that it has on plain Kubernetes while all pods of its node are busy.
        least: Cores that it has beside the market then, and at least.
        requested: Cores that it requests.
        uses: Cores that it uses now; None if unknown.
    """

    namespace: str
    name: str
    node: str
    plain: float
    least: float
    requested: float
    uses: float | None = None

    @property
    def loses(self) -> float | None:
        """Cores that it uses now and would lose while all pods are busy; None if unknown."""
        return None if self.uses is None else max(min(self.uses, self.plain) - self.least, 0.0)


def bystanders(
    plan: Plan, objects: Objects, machines: Mapping[str, Machine], use: Use = NOT_ASKED
) -> tuple[Bystander, ...]:
    """Return the pods outside the market that have less beside it, those that lose most first."""
    used = use.pods or {}
    granted = {(grant.namespace, grant.pod): grant for grant in plan.grants}
    most = {_key(job): job.spec.max_cores or math.inf for job in objects.jobs}
    limited = objects.rules.cores.limits == "Kept"
    isolated = isolated_jobs(objects)
    of_nodes: defaultdict[str, list[tuple[Pod, BusyPod]]] = defaultdict(list)
    for pod in objects.pods:
        name, node = (pod.metadata.namespace, pod.metadata.name), pod.spec.node_name or ""
        if pod.admitted and node in machines:
            busy = BusyPod(requested=float(pod.cpus_requested), limit=pod.cpu_limit)
            if (grant := granted.get(name)) is not None:
                threads = machines[node].threads
                busy = busy._replace(
                    granted=grant.held * threads,
                    most=min(
                        most.get((grant.namespace, grant.name), math.inf) * threads,
                        pod.cpu_limit if limited else math.inf,
                    ),
                    isolated=(grant.namespace, grant.name) in isolated,
                )
            of_nodes[node].append((pod, busy))
    found = []
    for node, pods in of_nodes.items():
        threads = machines[node].threads
        for loss in losses(machines[node].processors, [busy for _, busy in pods]):
            pod, busy = pods[loss.pod]
            name = pod.metadata.namespace, pod.metadata.name
            uses = used[name].cpus / threads if name in used else None
            found.append(
                Bystander(
                    *name,
                    node,
                    loss.plain / threads,
                    loss.least / threads,
                    busy.requested / threads,
                    uses,
                )
            )
    return tuple(sorted(found, key=lambda each: (each.least - each.plain, each)))


def _on_machine(
    grants: Mapping[JobKey, Grant],
    at: Machine,
    isolated: Collection[Name],
    most: Mapping[Name, float],
) -> dict[JobKey, float]:
    """Return the cores of which pods have the time while all compute."""
    pods = [
        BusyPod(
            granted=max(grant.held, 1 / MILLI) * at.threads,
            most=most[grant.namespace, grant.pod] * at.threads,
            isolated=(grant.namespace, grant.name) in isolated,
        )
        for grant in grants.values()
    ]
    pods += [BusyPod(requested=each / MILLI) for each in at.others]
    times = time_by_grants(at.processors, pods)
    return {
        key: round(time / at.threads, _DIGITS) for key, time in zip(grants, times, strict=False)
    }


def _holding(grant: Grant, cores: float) -> Grant:
    return grant._replace(held=cores, speedup=speedup_in_hardware(cores, grant.fraction))


def _users(plan: Plan, grants: Iterable[Grant], snapshot: Snapshot) -> tuple[UserOutcome, ...]:
    jobs = {identity(job)[:3]: job for job in snapshot.jobs}
    cores: defaultdict[str, float] = defaultdict(float)
    done: defaultdict[str, float] = defaultdict(float)
    work: defaultdict[str, float] = defaultdict(float)
    for grant in grants:
        job = jobs[identity(grant)[:3]]
        usable = grant.held if job.max_cores is None else min(grant.held, job.max_cores)
        cores[grant.entitlement] += grant.held
        done[grant.entitlement] += job.work * speedup_in_hardware(usable, grant.fraction)
        work[grant.entitlement] += job.work
    return tuple(
        replace(
            user,
            held=cores[user.name],
            held_utility=done[user.name] / work[user.name] if work[user.name] else 0.0,
        )
        for user in plan.users
    )
