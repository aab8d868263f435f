"""Quanta of Karma count once: operators that die at any write, lose their lead, or decide from what
is no longer so. The API server is a value here: objects, and the version of the Market."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import large_worlds
from examples import examples
from walras.mechanisms.karma.audit import audit
from walras.mechanisms.karma.ledger import Ledger
from walras.mechanisms.karma.quantum import allocate
from walras.mechanisms.karma.record import SettledQuantum
from walras_api.contract import COLOCATION_GATE
from walras_api.kinds import EntitlementObject, MarketJob
from walras_api.parse import parse_object
from walras_operator.command import main
from walras_operator.decide import decision
from walras_operator.decide.credits.parts import LARGEST_PART, part_names
from walras_operator.decide.credits.quanta import (
    CreditAccount,
    read_credits,
    stored_ledger,
    time_at,
)
from walras_operator.decide.last_decision import core_account, ledger_account, status_of_market
from walras_operator.decide.world import Account
from walras_service.times import rfc3339
from whole_decisions import decide
from worlds import (
    NEXT_QUANTUM,
    NOW,
    condition,
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
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

    from walras_operator.decide.world import Carried, Document, Settlement, World
    from whole_decisions import Decision

USERS = ("ann", "bob", "cyd")
BEGIN = time_at(NOW)
SECONDS = 10


def memory(gib: int) -> Document:
    return {"demand": f"{gib}Gi", "max": "64Gi"}


def of_user(user: str, gib: int) -> MarketJob:
    made = parse_object(
        job(user, user, selector={"matchLabels": {"app": user}}, memory=memory(gib))
    )
    assert isinstance(made, MarketJob)
    return made


def documents(mechanism: str = "Karma") -> list[Document]:
    rules = {"quantumSeconds": SECONDS, "sliceSize": "1Gi", "mechanism": mechanism}
    return [
        market(memory=rules, cores={"credits": {"halfLifeHours": 1}}),
        *(entitlement(user) for user in USERS),
        *(job(user, user, memory=memory(4)) for user in USERS),
        node("n1"),
        node("n2"),
        *(pod(f"{user}-{n}", user, n) for user in USERS for n in ("n1", "n2")),
    ]


def cluster(*, mechanism: str = "Karma") -> World:
    return world(*documents(mechanism))


@dataclass
class Server:
    """The durable state, objects and a log, and what live leaders remember."""

    world: World = field(default_factory=cluster)
    log: list[str] = field(default_factory=list)
    now: datetime = BEGIN
    carried: dict[str, Carried] = field(default_factory=dict)

    def view(self, leader: str) -> World:
        """Return the world as a leader knows it now."""
        return replace(self.world, now=rfc3339(self.now), carried=self.carried.get(leader))

    def publish(
        self,
        leader: str,
        decision: Decision,
        writes: int | None = None,
        made_from: str | None = None,
    ) -> None:
        """Make the first writes of a decision, in the publisher's order; then the leader dies.

        Args:
            leader: Name of the leader.
            decision: What it has decided.
            writes: Number of writes after which it dies; None if it lives on.
            made_from: Version of the Market that it was made from; None for the present one.
        """
        if made_from is not None and made_from != self.world.version:
            others = (each for each in decision.statuses if each.object.kind != "Market")
            decision = replace(decision, statuses=tuple(others))
        settlement = decision.settlement
        parts = () if settlement is None else tuple(settlement.parts)
        if settlement is not None:
            if settlement.record is not None:
                self.log.append(json.dumps(settlement.record))
            self._create(settlement, parts if writes is None else parts[:writes])
            writes = None if writes is None else max(0, writes - len(parts))
            if settlement.version != self.world.version:
                return
        first = [each for each in decision.statuses if each.object.kind == "Market"]
        rest = [each for each in decision.statuses if each.object.kind != "Market"]
        order = [*first, *decision.nodes, *rest]
        made = order if writes is None else order[:writes]
        partly = replace(
            decision,
            nodes=tuple(each for each in decision.nodes if each in made),
            statuses=tuple(each for each in decision.statuses if each in made),
        )
        after = outcome(self.world, partly)
        moved = any(each in made for each in first)
        if settlement is not None and moved and len(made) > len(first):
            kept = self.world.ledger_parts.items()
            named = {name: text for name, text in kept if name not in settlement.superseded}
            after = replace(after, ledger_parts=named)
        version = str(int(self.world.version or 0) + moved)
        self.world = replace(after, version=version, carried=None)
        if writes is None:
            self.carried[leader] = decision.carried
        else:
            self.carried.pop(leader, None)

    def _create(self, settlement: Settlement, names: tuple[str, ...]) -> None:
        """Create ConfigMaps; one that exists never changes."""
        made = {name: settlement.parts[name] for name in names}
        for name, text in made.items():
            assert self.world.ledger_parts.get(name, text) == text
        self.world = replace(self.world, ledger_parts={**made, **self.world.ledger_parts})

    def want(self, user: str, gib: int) -> None:
        objects = self.world.objects
        jobs = [
            each.model_copy(update={"spec": of_user(user, gib).spec})
            if each.metadata.name == user
            else each
            for each in objects.jobs
        ]
        self.world = replace(self.world, objects=replace(objects, jobs=jobs))

    def come_or_go(self, user: str) -> None:
        objects = self.world.objects
        kept = [each for each in objects.entitlements if each.metadata.name != user]
        if len(kept) == len(objects.entitlements):
            made = parse_object(entitlement(user))
            assert isinstance(made, EntitlementObject)
            kept.append(made)
        self.world = replace(self.world, objects=replace(objects, entitlements=kept))

    def move(self, user: str, parent: str | None) -> None:
        """Name the parent of a user's entitlement, which need not exist."""
        objects = self.world.objects
        made = [
            each.model_copy(update={"spec": each.spec.model_copy(update={"parent": parent})})
            if each.metadata.name == user
            else each
            for each in objects.entitlements
        ]
        self.world = replace(self.world, objects=replace(objects, entitlements=made))

    def rename(self, user: str, other: str) -> None:
        """Create or delete two entitlements at once."""
        self.come_or_go(user)
        self.come_or_go(other)

    def scale(self, nodes: int) -> None:
        """Have as many nodes."""
        every = cluster().objects.nodes
        self.world = replace(self.world, objects=replace(self.world.objects, nodes=every[:nodes]))

    def check_account(self) -> None:
        """Check that what entitlements owe each other adds up to zero in what is stored."""
        found = core_account(replace(self.world, carried=None))
        assert isinstance(found, Account)
        assert sum(each.owed for each in found.balances.values()) == 0
        assert sum(each.rate for each in found.balances.values()) == 0

    def account(self) -> CreditAccount:
        found = ledger_account(self.world)
        assert isinstance(found, CreditAccount)
        return found

    def ledger(self) -> Ledger:
        return self.account().closing or Ledger.open(())

    def verdict(self) -> tuple[str, ...]:
        return audit(map(json.loads, self.log), self.ledger()).problems


