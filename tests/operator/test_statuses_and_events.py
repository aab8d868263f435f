"""Statuses and Events over the life of a market, and when none is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from measured_worlds import measurement
from walras_api.kinds import MarketSpec
from walras_operator.decide.status.changes import worth_writing
from walras_operator.decide.validation import validate
from walras_operator.decide.world import Reference
from whole_decisions import decide
from worlds import (
    LATER,
    NOW,
    condition,
    enforced,
    entitlement,
    grants,
    job,
    market,
    node,
    outcome,
    pod,
    profile,
    status,
    world,
)

if TYPE_CHECKING:
    from walras_api.kinds import EntitlementObject
    from walras_operator.decide.world import World
    from whole_decisions import Decision

SMALL = (
    market(),
    entitlement("vision"),
    entitlement("speech", shares=3),
    job("train"),
    job("serve", "speech"),
    node(cpu="8"),
    pod("train-0", "train"),
    pod("serve-0", "serve"),
)


def with_shares(known: World, name: str, shares: int) -> World:
    """Return the world in which an administrator has changed an entitlement."""

    def changed(each: EntitlementObject) -> EntitlementObject:
        if each.metadata.name != name:
            return each
        metadata = each.metadata.model_copy(update={"generation": 2})
        spec = each.spec.model_copy(update={"shares": shares})
        return each.model_copy(update={"metadata": metadata, "spec": spec})

    objects = known.objects
    return replace(
        known,
        objects=replace(objects, entitlements=[changed(each) for each in objects.entitlements]),
    )


def states(decision: Decision, name: str = "train") -> list[str]:
    return [each["state"] for each in status(decision, "MarketJob", name, "lab")["pods"]]


def told(decision: Decision) -> list[tuple[str, str, str]]:
    return [(each.object.name, each.type, each.reason) for each in decision.events]


def test_the_first_decision_tells_who_is_admitted_and_what_everybody_got() -> None:
    decision = decide(world(*SMALL))
    assert grants(decision) == {"n1": {"train-0": "2", "serve-0": "6"}}
    assert ("train", "Normal", "Admitted") in told(decision)
    assert ("train", "Normal", "CoresChanged") in told(decision)
    (moved,) = (
        each.message
        for each in decision.events
        if (each.object.name, each.reason) == ("train", "CoresChanged")
    )
    assert moved == "Pod train-0 on n1: now 2 cores, before 0"
    assert states(decision) == ["Granted"]
    entitled = status(decision, "Entitlement", "vision")
    assert entitled["budgetShare"] == "0.25"
    assert entitled["cores"] == {"entitled": "2", "bought": "2", "held": "2"}
    assert entitled["spendByNode"] == [{"node": "n1", "spend": "2", "cores": "2"}]
    assert status(decision, "Market", "default")["size"]["cores"] == "8"


def test_a_market_says_that_its_pods_share_cpus_unless_they_have_their_own() -> None:
    decision = decide(world(*SMALL))
    state, reason, message = condition(decision, "Market", "default", type_="PodsShareDomains")
    assert (state, reason) == ("True", "ByWeight")
    assert "set spec.cores.isolated of the Market to true" in message
    assert ("default", "Normal", "ByWeight") in told(decision)

    isolated = decide(world(market(cores={"isolated": True}), *SMALL[1:]))
    conditions = status(isolated, "Market", "default")["conditions"]
    assert [each["type"] for each in conditions] == ["Ready"]


def test_a_market_says_that_requests_count_beyond_shares_until_it_is_told_what_they_mean() -> None:
    before = market()
    del before["spec"]["cores"]["requests"]
    decision = decide(world(before, *SMALL[1:]))
    state, reason, message = condition(decision, "Market", "default", type_="RequestsBounded")
    assert (state, reason) == ("False", "NotStated")
    assert "set it to WithinShare" in message
    for rule in ("Always", "WithinShare"):
        told = decide(world(market(cores={"requests": rule}), *SMALL[1:]))
        conditions = status(told, "Market", "default")["conditions"]
        assert "RequestsBounded" not in {each["type"] for each in conditions}


def test_a_grant_is_enforced_when_the_nodes_agent_says_so_of_this_very_epoch() -> None:
    before = world(*SMALL)
    running = outcome(before, decide(before))
    decision = decide(enforced(running))
    assert states(decision) == ["Enforced"]
    assert decision.events == ()
    settled = outcome(enforced(running), decision)
    assert decide(settled).statuses == ()
    changed = with_shares(settled, "vision", 9)
    moved = outcome(changed, decide(changed))
    assert states_of(moved, "train") == states_of(moved, "serve") == ["Granted"]
    later = decide(enforced(moved))
    assert states(later) == ["Enforced"]


def states_of(known: World, name: str) -> list[str]:
    (found,) = (each for each in known.objects.jobs if each.metadata.name == name)
    assert found.status is not None
    return [each["state"] for each in found.status["pods"]]


def test_a_grant_that_stays_is_enforced_while_those_of_others_change() -> None:
    before = world(*SMALL, node("n2"), job("far"), pod("far-0", "far", "n2"))
    settled = enforced(outcome(before, decide(before)))
    settled = outcome(settled, decide(settled))
    stale = settled.allocations["n1"]
    spec = stale.spec.model_copy(update={"epoch": 9})
    unheard = replace(
        settled, allocations={**settled.allocations, "n1": stale.model_copy(update={"spec": spec})}
    )
    assert decide(unheard).statuses == ()


def test_an_agent_that_cannot_hold_a_grant_is_a_warning_with_its_reason() -> None:
    before = world(*SMALL)
    running = outcome(before, decide(before))
    decision = decide(enforced(running, "Failed", "cpuset.cpus: EACCES"))
    assert states(decision) == ["Failed"]
    ready = condition(decision, "MarketJob", "train", "lab")
    assert ready[:2] == ("False", "NotEnforced")
    assert "its node's agent: cpuset.cpus: EACCES" in ready[2]
    assert ("train", "Warning", "NotEnforced") in told(decision)


@pytest.mark.parametrize(
    ("kind", "reason"), [("Ready", "Refused"), ("PlanAccepted", "PlanRefused")]
)
def test_a_node_whose_agent_refuses_everything_is_told_on_its_jobs(kind: str, reason: str) -> None:
    before = world(*SMALL)
    running = outcome(before, decide(before))
    why = "the kubelet's CPU manager is static; set it to none"
    told = {"type": kind, "status": "False", "reason": reason, "message": why}
    report = {"acceptsNewFields": True, "conditions": [told]}
    refusing = running.allocations["n1"].model_copy(update={"status": report})
    decision = decide(replace(running, allocations={"n1": refusing}))
    assert states(decision) == ["Failed"]
    assert why in condition(decision, "MarketJob", "train", "lab")[2]


def test_a_grant_on_its_way_is_not_enforced_yet() -> None:
    before = world(*SMALL)
    running = outcome(before, decide(before))
    assert decide(enforced(running, "Pending", "memory is in use")).statuses == ()


@pytest.mark.parametrize("ledger", [{"version": 99}, "gone", {"balances": []}])
def test_credits_that_cannot_be_read_are_left_alone(ledger: Any) -> None:
    there = (*SMALL[1:3], job("train", memory={"demand": "4Gi"}), *SMALL[4:])
    decision = decide(world({**market(), "status": {"ledger": ledger}}, *there))
    assert (decision.nodes, decision.settlement) == ((), None)
    assert status(decision, "Market", "default")["ledger"] == ledger
    assert condition(decision, "Market", "default")[:2] == ("False", "LedgerUnreadable")


def test_in_observe_mode_nothing_counts_as_enforced() -> None:
    before = world(market(mode="observe"), *SMALL[1:])
    running = outcome(before, decide(before))
    assert decide(enforced(running)).statuses == ()


def test_a_change_of_shares_moves_cores_and_says_so_once() -> None:
    before = world(*SMALL)
    running = outcome(before, decide(before))
    decision = decide(with_shares(running, "vision", 9))
    assert grants(decision) == {"n1": {"train-0": "6", "serve-0": "2"}}
    assert told(decision) == [
        ("serve", "Normal", "CoresChanged"),
        ("train", "Normal", "CoresChanged"),
    ]
    assert "on n1: now 6 cores, before 2" in decision.events[1].message


def test_the_status_of_a_job_of_which_nothing_has_changed_is_not_made_anew() -> None:
    """Later in time, too, unless the status of a condition changes now, and has to say when."""
    known = world(*SMALL)
    first = status(decide(known), "MarketJob", "train", "lab")
    assert status(decide(known), "MarketJob", "train", "lab") is first
    running = outcome(known, decide(known))
    once = status(decide(enforced(running)), "MarketJob", "train", "lab")
    later = decide(replace(enforced(running), now=LATER))
    assert status(later, "MarketJob", "train", "lab") == once


def test_a_job_whose_status_is_not_written_stays_the_same_object_as_in_the_mirror() -> None:
    """Else no test of what follows from kept results would ever meet a status that was kept."""
    known = world(*SMALL)
    written = outcome(known, decide(known))
    assert written.objects.jobs[0] is not known.objects.jobs[0]
    assert outcome(written, decide(written)).objects.jobs[0] is written.objects.jobs[0]


def test_conditions_keep_their_time_until_their_status_changes() -> None:
    before = world(*SMALL)
    running = outcome(before, decide(before))
    changed = decide(with_shares(running, "vision", 9))
    assert times(changed, "Entitlement", "vision") == [NOW, NOW]
    broken = decide(replace(running, objects=replace(running.objects, entitlements=[])))
    assert times(broken, "MarketJob", "train", "lab")[0] == LATER
    found = status(changed, "Entitlement", "vision")["conditions"]
    assert [each["observedGeneration"] for each in found] == [2, 2]


def times(decision: Decision, *names: str) -> list[str]:
    return [each["lastTransitionTime"] for each in status(decision, *names)["conditions"]]


def test_a_new_leader_goes_on_where_the_last_one_stopped() -> None:
    before = world(market(cores={"hysteresis": "0.5"}), *SMALL[1:])
    running = outcome(before, decide(before))
    same = decide(with_shares(running, "vision", 4))
    other = decide(with_shares(replace(running, carried=None), "vision", 4))
    assert (other.nodes, other.events) == (same.nodes, same.events)


def test_the_market_says_where_the_operator_is_whatever_else_it_says() -> None:
    before = world(*SMALL, namespace="walras")
    decision = decide(before)
    assert status(decision, "Market", "default")["operatorNamespace"] == "walras"
    after = outcome(before, decision)
    assert not decide(after).statuses
    assert not decide(replace(after, namespace="")).statuses, "as others read this world"
    moved = decide(replace(after, namespace="elsewhere"))
    assert status(moved, "Market", "default")["operatorNamespace"] == "elsewhere"
    unreadable = {**market(), "status": {"ledger": "gone"}}
    there = (*SMALL[1:3], job("train", memory={"demand": "4Gi"}), *SMALL[4:])
    stuck = decide(world(unreadable, *there, namespace="walras"))
    assert condition(stuck, "Market", "default")[:2] == ("False", "LedgerUnreadable")
    assert status(stuck, "Market", "default")["operatorNamespace"] == "walras"


def test_cores_stay_where_they_are_if_moving_them_gains_too_little() -> None:
    calm = (market(cores={"hysteresis": "0.9"}), *SMALL[1:])
    before = world(*calm, pod("train-1", "train"), pod("serve-1", "serve"))
    running = outcome(before, decide(before))
    moved = [each for each in running.objects.jobs if each.metadata.name == "train"]
    spec = moved[0].spec.model_copy(update={"work": 3})
    jobs = [
        each.model_copy(update={"spec": spec}) if each is moved[0] else each
        for each in running.objects.jobs
    ]
    assert decide(replace(running, objects=replace(running.objects, jobs=jobs))).nodes == ()


def test_memory_is_granted_where_it_is_divided() -> None:
    decision = decide(world(*SMALL[:3], job(memory={"demand": "4Gi"}), *SMALL[4:]))
    memory = {each["name"]: each.get("memory") for each in decision.nodes[0].spec["grants"]}
    assert memory == {"train-0": "4Gi", "serve-0": None}
    assert status(decision, "Entitlement", "vision")["memory"]["demand"] == str(4 << 30)


MEASURED = [{"cores": cores, "seconds": [seconds]} for cores, seconds in ((1, "10"), (4, "4"))]


def test_profiles_tell_what_follows_from_them_and_keep_what_was_measured_online() -> None:
    online = {
        "source": "Online",
        "parallelFraction": "0.8",
        "online": {"measurements": [measurement("p", {1: 1.0, 2: 5 / 3})]},
    }
    decision = decide(
        world(
            *SMALL,
            profile("measured", measurements=MEASURED),
            profile("written", parallelFraction="0.75"),
            {**profile("online"), "status": online},
        )
    )
    measured = status(decision, "SpeedupProfile", "measured", "lab")
    assert (measured["source"], measured["parallelFraction"]) == ("Measured", "0.8")
    assert measured["findings"][0]["message"]
    assert status(decision, "SpeedupProfile", "written", "lab")["parallelFraction"] == "0.75"
    kept = status(decision, "SpeedupProfile", "online", "lab")
    assert {key: kept[key] for key in online} == online
    assert condition(decision, "SpeedupProfile", "online", "lab")[1] == "Online"


NOISY = [{"cores": 1, "seconds": ["10"]}, {"cores": 4, "seconds": ["4", "10"]}]


@pytest.mark.parametrize("automatic", [True, False])
def test_a_profile_that_tells_nothing_of_f_is_not_measured(automatic: bool) -> None:
    rules = market(profiling={"automatic": automatic})
    noisy = profile("noisy", measurements=NOISY)
    known = world(rules, *SMALL[1:], noisy, job("a", auto=True, profile="noisy"), pod("a-0", "a"))
    decision = decide(known)
    found = status(decision, "SpeedupProfile", "noisy", "lab")
    assert "parallelFraction" not in found
    assert "source" not in found
    assert found["findings"][0]["code"] == "TooNoisy"
    told = condition(decision, "SpeedupProfile", "noisy", "lab")
    assert told[:2] == ("False", "TooNoisy")
    assert "so F counts as not measured, and is assumed to be 0.8" in told[2]
    job_status = status(decision, "MarketJob", "a", "lab")
    assert job_status["profile"] == {
        "parallelFraction": "0.8",
        "source": "Assumed",
        "name": "noisy",
    }
    profiled = condition(decision, "MarketJob", "a", "lab", type_="Profiled")
    assert profiled[:2] == ("False", "Waiting" if automatic else "TooNoisy")
    assert "SpeedupProfile lab/noisy are not used, since " in profiled[2]
    assert "a parallel fraction of 0.8 is assumed" in profiled[2]


def test_a_refused_profile_is_measured_while_a_pod_runs() -> None:
    online = {
        "source": "Online",
        "parallelFraction": "0.8",
        "online": {"measurements": [measurement("p", {1: 1.0, 2: 5 / 3})]},
    }
    noisy = {**profile("noisy", measurements=NOISY), "status": online}
    known = world(market(), *SMALL[1:], noisy, job("a", auto=True, profile="noisy"))
    decision = decide(known)
    kept = status(decision, "SpeedupProfile", "noisy", "lab")
    assert {key: kept[key] for key in online} == online
    told = condition(decision, "SpeedupProfile", "noisy", "lab")
    assert told[:2] == ("True", "Online")
    assert "the measurements of the spec are not used, since " in told[2]
    profiled = condition(decision, "MarketJob", "a", "lab", type_="Profiled")
    assert profiled[:2] == ("True", "Online")
    assert "F is 0.8, from SpeedupProfile noisy while pods ran; the measurements" in profiled[2]


def test_a_job_says_where_its_speedup_is_from() -> None:
    decision = decide(
        world(*SMALL, profile("train", parallelFraction="0.75"), job("auto", auto=True))
    )
    assert condition(decision, "MarketJob", "train", "lab", type_="Profiled")[1] == "Given"
    assumed = condition(decision, "MarketJob", "auto", "lab", type_="Profiled")
    assert assumed[:2] == ("False", "Waiting")
    assert "until then a parallel fraction of 0.8 is assumed" in assumed[2]
    told_to = decide(world(market(profiling={"automatic": False}), *SMALL[1:], job("auto", auto=1)))
    assumed = condition(told_to, "MarketJob", "auto", "lab", type_="Profiled")
    assert assumed[:2] == ("False", "Assumed")
    assert "give parallelFraction or a profile" in assumed[2]


def test_pods_beyond_the_end_of_a_list_are_counted() -> None:
    pods = [pod(f"p-{number:03d}") for number in range(260)]
    decision = decide(world(market(), entitlement(), job(), node(cpu="8"), *pods))
    found = status(decision, "MarketJob", "train", "lab")
    assert (len(found["pods"]), found["counts"]["unlisted"]) == (250, 10)
    assert len(decision.nodes[0].spec["grants"]) == 260


WORTH: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    ("nothing", {"a": 1}, {"a": 1}, False),
    ("a price's last digits", {"price": "1.0001"}, {"price": "1.0002"}, False),
    ("a visible move of a price", {"price": "1.00"}, {"price": "1.01"}, True),
    ("numbers in a sentence", {"reason": "buys 3.1 cores"}, {"reason": "buys 3.2 cores"}, False),
    ("other words", {"reason": "buys 3 cores"}, {"reason": "takes 3 cores"}, True),
    ("a thousandth of a core", {"held": "1000"}, {"held": "1000.001"}, True),
    ("a field more", {"price": "1"}, {"price": "1", "node": "n"}, True),
    ("an entry more", {"pods": []}, {"pods": [{}]}, True),
    ("credits", {"ledger": {"carry": "1.0001"}}, {"ledger": {"carry": "1.0002"}}, True),
    ("a part of a group", {"cores": {"held": "1"}}, {"cores": {"held": "2"}}, True),
    ("the epoch, which the writer adds", {"epoch": {"number": 1}}, {}, False),
]


@pytest.mark.parametrize(
    ("before", "after", "worth"), [each[1:] for each in WORTH], ids=[each[0] for each in WORTH]
)
def test_a_status_is_written_for(before: Any, after: Any, worth: bool) -> None:
    assert worth_writing(before, after) is worth


@pytest.mark.parametrize(
    ("before", "after", "worth"),
    [
        ({"credits": {"balance": "1"}}, {"credits": {"balance": "2"}}, False),
        ({"memory": {"granted": str(100 << 30)}}, {"memory": {"granted": str(95 << 30)}}, False),
        ({"memory": {"granted": str(100 << 30)}}, {"memory": {"granted": str(80 << 30)}}, True),
        ({"pods": [{"memory": str(3 << 27)}]}, {"pods": [{"memory": str(4 << 27)}]}, False),
        ({"pods": [{"memory": str(3 << 27)}]}, {"pods": [{"memory": str(6 << 27)}]}, True),
    ],
)
def test_memory_and_credits_wait_for_their_turn(before: Any, after: Any, worth: bool) -> None:
    assert worth_writing(before, after, turn=False) is worth
    assert worth_writing(before, after)


def test_statuses_and_grants_stay_while_prices_move_a_little() -> None:
    """A pod that comes to another node moves all prices, and nobody is told of that here."""
    nodes = [node(f"n{number}", "48") for number in range(40)]
    pods = [pod(f"train-{number}", "train", f"n{number % 40}") for number in range(80)]
    pods += [pod(f"serve-{number}", "serve", f"n{number % 40}") for number in range(2000, 2090)]
    before = world(market(cores={"hysteresis": "0.02"}), *SMALL[1:5], *nodes, *pods)
    running = outcome(before, decide(before))
    more = world(pod("late", "late", "n39"), job("late"))
    objects = running.objects
    later = replace(
        running,
        objects=replace(
            objects,
            jobs=[*objects.jobs, *more.objects.jobs],
            pods=[*objects.pods, *more.objects.pods],
        ),
    )
    written = {each.node for each in decide(later).nodes}
    assert "n39" in written
    assert len(written) < 40


@pytest.mark.parametrize(
    ("told", "cores"),
    [
        ({"cores": 4, "threads": 8, "sockets": 1}, 4),
        ({"cores": 8, "threads": 8, "sockets": 1}, 8),
        ({"cores": "4", "threads": 8, "sockets": 1}, 8),
        ({"cores": -4}, 8),
        ({"cores": 8, "threads": 8, "sockets": 9}, 8),
        ({"cores": 2**40, "threads": 2**41, "sockets": 1}, 8),
        ({"cores": 8192, "threads": 8192, "sockets": 8192}, 8),
        ("4 cores", 8),
        (None, 8),
    ],
)
def test_a_node_sells_the_cores_that_its_agent_has_found(told: Any, cores: int) -> None:
    before = world(*SMALL)
    running = outcome(before, decide(before))
    node_allocation = running.allocations["n1"].model_copy(update={"status": {"topology": told}})
    plan = decide(replace(running, allocations={"n1": node_allocation})).plan
    assert plan is not None
    assert [each.cores for each in plan.nodes] == [cores]
    told_so = replace(running, allocations={"n1": node_allocation})
    (node,) = validate(told_so, MarketSpec()).assembled.snapshot.nodes
    assert node.sockets <= cores


def test_references_are_told_apart_by_kind_name_and_namespace_only() -> None:
    first = Reference("MarketJob", "a", "lab", uid="1")
    assert first == Reference("MarketJob", "a", "lab", uid="2")
    assert first.title == "MarketJob lab/a"
    assert Reference("Market", "default").title == "Market default"
