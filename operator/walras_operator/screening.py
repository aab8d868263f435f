"""Chooses (pure): what takes part in the market, and what is wrong with everything that does not.

A problem is put down to exactly the objects to blame; all others are decided on as if these were
not there. Nothing raises: on API servers that do not know the rules of CustomResourceDefinitions,
and for what several objects show together, this is the only check there is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walras.resources.assembly import Assembled, Objects, assemble
from walras.resources.supply import Topology, closed
from walras.resources.terms import Name, Speedup, profile_of, speedup_of
from walras_operator.conditions import Problem, listed
from walras_operator.trees import uprooted
from walras_operator.world import Reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.resources.allocation import NodeAllocation
    from walras.resources.kinds import MarketJob, MarketSpec, SpeedupProfile
    from walras_operator.world import World

LEASE_OF_AGENT = "walras-agent-{node}"
"""By which an agent is seen to live (`walras_agent.daemon.publish`)."""

_BYTES = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class Screened:
    """What is left of a world, and what is wrong with the rest.

    Attributes:
        objects: that take part, with the rules.
        assembled: the snapshot that they make.
        entitlements: what is wrong, by name.
        jobs: what keeps MarketJobs out, by namespace and name.
        speedups: of the others, likewise.
        closed: why nodes sell nothing, by name.
    """

    objects: Objects
    assembled: Assembled
    entitlements: Mapping[str, Problem]
    jobs: Mapping[Name, Problem]
    speedups: Mapping[Name, Speedup]
    closed: Mapping[str, str]


def screen(world: World, rules: MarketSpec) -> Screened:
    """Sort out what takes part under some rules."""
    objects = world.objects
    broken = {each.name for each in world.broken if each.kind == "Entitlement"}
    entitlements = uprooted(objects.entitlements, broken)
    jobs, speedups = _jobs(world, {**entitlements, **_invalid(broken)})
    shut = closed_nodes(world)
    taking_part = replace(
        objects,
        entitlements=[
            each for each in objects.entitlements if each.metadata.name not in entitlements
        ],
        nodes=[node for node in objects.nodes if node.metadata.name not in shut],
        rules=rules,
        topologies={
            node: topology
            for node, allocation in world.allocations.items()
            if (topology := topology_of(allocation)) is not None
        },
        demands=demands_of(world),
    )
    assembled = assemble(taking_part, without=jobs.keys())
    refused = {key: Problem("Refused", why) for key, why in assembled.refused.items()}
    return Screened(taking_part, assembled, entitlements, {**jobs, **refused}, speedups, shut)


def closed_nodes(world: World) -> dict[str, str]:
    """Return why nodes sell nothing, by name."""
    why = {}
    for node in world.objects.nodes:
        name = node.metadata.name
        reason = closed(node)
        if reason is None and name not in world.agents:
            lease = LEASE_OF_AGENT.format(node=name)
            reason = f"has no agent that reports (its Lease {lease} is missing or old)"
        if reason is not None:
            why[name] = reason
    return why


def topology_of(allocation: NodeAllocation) -> Topology | None:
    """Return what a node's agent says of its processors, if it does."""
    told = (allocation.status or {}).get("topology")
    if not isinstance(told, dict):
        return None
    numbers = [told.get(field) for field in ("cores", "threads", "sockets")]
    if not all(type(each) is int and each > 0 for each in numbers):
        return None
    return Topology(*(each for each in numbers if isinstance(each, int)))


def demands_of(world: World) -> dict[str, int]:
    """Return the bytes of memory that pods could use as their nodes' agents said last, by UID.

    An agent is believed about pods of its own node only, and no more than that node has.
    """
    capacity = {node.metadata.name: node.memory for node in world.objects.nodes}
    found = {}
    for name, allocation in world.allocations.items():
        here = {grant.pod_uid for grant in allocation.spec.grants}
        for pod in listed(allocation.status or {}, "pods"):
            uid, amount = str(pod.get("podUID")), pod.get("memoryDemand")
            if uid in here and isinstance(amount, str) and _BYTES.fullmatch(amount):
                found[uid] = min(int(amount), capacity.get(name, 0))
    return found


def _invalid(broken: set[str]) -> dict[str, Problem]:
    return {name: Problem("Invalid", "it is invalid, see its conditions") for name in broken}


def _jobs(
    world: World, unusable: Mapping[str, Problem]
) -> tuple[dict[Name, Problem], dict[Name, Speedup]]:
    """Return what keeps jobs out by itself, and the speedups of those that nothing does."""
    profiles = {
        (each.metadata.namespace, each.metadata.name): each for each in world.objects.profiles
    }
    problems: dict[Name, Problem] = {}
    speedups: dict[Name, Speedup] = {}
    for job in world.objects.jobs:
        key = job.metadata.namespace, job.metadata.name
        problem = _nothing_selected(job) or _no_entitlement(job, unusable)
        found = problem or _speedup(job, profiles, world)
        if isinstance(found, Problem):
            problems[key] = found
        else:
            speedups[key] = found
    return problems, speedups


def _nothing_selected(job: MarketJob) -> Problem | None:
    spec = job.spec
    if spec.target_ref is not None or (spec.selector is not None and spec.selector.match_labels):
        return None
    if spec.selector is None:
        return Problem(
            "NoSelector",
            "spec: names no pods, only a command, which is for one machine; give selector or "
            "targetRef",
        )
    return Problem(
        "EmptySelector",
        "spec.selector: is empty, and a job never has all pods of its namespace; give matchLabels "
        "that its pods carry",
    )


def _no_entitlement(job: MarketJob, unusable: Mapping[str, Problem]) -> Problem | None:
    problem = unusable.get(job.spec.entitlement)
    if problem is None:
        return None
    return Problem(
        "EntitlementUnusable",
        f"spec.entitlement: Entitlement {job.spec.entitlement} cannot be used: {problem.message}",
    )


def _speedup(
    job: MarketJob, profiles: Mapping[Name, SpeedupProfile], world: World
) -> Problem | Speedup:
    namespace, name = job.metadata.namespace, job.spec.profile
    if name is not None and (namespace, name) not in profiles:
        if Reference("SpeedupProfile", name, namespace) in world.broken:
            return Problem(
                "ProfileUnusable",
                f"spec.profile: SpeedupProfile {namespace}/{name} is invalid, see its conditions; "
                f"correct it, or remove the field",
            )
        return Problem(
            "ProfileMissing",
            f"spec.profile: waits for SpeedupProfile {namespace}/{name}, which does not exist; "
            f"create it, or remove the field to have the job measured",
        )
    try:
        return speedup_of(job, profiles)
    except ValueError as error:
        used = profile_of(job, profiles)
        which = f"SpeedupProfile {namespace}/{used.metadata.name}" if used else "its profile"
        return Problem(
            "ProfileUnusable", f"{error}; correct {which}, or give the job parallelFraction"
        )