STEPS = st.one_of(
    st.tuples(st.just("pass"), st.integers(1, 25)),
    st.tuples(st.just("want"), st.sampled_from(USERS), st.integers(0, 12)),
    st.tuples(st.just("come_or_go"), st.sampled_from(USERS)),
    st.tuples(st.just("move"), st.sampled_from(USERS), st.sampled_from([None, "nobody", *USERS])),
    st.tuples(st.just("rename"), st.sampled_from(USERS), st.sampled_from(USERS)),
    st.tuples(st.just("scale"), st.integers(0, 2)),
    st.tuples(st.just("decide"), st.sampled_from("AB")),
    st.tuples(st.just("die"), st.sampled_from("AB"), st.integers(0, 8)),
    st.tuples(st.just("late"), st.sampled_from("AB")),
)


@pytest.fixture
def small_parts() -> Iterator[None]:
    """Let no balances fit into the Market's status, and only one into each part of the ledger."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("walras_operator.decide.credits.parts.MOST_BALANCES", 0)
        patch.setattr("walras_operator.decide.credits.parts.LARGEST_PART", 1)
        yield


@pytest.mark.long
@pytest.mark.usefixtures("small_parts")
@settings(examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, min_size=5, max_size=25))
def test_a_ledger_in_parts_follows_from_the_log_whatever_befalls_operators(
    steps: list[tuple[Any, ...]],
) -> None:
    server = live_through(steps)
    stored = status_of_market(server.world)
    named = part_names(stored)
    ledger, owed = (stored.get(each, {}).get("parts") or [] for each in ("ledger", "account"))
    assert len(ledger) == len(server.ledger().users)
    assert len(named) == len(ledger) + len(owed)
    assert set(named) <= server.world.ledger_parts.keys()


@pytest.mark.long
@examples(60)
@given(st.lists(STEPS, min_size=5, max_size=25))
def test_the_ledger_follows_from_the_log_whatever_befalls_operators(
    steps: list[tuple[Any, ...]],
) -> None:
    live_through(steps)


def live_through(steps: list[tuple[Any, ...]]) -> Server:
    server = Server()
    late: list[tuple[str, Decision, int | None, str]] = []
    for what, *given_ in steps:
        before = server.ledger().quantum
        match what:
            case "pass":
                server.now += timedelta(seconds=given_[0])
            case "want" | "come_or_go" | "move" | "rename" | "scale":
                getattr(server, what)(*given_)
            case "decide":
                server.publish(given_[0], decide(server.view(given_[0])))
            case "die":
                server.publish(given_[0], decide(server.view(given_[0])), given_[1])
            case "late":  # decided now, written after whatever comes next
                made_from = server.world.version
                late.append((given_[0], decide(server.view(given_[0])), None, made_from))
                continue
        assert server.ledger().quantum - before in {0, 1}
        while late:
            server.publish(*late.pop())
        assert server.verdict() == ()
        server.check_account()
    return server


def test_the_command_tells_a_ledger_that_follows_from_a_forged_one(tmp_path: Path) -> None:
    server = Server()
    for user, gib in (("ann", 12), ("bob", 1), ("ann", 3)):
        server.want(user, gib)
        server.now += timedelta(seconds=25)
        server.publish("A", decide(server.view("A")))
    log, document = tmp_path / "operator.log", tmp_path / "market.json"
    told = [{"event": "quantum", "record": json.loads(each)} for each in server.log]
    log.write_text("\n".join(['{"event": "cleared"}', *map(json.dumps, told), '{"event": "qua']))
    market = {"metadata": {"name": "default"}, "status": status_of_market(server.world)}

    def checked() -> Result:
        document.write_text(json.dumps(market))
        return CliRunner().invoke(main, ["ledger", "--log", str(log), "--market", str(document)])

    assert "the ledger follows" in checked().stdout
    balance = market["status"]["ledger"]["balances"][0]
    balance["credits"] = str(int(balance["credits"].split(".")[0]) + 1)
    outcome = checked()
    assert outcome.exit_code == 1
    assert "the ledger differs from the end of quantum" in outcome.stderr


def test_many_balances_are_stored_in_parts_and_lost_or_changed_ones_are_named(
    small_parts: None,
) -> None:
    server = Server()
    server.publish("A", decide(server.view("A")))
    stored = status_of_market(server.world)["ledger"]
    assert stored["balances"] == []
    assert len(stored["parts"]) == len(USERS)
    assert len(server.world.ledger_parts) == 2 * len(USERS), "those of the account, too"
    written = server.ledger()
    again = decide(server.view("B"))
    assert (again.settlement, again.nodes, again.statuses) == (None, (), ())
    server.now += timedelta(seconds=SECONDS)
    server.publish("A", decide(server.view("A")))
    assert server.ledger().quantum == written.quantum + 1
    now = part_names(status_of_market(server.world))
    assert set(now) == server.world.ledger_parts.keys(), "earlier ones are deleted"
    first, whole = now[0], server.world
    for kept, problem in (
        ({name: whole.ledger_parts[name] for name in now[1:]}, "is missing"),
        ({**whole.ledger_parts, first: '["ann", "9", "0"]'}, "was changed"),
    ):
        broken = decide(replace(server.view("B"), ledger_parts=kept))
        assert (broken.settlement, broken.nodes) == (None, ())
        said = condition(broken, "Market", "default")
        assert said[:2] == ("False", "LedgerUnreadable")
        assert f"ConfigMap {first}, a part of them, {problem}" in said[2]


@pytest.mark.long
def test_the_ledger_of_a_hundred_thousand_users_fits_into_the_store() -> None:
    users = [f"{number:06d}-{'x' * 56}" for number in range(100_000)]
    before = Ledger.open(users)
    settled = SettledQuantum(
        allocate(before, np.ones((1, len(users)), np.int64), np.array([len(users) // 2])),
        ("n1",),
        np.ones(len(users), np.int64),
        Fraction(1, 2),
    )
    stored = stored_ledger(settled, NOW, "7", {})
    assert len(json.dumps(stored.report.document())) < 100_000
    assert max(map(len, stored.parts.values())) <= LARGEST_PART
    found = read_credits({"ledger": stored.report.document()}, stored.parts)
    assert isinstance(found, CreditAccount)
    assert (found.opening, found.closing) == (before, settled.allocation.ledger)


@pytest.mark.parametrize("writes", range(12))
def test_who_comes_after_an_operator_that_died_settles_the_same(writes: int) -> None:
    """The outcome is the same to the bit as if nobody had died."""
    undisturbed, disturbed = Server(), Server()
    for server in (undisturbed, disturbed):
        server.publish("A", decide(server.view("A")))
        server.want("ann", 12)
        server.now += timedelta(seconds=SECONDS)
    disturbed.publish("A", decide(disturbed.view("A")), writes)
    for server in (undisturbed, disturbed):
        server.publish("B", decide(server.view("B")))
    assert disturbed.account() == undisturbed.account()
    assert disturbed.ledger().quantum == 2
    plans = [
        {name: each.spec.grants for name, each in server.world.allocations.items()}
        for server in (undisturbed, disturbed)
    ]
    assert plans[0] == plans[1]
    assert disturbed.verdict() == ()


def test_a_quantum_is_as_long_as_the_rules_say_whoever_leads() -> None:
    server = Server()
    server.publish("A", decide(server.view("A")))
    since = server.account().since
    server.now += timedelta(seconds=SECONDS - 1)
    again = decide(server.view("B"))
    assert again.settlement is None
    assert again.quantum_ends == rfc3339(time_at(since) + timedelta(seconds=SECONDS))
    server.now += timedelta(seconds=1)
    server.publish("B", decide(server.view("B")))
    assert server.ledger().quantum == 2


def test_time_without_an_operator_is_no_quantum() -> None:
    server = Server()
    server.publish("A", decide(server.view("A")))
    server.now += timedelta(hours=3)
    server.publish("B", decide(server.view("B")))
    assert (server.ledger().quantum, server.account().since) == (2, rfc3339(server.now))


def test_credits_are_written_with_the_plans_and_before_other_statuses() -> None:
    made = decision.decide(cluster())
    first, second = made.first, made.rest()
    assert first.settlement is not None
    assert [each.object.kind for each in first.statuses] == ["Market"]
    assert [each.node for each in first.nodes] == ["n1", "n2"]
    assert second.settlement is None
    assert {each.object.kind for each in second.statuses} == {"Entitlement", "MarketJob"}


def test_nothing_is_written_before_the_credits_where_pods_are_placed_too() -> None:
    late = pod("late", "ann", None, creationTimestamp="2020-01-01T00:00:00Z")
    late["spec"]["schedulingGates"] = [{"name": COLOCATION_GATE}]
    known = world(*documents(), late)
    made = decision.decide(known)
    assert not made.first
    assert made.first.settlement is None
    only = made.rest()
    assert only.settlement is not None
    assert [each.pod.name for each in only.placements] == ["late"]


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_is_set_ends_a_quantum_and_no_more(hours: int) -> None:
    server = Server()
    server.publish("A", decide(server.view("A")))
    server.now += timedelta(hours=hours)
    for _ in range(2):
        server.publish("A", decide(server.view("A")))
    assert server.ledger().quantum == 2


def test_who_asks_for_less_within_a_quantum_has_still_had_the_rest() -> None:
    """Otherwise memory between two countings would cost nothing."""
    greedy, honest = Server(), Server()
    for server in (greedy, honest):
        server.want("ann", 12)
        server.publish("A", decide(server.view("A")))
    greedy.want("ann", 0)
    greedy.publish("A", decide(greedy.view("A")))
    assert greedy.ledger() == honest.ledger()
    greedy.want("ann", 13)
    greedy.publish("A", decide(greedy.view("A")))
    assert greedy.ledger().quantum == 1
    assert greedy.verdict() == ()


def test_within_a_quantum_nothing_is_settled_twice() -> None:
    server = Server()
    server.publish("A", decide(server.view("A")))
    written = server.ledger()
    for leader in "AB":
        decision = decide(server.view(leader))
        assert (decision.settlement, decision.nodes, decision.statuses) == (None, (), ())
    assert server.ledger() == written


def in_debt() -> Server:
    """Return a server on which ann has borrowed for some quanta from bob and cyd."""
    server = Server()
    for user, gib in (("ann", 24), ("bob", 1), ("cyd", 1)):
        server.want(user, gib)
    for _ in range(3):
        server.publish("A", decide(server.view("A")))
        server.now += timedelta(seconds=SECONDS)
    return server


def differences(ledger: Ledger) -> dict[str, Fraction]:
    return {user: ledger.credits(user) - ledger.credits("cyd") for user in ledger.users}


@pytest.mark.parametrize("broken", [False, True])
def test_an_entitlement_that_cannot_be_used_for_a_moment_keeps_its_credits(broken: bool) -> None:
    server = in_debt()
    owed = differences(server.ledger())
    assert owed["ann"] < -10
    whole = server.world
    if broken:
        bad = entitlement("ann")
        bad["spec"]["shares"] = -1
        others = [each for each in whole.objects.entitlements if each.metadata.name != "ann"]
        server.world = replace(
            whole, objects=replace(whole.objects, entitlements=others), broken=world(bad).broken
        )
    else:
        server.move("ann", "nobody")
        server.move("bob", "nobody")
    for _ in range(2):
        server.publish("A", decide(server.view("A")))
        server.now += timedelta(seconds=SECONDS)
    away = server.ledger()
    assert away.users == USERS, "their places decide who comes first in a tie"
    # cyd has all slices that she wants, and nobody borrows: differences do not change.
    assert differences(away)["ann"] == owed["ann"]
    if broken:
        server.come_or_go("ann")
        server.world = replace(server.world, broken={})
    for user in USERS:
        server.move(user, None)
    server.publish("A", decide(server.view("A")))
    opening = server.account().opening
    assert opening is not None
    assert differences(opening) == differences(away)
    assert server.verdict() == ()


def test_a_new_child_takes_over_what_its_parent_owes_and_gives_it_back() -> None:
    """Otherwise a lead who creates a child sheds the debt of a team."""
    server = in_debt()
    owed = differences(server.ledger())["ann"]
    server.come_or_go("new")
    server.move("new", "ann")
    server.publish("A", decide(server.view("A")))
    opening = server.account().opening
    assert opening is not None
    assert opening.users == ("bob", "cyd", "new")
    assert differences(opening)["new"] == pytest.approx(owed, abs=1e-5)
    assert server.verdict() == ()
    server.come_or_go("new")
    server.now += timedelta(seconds=SECONDS)
    server.publish("A", decide(server.view("A")))
    opening = server.account().opening
    assert opening is not None
    assert opening.users == ("bob", "cyd", "ann")
    assert differences(opening)["ann"] < owed / 2
    assert server.verdict() == ()
    assert opening.credits("ann") < opening.credits("cyd") + owed / 2


def test_a_deleted_entitlement_loses_its_credits() -> None:
    server = in_debt()
    for _ in range(2):
        server.come_or_go("ann")
        server.publish("A", decide(server.view("A")))
        server.now += timedelta(seconds=SECONDS)
    opening = server.account().opening
    assert opening is not None
    assert opening.users == ("bob", "cyd", "ann")
    assert opening.credits("ann") == (opening.credits("bob") + opening.credits("cyd")) / 2
    assert server.verdict() == ()


@pytest.mark.parametrize("mechanism", ["MaxMin", "Strict", "Auction"])
def test_other_rules_leave_credits_as_they_are(mechanism: str) -> None:
    server = Server()
    server.publish("A", decide(server.view("A")))
    credits_, karma = server.account(), server.world.markets
    other = cluster(mechanism=mechanism).markets[0].spec
    markets = [each.model_copy(update={"spec": other}) for each in karma]
    server.world = replace(server.world, markets=markets)
    server.now += timedelta(seconds=3 * SECONDS)
    decision = decide(server.view("A"))
    assert decision.settlement is None
    server.publish("A", decision)
    assert server.account() == credits_
    back = [each.model_copy(update={"spec": karma[0].spec}) for each in server.world.markets]
    server.world = replace(server.world, markets=back)
    server.publish("B", decide(server.view("B")))
    assert credits_.closing is not None
    assert server.ledger().quantum == credits_.closing.quantum + 1
    assert server.verdict() == ()


def test_quanta_go_on_while_the_market_cannot_be_understood() -> None:
    """The last rules that could be used are in force then, and cost what they cost."""
    server = Server()
    server.publish("A", decide(server.view("A")))
    kept = server.world.markets[0]
    bad = market(memory={"mechanism": "Lottery"})
    broken = world({**bad, "status": kept.status}).broken
    server.world = replace(server.world, markets=[], broken=broken)
    server.now += timedelta(seconds=SECONDS)
    server.publish("A", decide(server.view("A")))
    assert server.ledger().quantum == 2
    assert server.verdict() == ()


def test_an_entitlement_tells_what_a_quantum_did_to_its_credits() -> None:
    server = Server()
    for user, gib in (("ann", 12), ("bob", 1), ("cyd", 2)):
        server.want(user, gib)
    decision = decide(server.view("A"))
    told = status(decision, "Entitlement", "ann")["credits"]
    assert told["quantum"] == 1
    # Of 16 slices of each node two are guaranteed to each user: bob needs but one of his.
    assert {each.get("entitlement", "") for each in told["borrowed"]} == {"", "bob"}
    assert float(told["spent"]) == sum(int(each["memory"]) for each in told["borrowed"]) >> 30
    (loan,) = status(decision, "Entitlement", "bob")["credits"]["lent"]
    assert loan["entitlement"] == "ann"


def test_many_entitlements_are_told_of_their_credits_in_turn() -> None:
    """All balances change with each quantum, and each status is a request."""
    names = [f"u{number}" for number in range(120)]
    server = Server(
        world=world(
            market(memory={"quantumSeconds": SECONDS, "sliceSize": "1Gi"}),
            *(entitlement(name) for name in names),
            job("train", "u0", memory=memory(4)),
            node("n1"),
            pod("train-0", "train", "n1"),
        )
    )
    server.publish("A", decide(server.view("A")))
    told: list[str] = []
    for _ in range(600 // SECONDS):
        server.now += timedelta(seconds=SECONDS)
        decision = decide(server.view("A"))
        now = [each.object.name for each in decision.statuses if each.object.kind == "Entitlement"]
        assert len(now) <= SECONDS
        told += now
        server.publish("A", decision)
    assert sorted(told) == sorted(names)


def test_credits_are_written_at_once_with_what_can_be_seen() -> None:
    names = [f"u{number}" for number in range(50)]
    objects = [
        market(memory={"quantumSeconds": SECONDS, "sliceSize": "1Gi"}),
        *(entitlement(name) for name in names),
        node("n1"),
        *(job(name, name, memory=memory(1)) for name in names),
        pod("u0-0", "u0", "n1"),
    ]
    server = Server(world=world(*objects))
    server.publish("A", decide(server.view("A")))
    server.now += timedelta(seconds=SECONDS)
    server.publish("A", decide(server.view("A")))
    late = next(name for name in names[1:] if quantum_told(server, name) == 1)
    server.world = replace(
        server.world,
        objects=replace(
            server.world.objects,
            pods=[*server.world.objects.pods, *world(pod(f"{late}-0", late, "n1")).objects.pods],
        ),
    )
    server.now += timedelta(seconds=SECONDS)
    server.publish("A", decide(server.view("A")))
    assert quantum_told(server, late) == 3


def test_a_pod_stays_enforced_while_karma_changes_its_memory_a_little() -> None:
    """Each write of the state before and after an agent's answer would be two for every job."""
    server, moved, told = Server(world=world(*large_worlds.cluster(4, 40, "16Gi"))), 0, 0
    for _ in range(6):
        for _ in range(2):  # when a quantum begins, and after all agents have answered
            before, known = pods_told(server), granted_memory(server)
            server.publish("A", decide(server.view("A")))
            after, given = pods_told(server), granted_memory(server)
            for uid, (state, had) in before.items():
                now, has = after[uid]
                assert now == "Enforced" or state != "Enforced" or abs(has - had) > 1 << 28
                told += state != now
            moved += sum(given[uid] != each for uid, each in known.items())
            server.world = enforced(server.world)
        server.now += timedelta(seconds=SECONDS)
    assert moved > 2 * told > 0, "no memory moved, or much at a time"


