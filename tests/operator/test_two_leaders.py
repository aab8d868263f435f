"""Two operators that both believe they lead, and an API server that answers whenever it likes.

Their publishers, mirrors and ledgers are the real ones, and so are their decisions; only the API
server is played, because a real one cannot be made to hold a request. What was stored is judged by
a checker that asks no code of Walras.
"""

from __future__ import annotations

import itertools
import os
import random
from functools import partial
from typing import TYPE_CHECKING

import pytest

from held_api import HeldApi
from held_operators import Leader
from operator_histories import violations
from walras_operator.decide.world import NodeWrite, Reference, StatusWrite, Writes
from walras_operator.lead.lease import EPOCHS
from walras_operator.publish import attempts, publisher
from walras_operator.publish.stamp import Stamp
from worlds import document, entitlement, job, market, node, pod

if TYPE_CHECKING:
    from walras_operator.decide.world import Document

USERS = ("ada", "bob", "cyd")
LEND: Document = {"credits": {"halfLifeHours": 1, "mostShare": "0.2"}}


@pytest.fixture(autouse=True)
def _one_request_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "THREADS", 1)
    monkeypatch.setattr(attempts, "_PAUSES", (0.0, 0.0))


def cluster() -> list[Document]:
    """Three users who lend cores to each other; two have jobs, one of them with a deadline."""
    return [
        market(cores=LEND),
        {**node("n1", "12")},
        *map(entitlement, USERS),
        job("ada", "ada", deadline="36h", created="2026-01-31T11:00:00Z"),
        job("bob", "bob"),
        pod("ada-0", "ada"),
        pod("bob-0", "bob"),
    ]


MARKET = Reference("Market", "default", "", "Market--default")
OBJECTS = (MARKET, Reference("Entitlement", "ada", "", "Entitlement--ada"))
JOB = Reference("MarketJob", "ada", "lab", "MarketJob-lab-ada")


def written_by(leader: str) -> Writes:
    """A decision of a leader about a node and the statuses of all kinds."""
    balances = [{"entitlement": "ada", "coreHours": "1"}, {"entitlement": "bob", "coreHours": "-1"}]
    account = {"since": "2026-01-31T12:00:00Z", "balances": balances}
    statuses = (
        StatusWrite(OBJECTS[1], {"by": leader}),
        StatusWrite(MARKET, {"by": leader, "account": account}),
        StatusWrite(JOB, {"by": leader}),
    )
    return Writes((NodeWrite("n1", "Node--n1", {"by": leader}),), statuses)


