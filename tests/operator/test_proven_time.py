"""Clocks that jump: what pods have held counts only for time that is known to have passed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from held_api import NAMESPACE, HeldApi
from walras_api.market import MarketSpec
from walras_operator.decide.credits.account import LONGEST_STEP
from walras_operator.decide.proven_time import with_proven_time
from walras_operator.lead.lease import LeaderCandidate, Times
from walras_operator.lead.server_clock import ServerClock
from walras_operator.publish.ledger_parts import LedgerParts
from whole_decisions import decide
from worlds import entitlement, job, market, node, outcome, pod, world

NOON = 1_769_860_800.0  # 2026-01-31T12:00:00Z
HOURS = 36_000


def held(field: str) -> dict[str, Any]:
    """A status that has followed a pod since eleven o'clock."""
    since = {"podUID": "u-lab-train-0", "pod": "train-0", "heldSince": "2026-01-31T11:00:00Z"}
    if field == "deadline":
        work = {"millicores": 2000, "speedup": "2", "work": "100"}
        counter = {"counter": "5", "countedAt": "2026-01-31T11:30:00Z", "countedWork": "90"}
        return {"deadline": {"pods": [{**since, **work, **counter}]}}
    sums = {"cores": 5, "memory": 5, "heldSeconds": 0, "coreSeconds": "0", "memorySeconds": "0"}
    return {"runs": {"underway": [{**since, **sums}]}}


@pytest.mark.parametrize("ahead", [0, HOURS])
def test_a_decision_with_a_clock_ten_hours_ahead_records_little_more_work(ahead: int) -> None:
    """No agent enforces the pod's grant any more, so its period ends; 8 minutes ago was decided."""
    document = job(deadline="2026-02-20T12:00:00Z", created="2026-01-31T10:00:00Z")
    followed = {**document, "status": held("deadline")}
    known = world(market(), node(), entitlement(), pod("train-0"), followed)
    now = datetime.fromtimestamp(NOON + ahead, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    after = outcome(known, decide(replace(known, now=now, led_until="2026-01-31T11:52:00Z")))
    (found,) = (after.objects.jobs[0].status or {})["deadline"]["pods"]
    assert float(found["work"]) == 100 + 2 * (3120 + (LONGEST_STEP if ahead else 480))
    assert ("counter" in found) == (not ahead), "its rate is measured anew"


def test_a_run_is_no_longer_than_is_proven() -> None:
    rules = market(cores={"mechanism": "Abacus"}, memory={"mechanism": "Abacus"})
    document = {**job(), "status": held("runs")}
    known = with_proven_time(
        replace(
            world(rules, node(), entitlement(), document),
            now="2026-01-31T22:00:00Z",
            led_until="2026-01-31T12:00:00Z",
        ),
        MarketSpec(),
    )
    (found,) = (known.objects.jobs[0].status or {})["runs"]["underway"]
    assert found["heldSince"] == "2026-01-31T20:50:00Z"


def test_the_lease_proves_the_time_until_its_last_renewal() -> None:
    noon = datetime.fromtimestamp(NOON, UTC)
    first = LeaderCandidate("a", Times())
    wanted = first.wanted(0.0, noon)
    assert wanted is not None
    first.renewed(replace(wanted, version="1"), 0.0)
    second = LeaderCandidate("b", Times())
    second.see(replace(wanted, version="1"), 0.0)
    takes = second.wanted(100.0, noon)
    assert takes is not None
    second.renewed(takes, 100.0)
    assert (first.led_before, second.led_before) == ("", wanted.renewed)


def test_the_clock_of_decisions_is_the_api_servers() -> None:
    told: list[float | None] = [None]
    moment, own = [50.0], [NOON + HOURS]
    clock = ServerClock(lambda: told[0], lambda: moment[0], lambda: own[0])
    assert clock.now().timestamp() == NOON + HOURS
    told[0] = NOON
    assert clock.now().timestamp() == NOON
    own[0] += 1e9  # its own clock jumps
    moment[0] += 10.0
    told[0] = NOON + 9.3  # an answer names a whole second
    assert clock.now().timestamp() == NOON + 10.0
    told[0] = NOON + 500.0
    assert clock.now().timestamp() == NOON + 500.0


def part(name: str, created: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE, "creationTimestamp": created}
    return {"kind": "ConfigMap", "metadata": metadata, "data": {"balances": name}}


def test_a_part_that_the_market_names_by_now_is_not_deleted() -> None:
    """The leader's cache of the Market is old, and its clock is two days ahead."""
    named = {
        "account": {"since": "2026-01-31T12:00:00Z", "parts": [{"name": "p", "digest": "0" * 64}]}
    }
    server = HeldApi([{**market(), "status": named}, part("p", "2026-01-31T12:00:00Z")])
    api: Any = server.client("A")
    LedgerParts(api, NAMESPACE).sweep((), datetime(2026, 2, 2, 12, 1, tzinfo=UTC))
    LedgerParts(api, NAMESPACE).delete({"p": ""})
    assert server.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/p") is not None
    server.put({**market(), "status": {}})


def test_a_part_that_a_successor_has_taken_up_meanwhile_is_not_deleted() -> None:
    """It was left behind a day ago; the Market does not name it yet."""
    server = HeldApi([market(), part("p", "2026-01-29T12:00:00Z")])
    stale, successor = (
        LedgerParts(client, NAMESPACE) for client in (client_of(server, name) for name in "AB")
    )
    server.holds = True
    server.run("A", lambda: stale.sweep((), datetime(2026, 1, 31, 12, tzinfo=UTC)))
    server.handle("A")  # the list
    server.handle("A")  # the Market
    assert server.open["A"].method == "DELETE"
    server.run("B", lambda: successor.create({"p": "p"}))
    while "B" in server.open:
        server.handle("B")
    server.handle("A")
    assert server.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/p") is not None


def client_of(server: HeldApi, name: str) -> Any:
    return server.client(name)