def pods_told(server: Server) -> dict[str, tuple[str, int]]:
    """Return the state and the bytes of each pod in the statuses of jobs, by UID."""
    return {
        each["podUID"]: (each["state"], int(each["memory"]))
        for job in server.world.objects.jobs
        for each in (job.status or {}).get("pods", ())
    }


def granted_memory(server: Server) -> dict[str, int | None]:
    """Return the bytes that each pod is granted on its node, by UID."""
    allocations = server.world.allocations.values()
    return {grant.pod_uid: grant.memory for each in allocations for grant in each.spec.grants}


def quantum_told(server: Server, name: str) -> int:
    """Return the quantum that the credits in the status of an entitlement are of."""
    statuses = {each.metadata.name: each.status for each in server.world.objects.entitlements}
    return int((statuses[name] or {})["credits"]["quantum"])


def test_a_market_that_is_new_begins_quanta_anew() -> None:
    server = Server()
    server.publish("A", decide(server.view("A")))
    server.world = replace(server.world, markets=cluster().markets)
    server.now = time_at(NEXT_QUANTUM)
    server.publish("A", decide(server.view("A")))
    assert server.ledger().quantum == 1


def measured(server: Server, node_name: str, uid: str, amount: str) -> None:
    """Report a pod's memory demand, as its node's agent does."""
    known = server.world.allocations[node_name]
    told = {"pods": [{"podUID": uid, "state": "Enforced", "memoryDemand": amount}]}
    changed = known.model_copy(update={"status": told})
    server.world = replace(
        server.world, allocations={**server.world.allocations, node_name: changed}
    )


