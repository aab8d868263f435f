"""Pure: decide which objects take part in the market, and what is wrong with those that do not.

A problem is reported on exactly the objects that cause it; the market is cleared as if they did not
exist. Nothing raises. This is the only check of rules that span several objects, and of all rules
on API servers too old for validation rules in CustomResourceDefinitions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walras_api.assembly import Assembled, Objects, assemble
from walras_api.contract import agent_lease
from walras_api.job_inputs import Name, Speedup, profile_of, speedup_of
from walras_api.supply import reported_processors, why_closed
from walras_operator.decide.conditions import MAX_LISTED, Problem, listed
from walras_operator.decide.credits.quanta import is_over
from walras_operator.decide.modes import modes_now, paused_nodes
from walras_operator.decide.world import Reference

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from walras_api.contract import Mode
    from walras_api.kinds import EntitlementObject, MarketJob, MarketSpec, SpeedupProfile
    from walras_api.node_allocation import NodeAllocation
    from walras_operator.decide.world import World

BELOW_UNUSABLE = "BelowUnusable"
"""Reason of entitlements whose ancestor cannot be used."""

_BYTES = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class Validated:
    """Objects that take part in the market, and what is wrong with the others.

    Attributes:
        objects: Objects that take part, and the rules of the market.
        assembled: Snapshot of these objects.
        entitlements: Problems of Entitlements, by name.
        jobs: Problems that exclude MarketJobs, by namespace and name.
        speedups: Speedups of the other MarketJobs, by namespace and name.
        closed: Why nodes sell no cores, by name.
        frozen: Why nodes keep their NodeAllocation as it is, by name.
        modes: Modes of nodes for this decision, by name.
    """

    objects: Objects
    assembled: Assembled
    entitlements: Mapping[str, Problem]
    jobs: Mapping[Name, Problem]
    speedups: Mapping[Name, Speedup]
    closed: Mapping[str, str]
    frozen: Mapping[str, str]
    modes: Mapping[str, Mode]


def validate(world: World, rules: MarketSpec) -> Validated:
    """Return what takes part under the given rules, and what is wrong with the rest."""
    objects, kept = world.objects, world.kept
    broken = {each.name for each in world.broken if each.kind == "Entitlement"}
    entitlements = orphaned(objects.entitlements, broken)
    jobs, speedups = _jobs(world, {**entitlements, **_invalid(broken)})
    modes = modes_now(world, rules)
    frozen = frozen_nodes(world, rules, modes)
    shut = closed_nodes(world, modes, frozen)
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
            if (topology := kept.of(node, reported_processors, allocation.status)) is not None
        },
        demands=demands_of(world),
    )
    assembled = assemble(taking_part, jobs.keys(), frozen, kept, modes)
    observed = frozenset(name for name, mode in modes.items() if mode == "observe")
    snapshot = replace(assembled.snapshot, frozen=frozenset(frozen), observed=observed)
    assembled = assembled._replace(snapshot=snapshot)
    refused = {key: Problem("Refused", why) for key, why in assembled.refused.items()}
    return Validated(
        taking_part, assembled, entitlements, {**jobs, **refused}, speedups, shut, frozen, modes
    )


def frozen_nodes(world: World, rules: MarketSpec, modes: Mapping[str, Mode]) -> dict[str, str]:
    """Return why nodes keep their NodeAllocation as it is, by name.

    What a node enforces does not end with its agent or its kubelet. Most come back soon, after an
    upgrade or a reboot, and grants that were withdrawn meanwhile would move every pod twice.
    """
    grace, why = rules.agent_grace_period_seconds, paused_nodes(world, rules)
    for node in world.objects.nodes:
        name = node.metadata.name
        allocation = world.allocations.get(name)
        if name in why or allocation is None or allocation.spec.mode != modes[name]:
            continue
        if name in world.silent_agents:
            why[name] = f"its agent has stopped renewing its Lease {agent_lease(name)}"
        elif (
            name in world.agents
            and not node.ready
            and not is_over(node.ready_since, grace, world.now)
        ):
            why[name] = "the node is not ready"
    return why


def closed_nodes(
    world: World, modes: Mapping[str, Mode], frozen: Collection[str] = ()
) -> dict[str, str]:
    """Return why nodes sell no cores, by name; nodes that sell some are not in it."""
    why = {}
    for node in world.objects.nodes:
        name = node.metadata.name
        if name in frozen:
            continue
        reason = why_closed(node)
        if reason is None and modes[name] == "off":
            reason = "is off, as spec.scope or spec.paused of the Market says"
        if reason is None and name not in world.agents:
            lease = agent_lease(name)
            reason = f"has no agent that reports (its Lease {lease} is missing or old)"
        if reason is not None:
            why[name] = reason
    return why


def demands_of(world: World) -> dict[str, int]:
    """Return the memory demand of pods as last reported by agents: bytes by pod UID."""
    capacity = {node.metadata.name: node.memory for node in world.objects.nodes}
    demands: dict[str, int] = {}
    for name, allocation in world.allocations.items():
        demands |= world.kept.of(name, _demands_on, allocation, capacity.get(name, 0))
    return demands


def _demands_on(allocation: NodeAllocation, most: int) -> dict[str, int]:
    """Return the demands on one node.

    An agent may report pods of its own node only, and no more memory than that node has.
    """
    here = {grant.pod_uid for grant in allocation.spec.grants}
    demands = {}
    for pod in listed(allocation.status or {}, "pods"):
        uid, amount = str(pod.get("podUID")), pod.get("memoryDemand")
        if uid in here and isinstance(amount, str) and _BYTES.fullmatch(amount):
            demands[uid] = min(int(amount), most)
    return demands


def _invalid(broken: set[str]) -> dict[str, Problem]:
    return {name: Problem("Invalid", "it is invalid, see its conditions") for name in broken}


def _jobs(
    world: World, unusable: Mapping[str, Problem]
) -> tuple[dict[Name, Problem], dict[Name, Speedup]]:
    """Return the problems of jobs, and the speedups of jobs without one."""
    profiles = {
        (each.metadata.namespace, each.metadata.name): each for each in world.objects.profiles
    }
    problems: dict[Name, Problem] = {}
    speedups: dict[Name, Speedup] = {}
    for job in world.objects.jobs:
        key = job.metadata.namespace, job.metadata.name
        problem = _selects_nothing(job) or _entitlement_problem(job, unusable)
        verdict = problem or _speedup(job, profiles, world)
        if isinstance(verdict, Problem):
            problems[key] = verdict
        else:
            speedups[key] = verdict
    return problems, speedups


def _selects_nothing(job: MarketJob) -> Problem | None:
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


def _entitlement_problem(job: MarketJob, unusable: Mapping[str, Problem]) -> Problem | None:
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


def orphaned(
    entitlements: Sequence[EntitlementObject], broken: Collection[str] = frozenset()
) -> dict[str, Problem]:
    """Return what is wrong with each entitlement that has no valid way up to a root, by name.

    An entitlement with a bad parent excludes its descendants only; each of them names the one to
    correct.

    Args:
        entitlements: All valid Entitlements.
        broken: Names of invalid Entitlements.
    """
    parents = {each.metadata.name: each.spec.parent for each in entitlements}
    judged: dict[str, Problem | None] = {}
    for name in parents:
        path = _path_up(name, parents, judged)
        top = path[-1] if path else name
        parent = parents[top]
        if parent is not None and parent in path:
            cycle = path[path.index(parent) :]
            judged.update(dict.fromkeys(cycle, _cycle(cycle)))
        for each in reversed(path):
            if each not in judged:
                judged[each] = _below(parents[each], parents, judged, broken)
    return {name: problem for name, problem in judged.items() if problem is not None}


def _path_up(
    name: str, parents: Mapping[str, str | None], judged: Mapping[str, Problem | None]
) -> list[str]:
    """Return the ancestors of an entitlement up to one that is known, a root, or a repetition."""
    path: dict[str, None] = {}
    at: str | None = name
    while at is not None and at in parents and at not in judged and at not in path:
        path[at] = None
        at = parents[at]
    return list(path)


def _cycle(names: Sequence[str]) -> Problem:
    first = names.index(min(names))
    order = [*names[first:], *names[:first]]
    shown = " -> ".join([*order[: 2 * MAX_LISTED], "..."] if len(order) > 2 * MAX_LISTED else order)
    return Problem(
        "Cycle",
        f"is its own ancestor ({shown} -> {order[0]}); remove spec.parent from one of them",
    )


def _below(
    parent: str | None,
    parents: Mapping[str, str | None],
    judged: Mapping[str, Problem | None],
    broken: Collection[str],
) -> Problem | None:
    if parent is None:
        return None
    if parent in broken:
        return _below_unusable(parent, "it is invalid, see its conditions")
    if parent not in parents:
        return Problem(
            "ParentMissing",
            f"spec.parent: Entitlement {parent} does not exist; create it or correct the field",
        )
    above = judged[parent]
    if above is None or above.reason == BELOW_UNUSABLE:
        return above
    return _below_unusable(parent, above.message)


def _below_unusable(culprit: str, why: str) -> Problem:
    return Problem(BELOW_UNUSABLE, f"is below Entitlement {culprit}; correct that one: {why}")
