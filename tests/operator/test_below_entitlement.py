"""Users who hold less than they are entitled to, and what is said about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walras.speedup import speedup
from walras_operator.decision import decide
from worlds import condition, entitlement, job, market, node, pod, status, world

if TYPE_CHECKING:
    from walras_operator.world import Decision


def shared(cores: str) -> Decision:
    """Divide a node between two equal users with a job each."""
    users = [entitlement("ada"), entitlement("bob")]
    jobs = [job(name, name, parallelFraction="0.9") for name in ("ada", "bob")]
    pods = [pod(f"{name}-0", name) for name in ("ada", "bob")]
    return decide(world(market(), node(cpu=cores), *users, *jobs, *pods))


def test_rounding_that_takes_half_a_core_is_said() -> None:
    """Of three cores, each is entitled to 1.5, and one gets one."""
    decision = shared("3")
    utilities = [status(decision, "Entitlement", name)["utility"] for name in ("ada", "bob")]
    assert [float(each["now"]) for each in utilities] == pytest.approx([speedup(2, 0.9), 1], 1e-5)
    for each in utilities:
        assert float(each["bought"]) == pytest.approx(speedup(1.5, 0.9), 1e-5)
        assert each["atEntitlement"] == each["bought"]
    assert condition(decision, "Entitlement", "ada", type_="Entitled")[:2] == (
        "True",
        "AtEntitlement",
    )
    state, reason, message = condition(decision, "Entitlement", "bob", type_="Entitled")[:3]
    assert (state, reason) == ("False", "BelowEntitlement")
    assert "entitled to 1.50 cores and holds 1.00" in message
    assert "trade: +0.00, rounding and hysteresis: -0.50" in message


def test_users_who_hold_what_they_are_entitled_to_are_at_their_entitlement() -> None:
    decision = shared("4")
    for name in ("ada", "bob"):
        assert condition(decision, "Entitlement", name, type_="Entitled")[1] == "AtEntitlement"


def test_without_jobs_nothing_is_said() -> None:
    decision = decide(world(market(), node(), entitlement("ada")))
    told = status(decision, "Entitlement", "ada")
    assert {each["type"] for each in told["conditions"]} == {"Ready"}
    assert "utility" not in told
