"""The history is complete but for stated gaps, whoever leads and whatever the API server does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from config_maps import ConfigMaps
from kind_documents import document
from walras.outcome.history import (
    FIELDS,
    SLOT,
    SLOTS,
    STEP,
    Part,
    history_of_parts,
    place_of,
    slot_of,
    stored,
)
from walras.outcome.hourly_accounts import COLUMNS, DAY, HOUR, PLACES, read_day
from walras_api.assembly import Objects
from walras_api.contract import accounts_part, history_part
from walras_api.market import HistoryPolicy
from walras_api.parse import parse_allocation, parse_object
from walras_operator.decide.world import World
from walras_operator.history.config_maps import HistoryParts, stored_part
from walras_operator.history.keeper import USERS, WRITE, HistoryKeeper
from walras_operator.metrics.market_sample import PodUsage, sample_of, used_by_users
from walras_operator.metrics.operator_metrics import Metrics
from walras_operator.metrics.pod_use import PAUSE, PodUse
from walras_service.api import Api
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry

START = 20_700 * DAY
SYSTEM = pytest.mark.system


def entitlement(name: str = "ann", **cores: str) -> Any:
    figures = {"entitled": "8", "bought": "10", "held": "9", **cores}
    status = {
        "cores": figures,
        "memory": {"entitled": str(2**32), "demand": "1", "granted": str(2**31)},
        "credits": {
            "balance": "12.5",
            "lent": [{"entitlement": "bob", "memory": str(2**30)}, {"memory": str(2**29)}],
        },
        "spendByNode": [{"node": "n1", "spend": "6", "cores": "8"}],
        "otherSpend": "2",
    }
    claim = {**document("Entitlement"), "metadata": {"name": name}, "status": status}
    return parse_object(claim)


def job(status: Any) -> Any:
    made = {**document("MarketJob"), "metadata": {"name": "train", "namespace": "lab"}}
    return parse_object({**made, "status": status})


def market(status: Any) -> Any:
    return parse_object({**document("Market"), "metadata": {"name": "default"}, "status": status})


def named(kind: Any, row: Any) -> dict[str, float | None]:
    return {
        figure.name: None if value is None else value / figure.scale
        for figure, value in zip(FIELDS[kind], row, strict=True)
    }


def test_a_sample_has_what_the_statuses_say() -> None:
    pods = [{"held": "3", "bought": "3.2"}, {"held": "0.5", "bought": "0.5"}]
    allocation = {**document("NodeAllocation"), "metadata": {"name": "n1"}}
    allocation["spec"] = {
        "epoch": 1,
        "grants": [
            {"podUID": "a", "name": "a", "cores": "3"},
            {"podUID": "b", "name": "b", "cores": "0.5"},
        ],
    }
    known = World(
        "",
        objects=Objects(
            entitlements=[entitlement()],
            jobs=[
                job(
                    {
                        "counts": {"total": 4, "unlisted": 2},
                        "pods": pods,
                        "bought": "7",
                        "speedup": "2.5",
                    }
                )
            ],
        ),
        markets=[
            market({"prices": [{"node": "n1", "price": "1.25"}, {"node": "n2", "price": "x"}]})
        ],
        allocations={"n1": parse_allocation(allocation)},
    )
    sample = sample_of(known, START)
    assert named("user", sample.tables["user"]["ann"]) == {
        "entitled": 8,
        "bought": 10,
        "held": 9,
        "used": None,
        "lent": 0,
        "borrowed": 2,
        "credits": 0,
        "price": 0.8,
        "paid": 8,
        "memoryEntitled": 4,
        "memoryHeld": 2,
        "memoryUsed": None,
        "memoryLent": 1.5,
        "memoryBorrowed": 0,
    }
    assert named("node", sample.tables["node"]["n1"]) == {"price": 1.25, "sold": 3.5}
    assert named("node", sample.tables["node"]["n2"]) == {"price": None, "sold": None}
    assert named("job", sample.tables["job"]["lab/train"]) == {
        "held": 7,
        "bought": 7,
        "speedup": 2.5,
    }


def test_credits_are_those_above_the_mean() -> None:
    rich, poor = entitlement("rich"), entitlement("poor")
    status = {**poor.status, "credits": {"balance": "2.5"}}
    poor = poor.model_copy(update={"status": status})
    users = sample_of(World("", objects=Objects(entitlements=[rich, poor])), START).tables["user"]
    assert named("user", users["rich"])["credits"] == 5
    assert named("user", users["poor"])["credits"] == -5


@pytest.mark.parametrize("balance", ["NaN", "inf", 10**400, [], None])
def test_a_balance_that_is_no_finite_number_leaves_those_of_others_alone(balance: Any) -> None:
    rich, poor = entitlement("rich"), entitlement("poor")
    poor = poor.model_copy(update={"status": {**poor.status, "credits": {"balance": balance}}})
    users = sample_of(World("", objects=Objects(entitlements=[rich, poor])), START).tables["user"]
    assert named("user", users["rich"])["credits"] == 0
    assert named("user", users["poor"])["credits"] is None


def using(
    unlisted: int = 0, unit: str = "core", counted: str = "", *, measured: bool = True
) -> dict[str, PodUsage]:
    """Return the usage of a job with two pods, one of them on a node with two threads a core.

    Args:
        unlisted: Pods for which the job's status has no room.
        unit: What the Market sells.
        counted: CPUs that the agent of that node counts for its pod.
        measured: Whether there is a metrics API.
    """
    pods = [{"name": "a", "node": "n1"}, {"name": "b", "node": "n2"}, {"name": "new"}]
    allocation = {**document("NodeAllocation"), "metadata": {"name": "n1"}}
    grant = {"podUID": "a-uid", "namespace": "lab", "name": "a", "cores": "2"}
    allocation["spec"] = {**allocation["spec"], "grants": [grant]}
    held = [{"podUID": uid, "usedCpus": counted} for uid in ("a-uid", "of-another-node")]
    topology = {"cores": 4, "threads": 8, "sockets": 1}
    allocation["status"] = {"topology": topology, "pods": held if counted else []}
    rules: Any = parse_object(
        {**document("Market"), "metadata": {"name": "default"}, "spec": {"cores": {"unit": unit}}}
    )
    train = job({"counts": {"unlisted": unlisted}, "pods": pods})
    known = World(
        "",
        objects=Objects(entitlements=[entitlement(train.spec.entitlement)], jobs=[train]),
        markets=[rules],
        allocations={"n1": parse_allocation(allocation)},
    )
    use = {
        ("lab", "a"): PodUsage(3.0, 2**30),
        ("lab", "b"): PodUsage(1.0, 2**29),
        ("elsewhere", "a"): PodUsage(50.0, 2**40),
    }
    known_use = use if measured else None
    sample = sample_of(known, START, known_use)
    (row,) = sample.tables["user"].values()
    found = used_by_users(known, known_use)
    assert named("user", row)["used"] == (found[train.spec.entitlement].cores if found else None)
    return found


def test_use_is_that_of_the_users_pods_in_the_unit_that_is_sold() -> None:
    assert list(using().values()) == [PodUsage(3 / 2 + 1, 2**30 + 2**29)]
    assert list(using(unit="thread").values()) == [PodUsage(4, 2**30 + 2**29)]
    assert using(unlisted=3) == {}, "not all of its pods are known"


def test_cpu_time_is_that_of_the_nodes_agents_with_or_without_a_metrics_api() -> None:
    assert list(using(counted="5").values()) == [PodUsage(5 / 2 + 1, 2**30 + 2**29)]
    assert list(using(counted="5", measured=False).values()) == [PodUsage(5 / 2, None)]
    assert list(using(counted="0", measured=False).values()) == [PodUsage(0.0, None)]
    assert using(measured=False) == {}
    assert list(using(counted="many").values()) == [PodUsage(3 / 2 + 1, 2**30 + 2**29)]


POD = {
    "metadata": {"namespace": "lab", "name": "a"},
    "containers": [
        {"usage": {"cpu": "250m", "memory": "1Gi"}},
        {"usage": {"cpu": "1500000000n"}},
        {},
    ],
}


def test_use_is_read_from_the_metrics_api_and_its_absence_is_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    answers: list[Any] = [{"items": [POD]}, ApiError("no such kind", "missing"), {"items": [7]}]

    class Scripted(Api):
        def __init__(self) -> None:
            pass

        def request(self, *_: Any, **__: Any) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    use = PodUse(Scripted(), lambda: now)
    assert use.read() == {("lab", "a"): PodUsage(1.75, 2**30)}
    assert use.known is not None
    now += 60
    with caplog.at_level("INFO"):
        assert use.read() is None
    assert "use of pods is unknown: no such kind" in caplog.text
    assert use.read() is None, "it is not asked again at once"
    assert len(answers) == 1
    now += PAUSE
    assert use.known is None, "too old"
    assert use.read() is None
    assert answers == []


@pytest.mark.parametrize(
    "status",
    [
        {"counts": 3, "pods": "x"},
        {"counts": {"unlisted": 1}, "pods": []},
        {"counts": {"total": 1}, "pods": [{"bought": None}], "bought": "NaN", "speedup": {}},
    ],
)
def test_malformed_statuses_are_unknown(status: Any) -> None:
    sample = sample_of(World("", objects=Objects(jobs=[job(status)])), START)
    assert sample.tables["job"]["lab/train"] == (None, None, None)


def test_what_is_not_decided_is_not_sampled() -> None:
    known = World("", objects=Objects(jobs=[job(None)], entitlements=[]), markets=[market(None)])
    assert sample_of(known, START).tables == {"user": {}, "node": {}, "job": {}}


class Leader:
    """An operator whose clock and lead are set by the test.

    Attributes:
        held: Cores that the user holds.
        ahead: Seconds by which its clock is ahead of the API server's, as far as it knows.
    """

    def __init__(self, server: ConfigMaps, now: float = START) -> None:
        self.now, self.held, self.ahead = now, 9.0, 0.0
        self.term: int | None = 1
        self.policy = HistoryPolicy()
        self.metrics = Metrics()
        self.keeper = HistoryKeeper(
            self.world,
            lambda: None,
            lambda: self.term,
            lambda: self.policy,
            HistoryParts(Api(server.settings(), "test", 1), "walras-system"),
            self.metrics,
            lambda: self.now,
            lambda: self.ahead,
        )

    def world(self) -> World:
        return World("", objects=Objects(entitlements=[entitlement(held=str(self.held))]))

    def run(self, minutes: int) -> None:
        for _ in range(minutes):
            self.now += STEP
            self.keeper.tick()

    def counted(self, metric: str) -> float:
        registry: CollectorRegistry = self.metrics.registry
        return registry.get_sample_value(f"walras_operator_history_{metric}_total") or 0.0


@pytest.fixture
def server() -> Iterator[ConfigMaps]:
    made = ConfigMaps()
    try:
        yield made
    finally:
        made.close()


def kept(server: ConfigMaps, now: float) -> dict[int, float]:
    """Cores held by time, as a reader finds them."""
    parts = []
    for slot in range(slot_of(int(now)) - SLOTS + 1, slot_of(int(now)) + 1):
        found = server.objects.get(history_part(place_of(slot)))
        if found is not None:
            parts.append(Part(slot, dict(stored_part(found).data)))  # type: ignore[arg-type]
    history = history_of_parts(parts, int(now), DAY, STEP)
    series = {each.name: each.values for each in history.series("user", "ann")}
    return {
        time: value
        for time, value in zip(history.times, series.get("held", ()), strict=False)
        if value is not None
    }


def account(server: ConfigMaps, number: int = START // DAY) -> tuple[int, float]:
    """Seconds that were observed on a day, and core-hours that the user held."""
    found = server.objects.get(accounts_part(number % PLACES))
    if found is None:
        return 0, 0.0
    day = read_day(number, stored_part(found).data[USERS])
    place = [each.name for each in COLUMNS].index("held")
    held = sum(hour.users["ann"][place] or 0 for hour in day.hours.values() if hour.users)
    assert all(hour.seconds <= day.step for hour in day.hours.values())
    return sum(hour.seconds for hour in day.hours.values()), held / 1000 / HOUR


@SYSTEM
def test_a_leader_writes_every_ten_minutes_and_each_part_has_its_place(server: ConfigMaps) -> None:
    leader = Leader(server)
    leader.run(30)
    assert leader.counted("failures") == 0
    assert sorted(server.objects) == sorted(
        [
            *(history_part(place_of(slot_of(START) + n)) for n in (0, 1)),
            accounts_part(START // DAY % PLACES),
        ]
    )
    assert len(server.writes) == 3 + 3 + 1, "two parts each time, and a slot's last samples"
    assert set(kept(server, leader.now)) == {START + STEP * n for n in range(1, 31)}
    seconds, held = account(server)
    assert seconds == 29 * STEP
    assert held == pytest.approx(9 * 29 / 60)
    assert leader.counted("written_bytes") > 100


@SYSTEM
def test_a_second_leader_continues_and_the_gap_between_them_is_said(server: ConfigMaps) -> None:
    one = Leader(server)
    one.run(15)  # killed: the last five minutes are lost
    two = Leader(server, one.now + 20)
    two.held = 3.0
    two.term = 2
    two.run(20)
    two.keeper.tick(write=True)
    found = kept(server, two.now)
    assert found[START + 5 * STEP] == 9.0
    assert found[START + 600] == 9.0
    assert START + 660 not in found
    assert found[START + 17 * STEP] == 3.0
    seconds, held = account(server)
    assert seconds == 9 * STEP + 19 * STEP
    assert held == pytest.approx((9 * 9 + 3 * 19) / 60)


@SYSTEM
def test_an_operator_that_ends_writes_what_it_has(server: ConfigMaps) -> None:
    leader = Leader(server)
    leader.run(3)
    assert server.objects == {}
    leader.keeper.start()
    leader.now += 30
    leader.keeper.stop()
    assert account(server)[0] == 2 * STEP + 30
    assert len(kept(server, leader.now)) == 3


@SYSTEM
def test_who_does_not_lead_writes_nothing_and_time_between_terms_is_a_gap(
    server: ConfigMaps,
) -> None:
    leader = Leader(server)
    leader.term = None
    leader.run(40)
    assert (server.writes, server.reads) == ([], 0)
    leader.term = 3
    leader.run(1)
    leader.term = None
    leader.run(1)
    leader.term = 5
    leader.run(2)
    leader.keeper.tick(write=True)
    assert account(server)[0] == STEP


@SYSTEM
def test_a_leader_that_loses_its_lead_while_it_writes_writes_no_more(server: ConfigMaps) -> None:
    leader = Leader(server)
    leader.run(9)

    def lose() -> None:
        leader.term = None

    server.before_write = lose
    leader.run(1)
    assert len(server.writes) == 1
    assert leader.counted("failures") == 1
    server.before_write = lambda: None  # else the server's threads keep the leader's connection


@SYSTEM
def test_former_leaders_do_not_undo_what_later_ones_wrote(server: ConfigMaps) -> None:
    old = Leader(server)
    old.run(10)
    new = Leader(server, old.now)
    new.run(10)
    old.run(8)  # has stood still, and believes that it leads
    old.keeper.tick(write=True)
    found = kept(server, new.now)
    assert set(found) == {START + STEP * n for n in range(1, 21)}
    assert old.counted("failures") == 0


@SYSTEM
@pytest.mark.parametrize("fault", ["refuse", "lose", "conflict", "forbid"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_failed_write_is_made_up_for_and_nothing_counts_twice(
    server: ConfigMaps, fault: Any, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    leader = Leader(server)
    leader.run(9)
    server.faults.extend([fault] * number)
    leader.run(21)
    leader.keeper.tick(write=True)
    seconds, held = account(server)
    assert seconds == 29 * STEP
    assert held == pytest.approx(9 * 29 / 60)
    assert set(kept(server, leader.now)) == {START + STEP * n for n in range(1, 31)}
    if fault in {"refuse", "forbid"}:
        assert leader.counted("failures") >= 1
        assert "history: it cannot be written: " in caplog.text


@SYSTEM
@pytest.mark.parametrize("seed", range(5))
def test_nothing_counts_twice_whoever_leads_and_whatever_fails(
    server: ConfigMaps, seed: int
) -> None:
    """Time that is counted is never more than the time that somebody led."""
    rng = random.Random(seed)
    leaders = [Leader(server) for _ in range(3)]
    now, led = START, 0
    for term in range(1, 25):
        leader = rng.choice(leaders)
        for each in leaders:
            each.term = term if each is leader else None
            each.now = now
            each.keeper.tick()
        minutes = rng.randrange(1, 40)
        for _ in range(minutes):
            if rng.random() < 0.3:
                server.faults.append(rng.choice(["refuse", "lose", "conflict", None]))
            leader.run(1)
        now, led = int(leader.now), led + minutes * STEP
        if rng.random() < 0.5:
            leader.keeper.tick(write=True)
    server.faults.clear()
    for each in leaders:
        each.term, each.now = 99, now
        each.keeper.tick()
        each.keeper.tick(write=True)
        each.term = None
    seconds, held = account(server)
    assert 0.5 * led < seconds <= led
    assert held == pytest.approx(9 * seconds / HOUR)
    assert server.objects.keys() <= {
        *(history_part(place) for place in range(SLOTS)),
        *(accounts_part(place) for place in range(PLACES)),
    }


@SYSTEM
def test_corrupt_parts_are_replaced_and_said(
    server: ConfigMaps, caplog: pytest.LogCaptureFixture
) -> None:
    Leader(server).run(10)
    for each in server.objects.values():
        each["binaryData"] = dict.fromkeys(each["binaryData"], "AAAA")
    leader = Leader(server, START + 10 * STEP)
    leader.run(10)
    assert "cannot be read" in caplog.text
    assert set(kept(server, leader.now)) == {START + STEP * n for n in range(11, 21)}
    assert account(server)[0] == 9 * STEP


@SYSTEM
def test_sums_that_do_not_say_until_when_they_count_are_continued(server: ConfigMaps) -> None:
    """Those of earlier versions do not."""
    Leader(server).run(10)
    for each in server.objects.values():
        each["metadata"]["annotations"] = {"walras.dev/history-write": "operator-0/7"}
    leader = Leader(server, START + 10 * STEP)
    leader.run(10)
    assert account(server)[0] == (9 + 9) * STEP
    assert leader.counted("failures") == 0


@SYSTEM
def test_a_day_later_parts_are_replaced(server: ConfigMaps) -> None:
    Leader(server).run(10)
    later = START + SLOTS * SLOT
    leader = Leader(server, later)
    leader.run(10)
    assert len([name for name in server.objects if name.startswith("walras-history")]) == 1
    assert set(kept(server, leader.now)) == {later + STEP * n for n in range(1, 11)}


@SYSTEM
def test_samples_that_waited_too_long_do_not_replace_later_ones(server: ConfigMaps) -> None:
    late = Leader(server)
    late.run(5)
    later = Leader(server, START + SLOTS * SLOT)
    later.run(10)
    late.now = later.now
    late.keeper.tick(write=True)
    first = START + SLOTS * SLOT
    assert set(kept(server, later.now)) == {first + STEP * n for n in range(1, 11)}


@SYSTEM
@pytest.mark.parametrize("days", [-2, 2, 401])
def test_an_operator_whose_clock_is_wrong_deletes_and_writes_nothing(
    server: ConfigMaps, days: int, caplog: pytest.LogCaptureFixture
) -> None:
    good = Leader(server)
    good.run(20)
    before = dict(server.objects)
    wrong = Leader(server, good.now + days * DAY)
    wrong.ahead = days * DAY
    wrong.run(30)
    wrong.keeper.tick(write=True)
    assert server.objects == before
    assert wrong.counted("failures") == 31
    assert caplog.text.count("the clocks of this node and of the API server differ") == 1
    wrong.now, wrong.ahead = good.now + 30 * STEP, 0.0
    wrong.run(20)
    assert set(kept(server, wrong.now)) == {
        START + STEP * n for n in (*range(1, 21), *range(51, 71))
    }
    assert account(server)[0] == (19 + 19) * STEP


@SYSTEM
@pytest.mark.parametrize("turns", [1, 3, 30])
def test_what_a_leader_with_a_wrong_clock_wrote_is_discarded_and_nothing_is_lost(
    server: ConfigMaps, turns: int, caplog: pytest.LogCaptureFixture
) -> None:
    Leader(server, START + turns * SLOTS * SLOT).run(50)
    Leader(server, START + PLACES * DAY).run(10)
    good = Leader(server)
    good.run(50)
    assert "is about a time to come and is discarded" in caplog.text
    assert set(kept(server, good.now)) == {START + STEP * n for n in range(1, 51)}
    assert account(server)[0] == 49 * STEP
    starts = [stored_part(each).start for each in server.objects.values()]
    assert max(starts) <= good.now
    assert good.counted("failures") == 0


@SYSTEM
def test_parts_of_a_time_to_come_that_replace_present_ones_are_replaced(server: ConfigMaps) -> None:
    good = Leader(server)
    good.run(10)
    Leader(server, START + SLOTS * SLOT).run(10)
    Leader(server, START + PLACES * DAY).run(10)
    good.run(10)
    assert {START + STEP * n for n in range(11, 20)} <= set(kept(server, good.now))
    assert account(server)[0] == 19 * STEP, "what it still knows is summed again"
    assert good.counted("failures") == 0


@SYSTEM
def test_what_is_switched_off_is_deleted_and_not_written(server: ConfigMaps) -> None:
    leader = Leader(server)
    leader.run(10)
    assert len(server.objects) == 2
    leader.policy = HistoryPolicy.model_validate({"hours": 0, "accountDays": 400})
    leader.run(10)
    assert set(server.objects) == {accounts_part(START // DAY % PLACES)}
    leader.policy = HistoryPolicy.model_validate({"hours": 0, "accountDays": 0})
    leader.run(10)
    assert server.objects == {}
    assert leader.counted("failures") == 0


@SYSTEM
def test_what_somebody_deletes_is_written_anew(server: ConfigMaps) -> None:
    leader = Leader(server)
    leader.run(10)
    server.objects.clear()
    leader.run(10)
    assert set(kept(server, leader.now)) == {START + STEP * n for n in range(1, 21)}
    assert account(server)[0] == 19 * STEP, "what it still knows is summed again"
    assert leader.counted("failures") == 0


@SYSTEM
def test_a_broken_world_fails_no_more_than_a_sample(server: ConfigMaps) -> None:
    leader = Leader(server)
    leader.run(2)
    leader.keeper._world = lambda: None  # type: ignore[assignment, return-value]
    leader.run(1)
    assert leader.counted("failures") == 1
    leader.keeper._world = leader.world
    leader.run(2)
    leader.keeper.tick(write=True)
    assert len(kept(server, leader.now)) == 4


def test_writes_are_rarer_than_samples_and_a_slot_is_a_whole_number_of_them() -> None:
    assert SLOT % WRITE == 0 == WRITE % STEP
    assert stored((1.0, 2.0, 3.0), "job") == (1000, 2000, 3000)
