"""What the operator learns of programs from agents, keeps in statuses, and sells by it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from walras_operator.decide.runs.lifetimes import seconds_of
from walras_operator.decide.runs.tally import time_of
from whole_decisions import decide
from worlds import (
    NOW,
    enforced,
    entitlement,
    job,
    market,
    node,
    outcome,
    pod,
    status,
    world,
)

if TYPE_CHECKING:
    from walras_operator.decide.world import Document, World

DAY = 86400


def of_image(name: str, image: str = "v1", **fields: Any) -> Document:
    """A pod of a job of which the name is the pod's without its last two characters."""
    made = pod(name, name[:-2], **{"cpu": "0", **fields})
    made["spec"]["containers"][0]["image"] = image
    return made


def two_users(*pods: Document, **spec: Any) -> World:
    """A node of sixteen cores, and two users of equal shares; ada's job may have more fields."""
    before = world(
        market(),
        node(cpu="16"),
        *map(entitlement, ("ada", "bob")),
        job("ada", "ada", **spec),
        job("bob", "bob"),
        *(pods or (of_image("ada-0"), of_image("bob-0"))),
    )
    return outcome(before, decide(before))


def reported(known: World, **demands: Document) -> World:
    """Return the world after agents have told what some pods can use."""
    known = enforced(known)
    told = {}
    for name, each in known.allocations.items():
        names = {grant.pod_uid: grant.name.replace("-", "_") for grant in each.spec.grants}
        pods = [
            {**pod, "demand": demands[names[pod["podUID"]]]}
            if names[pod["podUID"]] in demands
            else pod
            for pod in (each.status or {}).get("pods", ())
        ]
        told[name] = each.model_copy(update={"status": {**(each.status or {}), "pods": pods}})
    return replace(known, allocations=told)


def seen(at_once: float, threads: int = 40, seconds: int = 60, **fields: Any) -> Document:
    return {"atOnce": f"{at_once:g}", "threads": threads, "seconds": seconds, **fields}


def held(known: World) -> dict[str, float]:
    """Return the cores of pods by a decision on the world."""
    return {
        each.name: float(each.cores)
        for allocation in outcome(known, decide(known)).allocations.values()
        for each in allocation.spec.grants
    }


def after(known: World, seconds: float = 0.0) -> World:
    """Return the world after a decision, and some time."""
    then = outcome(known, decide(known))
    return replace(then, now=time_of((seconds_of(NOW) or 0) + int(seconds)))


def test_a_program_is_sold_no_more_than_it_was_seen_to_use_at_once() -> None:
    known = reported(two_users(), ada_0=seen(1.0))
    assert held(two_users()) == {"ada-0": 8, "bob-0": 8}
    assert held(known) == {"ada-0": 1, "bob-0": 15}
    told = status(decide(known), "MarketJob", "ada", "lab")
    (demand,) = told["demand"]
    assert (demand["images"], demand["cpus"], demand["seconds"]) == ("v1", "1", 60)
    assert 0 < float(demand["error"]) < 6
    assert "was seen to use at once" in told["pods"][0]["reason"]


def test_nothing_is_learned_of_a_pod_before_its_containers_have_begun() -> None:
    starting = of_image("ada-0")
    starting["status"] = {"phase": "Pending", "startTime": NOW}
    known = two_users(starting, of_image("bob-0"))
    assert held(reported(known, ada_0=seen(0.0, 1))) == {"ada-0": 8, "bob-0": 8}


def test_of_a_program_that_always_waits_only_threads_are_known() -> None:
    assert held(reported(two_users(), ada_0=seen(0.5, 3, 0)))["ada-0"] == 3


def test_what_the_user_writes_wins() -> None:
    known = reported(two_users(maxCores=4), ada_0=seen(1.0))
    assert held(known)["ada-0"] == 4


