"""Properties of decisions about any world, however broken."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from random import Random
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import kind_documents
import worlds
from admission import admit, read_definitions, schema_of
from examples import ALL
from walras.market.snapshot import CoreMechanism, MemoryMechanism
from walras_api.assembly import Objects
from walras_api.contract import COLOCATION_GATE
from walras_api.entitlement import EntitlementStatus
from walras_api.kept import Kept
from walras_api.market_job_status import MarketJobStatus
from walras_api.market_status import MarketStatus
from walras_api.node_allocation import MIN_MEMORY_GRANT
from walras_api.speedup_profile_status import SpeedupProfileStatus
from walras_operator.decide import decision
from whole_decisions import decide, whole
from worlds import entitlement, job, market, node, outcome, pod, profile, world

if TYPE_CHECKING:
    from walras_api.status import Status
    from walras_operator.decide.world import Document, World
    from whole_decisions import Decision

MODELS: dict[str, type[Status]] = {
    "Entitlement": EntitlementStatus,
    "Market": MarketStatus,
    "MarketJob": MarketJobStatus,
    "SpeedupProfile": SpeedupProfileStatus,
}
SCHEMAS = {kind: schema_of(each) for kind, each in read_definitions().items()}
USERS, JOBS, NODES = ["u0", "u1", "u2", "u3"], ["j0", "j1", "j2"], ["n0", "n1"]
AMOUNTS = ["0", "1", "1Gi", "8Gi", "8Ei", "-1"]
FAULTS = 0.08
"""Part of all choices that go wrong; more, and hardly a world has a pod that gets anything."""


class Lots(Random):
    """Draws a world from a seed."""

    def mostly(self, *choices: Any) -> Any:
        """Return the first choice most of the time, or else another one."""
        return self.choice(choices[1:]) if self.random() < FAULTS else choices[0]

    def some(self, names: list[str]) -> list[str]:
        """Return a random selection of most of the names."""
        return [name for name in names if self.mostly(True, False)]


def entitlements(lots: Lots) -> list[Document]:
    return [
        entitlement(
            name,
            shares=lots.mostly(lots.randint(1, 9), 0, 2**31 - 1),
            namespaces=lots.mostly(["lab", "other"], ["lab"], []),
            **lots.mostly({}, {"parent": "u0"}, {"parent": "u1"}, {"parent": "nowhere"}),
        )
        for name in lots.some(USERS)
    ]


def one_job(lots: Lots, name: str) -> Document:
    labels = {"selector": {"matchLabels": {"app": lots.mostly(name, *JOBS)}}}
    target = {"targetRef": {"apiVersion": "v1", "kind": "Pod", "name": "p0"}}
    known = {"parallelFraction": f"0.{lots.randint(10, 99)}"}
    spec: dict[str, Any] = {
        **lots.mostly(labels, {"selector": {}}, {"command": ["make"]}, target),
        **lots.mostly(known, {"auto": True}, {"profile": "f0"}, {"profile": "f1"}),
        "work": lots.mostly(str(lots.randint(1, 5)), "0.000000000001", "999999999999", "NaN"),
        "minCores": lots.mostly(1, 0, 2, 6),
        **lots.choice([{}, {"maxCores": 6}]),
        **lots.choice([{}, {"memory": {"min": lots.mostly("0", *AMOUNTS), "demand": "4Gi"}}]),
        **lots.mostly({}, {"memory": {"demand": lots.choice(AMOUNTS)}}),
    }
    return job(name, lots.mostly(lots.choice(USERS), "nobody"), lots.mostly("lab", "other"), **spec)


def pods(lots: Lots) -> list[Document]:
    return [
        pod(
            f"p{number}",
            lots.choice([*JOBS, "nobodys"]),
            lots.mostly(lots.choice(NODES), None, "gone"),
            namespace=lots.mostly("lab", "other"),
            phase=lots.mostly("Running", "Pending", "Succeeded"),
            cpu=lots.mostly("100m", "0", "2"),
            uid=lots.mostly(f"u{number}", "u0", "./u"),
        )
        for number in range(lots.randint(0, 20))
    ]


def profiles(lots: Lots) -> list[Document]:
    sizes = lots.choice([["100%"], ["5%", "10%"], ["x"]])
    measurements = [
        {
            "cores": cores,
            "seconds": [lots.choice(["0.000000000001", "1", "3", "999999999999"])],
            "dataSize": size,
        }
        for cores in (1, lots.choice([1, 2, 4]))
        for size in sizes
    ]
    fraction = lots.choice(["0.5", "1", "0.000000000001", "NaN", "-1", 2])
    return [profile("f0", measurements=measurements), profile("f1", parallelFraction=fraction)]


def markets(lots: Lots) -> list[Document]:
    cores = {
        "mechanism": lots.mostly(
            lots.choice(["AmdahlBidding", "AmdahlBidding", *get_args(CoreMechanism)]), "Lottery"
        ),
        "hysteresis": lots.choice(["0", "0.02", "1"]),
        "reservedCores": lots.randint(0, 1),
        "soldBy": lots.choice(["node", "socket"]),
        **lots.choice([{}, {"credits": {"halfLifeHours": 1, "mostShare": "0.5"}}]),
    }
    memory = {
        "mechanism": lots.choice(get_args(MemoryMechanism)),
        **lots.choice([{}, {"halfLifeHours": 1}]),
    }
    mode = lots.mostly("enforce", "observe")
    return [market(name, mode=mode, cores=cores, memory=memory) for name in lots.some(["default"])]


def drawn(seed: int) -> World:
    """Return a world with most things in order, whatever the seed."""
    lots = Lots(seed)
    nodes = [
        node(name, lots.mostly("8", "0", "1", "3920m"), ready=lots.mostly(True, False))
        for name in lots.some(NODES)
    ]
    for each in nodes:
        each["metadata"]["labels"] = lots.choice([{}, {"walras.dev/sockets": "2"}])
    documents = [*entitlements(lots), *pods(lots), *nodes, *profiles(lots), *markets(lots)]
    documents += [one_job(lots, name) for name in lots.some(JOBS)]
    return world(*documents, agents=set(lots.some(NODES)))


worlds_drawn = st.integers(0, 2**32).map(drawn)


def granted(decision: Decision) -> dict[tuple[str, str], float]:
    """Return cores by node and pod."""
    return {
        (write.node, grant["podUID"]): float(grant["cores"])
        for write in decision.nodes
        for grant in write.spec["grants"]
    }


def as_text(decision: Decision) -> str:
    writes = [decision.nodes, decision.statuses, decision.events]
    return json.dumps(writes, default=lambda each: [getattr(each, f) for f in each.__slots__])


@given(worlds_drawn)
def test_a_decision_is_always_made_and_always_the_same(known: World) -> None:
    decision = decide(known)
    assert as_text(decision) == as_text(decide(known))
    for write in decision.statuses:
        MODELS[write.object.kind].model_validate(write.status)
    for order in decision.nodes:
        spec = worlds.allocation(order.node, {"epoch": 1, **order.spec}).spec
        assert all((each.memory or MIN_MEMORY_GRANT) >= MIN_MEMORY_GRANT for each in spec.grants)


@pytest.mark.long
@given(worlds_drawn)
def test_an_api_server_stores_what_is_written_as_it_is(known: World) -> None:
    decision = decide(known)
    for write in decision.statuses:
        wanted = {**kind_documents.document(write.object.kind), "status": write.status}
        answer = admit(wanted, SCHEMAS[write.object.kind])
        assert answer.problems == []
        assert answer.stored["status"] == write.status
    for order in decision.nodes:
        wanted = kind_documents.document("NodeAllocation", epoch=1, **order.spec)
        answer = admit(wanted, SCHEMAS["NodeAllocation"])
        assert answer.problems == []
        assert answer.stored["spec"] == {"epoch": 1, **order.spec}


@given(worlds_drawn)
def test_no_node_gives_more_than_it_sells_and_no_pod_is_granted_twice(known: World) -> None:
    decision = decide(known)
    for write in decision.nodes:
        uids = [grant["podUID"] for grant in write.spec["grants"]]
        assert len(uids) == len(set(uids))
        if uids:
            assert decision.plan is not None
            (sold,) = (each.cores for each in decision.plan.nodes if each.name == write.node)
            assert math.fsum(float(grant["cores"]) for grant in write.spec["grants"]) <= sold + 1e-9


def _at_once(before: World, decision: Decision, after: World) -> World:
    """The world after a decision, without the time that lets credits give back what was taken."""
    plan = decision.plan
    moving = plan is not None and any(each.rate for each in plan.account.values())
    return replace(after, now=before.now) if moving else after


@given(worlds_drawn, st.booleans())
def test_what_was_written_is_not_written_again(known: World, leader_changes: bool) -> None:
    first = decide(known)
    after = _at_once(known, first, outcome(known, first, leader_changes=leader_changes))
    again = decide(after)
    assert (again.events, again.nodes, again.statuses) == ((), (), ())


@pytest.mark.long
@given(worlds_drawn, st.booleans())
def test_an_operator_that_ends_between_two_parts_leaves_nothing_but_the_second_to_do(
    known: World, leader_changes: bool
) -> None:
    made = decision.decide(known)
    first, rest = whole(made, made.first), made.rest()
    told = [each.object for part in (first, rest) for each in part.statuses]
    assert len(told) == len(set(told))
    assert not made.first or not (rest.nodes or rest.profiles)
    after = _at_once(known, first, outcome(known, first, leader_changes=leader_changes))
    again = decide(after)
    assert again.nodes == ()
    assert {each.object for each in again.statuses}.isdisjoint(
        each.object for each in first.statuses
    )
    last = decide(_at_once(after, again, outcome(after, again)))
    assert (last.events, last.nodes, last.statuses) == ((), (), ())


WRONG = [
    entitlement("zz", parent="zz"),
    entitlement("zz", shares=-1),
    entitlement("zz", parent="nowhere"),
    job("zz", "nobody", selector={"matchLabels": {"app": "none"}}),
    job("zz", "u0", selector={}),
    job("zz", "u0", work="NaN"),
    job("zz", "u0", profile="gone"),
    job("zz", "u0", created=None, selector={"matchLabels": {"app": "j0"}}),
    profile("zz", parallelFraction="NaN"),
    market("zz", cores={"mechanism": "Lottery"}),
    node("zz", ready=False),
    pod("zz", "none", "gone"),
]


@given(worlds_drawn, st.sampled_from(WRONG))
def test_a_broken_object_more_changes_nothing_for_the_others(known: World, wrong: Document) -> None:
    more = world(wrong)
    fields: Any = {
        field: [*getattr(known.objects, field), *getattr(more.objects, field)]
        for field in ("entitlements", "jobs", "profiles", "nodes", "pods")
    }
    both = replace(
        known,
        objects=replace(known.objects, **fields),
        markets=[*known.markets, *more.markets],
        broken={**known.broken, **more.broken},
    )
    without, with_it = decide(known), decide(both)
    if not _has_pods(with_it, "zz"):
        assert granted(with_it) == granted(without)


def _has_pods(decision: Decision, job: str) -> bool:
    """Return whether a job has pods that no older one selects, and so is not broken."""
    return any(each.object.name == job and each.status.get("pods") for each in decision.statuses)


@pytest.mark.long
@given(worlds_drawn, st.randoms(use_true_random=False))
def test_the_order_of_objects_decides_nothing(known: World, lots: Any) -> None:
    objects = known.objects
    shuffled = {
        field: lots.sample(list(getattr(objects, field)), len(getattr(objects, field)))
        for field in ("entitlements", "jobs", "profiles", "nodes", "pods")
    }
    other = replace(known, objects=replace(objects, **shuffled))
    assert as_text(decide(other)) == as_text(decide(known))


def anew(value: Any) -> Any:
    """Return an equal value in which no model remembers what was computed from it."""
    if isinstance(value, BaseModel):
        parts_of = {name: anew(getattr(value, name)) for name in type(value).model_fields}
        return value.model_construct(value.model_fields_set, **parts_of)
    if type(value) in {list, tuple}:
        return type(value)(map(anew, value))
    return {key: anew(each) for key, each in value.items()} if type(value) is dict else value


def unusual(lots: Lots) -> World:
    """Return objects that use what `drawn` leaves out, and the rules that make them count."""
    gate = {"schedulingGates": [{"name": COLOCATION_GATE}]}
    waiting = [pod(f"p{number}", lots.choice(JOBS), None) for number in range(3)]
    for each in waiting:
        each["spec"] |= gate
    labelled = pod("p3", "nobodys", "n0", labels={"walras.dev/job": lots.choice(["", "true"])})
    counted: Document = {
        "deadline": f"{lots.randint(1, 90)}m",
        "progress": {"work": "1000", "file": "f"},
    }
    jobs = [
        job("j0", "u0", memory={"demand": "measured", "min": "1Mi"}, wholeCores=True),
        job("j1", "u1", auto=True, isolated=True, colocation={"avoid": [{"name": "j2"}]}),
        job("j2", "u2", **counted),
    ]
    rules = market(
        mode="enforce",
        cores={"floor": lots.choice(["Requests", "Guaranteed"]), "credits": {"halfLifeHours": 1}},
        colocation={"policy": lots.choice(["StableRoommates", "Complementary"])},
        jobs={"create": lots.choice(["Labelled", "Entitled"])},
        profiling={"reprofileSeconds": 600},
    )
    return world(*waiting, labelled, *jobs, rules)


def with_reports(known: World, lots: Lots) -> World:
    """Return the world after the agent of a node has reported."""
    if not known.allocations:
        return known
    node_ = lots.choice(sorted(known.allocations))
    allocation = known.allocations[node_]
    pods = [
        {
            "podUID": grant.pod_uid,
            "state": lots.mostly("Enforced", "Failed", "Pending"),
            "memoryDemand": str(lots.randint(1, 4) << 30),
            "usedCpus": "0.5",
            "demand": {
                "atOnce": str(lots.randint(0, 6)),
                "threads": lots.randint(1, 9),
                "seconds": lots.choice([0, 20, 900]),
            },
        }
        for grant in allocation.spec.grants
    ]
    status: Document = {"epoch": lots.mostly(allocation.spec.epoch, 99), "pods": pods}
    if lots.random() < 0.5:
        status["topology"] = {"cores": 4, "threads": lots.choice([4, 8]), "sockets": 2}
    told = allocation.model_copy(update={"status": status})
    return replace(known, allocations={**known.allocations, node_: told})


def after_event(known: World, lots: Lots) -> World:
    """Return the world after time, an agent's report, or a change of the rules or of an object."""
    field = lots.choice(["entitlements", "jobs", "profiles", "nodes", "pods", "markets", "other"])
    if field == "other":
        agents = frozenset(lots.some(NODES))
        return lots.choice(
            [
                with_reports(known, lots),
                replace(known, now=lots.choice([worlds.NOW, worlds.LATER, worlds.NEXT_QUANTUM])),
                replace(known, agents=agents, silent_agents=frozenset(NODES) - agents),
            ]
        )
    seed = lots.getrandbits(32)
    other = unusual(Lots(seed)) if lots.random() < 0.4 else drawn(seed)
    if field == "markets":
        return replace(known, markets=other.markets or known.markets)
    objects = {each.metadata.name: each for each in getattr(known.objects, field)}
    others = {each.metadata.name: each for each in getattr(other.objects, field)}
    if not objects and not others:
        return known
    name = lots.choice(sorted({*objects, *others}))
    if lots.random() < 0.3 or name not in others:
        objects.pop(name, None)
    else:
        objects[name] = others[name]
    changed: Any = {field: list(objects.values())}
    broken = {each: why for each, why in known.broken.items() if each.name != name}
    return replace(known, objects=replace(known.objects, **changed), broken=broken)