def with_measured_demand() -> Server:
    server = Server()
    objects = server.world.objects
    jobs = [
        each.model_copy(
            update={
                "spec": each.spec.model_copy(
                    update={
                        "memory": each.spec.memory.model_copy(update={"demand": "measured"})
                        if each.spec.memory
                        else None
                    }
                )
            }
        )
        for each in objects.jobs
    ]
    server.world = replace(server.world, objects=replace(objects, jobs=jobs))
    return server


def wanted(server: Server, user: str) -> int:
    """Return the memory, in GiB, that a user's jobs demand."""
    decision = decide(server.view("new"))
    assert decision.plan is not None
    (found,) = (each.demand for each in decision.plan.memory if each.name == user)
    return found >> 30


def test_demand_is_what_agents_measure_and_until_then_what_pods_request() -> None:
    server = with_measured_demand()
    assert wanted(server, "ann") == 2
    server.publish("A", decide(server.view("A")))
    measured(server, "n1", "u-lab-ann-n1", str(5 << 30))
    assert wanted(server, "ann") == 6
    measured(server, "n1", "u-lab-ann-n1", str(1 << 60))
    assert wanted(server, "ann") == 17


@pytest.mark.parametrize("uid", ["u-lab-ann-n2", "nobody"])
def test_an_agent_is_not_believed_about_pods_of_others(uid: str) -> None:
    server = with_measured_demand()
    server.publish("A", decide(server.view("A")))
    measured(server, "n1", uid, str(5 << 30))
    assert wanted(server, "ann") == 2


@pytest.mark.parametrize("amount", ["-1", "1e9", "5Gi", "", "9" * 30])
def test_a_demand_that_is_no_number_is_passed_over(amount: str) -> None:
    server = with_measured_demand()
    server.publish("A", decide(server.view("A")))
    measured(server, "n1", "u-lab-ann-n1", amount)
    assert wanted(server, "ann") == 2
