"""What pods hold, as statuses tell it: to the next leader, of whole cores."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from walras_operator.decide.last_decision import carried
from whole_decisions import decide
from worlds import condition, entitlement, grants, job, market, node, outcome, pod, status, world

if TYPE_CHECKING:
    from walras_operator.decide.world import World


def three_users(**rules: Any) -> World:
    """A node of eight cores, and three users with a job each."""
    names = ("ada", "bob", "eve")
    return world(
        market(cores=rules),
        node(cpu="8"),
        *map(entitlement, names),
        *(job(name, name) for name in names),
        *(pod(f"{name}-0", name, cpu="0") for name in names),
    )


def test_a_new_leader_knows_exactly_what_pods_hold() -> None:
    before = three_users()
    first = decide(before)
    held = grants(first)["n1"]
    assert sorted(held.values()) == ["2.666", "2.667", "2.667"]
    after = outcome(before, first)
    assert carried(replace(after, carried=None)).held == first.carried.held
    for name in ("ada", "bob", "eve"):
        (told,) = status(first, "MarketJob", name, "lab")["pods"]
        assert told["held"] == held[f"{name}-0"]


@pytest.mark.parametrize(
    ("everybody", "ada", "held"),
    [(False, True, ("1", "2")), (True, False, ("2", "1")), (True, None, ("1", "1"))],
)
def test_jobs_that_share_no_core_hold_whole_ones_at_their_own_expense(
    *, everybody: bool, ada: bool | None, held: tuple[str, str]
) -> None:
    """Each of two users buys 1.5 of three cores; the other has the half that one loses."""
    said: dict[str, Any] = {} if ada is None else {"wholeCores": ada}
    decision = decide(
        world(
            market(cores={"wholeCores": everybody}),
            node(cpu="3"),
            *map(entitlement, ("ada", "bob")),
            *(job("ada", "ada", **said), job("bob", "bob")),
            *(pod(f"{name}-0", name, cpu="0") for name in ("ada", "bob")),
        )
    )
    assert grants(decision)["n1"] == dict(zip(("ada-0", "bob-0"), held, strict=True))


@pytest.mark.parametrize("field", ["isolated", "wholeCores"])
@pytest.mark.parametrize(
    ("everybody", "ada", "isolated"),
    [(False, True, {"ada-0"}), (True, False, {"bob-0"}), (True, None, {"ada-0", "bob-0"})],
)
def test_agents_are_told_which_pods_have_cpus_of_their_own(
    *, field: str, everybody: bool, ada: bool | None, isolated: set[str]
) -> None:
    said: dict[str, Any] = {} if ada is None else {field: ada}
    before = world(
        market(cores={field: everybody}),
        node(cpu="3"),
        *map(entitlement, ("ada", "bob")),
        *(job("ada", "ada", **said), job("bob", "bob")),
        *(pod(f"{name}-0", name, cpu="0") for name in ("ada", "bob")),
    )
    (write,) = decide(before).nodes
    assert {each["name"] for each in write.spec["grants"] if each.get("isolated")} == isolated


def test_a_job_that_shares_although_it_is_not_to_is_told_the_way_out() -> None:
    users = [entitlement("ada"), entitlement("bob", shares=3)]
    jobs = [job("ada", "ada", wholeCores=True), job("bob", "bob")]
    pods = [pod(f"{name}-0", name, cpu="0") for name in ("ada", "bob")]
    decision = decide(world(market(), node(cpu="2"), *users, *jobs, *pods))
    state, reason, message = condition(decision, "MarketJob", "ada", "lab", type_="WholeCores")[:3]
    assert (state, reason) == ("False", "LessThanOneCore")
    assert "Pod ada-0 holds 0.5 cores of n1" in message
    assert "raise its work, or the shares of its entitlement" in message
    kept = status(decision, "MarketJob", "bob", "lab")
    assert "WholeCores" not in {each["type"] for each in kept["conditions"]}