def test_no_order_of_requests_lets_a_leader_write_over_its_successor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All orders of the requests of two leaders that decided from the same versions."""
    caplog.set_level("INFO")
    orders = set(itertools.permutations("AAAABBBB"))
    assert len(orders) == 70
    for order in sorted(orders):
        server = HeldApi([*cluster(), allocation()])
        leaders = [Leader(server, name, term) for term, name in enumerate("AB", 1)]
        server.holds = True
        for leader in leaders:
            leader.receive()
            versions = dict(leader.mirror.world("").versions)
            number = leader.term * EPOCHS + 1
            stamp = Stamp(number, "2026-01-31T12:00:00Z", 1, leader.name, versions)
            work = partial(leader.publisher.publish, written_by(leader.name), stamp)
            server.run(leader.name, work)
        for name in order:
            if name in server.open:
                server.handle(name)
        finish(server, random.Random(0))
        for leader in leaders:
            leader.publisher.close()
        found = violations(server.history, ("A", "B"))
        assert not [each for each in found if "writes over" in each or "epoch" in each], order
    told = [each for each in caplog.records if "NodeAllocation n1" in each.message]
    assert told
    assert {each.levelname for each in told} == {"INFO"}, "nobody has to act"


def allocation() -> Document:
    return document("NodeAllocation", "n1", spec={"epoch": 1})


def finish(server: HeldApi, chance: random.Random) -> None:
    """Handle what is open, in any order."""
    while server.open:
        server.handle(chance.choice(sorted(server.open)))


class Life:
    """Two operators that lead in turn, while requests, answers and news come late or never."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.server = HeldApi(cluster())
        skew = self.chance.choice((0.0, 0.0, -36_000.0, 36_000.0))
        self.leaders = [Leader(self.server, "A", 1), Leader(self.server, "B", 2, skew)]
        for each in self.leaders:
            each.receive()
        self.leading = self.leaders[0]
        self.server.holds = True

    def live(self, steps: int) -> HeldApi:
        for _ in range(steps):
            getattr(self, self.chance.choice(self.able()))()
        finish(self.server, self.chance)
        while self.server.late:
            self.late()
        for each in self.leaders:
            each.publisher.close()
        return self.server

    def able(self) -> list[str]:
        able = ["news", "time", "load"] + ["lead"] * (self.leading is self.leaders[0])
        able += ["late"] * bool(self.server.late) + ["lose"] * bool(self.server.open)
        able += ["handle"] * (4 * len(self.server.open))
        return able + ["begin"] * (2 * (not self.server.runs(self.leading.name)))

    def news(self) -> None:
        self.chance.choice(self.leaders).receive(self.chance.randint(1, 8))

    def time(self) -> None:
        passed = self.leading.passed + self.chance.choice((1.0, 30.0, 400.0))
        for each in self.leaders:
            each.passed = passed

    def load(self) -> None:
        there = self.server.get("/api/v1/namespaces/lab/pods/bob-0")
        assert there is not None
        cpu = self.chance.choice(("1", "2", "3"))
        there["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        self.server.put(there)

    def lead(self) -> None:
        """The other does not notice that its time is over."""
        self.leading = self.leaders[1]
        self.leading.receive(self.chance.randint(0, 10**6))

    def begin(self) -> None:
        self.leading.begin()

    def handle(self) -> None:
        self.server.handle(self.chance.choice(sorted(self.server.open)))

    def lose(self) -> None:
        self.server.lose(self.chance.choice(sorted(self.server.open)))

    def late(self) -> None:
        self.server.handle_late(self.chance.randrange(len(self.server.late)))


HISTORIES = int(os.environ.get("WALRAS_HISTORIES", "12"))
"""Histories that are judged; `make verify STAGES=properties` judges many."""


@pytest.mark.long
def test_what_two_leaders_store_never_goes_back_and_adds_up() -> None:
    stored = 0
    for seed in range(HISTORIES):
        server = Life(seed).live(60)
        stored += sum(writer in "AB" for _, _, writer in server.history)
        assert violations(server.history, ("A", "B")) == [], f"seed {seed}"
    assert stored > 3 * HISTORIES, "operators that write nothing are not tested"


def test_the_checker_finds_what_is_wrong() -> None:
    """Each of its rules, with a history that breaks it."""
    server = HeldApi([*cluster(), allocation()])
    a, b = (server.client(name) for name in "AB")
    path = "/apis/walras.dev/v1alpha1/markets/default"
    lost = {"balances": [{"entitlement": "ada", "coreHours": "4"}], "parts": [{"name": "gone"}]}
    held = {"runs": {"underway": [{"podUID": "u", "heldSeconds": 9}]}}
    less = {"runs": {"underway": [{"podUID": "u", "heldSeconds": 8}]}}
    for client, status in (
        (b, {"account": lost, **held, "epoch": {"number": 9}}),
        (a, {**less, "epoch": {"number": 8}}),
    ):
        patch = [{"op": "add", "path": "/status", "value": status}]
        client.request("PATCH", f"{path}/status", patch)
    found = " ".join(violations(server.history, ("A", "B")))
    for word in ("over its successor", "epoch 8 after 9", "add up to 4", "gone", "falls from 9"):
        assert word in found
