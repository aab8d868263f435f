"""What a what-if says that pods hold: what their kernel makes of what the agent writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from walras_api.assembly import policy_of
from walras_cli.what_if.comparison import Cleared, clear_by
from walras_cli.what_if.situation import situation_of_world
from walras_view.text import thousandths
from worlds import allocation, entitlement, job, market, node, pod, world

if TYPE_CHECKING:
    from walras_operator.decide.world import Document, World


def cleared(of: World) -> Cleared:
    situation = situation_of_world(of, of.objects)
    return clear_by(situation, [policy_of(situation.rules)], anew=False)[0]


def held(of: World) -> dict[str, float]:
    return {grant.pod: grant.held for grant in cleared(of).plan.grants}


def cluster(
    *more: Document, cpu: str = "2", reserved: int = 0, reported: bool = False, **first: Any
) -> World:
    """Return two equal users with a pod each on one node.

    Args:
        more: More objects.
        cpu: CPUs of the node.
        reserved: Cores that the Market does not sell.
        reported: Whether an agent has reported that the node has hyperthreads.
        first: Fields of the first job.
    """
    users = entitlement("vision"), entitlement("speech")
    jobs = job("a", "vision", **first), job("b", "speech")
    pods = pod("a-0", "a", cpu="0"), pod("b-0", "b", cpu="0")
    rules = market(profiling={"automatic": False}, cores={"reservedCores": reserved})
    status = {"topology": {"cores": 2, "threads": 4, "sockets": 1}}
    known = {"n1": allocation("n1", {"epoch": 1, "mode": "enforce"}, status)} if reported else {}
    return world(rules, *users, *jobs, node("n1", cpu), *pods, *more, allocations=known)


def test_pods_hold_what_they_are_given_where_nobody_else_is() -> None:
    assert held(cluster()) == {"a-0": 1, "b-0": 1}


def test_who_shares_cpus_with_pods_outside_the_market_holds_less_by_their_weight() -> None:
    """A core weighs 1000, and a pod without a request 2."""
    others = pod("dns", "dns", cpu="0"), pod("log", "log", cpu="0")
    both = 2 * 1000 / 2004
    assert held(cluster(*others)) == pytest.approx({"a-0": both, "b-0": both}, abs=1e-9)


def test_what_nobody_bought_goes_by_weight_to_pods_that_can_use_it() -> None:
    assert held(cluster(cpu="4", reserved=2)) == {"a-0": 2, "b-0": 2}
    assert held(cluster(cpu="4", reserved=2, maxCores=1)) == {"a-0": 1, "b-0": 3}


@pytest.mark.parametrize("field", ["isolated", "wholeCores"])
def test_whole_cores_of_an_isolated_pod_are_its_own(field: str) -> None:
    first: dict[str, Any] = {field: True}
    found = held(cluster(pod("dns", "dns", cpu="0"), **first))
    assert found == pytest.approx({"a-0": 1, "b-0": 1000 / 1002}, abs=1e-9)


def test_pods_outside_the_market_that_lose_by_it_are_named_with_what_they_have() -> None:
    shop, small = pod("shop", "shop", cpu="1"), pod("dns", "dns", cpu="0")
    (lost, *rest) = cleared(cluster(shop, small, cpu="16")).bystanders
    assert (lost.namespace, lost.name, lost.node) == ("lab", "shop", "n1")
    assert lost.plain == pytest.approx(16 * 1000 / 1006)
    assert lost.least == pytest.approx(1, abs=0.003)
    assert [each.name for each in rest] == ["dns"]
    assert not cleared(cluster()).bystanders


def test_cpus_are_counted_as_cores_of_several_threads() -> None:
    others = pod("dns", "dns", cpu="0")
    found = held(cluster(others, cpu="4", reported=True))
    both = 4000 / 4002
    assert found == pytest.approx({"a-0": both, "b-0": both}, abs=1e-9)


def test_users_get_done_what_their_pods_hold() -> None:
    plan = cleared(cluster(pod("dns", "dns", cpu="0"))).plan
    speech = next(user for user in plan.users if user.name == "speech")
    assert speech.held == speech.held_utility == pytest.approx(2000 / 2002, abs=1e-9)
    assert next(g for g in plan.grants if g.pod == "b-0").speedup == speech.held_utility


def test_a_node_of_more_cpus_than_linux_knows_is_believed() -> None:
    """A job of perfect speedup buys what one of a parallel fraction of 0.9 has no use for."""
    users = held(cluster(cpu="20000", parallelFraction="1"))
    assert sum(users.values()) == pytest.approx(20_000)


def test_cores_are_printed_in_thousandths() -> None:
    assert thousandths(1.9999999) == "2"
    assert thousandths(1.336914) == "1.337"
    assert thousandths(0.0004) == "0"
