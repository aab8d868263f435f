"""Users who hold less than they are entitled to, or requested more, and what is said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walras.speedup.amdahls_law import speedup
from whole_decisions import decide
from worlds import condition, entitlement, job, market, node, pod, status, world

if TYPE_CHECKING:
    from walras_operator.decide.world import Document
    from whole_decisions import Decision


def two_users(cores: str, *, shares: int = 1, request: str = "0", **rules: str) -> Decision:
    """A node and two users with a job each: ada with a number of shares, bob with a request."""
    return decide(
        world(
            market(cores=rules),
            node(cpu=cores),
            *(entitlement("ada", shares=shares), entitlement("bob")),
            *(job(name, name, parallelFraction="0.9") for name in ("ada", "bob")),
            *(pod("ada-0", "ada", cpu="0"), pod("bob-0", "bob", cpu=request)),
        )
    )


def entitled(decision: Decision, name: str) -> list[str]:
    """Return status, reason and message of a user's condition Entitled."""
    return list(condition(decision, "Entitlement", name, type_="Entitled")[:3])


def cores(decision: Decision, name: str) -> Document:
    return dict(status(decision, "Entitlement", name)["cores"])


def test_two_users_of_three_cores_hold_half_of_the_odd_one_each() -> None:
    decision = two_users("3")
    for name in ("ada", "bob"):
        assert cores(decision, name) == {"entitled": "1.5", "bought": "1.5", "held": "1.5"}
        utility = status(decision, "Entitlement", name)["utility"]
        assert float(utility["now"]) == pytest.approx(speedup(1.5, 0.9), 1e-5)
        assert utility["now"] == utility["bought"] == utility["atEntitlement"]
        assert entitled(decision, name)[:2] == ["True", "AtEntitlement"]


def test_requests_beyond_a_users_share_are_named_as_the_cause() -> None:
    """Bob's request of six of eight cores is five more than its share; ada keeps two of seven."""
    decision = two_users("8", shares=7, request="6")
    assert [cores(decision, name)["held"] for name in ("ada", "bob")] == ["2", "6"]
    state, reason, message = entitled(decision, "ada")
    assert (state, reason) == ("False", "BelowEntitlement")
    assert "entitled to 7.00 cores and holds 2.00 (trade: -5.00" in message
    assert message.startswith("requests of bob keep 5.00 cores of n1 beyond its share; ")


def test_a_user_whose_requests_cost_more_than_its_budget_is_told_how_much() -> None:
    """Ada pays its budget of 7 for two cores, so bob's six cost 21, and its budget is 1."""
    decision = two_users("8", shares=7, request="6")
    state, reason, message = entitled(decision, "bob")
    assert (state, reason) == ("True", "RequestsAboveBudget")
    assert "what its pods requested costs 21.00 at today's prices, 20.00 more than" in message
    assert "it owes others what they lack for it: ada is short of cores on n1" in message
    owed = {name: status(decision, "Entitlement", name)["coreCredits"] for name in ("ada", "bob")}
    assert (owed["ada"]["cores"], owed["bob"]["cores"]) == ("5", "-5")


def test_requests_that_are_not_kept_leave_nobody_below_its_entitlement() -> None:
    decision = two_users("8", shares=7, request="6", floor="None")
    assert {entitled(decision, name)[1] for name in ("ada", "bob")} == {"AtEntitlement"}


def test_without_jobs_nothing_is_said() -> None:
    decision = decide(world(market(), node(), entitlement("ada")))
    told = status(decision, "Entitlement", "ada")
    assert {each["type"] for each in told["conditions"]} == {"Ready"}
    assert "utility" not in told
