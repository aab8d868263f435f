"""Pure: changes that a viewer tries by hand, cleared by ``walras what-if``, beside today's plan.

Nothing is written. What is to last is given back as documents for ``kubectl apply``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from decimal import Decimal
from time import perf_counter
from typing import TYPE_CHECKING, Any

import yaml

from walras.analysis.plan_quality import evaluate_plan
from walras.clearing import clear
from walras_api.assembly import policy_of
from walras_api.contract import API_VERSION, MARKET_NAME
from walras_cli.what_if.comparison import Cleared
from walras_cli.what_if.plain_division import plain_division
from walras_cli.what_if.situation import Situation, situation_of_world
from walras_cli.what_if.tables import FIGURES
from walras_dashboard.views import MECHANISMS
from walras_dashboard.what_if_models import (
    DividedCores,
    DividedJob,
    DividedNode,
    DividedUser,
    Figure,
    RefusedJob,
    WhatIf,
    WhatIfAnswer,
)
from walras_operator.decide.decision import COMPARISONS
from walras_view.explain.short_pods import STARVES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from walras.market.plan import Grant, Plan
    from walras_api import cluster, kinds
    from walras_api.assembly import Objects
    from walras_api.kinds import MarketSpec
    from walras_operator.decide.world import World
    from walras_view.plain import PlainDivision

VISIBLE = 0.005
"""Cores: half of the last digit that is printed; less than that is no change."""

DIGITS = Decimal("0.000001")


class InvalidChangesError(Exception):
    """Changes that cannot be tried.

    Attributes:
        problems: Place in the request, and what is wrong there with the way out.
    """

    def __init__(self, problems: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__("; ".join(text for _, text in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Today:
    """A cluster as it is, with its market.

    Attributes:
        world: The cluster.
        objects: Its objects, with the rules of its Market.
        situation: Input of its market.
    """

    world: World
    objects: Objects
    situation: Situation

    @classmethod
    def of(cls, world: World) -> Today:
        """Take a cluster as the operator would.

        Raises:
            InvalidChangesError: It has no Market.
        """
        if world.market is None:
            text = f"the cluster has no valid Market named {MARKET_NAME}; create one"
            raise InvalidChangesError([(("body",), text)])
        objects = replace(world.objects, rules=world.market.spec)
        return cls(world, objects, situation_of_world(world, objects))


class Tries:
    """Tries changes on a cluster, and keeps what many tries have in common."""

    def __init__(self) -> None:
        self._today: Today | None = None
        self._cleared: dict[bool, Cleared] = {}
        self._plain: PlainDivision | None = None
        self._lock = threading.Lock()

    def answer(self, world: World, changes: WhatIf) -> WhatIfAnswer:
        """Clear the market with and without changes.

        Raises:
            InvalidChangesError: The changes cannot be tried.
        """
        began = perf_counter()
        with self._lock:
            today = self._of(world)
            check(today.objects, changes)
            # Cores that stay where they are while little is gained would make mechanisms alike.
            anew = changes.mechanism not in {None, today.objects.rules.cores.mechanism}
            now = self._cleared.get(anew)
            if now is None:
                now = self._cleared[anew] = _cleared(today.situation, anew=anew)
                self._plain = plain_division(today.situation, now.plan)
            then_situation = changed_situation(today, changes)
            then = _cleared(then_situation, anew=anew)
        moved, unchanged = _moved(now.plan, then.plan)
        notes = tuple(dict.fromkeys((*then_situation.notes, *_notes(today.objects, changes))))
        return WhatIfAnswer(
            seconds=perf_counter() - began,
            now=_division(now, moved),
            then=_division(then, moved),
            plain=self._plain,
            unchanged_jobs=unchanged,
            yaml=documents(today.objects, changes),
            notes=list(notes),
            refused=[
                RefusedJob(job=f"{each.namespace}/{each.name}", reason=each.reason)
                for each in then.plan.refused
            ],
        )

    def _of(self, world: World) -> Today:
        if self._today is None or self._today.world is not world:
            self._today, self._cleared = Today.of(world), {}
        return self._today


def _cleared(situation: Situation, *, anew: bool) -> Cleared:
    snapshot = replace(situation.snapshot, held={}) if anew else situation.snapshot
    try:
        plan = clear(snapshot, policy_of(situation.rules))
    except ValueError as error:
        mechanism = situation.rules.cores.mechanism
        text = f"mechanism {mechanism}: {error}; choose another"
        raise InvalidChangesError([(("body", "mechanism"), text)]) from error
    return Cleared(plan, evaluate_plan(snapshot, plan, COMPARISONS))


def check(objects: Objects, changes: WhatIf) -> None:
    """See that all that is to change exists.

    Raises:
        InvalidChangesError: Some of it does not.
    """
    if problems := list(_problems(objects, changes)):
        raise InvalidChangesError(problems)


def _problems(objects: Objects, changes: WhatIf) -> Iterator[tuple[tuple[str | int, ...], str]]:
    users = {each.metadata.name for each in objects.entitlements}
    jobs = {f"{each.metadata.namespace}/{each.metadata.name}" for each in objects.jobs}
    nodes = {each.metadata.name for each in objects.nodes}
    for name in changes.shares.keys() - users:
        yield ("body", "shares", name), f"there is no Entitlement {name}; choose one that exists"
    for name in changes.fractions.keys() - jobs:
        yield ("body", "fractions", name), f"there is no MarketJob {name}; write namespace/name"
    for index, each in enumerate(changes.add_nodes):
        if each.like not in nodes:
            yield ("body", "addNodes", index, "like"), f"there is no Node {each.like} to copy"
    for index, name in enumerate(changes.remove_nodes):
        if name not in nodes:
            yield ("body", "removeNodes", index), f"there is no Node {name} to remove"
    if changes.mechanism is not None and changes.mechanism not in MECHANISMS:
        mechanisms = ", ".join(MECHANISMS)
        yield (
            ("body", "mechanism"),
            f"there is no mechanism {changes.mechanism}; use one of {mechanisms}",
        )


def changed_situation(today: Today, changes: WhatIf) -> Situation:
    """Return the market with changes."""
    if changes == WhatIf(shares=changes.shares):
        return _with_other_shares(today.situation, changes.shares)
    return situation_of_world(*_changed(today, changes))


def _with_other_shares(situation: Situation, shares: Mapping[str, int]) -> Situation:
    """Return the same as for changed objects, in less than half of the time: sliders move often."""
    entitlements = tuple(
        replace(each, shares=shares.get(each.name, each.shares))
        for each in situation.snapshot.entitlements
    )
    return replace(situation, snapshot=replace(situation.snapshot, entitlements=entitlements))


def _changed(today: Today, changes: WhatIf) -> tuple[World, Objects]:
    """Return a cluster with changes: without the nodes that leave, and their pods."""
    world, objects = today.world, today.objects
    gone = set(changes.remove_nodes)
    if gone:
        world = replace(
            world,
            allocations={k: v for k, v in world.allocations.items() if k not in gone},
            agents=world.agents - gone,
            silent_agents=world.silent_agents - gone,
        )
    objects = replace(
        objects,
        entitlements=[_with_shares(each, changes.shares) for each in objects.entitlements],
        jobs=[_with_fraction(each, changes.fractions) for each in objects.jobs],
        nodes=[*(n for n in objects.nodes if n.metadata.name not in gone), *_new(objects, changes)],
        pods=[pod for pod in objects.pods if pod.spec.node_name not in gone]
        if gone
        else objects.pods,
        rules=_rules(objects.rules, changes.mechanism),
    )
    return world, objects


def _with_shares(
    entitlement: kinds.EntitlementObject, shares: Mapping[str, int]
) -> kinds.EntitlementObject:
    new = shares.get(entitlement.metadata.name)
    if new is None:
        return entitlement
    return entitlement.model_copy(
        update={"spec": entitlement.spec.model_copy(update={"shares": new})}
    )


def _with_fraction(job: kinds.MarketJob, fractions: Mapping[str, float]) -> kinds.MarketJob:
    new = fractions.get(f"{job.metadata.namespace}/{job.metadata.name}") if fractions else None
    if new is None:
        return job
    update = {"parallel_fraction": _decimal(new), "profile": None}
    return job.model_copy(update={"spec": job.spec.model_copy(update=update)})


def _decimal(fraction: float) -> Decimal:
    return max(Decimal(fraction).quantize(DIGITS), DIGITS).normalize()


def _new(objects: Objects, changes: WhatIf) -> Iterator[cluster.NodeObject]:
    """Yield the nodes to add, under names that no other node has."""
    nodes = {each.metadata.name: each for each in objects.nodes}
    taken = set(nodes)
    for wanted in changes.add_nodes:
        like, number = nodes[wanted.like], 0
        for _ in range(wanted.count):
            while (name := f"{wanted.like}-new-{number + 1}") in taken:
                number += 1
            taken.add(name)
            metadata = like.metadata.model_copy(update={"name": name, "uid": ""})
            yield like.model_copy(update={"metadata": metadata})


def _rules(rules: MarketSpec, mechanism: str | None) -> MarketSpec:
    if mechanism is None:
        return rules
    cores = rules.cores.model_copy(update={"mechanism": mechanism})
    return rules.model_copy(update={"cores": cores})


def _notes(objects: Objects, changes: WhatIf) -> Iterator[str]:
    if changes.add_nodes:
        yield "new nodes have no pods: they add to budgets, and jobs use them once pods run there"
    if changes.remove_nodes:
        gone = set(changes.remove_nodes)
        pods = sum(pod.spec.node_name in gone for pod in objects.pods)
        yield f"the {pods} pods on removed nodes are left out; where they would go is not predicted"
    if changes.add_nodes or changes.remove_nodes:
        yield "nodes are added and removed by what manages the cluster, so the YAML has none"
    automatic = [
        f"{each.metadata.namespace}/{each.metadata.name}"
        for each in objects.jobs
        if each.is_automatic
        and f"{each.metadata.namespace}/{each.metadata.name}" in changes.fractions
    ]
    if automatic:
        yield (
            f"MarketJob {', '.join(automatic)}: is made for a labelled workload, so set the "
            f"annotation walras.dev/parallel-fraction there instead"
        )


def _moved(now: Plan, then: Plan) -> tuple[frozenset[tuple[str, str, str]], int]:
    """Return the pods whose cores differ, and how many do not."""
    before = {_key(each): _cores(each) for each in now.grants}
    after = {_key(each): _cores(each) for each in then.grants}
    every = before.keys() | after.keys()
    moved = frozenset(key for key in every if _differ(before.get(key), after.get(key)))
    return moved, len(every) - len(moved)


def _key(grant: Grant) -> tuple[str, str, str]:
    return grant.namespace, grant.name, grant.pod


def _cores(grant: Grant) -> tuple[float, float]:
    return grant.bought, grant.held


def _differ(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    if one is None or other is None:
        return True
    return any(abs(a - b) >= VISIBLE for a, b in zip(one, other, strict=True))


def _division(cleared: Cleared, moved: frozenset[tuple[str, str, str]]) -> DividedCores:
    plan = cleared.plan
    return DividedCores(
        mechanism=plan.mechanism,
        users=[
            DividedUser(
                name=each.name,
                entitled=each.entitled,
                bought=each.bought,
                held=each.held,
                utility=each.held_utility,
                gain=each.gain,
            )
            for each in plan.users
        ],
        nodes=[
            DividedNode(name=each.name, cores=each.cores, price=each.price) for each in plan.nodes
        ],
        jobs=[
            DividedJob(
                namespace=each.namespace,
                name=each.name,
                pod=each.pod,
                node=each.node,
                bought=each.bought,
                held=each.held,
                speedup=each.speedup,
            )
            for each in plan.grants
            if _key(each) in moved
        ],
        starving=sum(each.held < STARVES for each in plan.grants),
        figures=[
            Figure(name=name.strip(), value=figure(cleared)) for name, figure in FIGURES.items()
        ],
    )


def documents(objects: Objects, changes: WhatIf) -> str:
    """Return the changes as YAML that ``kubectl apply`` accepts: whole specs, as it needs them."""
    made: list[dict[str, Any]] = []
    if changes.mechanism is not None:
        rules = _rules(objects.rules, changes.mechanism)
        made.append(_document("Market", MARKET_NAME, "", rules))
    for each in objects.entitlements:
        if each.metadata.name in changes.shares:
            changed = _with_shares(each, changes.shares)
            made.append(_document("Entitlement", each.metadata.name, "", changed.spec))
    for job in objects.jobs:
        if (
            job.is_automatic
            or f"{job.metadata.namespace}/{job.metadata.name}" not in changes.fractions
        ):
            continue
        spec = _with_fraction(job, changes.fractions).spec
        made.append(_document("MarketJob", job.metadata.name, job.metadata.namespace, spec))
    return yaml.safe_dump_all(made, sort_keys=False, allow_unicode=True) if made else ""


def _document(kind: str, name: str, namespace: str, spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    made = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": made}