def test_a_request_that_is_kept_and_the_fewest_cores_worth_having_are_sold_nevertheless() -> None:
    requests = two_users(of_image("ada-0", cpu="3"), of_image("bob-0"))
    assert held(reported(requests, ada_0=seen(1.0)))["ada-0"] == 3
    assert held(reported(two_users(minCores=2), ada_0=seen(1.0)))["ada-0"] == 2


def test_more_is_sold_at_once_and_less_after_days() -> None:
    known = reported(after(reported(two_users(), ada_0=seen(1.0))), ada_0=seen(4.0))
    assert held(known)["ada-0"] == 4
    idle = reported(after(known, DAY), ada_0=seen(0.1))
    assert held(idle)["ada-0"] == 4, "what it used yesterday"
    assert held(reported(after(idle, 7 * DAY), ada_0=seen(0.1)))["ada-0"] == 1


@pytest.mark.parametrize("leader_changes", [True, False])
def test_neither_a_new_pod_nor_a_new_leader_nor_no_pod_at_all_makes_it_forget(
    *, leader_changes: bool
) -> None:
    known = reported(two_users(), ada_0=seen(2.0))
    then = outcome(known, decide(known), leader_changes=leader_changes)
    none = replace(then, objects=replace(then.objects, pods=then.objects.pods[1:]))
    gone = outcome(none, decide(none), leader_changes=leader_changes)
    new = two_users(of_image("ada-1"), of_image("bob-0")).objects.pods
    back = replace(gone, objects=replace(gone.objects, pods=new))
    assert held(back)["ada-1"] == 2


def test_other_images_are_another_program_and_the_former_is_remembered() -> None:
    known = after(reported(two_users(), ada_0=seen(2.0)))
    other = two_users(of_image("ada-1", "v2"), of_image("bob-0")).objects.pods
    replaced = replace(known, objects=replace(known.objects, pods=other))
    assert held(replaced)["ada-1"] == 8
    then = outcome(replaced, decide(replaced))
    back = two_users(of_image("ada-2"), of_image("bob-0")).objects.pods
    assert held(replace(then, objects=replace(then.objects, pods=back)))["ada-2"] == 2


def test_jobs_of_one_program_know_the_same() -> None:
    known = world(
        market(),
        node(cpu="16"),
        *map(entitlement, ("ada", "bob")),
        job("one", "ada", program="p"),
        job("two", "ada", program="p"),
        job("bob", "bob"),
        *map(of_image, ("one-0", "two-0", "bob-0")),
    )
    known = outcome(known, decide(known))
    assert held(reported(known, one_0=seen(1.0)))["two-0"] == 1


def test_once_written_what_was_learned_is_not_written_again() -> None:
    known = reported(two_users(), ada_0=seen(1.5), bob_0=seen(0.5, 3, 0))
    first = decide(known)
    again = decide(outcome(known, first))
    assert not [each for each in again.statuses if each.object.kind == "MarketJob"]


@pytest.mark.parametrize(
    "demand",
    [
        {"atOnce": "x"},
        {"atOnce": "-3", "threads": -1, "seconds": -60},
        {"atOnce": "1e300", "threads": 10**30, "seconds": 10**30},
        {"atOnce": None},
        [],
        "much",
    ],
)
def test_an_agent_that_lies_is_believed_within_reason(demand: Any) -> None:
    known = reported(two_users(), ada_0=demand)
    assert sum(held(known).values()) == pytest.approx(16)


@pytest.mark.parametrize(
    "stored", ["x", [1], [{"images": 3}], [{"cpus": "x"}], [{"cpus": "0", "atOnce": [{"at": "x"}]}]]
)
def test_a_status_that_is_malformed_is_nothing_known(stored: Any) -> None:
    known = two_users()
    jobs = [
        each.model_copy(update={"status": {**(each.status or {}), "demand": stored}})
        for each in known.objects.jobs
    ]
    assert held(replace(known, objects=replace(known.objects, jobs=jobs))) == held(known)
