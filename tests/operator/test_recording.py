"""Runs of pods that ended, told from what they held: by one pod, by one decision, by any story."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission import admit, read_definitions, schema_of
from walras_api.market_job_status import MOST_RUNS, MOST_SECONDS, MOST_UNDERWAY, WHOLE_SHARE
from walras_operator.decide.runs.lifetimes import ENDED_WITHOUT_RUN, PodEnd, read_end, seconds_of
from walras_operator.decide.runs.run_record import runs_without_grants
from walras_operator.decide.runs.tally import HeldShares, Tally
from walras_operator.decide.world import Lifetime
from whole_decisions import decide
from worlds import document, enforced, entitlement, job, market, node, outcome, pod, status, world

if TYPE_CHECKING:
    from walras_api.node_allocation import NodeAllocation, PodGrant
    from walras_operator.decide.world import Document, World
    from whole_decisions import Decision

BOTH: Document = {"cores": {"mechanism": "Auction"}, "memory": {"mechanism": "Auction"}}
SCHEMA = schema_of(read_definitions()["MarketJob"])
CORES, MEMORY = 8, 16 * 1024**3
START = 1_800_000_000

parts = st.integers(0, WHOLE_SHARE)
held = st.none() | st.builds(HeldShares, parts, parts)


def at(second: int) -> str:
    return datetime.fromtimestamp(START + second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# The end of a pod


def ended(**changes: Any) -> Document:
    """A pod that ran for 100 s and succeeded, with parts of it replaced."""
    ran = {"startedAt": at(0), "finishedAt": at(100), "exitCode": 0}
    container = {"restartCount": 0, "lastState": {}, "state": {"terminated": ran}}
    metadata = {"uid": "u", **changes.pop("metadata", {})}
    containers = changes.pop("containers", [container])
    return {
        "metadata": metadata,
        "spec": {"containers": [{}] * changes.pop("of", len(containers))},
        "status": {"phase": "Succeeded", "containerStatuses": containers, **changes},
    }


def container(started: object, finished: object, **fields: Any) -> Document:
    return {"state": {"terminated": {"startedAt": started, "finishedAt": finished}}, **fields}


def test_a_pod_ran_from_its_first_container_on_until_its_last_had_ended() -> None:
    containers = [container(at(3), at(50)), container(at(5), at(90))]
    found = read_end(ended(containers=containers), "u")
    assert found == PodEnd(over=True, lifetime=Lifetime(START + 3, START + 90))


@pytest.mark.parametrize(
    "found",
    [
        None,
        {},
        ended(metadata={"uid": "another"}),
        ended(phase="Failed"),
        ended(containers=[container(at(0), at(9), restartCount=1)]),
        ended(containers=[container(at(0), at(9), lastState={"terminated": {"exitCode": 1}})]),
        ended(initContainerStatuses=[{"restartCount": 2}]),
        ended(containers=[container(None, at(9))]),
        ended(containers=[container(at(9), at(9))]),
        ended(containers=[container("yesterday", at(9))]),
        ended(containers=[{"state": {"running": {"startedAt": at(0)}}}]),
        ended(containers=[]),
        ended(containers="none"),
        ended(of=2),
        ended(metadata={"deletionTimestamp": at(100), "deletionGracePeriodSeconds": 30}),
        ended(metadata={"deletionTimestamp": at(100)}),
        ended(metadata={"deletionTimestamp": "soon"}),
    ],
)
def test_whoever_did_not_succeed_by_itself_and_at_once_leaves_no_run(found: Document) -> None:
    assert read_end(found, "u") == ENDED_WITHOUT_RUN


def test_who_is_removed_after_its_end_leaves_a_run() -> None:
    removed = {"deletionTimestamp": at(131), "deletionGracePeriodSeconds": 30}
    assert read_end(ended(metadata=removed), "u").lifetime == Lifetime(START, START + 100)


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", None])
def test_a_pod_that_still_runs_has_not_ended(phase: str | None) -> None:
    assert read_end(ended(phase=phase), "u") == PodEnd(over=False)


# What one pod held


def test_shares_are_parts_of_what_a_node_sells_and_never_more_than_all_of_it() -> None:
    assert HeldShares.of((3000, 8000), (1, 3)) == (375_000_000, 333_333_333)
    assert HeldShares.of((9000, 8000), (0, 1)) == (WHOLE_SHARE, 0)
    assert HeldShares.of((1, 0), (-1, 5)) == (0, 0)


@given(
    st.lists(st.tuples(st.integers(0, 10**5), held, st.booleans()), min_size=1, max_size=60),
    st.integers(0, 10**4),
)
def test_a_mean_is_that_of_all_stretches_whoever_adds_them_up(
    story: list[tuple[int, HeldShares | None, bool]], last: int
) -> None:
    tally, now, present = Tally("u", "p"), START, None
    time, sums = 0, [Fraction(0), Fraction(0)]

    def pass_time(seconds: int) -> None:
        nonlocal now, time
        now += seconds
        if present is not None:
            time += seconds
            for place, share in enumerate(present):
                sums[place] += Fraction(share, WHOLE_SHARE) * seconds

    for seconds, shares, forgets in story:
        pass_time(seconds)
        tally, present = tally.holding(shares, now), shares
        if forgets:  # another operator reads what the last one wrote
            again = Tally.read(json.loads(json.dumps(tally.document())))
            assert again == tally
            tally = again
    pass_time(last)
    run = tally.run(Lifetime(START, now))
    if not time or 2 * time < now - START:
        assert run is None
        return
    assert run is not None
    assert (run.held_seconds, run.seconds) == (time, now - START)
    for told, total in zip((run.cores, run.memory), sums, strict=True):
        mean = total / time
        assert mean - Fraction(1, 10**12) < Fraction(told) <= mean
        assert 0 <= Fraction(told) <= 1
    assert float(run.utility) == pytest.approx(1 / run.seconds, abs=1e-12)


def test_a_grant_that_stays_as_it_is_changes_nothing() -> None:
    first = Tally("u", "p").holding(HeldShares(1, 2), START)
    assert first.holding(HeldShares(1, 2), START + 99) is first


def test_sums_of_all_of_a_node_for_weeks_of_changes_are_a_share_of_one() -> None:
    tally, shares = Tally("u", "p"), [HeldShares(WHOLE_SHARE, WHOLE_SHARE // 3), None]
    for second in range(40_000):
        tally = tally.holding(shares[second % 2], START + 61 * second)
    run = tally.run(Lifetime(START, START + 61 * 40_000))
    assert run is not None
    assert (run.cores, run.memory) == ("1", "0.333333333")


def test_a_clock_that_goes_back_or_far_ahead_adds_no_time() -> None:
    held = Tally("u", "p").holding(HeldShares(5, 5), START)
    assert held.until(START - 10).seconds == 0
    assert held.until(START + MOST_SECONDS + 1).seconds == 0


GOOD = {"podUID": "u", "pod": "p", "heldSeconds": 10, "coreSeconds": "5", "memorySeconds": "7"}
GOING = GOOD | {"heldSince": at(0), "cores": 5, "memory": 6}
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
)


@pytest.mark.parametrize(
    "wrong",
    [
        {"podUID": ""}, {"podUID": 1}, {"pod": None}, {"heldSeconds": -1}, {"heldSeconds": True},
        {"heldSeconds": MOST_SECONDS + 1}, {"coreSeconds": 5}, {"coreSeconds": "10000000001"},
        {"memorySeconds": "-1"}, {"memorySeconds": "²"}, {"heldSince": "now"}, {"heldSince": None},
        {"heldSince": "0001-01-01T00:00:00Z"}, {"cores": WHOLE_SHARE + 1}, {"memory": "1"},
    ],
)  # fmt: skip
def test_what_cannot_be_is_not_read(wrong: Document) -> None:
    assert Tally.read(GOOD) is not None
    assert Tally.read(GOING) is not None
    assert Tally.read(GOING | wrong) is None


@given(st.dictionaries(st.sampled_from(sorted(GOING)), anything))
def test_reading_a_status_never_fails(changes: Document) -> None:
    tally = Tally.read(GOING | changes)
    if tally is not None:
        assert Tally.read(tally.document()) == tally


# Decisions


def lab(*more: Document, auction: Document | None = None, **spec: Any) -> World:
    """A job of three pods, one of them on a node of its own, and another beside two of them."""
    memory = {"demand": "4Gi"}
    documents = [
        market(**BOTH), entitlement(), node("n1", str(CORES)), node("n2", str(CORES)),
        job(auction=auction or {}, **{"memory": memory, **spec}), job("b", memory=memory),
        pod("train-0"), pod("train-1", place="n2"), pod("train-2"), pod("b-0", "b"),
        *more,
    ]  # fmt: skip
    return replace(world(*documents), now=at(0))


def later(before: World, second: int, *, leader_changes: bool = False) -> tuple[World, Decision]:
    """Return the decision at a time, and the world after all of it is written."""
    decision = decide(replace(before, now=at(second)))
    return outcome(before, decision, leader_changes=leader_changes), decision


def running(*more: Document, **spec: Any) -> World:
    """The lab, whose pods are all held to their grants since the tenth second."""
    world_, _ = later(lab(*more, **spec), 0)
    world_, _ = later(enforced(world_), 10)
    return world_


def runs(world_: World, name: str = "train") -> Document:
    found = next(each for each in world_.objects.jobs if each.metadata.name == name)
    result: Document = (found.status or {}).get("runs", {})
    return result


def without(world_: World, *names: str) -> World:
    """The world as the watch tells it when these pods have ended."""
    pods = [each for each in world_.objects.pods if each.metadata.name not in names]
    return replace(world_, objects=replace(world_.objects, pods=pods))


def knowing(world_: World, **ends: Lifetime | None) -> World:
    return replace(
        world_, ends={f"u-lab-{name.replace('_', '-')}": each for name, each in ends.items()}
    )


def lived(first: int, last: int) -> Lifetime:
    return Lifetime(START + first, START + last)


def share(world_: World, name: str) -> tuple[Fraction, Fraction]:
    """Return a pod's parts of its node, by the node's plan."""
    (found,) = (
        each
        for allocation in world_.allocations.values()
        for each in allocation.spec.grants
        if each.name == name
    )
    return Fraction(found.cores) / CORES, Fraction(found.memory or 0, MEMORY)


def test_pods_are_followed_from_when_they_are_held_and_not_written_again() -> None:
    first, _ = later(lab(), 0)
    assert runs(first) == {}
    followed, _ = later(enforced(first), 10)
    told = runs(followed)["underway"]
    assert [each["pod"] for each in told] == ["train-0", "train-1", "train-2"]
    for each in told:
        assert each["heldSince"] == at(10)
        cores, memory = share(followed, each["pod"])
        assert (each["cores"], each["memory"]) == (
            int(cores * WHOLE_SHARE),
            int(memory * WHOLE_SHARE),
        )
    again, decision = later(followed, 5000)
    assert not decision.statuses
    assert decision.ended == ()
    assert runs(again) == runs(followed)


def test_a_pod_that_succeeds_leaves_its_mean_share_and_its_speed() -> None:
    before = running()
    gone, decision = later(without(before, "train-0"), 60)
    assert decision.ended is not None
    assert [(each.name, each.uid) for each in decision.ended] == [("train-0", "u-lab-train-0")]
    assert "finished" not in runs(gone)
    told, decision = later(knowing(gone, train_0=lived(5, 50)), 61)
    (run,) = runs(told)["finished"]
    cores, memory = share(before, "train-0")
    assert Fraction(run["cores"]) == cores
    assert Fraction(run["memory"]) == pytest.approx(memory, abs=1e-9)
    assert (run["seconds"], run["heldSeconds"], run["finished"]) == (45, 40, at(50))
    assert run["utility"] == "0.022222222222"
    assert "train-0" not in [each["pod"] for each in runs(told)["underway"]]


@pytest.mark.parametrize("state", ["Failed", "Pending", "Absent"])
def test_only_what_agents_hold_pods_to_counts(state: str) -> None:
    loose, _ = later(enforced(running(), state=state), 50)
    for each in runs(loose)["underway"]:
        assert (each["heldSeconds"], "heldSince" in each) == (40, False)
    again, _ = later(enforced(loose), 60)
    assert [each["heldSince"] for each in runs(again)["underway"]] == [at(60)] * 3


def with_budget(before: World, budget: int) -> World:
    """Give the other job another budget, so that all shares change."""
    jobs = world(job("b", memory={"demand": "4Gi"}, auction={"budget": str(budget)}))
    spec = jobs.objects.jobs[0].spec
    changed = [
        each.model_copy(update={"spec": spec}) if each.metadata.name == "b" else each
        for each in before.objects.jobs
    ]
    return replace(before, objects=replace(before.objects, jobs=changed))


def test_time_counts_while_grants_change_with_every_decision() -> None:
    """Agents answer before each decision, and each decision moves cores."""
    now, held = running(), 0.0
    for number in range(1, 6):
        held += 10 * float(share(now, "train-0")[0])
        now, decision = later(with_budget(enforced(now), number % 3 + 2), 10 + 10 * number)
        assert decision.nodes
    gone, _ = later(without(now, "train-0"), 60)
    (run,) = runs(later(knowing(gone, train_0=lived(10, 60)), 61)[0])["finished"]
    assert run["heldSeconds"] == 50
    assert float(run["cores"]) == pytest.approx(held / 50)


def test_time_counts_while_memory_alone_changes_with_every_decision() -> None:
    now = running()
    for number in range(1, 6):
        cores, memory = share(now, "train-1")
        wants = job(auction={}, memory={"demand": f"{4 + number % 2}Gi"})
        jobs = [world(wants).objects.jobs[0].spec, *(each.spec for each in now.objects.jobs[1:])]
        changed = [
            each.model_copy(update={"spec": spec})
            for each, spec in zip(now.objects.jobs, jobs, strict=True)
        ]
        now = enforced(replace(now, objects=replace(now.objects, jobs=changed)))
        now, _ = later(now, 10 + 10 * number)
        assert share(now, "train-1")[0] == cores
        assert share(now, "train-1")[1] != memory
    gone, _ = later(without(now, "train-1"), 60)
    (run,) = runs(later(knowing(gone, train_1=lived(10, 60)), 61)[0])["finished"]
    assert run["heldSeconds"] == 50


@pytest.mark.parametrize("field", ["cores", "memory"])
def test_a_change_that_the_last_operator_did_not_live_to_tell_is_seen(field: str) -> None:
    before = running()
    (one, *others) = runs(before)["underway"]
    told = {**runs(before), "underway": [{**one, field: 5}, *others]}
    jobs = [
        each.model_copy(update={"status": {**(each.status or {}), "runs": told}})
        if each.metadata.name == "train"
        else each
        for each in before.objects.jobs
    ]
    after, _ = later(replace(before, objects=replace(before.objects, jobs=jobs)), 50)
    (found, *rest) = runs(after)["underway"]
    assert (found["heldSeconds"], found["heldSince"], found[field]) == (40, at(50), one[field])
    assert rest == others


def test_an_answer_is_named_until_it_is_written_and_recorded_once() -> None:
    gone, _ = later(without(running(), "train-0"), 60)
    known = knowing(gone, train_0=lived(5, 50))
    _, lost = later(known, 61)  # which is never written
    assert [each.name for each in lost.ended or ()] == ["train-0"]
    for leader_changes in (True, False):
        told, decision = later(known, 62, leader_changes=leader_changes)
        assert [each.name for each in decision.ended or ()] == ["train-0"]
        again, decision = later(told, 63)
        assert decision.ended == ()
        assert len(runs(again)["finished"]) == 1
        assert not [each for each in decision.statuses if each.object.kind == "MarketJob"]


def test_who_leaves_no_run_is_forgotten() -> None:
    gone, _ = later(without(running(), "train-0", "train-1"), 60)
    ends = {"train_0": None, "train_1": lived(5, 9)}
    told, _ = later(knowing(gone, **ends), 61)
    assert "finished" not in runs(told)
    assert [each["pod"] for each in runs(told)["underway"]] == ["train-2"]


def test_who_was_held_for_less_than_half_of_its_time_leaves_none() -> None:
    gone, _ = later(without(running(), "train-0", "train-1"), 200)
    ends = {"train_0": lived(-91, 110), "train_1": lived(-90, 110)}
    told, _ = later(knowing(gone, **ends), 201)
    assert [each["pod"] for each in runs(told)["finished"]] == ["train-1"]


def test_three_runs_are_enough_for_weights_and_the_market_is_cleared_with_them() -> None:
    before = running(auction={"runs": [{"cores": "0.5", "memory": "0.1", "utility": "0.5"}]})
    gone, _ = later(without(before, "train-0", "train-1"), 100)
    weights = status(decide(lab()), "MarketJob", "train", "lab")["auction"]["weights"]
    assert (weights["source"], weights["runs"], weights["recorded"]) == ("Equal", 0, 0)
    decision = decide(
        replace(knowing(gone, train_0=lived(10, 60), train_1=lived(10, 30)), now=at(101))
    )
    weights = status(decision, "MarketJob", "train", "lab")["auction"]["weights"]
    assert (weights["source"], weights["runs"], weights["recorded"]) == ("Estimated", 3, 2)
    for each in (weights["cores"], weights["memory"]):
        assert float(each["lower"]) <= float(each["value"])
    assert not outcome_is_restless(gone, decision)


def outcome_is_restless(before: World, decision: Decision) -> bool:
    """Return whether another decision, after this one was written, would write anything."""
    after = outcome(before, decision)
    again = decide(replace(after, now=at(102)))
    return bool(again.statuses or again.nodes)


@pytest.mark.parametrize(
    ("spec", "rules"),
    [
        ({"auction": {"weights": {"cores": "2"}}}, BOTH),
        ({"auction": {"recordRuns": False}}, BOTH),
        ({"memory": None}, BOTH),
        ({}, {"cores": {"mechanism": "Auction"}}),
        ({}, {"memory": {"mechanism": "Auction"}}),
        ({}, {"mode": "observe", **BOTH}),
    ],
    ids=["weights", "not wanted", "no memory", "cores only", "memory only", "not held"],
)
def test_nothing_is_recorded_where_there_is_nothing_to_weigh(spec: Any, rules: Any) -> None:
    made = {"memory": {"demand": "4Gi"}, **spec}
    documents = [market(**rules), entitlement(), node(), job(**made), pod("train-0")]
    held = enforced(later(world(*documents), 0)[0])
    after, decision = later(held, 10)
    assert runs(after) == {}
    assert decision.ended == ()


def test_log_utilities_are_recorded_and_estimated() -> None:
    """One of six finished runs had no memory, which says nothing about a product."""
    shares = [(0.5, 0.2), (0.2, 0.5), (0.7, 0.3), (0.3, 0.7), (0.4, 0.4), (0.5, 0.0)]
    finished = [
        {
            "podUID": f"u{k}", "pod": f"p{k}", "finished": at(k), "seconds": 100, "heldSeconds": 90,
            "cores": str(cores), "memory": str(memory),
            "utility": f"{0.01 * cores**0.75 * memory**0.25 or 0.001:.12f}",
        }
        for k, (cores, memory) in enumerate(shares)
    ]  # fmt: skip
    before = running(auction={"utility": "Log"})
    assert [each["pod"] for each in runs(before)["underway"]] == ["train-0", "train-1", "train-2"]
    told = []
    for each in before.objects.jobs:
        own = each.metadata.name == "train"
        known = {"runs": {**runs(before), "finished": finished}} if own else {}
        told.append(each.model_copy(update={"status": {**(each.status or {}), **known}}))
    after = replace(before, objects=replace(before.objects, jobs=told))
    _, decision = later(after, 70)
    weights = status(decision, "MarketJob", "train", "lab")["auction"]["weights"]
    assert (weights["source"], weights["runs"], weights["recorded"]) == ("Estimated", 5, 5)
    assert float(weights["cores"]["value"]) == pytest.approx(1.5, abs=1e-3)
    assert float(weights["memory"]["value"]) == pytest.approx(0.5, abs=1e-3)


def with_rules(world_: World, **rules: Any) -> World:
    return replace(world_, markets=world(market(**rules)).markets)


def finished_once() -> World:
    gone, _ = later(without(running(), "train-0"), 60)
    return later(knowing(gone, train_0=lived(5, 50)), 61)[0]


def test_runs_outlast_mechanisms_markets_and_mistakes() -> None:
    """And are counted again afterwards; what was underway meanwhile is not."""
    before = finished_once()
    one = runs(before)["finished"]
    other, _ = later(with_rules(before, cores={"mechanism": "AmdahlBidding"}), 70)
    assert runs(other) == {"finished": one}
    none, _ = later(replace(before, markets=()), 70)
    assert runs(none)["finished"] == one
    assert all("heldSince" not in each for each in runs(none)["underway"])
    broken = document("MarketJob", "train", "lab", spec={})
    broken["status"] = {"runs": runs(before)}
    told = decide(world(market(**BOTH), broken))
    assert status(told, "MarketJob", "train", "lab")["runs"]["finished"] == one


def test_pods_that_are_released_are_not_held_meanwhile() -> None:
    before = running()
    rested = runs_without_grants({"runs": runs(before)}, at(50))
    assert [each["heldSeconds"] for each in rested["underway"]] == [40, 40, 40]
    assert runs_without_grants({"runs": rested}, at(90)) == rested


def test_a_pod_that_another_job_selects_now_is_not_this_ones_run() -> None:
    before = running()
    moved = [
        each.model_copy(
            update={"metadata": each.metadata.model_copy(update={"labels": {"app": "b"}})}
        )
        if each.metadata.name == "train-0"
        else each
        for each in before.objects.pods
    ]
    after, _ = later(replace(before, objects=replace(before.objects, pods=moved)), 60)
    assert [each["pod"] for each in runs(after)["underway"]] == ["train-1", "train-2"]
    assert "train-0" in [each["pod"] for each in runs(after, "b")["underway"]]


def test_lists_are_bounded_and_the_newest_runs_are_kept() -> None:
    pods = [pod(f"more-{number:03}", place="n1") for number in range(MOST_UNDERWAY + 3)]
    before = running(*pods)
    assert len(runs(before)["underway"]) == MOST_UNDERWAY
    names = [each["pod"] for each in runs(before)["underway"]]
    gone, decision = later(without(before, *names), 60)
    assert len(decision.ended or ()) == MOST_UNDERWAY
    ends = {f"u-lab-{name}": lived(5, 50 + number) for number, name in enumerate(names)}
    told, _ = later(replace(gone, ends=ends), 400)
    assert [each["pod"] for each in runs(told)["finished"]] == names[-MOST_RUNS:]
    assert admit(told_document(told), SCHEMA).problems == []


def told_document(world_: World) -> Document:
    found = next(each for each in world_.objects.jobs if each.metadata.name == "train")
    return {**document("MarketJob", "train", "lab", spec=job()["spec"]), "status": found.status}


strange = st.one_of(
    anything,
    st.fixed_dictionaries(
        {},
        optional={
            "finished": anything | st.lists(anything | st.just(GOING), max_size=3),
            "underway": anything
            | st.lists(
                anything
                | st.builds(
                    lambda field, value: GOING | {field: value},
                    st.sampled_from(sorted(GOING)),
                    anything,
                ),
                max_size=3,
            ),
        },
    ),
)


@pytest.mark.long
@given(strange)
def test_no_status_stops_a_decision_or_is_written_again_as_it_was(found: Any) -> None:
    """A new operator leaves out of its writes what the API server would refuse."""
    before = running()
    jobs = [
        each.model_copy(update={"status": {**(each.status or {}), "runs": found}})
        for each in before.objects.jobs
    ]
    objects = replace(before.objects, jobs=jobs)
    decide(replace(before, objects=objects, now=at(20)))
    decision = decide(replace(before, objects=objects, now=at(20), carried=None))
    for each in decision.statuses:
        if each.object.kind == "MarketJob":
            written = {**told_document(before), "status": each.status}
            assert admit(written, SCHEMA).problems == []


class Story:
    """A sequence of events, with what pods have by nodes' plans and agents' reports."""

    def __init__(self) -> None:
        self.world, self.now = lab(), 0
        self.times: dict[str, int] = {}
        self.sums: dict[str, list[Fraction]] = {}
        self.present: dict[str, tuple[Fraction, Fraction]] = {}
        self.decide(0)

    def decide(self, seconds: int, *, leader_changes: bool = False) -> None:
        self.now += seconds
        for name, shares in self.present.items():
            self.times[name] = self.times.get(name, 0) + seconds
            sums = self.sums.setdefault(name, [Fraction(0), Fraction(0)])
            for place, each in enumerate(shares):
                sums[place] += each * seconds
        before = self.world
        self.world, _ = later(before, self.now, leader_changes=leader_changes)
        self.present = {
            grant.name: share(self.world, grant.name)
            for node_, allocation in self.world.allocations.items()
            for grant in allocation.spec.grants
            if node_ in before.allocations and self._answered(before.allocations[node_], grant)
        }

    def _answered(self, before: NodeAllocation, now: PodGrant) -> bool:
        """Return whether the agent enforced the grant that was before, as far as is known."""
        grants = {each.name: each for each in before.spec.grants}
        if (before.status or {}).get("epoch") == before.spec.epoch:
            return now.name in grants
        return now.name in self.present and grants[now.name] == now  # nothing else was reported

    def answer(self) -> None:
        self.world = enforced(self.world)

    def divide(self, budget: int) -> None:
        self.world = with_budget(self.world, budget)


steps = st.one_of(
    st.tuples(st.just("answer")),
    st.tuples(st.just("divide"), st.integers(1, 9)),
    st.tuples(st.just("decide"), st.integers(0, 10**5), st.booleans()),
)


@pytest.mark.long
@given(st.lists(steps, max_size=12))
def test_whatever_happens_a_run_is_the_mean_of_what_its_pod_was_held_to(
    happenings: list[tuple[Any, ...]],
) -> None:
    story = Story()
    story.answer()
    story.decide(1)
    for what, *how in happenings:
        if what == "decide":
            story.decide(how[0], leader_changes=how[1])
        else:
            getattr(story, what)(*how)
    story.decide(3)
    names = ["train-0", "train-1", "train-2"]
    gone, _ = later(without(story.world, *names), story.now)
    story.decide(0)
    ends = {f"u-lab-{name}": lived(story.now - 1, story.now) for name in names}
    told, _ = later(replace(gone, ends=ends), story.now)
    found = {each["pod"]: each for each in runs(told).get("finished", ())}
    assert set(found) == {name for name in names if story.times.get(name)}
    for name, run in found.items():
        assert run["heldSeconds"] == story.times[name]
        for told_share, total in zip((run["cores"], run["memory"]), story.sums[name], strict=True):
            mean = total / story.times[name]
            assert mean - Fraction(2, 10**9) < Fraction(told_share) <= mean <= 1


def test_moments_are_read_as_the_api_server_writes_them() -> None:
    assert seconds_of("1970-01-01T00:01:00Z") == 60
    assert seconds_of("1970-01-01T00:01:00") is None
    assert seconds_of(60) is None
