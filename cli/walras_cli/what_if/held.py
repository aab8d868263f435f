"""Pure: what the pods of a plan hold once agents have written it, by the kernel's rules.

A plan says what nodes are told to give. The agent's own code turns this into CPU sets, weights and
quotas on a machine of the node's size, on which all pods are busy, those outside the market too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from walras.market.snapshot import identity
from walras.speedup.amdahls_law import speedup_in_hardware
from walras_agent.busy_cores import busy_cores
from walras_agent.node_plan import EnforcedGrant
from walras_agent.pod_cpus import allocate_cpus
from walras_agent.topology import Cpu, Topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras.market.plan import Grant, Plan, UserOutcome
    from walras.market.snapshot import JobKey, Snapshot
    from walras_api.assembly import Objects

MILLI = 1000

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


def as_enforced(plan: Plan, snapshot: Snapshot, machines: Mapping[str, Machine]) -> Plan:
    """Return a plan in which pods hold, and users get done, what the kernel makes of it.

    Args:
        plan: Plan of the snapshot.
        snapshot: Jobs of the plan, with their work and their maximums.
        machines: Machines by the name of their node; pods on other nodes hold what the plan says.
    """
    of_nodes: defaultdict[str, dict[JobKey, Grant]] = defaultdict(dict)
    for grant in plan.grants:
        of_nodes[grant.node][identity(grant)] = grant
    held: dict[JobKey, float] = {}
    for node, grants in of_nodes.items():
        if node in machines:
            held |= _on_machine(grants, machines[node])
    changed = tuple(_holding(each, held.get(identity(each), each.held)) for each in plan.grants)
    return replace(plan, grants=changed, users=_users(plan, changed, snapshot))


def _on_machine(grants: Mapping[JobKey, Grant], at: Machine) -> dict[JobKey, float]:
    pods = {" ".join(key): key for key in grants}
    enforced = [
        EnforcedGrant(pod, grants[key].title, max(round(grants[key].held * MILLI), 1))
        for pod, key in pods.items()
    ]
    topology = _topology(at.cores, at.threads, at.sockets)
    held = busy_cores(allocate_cpus(topology, enforced, {}), at.threads, at.others)
    return {key: held[pod] for pod, key in pods.items()}


def _holding(grant: Grant, cores: float) -> Grant:
    return grant._replace(held=cores, speedup=speedup_in_hardware(cores, grant.fraction))


@lru_cache(maxsize=64)
def _topology(cores: int, threads: int, sockets: int) -> Topology:
    """Return the CPUs of a machine whose sockets have one cache each."""
    return Topology(
        tuple(
            Cpu(id=core + thread * cores, core=core, socket=socket, numa=socket, l3=socket)
            for core in range(cores)
            for socket in (core * sockets // cores,)
            for thread in range(threads)
        )
    )


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
