"""Waiting jobs through `clear`: who is placed beside whom, where, and who waits on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.clearing import clear
from walras.market.snapshot import (
    ColocationRule,
    Entitlement,
    Job,
    Node,
    PlacementConstraints,
    Policy,
    Snapshot,
)
from walras.mechanisms.cooper.beliefs import PRIOR_LOSS
from walras.mechanisms.cooper.preference import DisutilityError
from walras.placement import agents_by_kind, colocation
from walras.placement.agents_by_kind import expected_losses
from walras.placement.colocation import NO_FREE_SOCKET, NO_ROOM, WAITS_FOR_MATCHING
from walras_studies.cooper.policies import POLICIES

if TYPE_CHECKING:
    from walras.market.plan import Plan

RULES = [rule for rule in get_args(ColocationRule) if rule != "None"]
USER = Entitlement("u", 1, None, frozenset({"a"}))


def waiting(name: str, program: str = "", bandwidth: float | None = None) -> Job:
    return Job("a", name, "u", "", 0.9, program=program or name, bandwidth=bandwidth)


def cluster(*jobs: Job, nodes: int = 2, sockets: int = 1) -> Snapshot:
    return Snapshot((USER,), tuple(Node(f"n{j}", 8, sockets=sockets) for j in range(nodes)), jobs)


def pairs(plan: Plan) -> set[frozenset[str]]:
    return {frozenset(title.removeprefix("a/") for title in each.jobs) for each in plan.pairings}


def test_a_market_names_the_policies_that_there_are() -> None:
    assert tuple(RULES) == POLICIES


def test_those_who_suffer_least_together_are_placed_together() -> None:
    jobs = [waiting(name, name[0]) for name in ("x1", "y1", "x2", "y2")]
    snapshot = replace(
        cluster(*jobs),
        penalties={("x", "x"): 0.4, ("x", "y"): 0.1, ("y", "x"): 0.1, ("y", "y"): 0.02},
    )
    plan = clear(snapshot, Policy(colocation="StableRoommates"))
    # The two that hardly harm each other prefer each other; the others are left with each other.
    assert pairs(plan) == {frozenset({"y1", "y2"}), frozenset({"x1", "x2"})}
    losses = {each.jobs[0]: each.penalties for each in plan.pairings}
    assert losses == {"a/x1": (0.4, 0.4), "a/y1": (0.02, 0.02)}


def test_complementary_puts_high_beside_low() -> None:
    bandwidths = {"p": 9.0, "q": 1.0, "r": 7.0, "s": 3.0}
    plan = clear(
        cluster(*(waiting(name, bandwidth=value) for name, value in bandwidths.items())),
        Policy(colocation="Complementary"),
    )
    assert pairs(plan) == {frozenset("pq"), frozenset("rs")}


@examples(60)
@given(
    st.sampled_from(RULES),
    st.integers(0, 9),
    st.integers(0, 3),
    st.integers(1, 2),
    st.integers(0, 2**32 - 1),
)
def test_everybody_is_placed_once_or_waits_and_no_processor_holds_three(
    rule: ColocationRule, agents: int, nodes: int, sockets: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    jobs = [
        waiting(f"j{k}", f"p{random.integers(4)}", float(random.uniform(0, 10)))
        for k in range(agents)
    ]
    running = [
        Job("a", f"r{k}", "u", f"n{random.integers(nodes)}", 0.9)
        for k in range(int(random.integers(4)) if nodes else 0)
    ]
    snapshot = replace(
        cluster(*jobs, *running, nodes=nodes, sockets=sockets),
        penalties={
            (f"p{i}", f"p{j}"): float(random.uniform(0, 0.5))
            for i in range(4)
            for j in range(4)
            if random.random() < 0.5
        },
    )
    plan = clear(snapshot, Policy(colocation=rule, seed=3))
    assert repr(clear(snapshot, Policy(colocation=rule, seed=3))) == repr(plan)
    names = [grant.name for grant in plan.grants] + [each.name for each in plan.refused]
    assert sorted(names) == sorted(job.name for job in snapshot.jobs)
    placed = [title for each in plan.pairings for title in each.jobs]
    assert len(placed) == len(set(placed)) == len(plan.grants) - len(running)
    before = {node.name: sum(job.node == node.name for job in running) for node in snapshot.nodes}
    for node in snapshot.nodes:
        pairings = sum(each.node == node.name for each in plan.pairings)
        assert pairings <= max(0, sockets - -(-before[node.name] // 2))
    spare = sum(max(0, sockets - -(-count // 2)) for count in before.values())
    assert len(plan.pairings) == min(spare, -(-agents // 2))


def test_pairs_beyond_the_processors_wait_in_batches() -> None:
    plan = clear(
        cluster(*(waiting(f"j{k}") for k in range(6)), nodes=1), Policy(colocation="Greedy")
    )
    assert len(plan.pairings) == 1
    assert sorted(each.reason for each in plan.refused) == [
        "waits for a socket, behind 1 batch of other jobs",
        "waits for a socket, behind 1 batch of other jobs",
        "waits for a socket, behind 2 batches of other jobs",
        "waits for a socket, behind 2 batches of other jobs",
    ]


def test_without_a_rule_or_a_processor_everybody_waits_and_knows_why() -> None:
    (refusal,) = clear(cluster(waiting("j"))).refused
    assert refusal.reason.startswith("waits to be placed, but colocation.policy is None")
    (refusal,) = clear(cluster(waiting("j"), nodes=0), Policy(colocation="Greedy")).refused
    assert refusal.reason == "waits: no node has a free socket"


def test_losses_that_nobody_measured_are_predicted_between_those_measured() -> None:
    known = {("a", "b"): 0.1, ("b", "a"): 0.3, ("c", "a"): 0.2, ("a", "c"): 0.1, ("c", "b"): 0.2}
    full = expected_losses([waiting(name) for name in "abc"], known)
    assert full.mean[0, 1] == 0.1
    assert full.mean[1, 0] == 0.3
    assert 0 <= full.mean[1, 2] <= 0.4
    assert (full.deviation[0, 1], full.deviation[1, 0]) == (0, 0)
    assert full.deviation[1, 2] > 0


def test_what_nobody_measured_follows_bandwidth_or_is_alike() -> None:
    alike = expected_losses([waiting("a"), waiting("b")], {}).mean
    assert (alike == PRIOR_LOSS).all()
    low, high = waiting("low", bandwidth=1.0), waiting("high", bandwidth=20.0)
    known = expected_losses([low, high, waiting("unknown")], {}).mean
    assert known[0, 0] < known[1, 0] < known[0, 1] < known[1, 1]
    assert known[0, 0] < known[0, 2] < known[0, 1]


@pytest.mark.parametrize("penalty", [1.5, float("inf")])
def test_losses_of_more_than_everything_are_refused(penalty: float) -> None:
    with pytest.raises(DisutilityError, match=r"measured\[0, 1\]"):
        expected_losses([waiting("a"), waiting("b")], {("a", "b"): penalty})


@pytest.mark.parametrize("rule", RULES)
def test_an_odd_job_runs_alone(rule: ColocationRule) -> None:
    plan = clear(cluster(*(waiting(f"j{k}") for k in range(3))), Policy(colocation=rule))
    assert sorted(len(each.jobs) for each in plan.pairings) == [1, 2]
    for each in plan.pairings:
        assert each.penalties == ((0,) if len(each.jobs) == 1 else (PRIOR_LOSS, PRIOR_LOSS))


@examples(80)
@given(st.sampled_from(RULES), st.integers(0, 9), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_nodes_are_never_overfull_and_wishes_always_kept(
    rule: ColocationRule, agents: int, nodes: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    names = [f"n{j}" for j in range(nodes)]

    def placement() -> PlacementConstraints:
        some = frozenset(name for name in names if random.random() < 0.7)
        return PlacementConstraints(
            exclusive=bool(random.random() < 0.2),
            avoids=frozenset({("a", f"j{random.integers(9)}")} if random.random() < 0.3 else ()),
            requests=(("cpu", int(random.integers(1, 5))),),
            nodes=some if random.random() < 0.4 else None,
        )

    jobs = [
        replace(waiting(f"j{k}", f"p{random.integers(3)}"), placement=placement())
        for k in range(agents)
    ]
    supplies = tuple(Node(name, 8, sockets=2, room={"cpu": 6}) for name in names)
    plan = clear(Snapshot((USER,), supplies, tuple(jobs)), Policy(colocation=rule))
    of = {job.name: job.placement for job in jobs}
    for each in plan.pairings:
        members = [title.removeprefix("a/") for title in each.jobs]
        assert len(members) == 1 or not any(of[name].exclusive for name in members)
    for node in names:
        there = [grant.name for grant in plan.grants if grant.node == node]
        assert sum(dict(of[name].requests)["cpu"] for name in there) <= 6
        for name in there:
            assert of[name].nodes is None or node in (of[name].nodes or ())
            others = {("a", other) for other in there if other != name}
            assert not of[name].avoids & others
    assert len(plan.grants) + len(plan.refused) == agents


def test_a_pair_that_no_node_has_room_for_is_parted() -> None:
    jobs = [
        replace(waiting(name), placement=PlacementConstraints(requests=(("cpu", 4),)))
        for name in "xy"
    ]
    nodes = tuple(Node(f"n{j}", 8, room={"cpu": 6}) for j in range(2))
    plan = clear(Snapshot((USER,), nodes, tuple(jobs)), Policy(colocation="Greedy"))
    assert sorted(grant.node for grant in plan.grants) == ["n0", "n1"]
    assert {len(each.jobs) for each in plan.pairings} == {1}


def test_one_too_large_for_any_node_waits_and_spoils_nobody_else() -> None:
    large = replace(waiting("large"), placement=PlacementConstraints(requests=(("cpu", 9),)))
    small = [
        replace(waiting(name), placement=PlacementConstraints(requests=(("cpu", 1),)))
        for name in "xy"
    ]
    nodes = (Node("n", 8, room={"cpu": 6}),)
    plan = clear(Snapshot((USER,), nodes, (large, *small)), Policy(colocation="StableRoommates"))
    assert pairs(plan) == {frozenset("xy")}
    (refusal,) = plan.refused
    assert (refusal.name, refusal.reason) == ("large", NO_ROOM)


def test_the_partner_of_one_that_was_sent_follows_it_at_any_time() -> None:
    gone = Job("a", "x", "u", "n1", 0.9, program="x")
    placement = PlacementConstraints(partner_node="n1", partner="a/x")
    follower = replace(waiting("y"), placement=placement)
    snapshot = replace(cluster(gone, follower, waiting("z")), matching=False)
    plan = clear(snapshot, Policy(colocation="Greedy"))
    assert pairs(plan) == {frozenset("xy")}
    assert {grant.name: grant.node for grant in plan.grants} == {"x": "n1", "y": "n1"}
    (refusal,) = plan.refused
    assert (refusal.name, refusal.reason) == ("z", WAITS_FOR_MATCHING)


def test_one_that_follows_its_partner_does_not_overfill_the_processors() -> None:
    """Of two processors, z and x count as one pair, so that y, beside x, takes the second."""
    there = [Job("a", name, "u", "n1", 0.9, program=name) for name in "zx"]
    placement = PlacementConstraints(partner_node="n1", partner="a/x")
    follower = replace(waiting("y"), placement=placement)
    nodes = (Node("n1", 16, sockets=2),)
    snapshot = Snapshot((USER,), nodes, (*there, follower, waiting("p"), waiting("q")))
    plan = clear(snapshot, Policy(colocation="Greedy"))
    assert pairs(plan) == {frozenset("xy")}
    assert {each.name: each.reason for each in plan.refused} == dict.fromkeys("pq", NO_FREE_SOCKET)
    wider = replace(snapshot, nodes=(*nodes, Node("n2", 4)))
    assert pairs(clear(wider, Policy(colocation="Greedy"))) == {frozenset("xy"), frozenset("pq")}
    last = replace(wider, nodes=(replace(nodes[0], sockets=3),))
    assert pairs(clear(last, Policy(colocation="Greedy"))) == {frozenset("xy"), frozenset("pq")}


def test_a_lone_job_that_wants_a_processor_to_itself_fills_it() -> None:
    loner = Job("a", "x", "u", "n0", 0.9, placement=PlacementConstraints(exclusive=True))
    snapshot = cluster(loner, replace(loner, name="w"), waiting("y"), nodes=1, sockets=2)
    (refusal,) = clear(snapshot, Policy(colocation="Greedy")).refused
    assert refusal.name == "y"


def test_who_would_rather_share_with_whom_is_told() -> None:
    jobs = [waiting(name, name) for name in "pqrs"]
    cost = {"pq": 0.1, "qp": 0.1, "rs": 0.1, "sr": 0.1}
    penalties = {(one, other): cost.get(one + other, 0.4) for one in "pqrs" for other in "pqrs"}
    snapshot = replace(cluster(*jobs), penalties=penalties)
    content = clear(snapshot, Policy(colocation="StableRoommates"))
    assert all(each.companions == ("", "") and all(each.measured) for each in content.pairings)
    told = {
        (job, companion, round(gain, 9))
        for seed in range(5)
        for each in clear(snapshot, Policy(colocation="StableMarriageRandom", seed=seed)).pairings
        for job, companion, gain in zip(each.jobs, each.companions, each.gains, strict=True)
        if companion
    }
    assert told == {
        ("a/p", "a/q", 0.3),
        ("a/q", "a/p", 0.3),
        ("a/r", "a/s", 0.3),
        ("a/s", "a/r", 0.3),
    }


def test_more_programs_than_are_laid_out_at_once_are_matched_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (colocation, agents_by_kind):
        monkeypatch.setattr(module, "MAX_PROGRAMS", 2)
    jobs = [waiting(f"{name}{k}", name) for name in "pqr" for k in range(2)]
    snapshot = replace(cluster(*jobs, nodes=3), penalties={("p", "z"): 0.2, ("p", "q"): 0.1})
    plan = clear(snapshot, Policy(colocation="StableRoommates"))
    assert len(plan.pairings) == 3
    assert frozenset({"r0", "r1"}) in pairs(plan)


def watched(name: str, program: str = "", *, seen_alone: bool = True) -> Job:
    """A waiting job whose losses are measured while it runs."""
    return replace(waiting(name, program), observed=True, seen_alone=seen_alone)


COPIES = [watched(f"{program}{copy}", program) for program in "pq" for copy in (1, 2)]
SAME = {(one, one): 0.05 for one in "pq"}


@pytest.mark.parametrize(
    ("jobs", "penalties", "exploration", "expected"),
    [
        (COPIES, SAME, 0.0, {"p1 q1", "p2 q2"}),  # equally good, and not known
        ([replace(each, observed=False) for each in COPIES], SAME, 0.0, {"p1 p2", "q1 q2"}),
        (COPIES, dict.fromkeys(SAME, 0.03), 0.0, {"p1 p2", "q1 q2"}),
        (COPIES, dict.fromkeys(SAME, 0.03), 0.02, {"p1 q1", "p2 q2"}),
    ],
    ids=["no cost", "never measured", "no budget", "within the budget"],
)
def test_pairs_that_are_not_known_are_made_within_the_budget(
    jobs: list[Job], penalties: dict[tuple[str, str], float], exploration: float, expected: set[str]
) -> None:
    """The policy pairs copies, which is known to be good; how the others fare is not known."""
    snapshot = replace(cluster(*jobs), penalties=penalties)
    plan = clear(snapshot, Policy(colocation="StableRoommates", exploration=exploration))
    assert pairs(plan) == {frozenset(each.split()) for each in expected}
    for each in plan.pairings:
        if "p1 q1" in expected:
            assert len(each.learning) == 2
            assert max(each.learning) <= exploration + 1e-12
        else:
            assert each.learning == ()


@pytest.mark.parametrize("seen_alone", [False, True])
def test_a_program_that_was_never_seen_alone_gets_a_socket_to_itself(*, seen_alone: bool) -> None:
    """The policy alone would give the last of three jobs the socket that is left."""
    known = {(one, other): 0.05 for one in "bc" for other in "bc"}
    jobs = [watched("a", seen_alone=seen_alone), *map(waiting, "bc")]
    rules = Policy(colocation="Greedy", exploration=0.1)
    plan = clear(replace(cluster(*jobs), penalties=known), rules)
    (alone,) = (each for each in plan.pairings if len(each.jobs) == 1)
    assert alone.jobs == (("a/b",) if seen_alone else ("a/a",))
    assert bool(alone.learning) != seen_alone


def test_exclusive_jobs_are_never_exchanged() -> None:
    alone = replace(watched("x", "p"), placement=PlacementConstraints(exclusive=True))
    plan = clear(
        replace(cluster(*COPIES, alone, nodes=3), penalties=SAME), Policy(colocation="Greedy")
    )
    assert frozenset({"x"}) in pairs(plan)


def test_losses_are_predicted_once_for_the_same_measurements() -> None:
    """Also of programs whose bandwidth is not known."""
    jobs, known = [waiting("once"), waiting("more", bandwidth=0.5)], {("once", "more"): 0.25}
    before = agents_by_kind._believed.cache_info().misses
    for _ in range(3):
        expected_losses(jobs, known)
    assert agents_by_kind._believed.cache_info().misses == before + 1
