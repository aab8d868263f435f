"""Every total that the page shows, computed once more from the plan's grants and purchases."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

import pytest

from dashboard_clusters import lab, large
from seen import decided, seen
from walras_api.api_object import quantity
from walras_dashboard.dump import facts_in
from walras_dashboard.state import MarketState, Origin
from walras_dashboard.views import Views
from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_dashboard.models import Overview
    from walras_view.facts import Facts

NODES = 300


@cache
def many() -> Facts:
    """300 nodes of three users, each of whom buys on more nodes than a status lists."""
    return facts_in(large(NODES, 2 * NODES, 3))


def free() -> Facts:
    """Two nodes of which a user's share stays free, as nobody can use it."""
    return seen(
        decided(
            market(),
            node("n1", "10"),
            node("n2", "10"),
            *(entitlement(each, namespaces=["lab"]) for each in ("ada", "ben", "cy")),
            *(job(each, user, maxCores=most) for each, user, most in CAPPED),
            *(pod(f"{each}-0", each, place) for each, place in PLACES),
        )
    )


CAPPED = (("a", "ada", 2), ("b", "ben", 5), ("c", "cy", 1))
PLACES = (("a", "n1"), ("b", "n1"), ("c", "n2"))

CLUSTERS: dict[str, Callable[[], Facts]] = {
    "none": lambda: seen(decided(market(), node())),
    "one": lambda: seen(decided(market(), node(), entitlement(), job("a"), pod("a-0", "a"))),
    "lab": lambda: facts_in(lab()),
    "free": free,
    "many": many,
}


def overview_of(facts: Facts) -> Overview:
    return Views(MarketState(Origin("file", "cluster", live=False), facts=facts)).overview


def flows(facts: Facts) -> dict[tuple[str, str], float]:
    """Return cores by lender and borrower, from the pods: on each node, those who have less than
    their part lend to those who have more, in proportion, as much as these have."""
    assert facts.market is not None
    entitled = {
        name: float(each.status.cores.entitled)
        for name, each in facts.entitlements.items()
        if each.status.cores is not None
    }
    bought: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for each in facts.jobs.values():
        for of in each.status.pods:
            if of.node is not None:
                bought[of.node][str(each.spec["entitlement"])] += float(of.bought or 0)
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for sold in facts.market.status.prices:
        less = {
            user: float(sold.cores) * part / sum(entitled.values()) - bought[sold.node][user]
            for user, part in entitled.items()
        }
        left = sum(each for each in less.values() if each > 0)
        for lender, has in less.items():
            for borrower, lacks in less.items():
                if has > 0 > lacks:
                    taken = -sum(each for each in less.values() if each < 0)
                    found[lender, borrower] += has * -lacks / max(left, taken)
    return dict(found)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_loans_are_what_the_pods_of_each_node_bought_beside_the_shares(cluster: str) -> None:
    facts = CLUSTERS[cluster]()
    found = overview_of(facts)
    expected = {pair: cores for pair, cores in flows(facts).items() if cores >= 1}
    shown = {(each.lender, each.borrower): each.cores for each in found.lending if each.cores}
    assert {pair: shown.get(pair) for pair in expected} == {
        pair: pytest.approx(cores, rel=0.01, abs=0.05) for pair, cores in expected.items()
    }
    own = {pair for pair in shown if facts.entitlements[pair[0]].status.cores is not None}
    assert sum(shown[pair] or 0 for pair in own) == pytest.approx(
        sum(flows(facts).values()), rel=0.01, abs=0.05
    )
    if facts.entitlements:
        assert found.lending_unknown == 0
    if cluster == "many":
        assert all(
            each.status.other_nodes for each in facts.entitlements.values() if each.status.cores
        )
        assert max(each.lent or 0 for each in found.users) > 100


def test_nobody_is_said_to_lend_what_nobody_else_bought() -> None:
    lent = [each.lent or 0 for each in overview_of(free()).users]
    assert 0 < max(lent) <= sum(most for _, _, most in CAPPED)


def test_without_the_pods_it_is_said_for_how_many_nodes_lending_is_unknown() -> None:
    facts = replace(many(), jobs={})
    found = overview_of(facts)
    listed = [
        {each.node for each in facts.entitlements[f"user-{number}"].status.spend_by_node}
        for number in range(3)
    ]
    idle = {name for name, each in facts.allocations.items() if not each.spec.get("grants")}
    assert found.lending_unknown == NODES - len(set.intersection(*listed) | idle)
    assert all(each.lent is None and each.borrowed is None for each in found.users)
    assert overview_of(replace(facts, market=None)).lending_unknown is None


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_totals_are_the_sums_of_grants_and_of_what_is_for_sale(cluster: str) -> None:
    facts = CLUSTERS[cluster]()
    totals = overview_of(facts).totals
    grants = [
        grant for each in facts.allocations.values() for grant in each.spec.get("grants") or ()
    ]
    sold = sum((Decimal(each["cores"]) for each in grants), Decimal(0))
    for_sale = sum(float(each.cores) for each in facts.market.status.prices) if facts.market else 0
    assert (totals.pods, totals.jobs) == (len(grants), len(facts.jobs))
    drawn_on = {str(each.spec["entitlement"]) for each in facts.jobs.values()}
    assert totals.users == len(drawn_on & facts.entitlements.keys())
    assert (totals.sold or 0) == pytest.approx(float(sold))
    assert (totals.cores or 0) == pytest.approx(for_sale)
    assert (totals.free or 0) == pytest.approx(for_sale - float(sold), abs=1e-6)
    assert (totals.memory_granted or 0) == sum(quantity(each.get("memory", "0")) for each in grants)
    by_user: defaultdict[str, float] = defaultdict(float)
    for each in facts.jobs.values():
        by_user[str(each.spec["entitlement"])] += sum(float(p.held or 0) for p in each.status.pods)
    assert {
        each.name: each.cores.held or 0
        for each in overview_of(facts).users
        if facts.entitlements[each.name].status.cores is not None
    } == {
        name: pytest.approx(by_user[name], abs=0.01)
        for name, each in facts.entitlements.items()
        if each.status.cores is not None
    }
