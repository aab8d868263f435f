"""What the page says first: who has too little, and what changed last."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from dashboard_clusters import lab, troubled
from seen import decided, seen
from walras_dashboard.dump import facts_in
from walras_dashboard.state import MarketState, Moved, Origin
from walras_dashboard.views import MOST_CHANGES, MOST_SHORT, Views
from walras_view.explain.short_pods import short_pods
from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from walras_view.facts import Facts

FILE = Origin("file", "cluster", live=False)


def held_by_grants(facts: Facts) -> dict[tuple[str, str], float]:
    """Return cores by pod, from the plans of the nodes."""
    return {
        (grant["namespace"], grant["name"]): float(grant["cores"])
        for each in facts.allocations.values()
        for grant in each.spec.get("grants") or ()
    }


def test_pods_that_hold_less_than_a_tenth_of_a_core_starve() -> None:
    facts = facts_in(troubled())
    expected = {key for key, cores in held_by_grants(facts).items() if cores < 0.1}
    assert expected == {("guests", "notebook-0"), ("guests", "notebook-1")}
    short = Views(MarketState(FILE, facts=facts)).overview.short
    assert {(each.namespace, each.pod) for each in short.first if each.starves} == expected
    assert (short.starving, short.unlisted) == (2, 0)
    assert {each.user for each in short.first} == {"guests"}


@pytest.mark.parametrize("floor", ["None", "Requests"])
def test_pods_below_their_requests_are_those_whose_grants_are_less(floor: str) -> None:
    requests = {"a-0": 8.0, "b-0": 1.0}
    facts = seen(
        decided(
            market(cores={"floor": floor}),
            node("n1", "10"),
            entitlement("vision", shares=1),
            entitlement("speech", shares=9),
            job("a", "vision"),
            job("b", "speech", parallelFraction="0.99"),
            *(pod(name, name[0], "n1", cpu=str(cpus)) for name, cpus in requests.items()),
        )
    )
    held = {name: cores for (_, name), cores in held_by_grants(facts).items()}
    expected = {name for name, cores in held.items() if cores < requests[name] - 0.01}
    assert {each.pod for each in short_pods(facts) if each.below_request} == expected
    assert bool(expected) == (floor == "None")


def test_only_the_first_of_many_are_sent_and_all_are_counted() -> None:
    count = 3 * MOST_SHORT
    facts = seen(
        decided(
            market(),
            node("n1", "2"),
            entitlement("vision"),
            job("a"),
            *(pod(f"a-{number}", "a", "n1", cpu="10m") for number in range(count)),
        )
    )
    short = Views(MarketState(FILE, facts=facts)).overview.short
    assert short.starving == sum(cores < 0.1 for cores in held_by_grants(facts).values()) == count
    assert len(short.first) == MOST_SHORT


def test_nobody_is_short_where_all_have_enough() -> None:
    short = Views(MarketState(FILE, facts=facts_in(lab()))).overview.short
    assert (short.starving, short.first) == (0, [])


def test_the_last_changes_of_all_nodes_come_newest_first() -> None:
    moved = {
        f"n{number}": tuple(
            Moved(f"2026-01-31T12:{minute:02}:00Z", f"n{number} {minute}")
            for minute in range(50 + number, number, -5)
        )
        for number in range(3)
    }
    state = MarketState(FILE, moved=moved)
    every = [each for of_node in moved.values() for each in of_node]
    expected = sorted(every, key=lambda each: each.time, reverse=True)[:MOST_CHANGES]
    assert Views(state).overview.changes == expected
    told = (Moved("2026-01-31T13:00:00Z", "lab/a ended"),)
    assert Views(replace(state, events=told)).overview.changes[0] == told[0]