def from_nothing(known: World) -> World:
    """Return an equal world of which nothing is known from an earlier decision."""
    objects = {each.name: anew(getattr(known.objects, each.name)) for each in fields(Objects)}
    return replace(
        known,
        objects=Objects(**objects),
        markets=anew(known.markets),
        allocations=anew(known.allocations),
        kept=Kept(),
    )


def equals_one_from_nothing(known: World, seed: int) -> None:
    """Compare decisions after events; those before have kept results, and models remember some.

    Between them may be decisions for nodes alone, of which nobody asks for the statuses.
    """
    lots = Lots(seed)
    for _ in range(4):
        known = after_event(known, lots)
        if lots.random() < 0.3:
            decision.decide(after_event(known, lots))
        made, fresh = decide(known), decide(from_nothing(known))
        assert repr(made) == repr(fresh)
        known = outcome(known, made)


@given(worlds_drawn, st.integers(0, 2**32))
def test_after_any_events_a_decision_is_the_one_from_nothing(known: World, seed: int) -> None:
    # A cache in a module must be emptied in `from_nothing`, too.
    equals_one_from_nothing(known, seed)


@pytest.mark.long
@settings(max_examples=10_000 if ALL else 10)
@given(worlds_drawn, st.integers(0, 2**32))
def test_after_ten_thousand_courses_of_events_it_still_is(known: World, seed: int) -> None:
    equals_one_from_nothing(known, seed)


@given(worlds_drawn)
def test_every_pod_of_an_admitted_job_on_a_selling_node_has_something(known: World) -> None:
    decision = decide(known)
    if decision.plan is None:
        return
    for grant in decision.plan.grants:
        assert grant.held > 0
