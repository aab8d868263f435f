"""Deadlines by the operator's decision: followed, accepted, met, late, lied about, and told of."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission import admit, read_definitions, schema_of
from examples import examples
from walras.analysis.forecast import expected_speedup
from walras.market.snapshot import Job
from walras.speedup.work_left import RunPart
from walras_api.market_job_status import MOST_PARTS
from walras_operator.decide.deadlines.progress import (
    CounterSample,
    PodHolding,
    PodProgress,
    read_progress,
)
from walras_operator.decide.runs.tally import time_of
from walras_operator.decide.world import Lifetime
from whole_decisions import decide
from worlds import (
    enforced,
    entitlement,
    grants,
    job,
    market,
    node,
    outcome,
    pod,
    profile,
    world,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_operator.decide.world import Document, World
    from whole_decisions import Decision

START = int(datetime(2026, 11, 25, 12, 0, 0, tzinfo=UTC).timestamp())
HOUR = 3600
SCHEMA = schema_of(read_definitions()["MarketJob"])
COUNTED: Document = {"progress": {"file": "/progress", "total": "1000000"}}
FRACTION = 0.9


@dataclass
class Life:
    """A cluster over time: agents enforce at once, and counters grow as pods get work done.

    Attributes:
        present: The cluster now.
        rates: Counter's increase per second on one core, by name of the pod.
        counters: Value of each pod's counter.
        decisions: Decisions so far, with their times.
        borrowed: Cores of others that each pod uses beside its own.
    """

    present: World
    rates: dict[str, float]
    counters: dict[str, float] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    second: int = 0
    borrowed: dict[str, float] = field(default_factory=dict)

    def step(self, seconds: int = 30) -> Decision:
        """Let time pass, let agents report, and decide."""
        self.second += seconds
        used = {
            grant.name: float(grant.cores) + self.borrowed.get(grant.name, 0.0)
            for each in self.present.allocations.values()
            for grant in each.spec.grants
        }
        for name, rate in self.rates.items():
            speed = expected_speedup(Job("", "", "", "", FRACTION), used.get(name, 0.0))
            self.counters[name] = self.counters.get(name, 0.0) + rate * speed * seconds
        now = time_of(START + self.second)
        told = with_counters(replace(enforced(self.present), now=now), self.counters, used)
        decision = decide(told)
        assert all(
            not admit(each.status, SCHEMA["properties"]["status"]).problems
            for each in decision.statuses
            if each.object.kind == "MarketJob"
        )
        self.decisions.append(decision)
        self.present = replace(outcome(told, decision), now=now)
        return decision

    def report(self, name: str = "train") -> Document:
        """Return the field ``deadline`` of a job's status."""
        return dict(self.status(name)["deadline"])

    def status(self, name: str = "train") -> Document:
        found = next(each for each in self.present.objects.jobs if each.metadata.name == name)
        return found.status or {}

    def on_time(self, name: str = "train") -> tuple[str, str, str]:
        """Return status, reason and message of ``OnTime``."""
        each = next(c for c in self.status(name)["conditions"] if c["type"] == "OnTime")
        return each["status"], each["reason"], each["message"]

    def cores(self, name: str) -> float:
        return next(
            float(grant.cores)
            for each in self.present.allocations.values()
            for grant in each.spec.grants
            if grant.name == name
        )


def with_counters(
    before: World, values: dict[str, float], used: Mapping[str, float] | None = None
) -> World:
    """Return the world after agents have read the counters that they are asked to.

    They report the cores that pods used, too, as far as these are given.
    """
    told = {}
    for name, each in before.allocations.items():
        names = {grant.pod_uid: grant.name for grant in each.spec.grants}
        readings = [
            {
                "podUID": asked.pod_uid,
                "value": f"{values[names[asked.pod_uid]]:.9g}",
                "time": before.now,
            }
            for asked in each.spec.counters
            if names[asked.pod_uid] in values
        ]
        status = {**(each.status or {}), "counters": readings}
        status["pods"] = [
            {**pod, "usedCpus": f"{cores:.2f}"}
            if (cores := (used or {}).get(names.get(pod["podUID"], ""))) is not None
            else pod
            for pod in status.get("pods", ())
        ]
        told[name] = each.model_copy(update={"status": status})
    return replace(before, allocations=told)


def cluster(*jobs: Document, cores: str = "16", **spec: Any) -> World:
    """A node that sells 16 cores; ada and bob have equal shares; each job has one pod."""
    pods = [
        pod(f"{each['metadata']['name']}-0", each["metadata"]["name"], cpu="0") for each in jobs
    ]
    users = {each["spec"]["entitlement"] for each in jobs}
    present = world(market(**spec), *map(entitlement, sorted(users)), node(cpu=cores), *jobs, *pods)
    return replace(present, now=time_of(START))


def deadline_of(hours: float, name: str = "train", user: str = "ada", **spec: Any) -> Document:
    """A MarketJob that is to be done some hours after the start."""
    fields = {
        **COUNTED,
        "parallelFraction": str(FRACTION),
        "deadline": f"{round(60 * hours)}m",
        **spec,
    }
    known = {key: value for key, value in fields.items() if value is not None}
    return job(name, user, created=time_of(START), **known)


def others() -> tuple[Document, Document]:
    return job("etl", "ada"), job("web", "bob")


def life(hours: float, work_hours: float, **spec: Any) -> Life:
    present = cluster(deadline_of(hours, **spec), *others())
    return Life(present, {"train-0": 1_000_000 / (work_hours * HOUR)})


# What is known, accepted and met.


def test_an_accepted_deadline_is_met_and_the_market_alone_would_miss_it() -> None:
    """4 of 16 cores take 1.3 h for 4 h of work; 5.3 of the user's 8 take 1.07 h."""
    run, most = life(1.15, 4), 0.0
    while run.counters.get("train-0", 0.0) < 1_000_000:
        run.step()
        assert run.second < 2 * HOUR
        assert run.cores("web-0") == 8
        most = max(most, run.cores("train-0"))
    assert run.second <= 1.15 * HOUR
    assert most >= 5
    alone = life(1.15, 4, progress={"file": "/progress"})
    for _ in range(3):
        alone.step()
    assert 4 / expected_speedup(Job("", "", "", "", FRACTION), alone.cores("train-0")) > 1.2


def test_borrowed_cores_make_no_work_seem_easier() -> None:
    """A pod that gets ahead on cores of others, who sleep, has as much work left as it has."""
    run = life(1.5, 4)
    run.borrowed["train-0"] = 7.0
    for _ in range(30):
        run.step()
    (told,) = run.report()["pods"]
    counted = sum(float(part["count"]) for part in told["parts"])
    work = sum(float(part["work"]) for part in told["parts"])
    assert counted / work == pytest.approx(run.rates["train-0"], rel=0.03)


def test_the_report_says_what_it_takes() -> None:
    run = life(1.15, 4)
    for _ in range(8):
        run.step()
    report = run.report()
    assert report["time"] == time_of(START + 69 * 60)
    assert report["accepted"] is True
    reserved = float(report["reservedCores"])
    assert reserved == run.cores("train-0")
    assert 2 < float(report["neededCores"]) <= reserved + 1e-3
    assert report["earliestFinish"] <= report["expectedFinish"] <= report["latestFinish"]
    assert report["expectedFinish"] <= report["time"]
    state, reason, message = run.on_time()
    assert (state, reason) == ("True", "Reserved")
    assert "are reserved; it is expected to finish at" in message
    why = next(p["reason"] for p in run.status()["pods"])
    assert "reserved for its deadline" in why


def test_what_no_cores_can_do_changes_nothing() -> None:
    """40 h of work in one hour: the speedup on any number of cores is below 10."""
    run, plain = life(1, 40), life(1, 40, deadline=None)
    for _ in range(10):
        run.step()
        plain.step()
        assert [run.cores(n) for n in ("train-0", "etl-0", "web-0")] == [
            plain.cores(n) for n in ("train-0", "etl-0", "web-0")
        ]
    state, reason, message = run.on_time()
    assert (state, reason) == ("False", "Late")
    assert "all cores that it can use on n1 are too few" in message
    assert "move spec.deadline, or raise maxCores" in message
    assert run.report()["accepted"] is False


def test_a_deadline_beyond_the_budget_names_what_the_budget_pays_for() -> None:
    """6 h of work in an hour take 13.5 cores; the entitlement pays for 8, of which
    its other job keeps a quarter of one, less a margin."""
    run = life(1, 6)
    for _ in range(10):
        run.step()
    state, reason, message = run.on_time()
    assert (state, reason) == ("False", "Late")
    assert "Entitlement ada pays for 7." in message
    assert "min late (±" in message or "h " in message
    assert "raise the shares of Entitlement ada, move spec.deadline, or stop other jobs" in message
    assert 7 < float(run.report()["payableCores"]) < 7.75
    assert run.cores("web-0") == 8


def test_turning_late_is_one_event() -> None:
    """A program that becomes four times as slow, with a budget that cannot pay for that."""
    run = life(1.4, 4)
    for _ in range(20):
        run.step()
    assert run.on_time()[0] == "True"
    run.rates["train-0"] /= 4
    for _ in range(150):
        run.step()
    about = [
        (event.type, event.reason)
        for decision in run.decisions
        for event in decision.events
        if event.object.name == "train" and event.reason in {"Late", "OnTime", "Reserved"}
    ]
    assert about.count(("Warning", "Late")) == 1
    assert run.on_time()[1] == "Late"
    assert len(about) <= 4


def test_a_job_that_needs_less_than_its_user_buys_keeps_its_fraction_of_a_core() -> None:
    """Each of two users holds 1.5 of three cores, all the time."""
    documents = [
        *(market(), entitlement("ada"), entitlement("bob")),
        *(node(cpu="3"), deadline_of(2), job("web", "bob")),
        *(pod("train-0", "train", cpu="0"), pod("web-0", "web", cpu="0")),
    ]
    present = replace(world(*documents), now=time_of(START))
    run, held = Life(present, {"train-0": 1_000_000 / 9300}), set()
    while run.second < HOUR / 2:
        run.step()
        held.add(run.cores("train-0"))
    assert held == {1.5}
    settled = [each for d in run.decisions[20:] for each in d.events if each.object.name == "train"]
    assert settled == []
    assert run.on_time()[0] == "True"


def test_work_counts_while_the_grant_changes_with_every_decision() -> None:
    """A program that becomes slower all the time needs a tenth more with every reading."""
    run = life(1.4, 4)
    for _ in range(20):
        run.step()
    before = float(run.report()["pods"][0]["work"])
    cores = set()
    for _ in range(8):
        run.rates["train-0"] /= 3
        run.step()
        cores.add(run.cores("train-0"))
    assert len(cores) >= 7
    least = expected_speedup(Job("", "", "", "", FRACTION), min(cores))
    assert float(run.report()["pods"][0]["work"]) - before >= 7 * 30 * least


def test_statuses_are_written_for_what_changes_visibly_only() -> None:
    run = life(6, 20)
    for _ in range(150):
        run.step()
    settled = run.decisions[-60:]
    written = sum(any(each.object.name == "train" for each in d.statuses) for d in settled)
    assert written <= 10
    assert not any(each.object.name == "web" for d in settled for each in d.statuses)


def test_a_decision_on_its_own_outcome_writes_nothing() -> None:
    run = life(1.15, 4)
    for _ in range(5):
        run.step()
    settled = with_counters(enforced(run.present), run.counters)
    first = decide(settled)
    again = decide(
        replace(with_counters(enforced(outcome(settled, first)), run.counters), now=settled.now)
    )
    assert not again


def test_a_new_leader_goes_on_from_the_statuses() -> None:
    run = life(1.15, 4)
    for _ in range(12):
        run.step()
    report = run.report()
    forgetful = replace(run.present, carried=None)
    after = outcome(forgetful, decide(with_counters(enforced(forgetful), run.counters)))
    found = next(each for each in after.objects.jobs if each.metadata.name == "train")
    assert found.status is not None
    assert found.status["deadline"]["reservedCores"] == report["reservedCores"]
    assert found.status["deadline"]["pods"][0]["parts"] == report["pods"][0]["parts"]


# How it ends.


def finished(run: Life, after_deadline: int) -> None:
    """End the job's pod some seconds after its deadline, and let the operator look it up."""
    deadline = START + 69 * 60
    gone = replace(
        run.present.objects,
        pods=[each for each in run.present.objects.pods if each.metadata.name != "train-0"],
    )
    run.present = replace(run.present, objects=gone)
    decision = run.step()
    (asked,) = decision.ended or ()
    assert (asked.name, asked.uid) == ("train-0", "u-lab-train-0")
    assert run.on_time()[1] == "NoPods"
    lifetime = Lifetime(START, deadline + after_deadline)
    run.present = replace(run.present, ends={"u-lab-train-0": lifetime})
    run.rates = {}
    run.step()
    assert run.step().ended == ()


@pytest.mark.parametrize(("seconds", "reason"), [(-600, "Met"), (0, "Met"), (600, "Missed")])
def test_the_end_decides_whether_it_was_met(seconds: int, reason: str) -> None:
    run = life(1.15, 4)
    for _ in range(5):
        run.step()
    finished(run, seconds)
    assert run.on_time()[1] == reason
    assert run.report()["met"] is (reason == "Met")
    assert "10 min" in run.on_time()[2] or seconds == 0


def test_a_pod_that_failed_is_forgotten() -> None:
    run = life(1.15, 4)
    for _ in range(5):
        run.step()
    gone = [each for each in run.present.objects.pods if each.metadata.name != "train-0"]
    ends = {"u-lab-train-0": None}
    run.present = replace(run.present, objects=replace(run.present.objects, pods=gone), ends=ends)
    run.step()
    assert run.report()["pods"] == []
    assert "met" not in run.report()


# Where the work left is not known.


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"progress": None}, "give spec.progress with its total"),
        ({"progress": {"file": "/p"}}, "give spec.progress.total"),
        ({}, "until the counter of Pod train-0 has moved"),
    ],
)
def test_the_condition_says_what_is_missing(spec: Document, words: str) -> None:
    run = life(1, 4, **spec)
    run.rates = {}
    run.step()
    run.step()
    state, reason, message = run.on_time()
    assert (state, reason) == ("Unknown", "WorkUnknown")
    assert words in message


def test_an_agents_problem_with_the_counter_is_passed_on() -> None:
    run = life(1, 4)
    run.rates = {}
    run.step()
    (name, each), *_ = run.present.allocations.items()
    uid = each.spec.counters[0].pod_uid
    status = {**(each.status or {}), "counters": [{"podUID": uid, "problem": "no such file"}]}
    broken = {name: each.model_copy(update={"status": status})}
    decision = decide(replace(run.present, allocations=broken))
    after = next(
        e for e in outcome(run.present, decision).objects.jobs if e.metadata.name == "train"
    )
    found = next(c for c in (after.status or {})["conditions"] if c["type"] == "OnTime")
    assert "is not known: no such file" in found["message"]


def test_without_a_counter_the_work_is_what_the_profile_predicts() -> None:
    times = [
        {"cores": 1, "dataSize": "10%", "seconds": ["1440"]},
        {"cores": 4, "dataSize": "10%", "seconds": ["468"]},
        {"cores": 1, "dataSize": "20%", "seconds": ["2880"]},
        {"cores": 4, "dataSize": "20%", "seconds": ["936"]},
    ]
    jobs = (deadline_of(1.15, progress=None, parallelFraction=None, profile="p"), *others())
    present = cluster(*jobs)
    known = replace(
        present,
        objects=replace(
            present.objects, profiles=world(profile("p", measurements=times)).objects.profiles
        ),
    )
    run = Life(known, {})
    run.step()
    run.step()
    assert run.on_time()[1] == "Reserved"
    assert float(run.report()["workLeft"]) == pytest.approx(4 * HOUR, rel=0.05)
    before = float(run.report()["workLeft"])
    for _ in range(50):
        run.step()
    assert float(run.report()["workLeft"]) < before


def test_work_is_not_predicted_from_times_that_are_refused() -> None:
    times = [{"cores": 1, "seconds": ["1440"]}, {"cores": 4, "seconds": ["468", "1440"]}]
    job = deadline_of(1.15, progress=None, parallelFraction=None, profile="p")
    present = cluster(job, *others())
    profiles = world(profile("p", measurements=times)).objects.profiles
    run = Life(replace(present, objects=replace(present.objects, profiles=profiles)), {})
    run.step()
    assert run.on_time()[1] == "WorkUnknown"


def test_under_an_auction_the_deadline_is_a_minimum_utility() -> None:
    present = cluster(deadline_of(1.2, auction={"budget": "3"}), *others())
    present = replace(present, markets=world(market(cores={"mechanism": "Auction"})).markets)
    run = Life(present, {"train-0": 1_000_000 / (4 * HOUR)})
    for _ in range(5):
        run.step()
    assert run.on_time()[1] == "Reserved"
    auction = run.status()["auction"]
    assert float(auction["utility"]) >= float(auction["minimum"]) > 0


def test_a_job_that_no_longer_can_end_in_time_with_what_is_reserved_is_late() -> None:
    """What was promised is kept, within the error of the work left, but it is said to be late."""
    run = life(1.15, 4, maxCores=6)
    for _ in range(8):
        run.step()
    assert run.on_time()[1] == "Reserved"
    run.rates["train-0"] *= 0.7
    told = set()
    while run.second < 1.15 * HOUR:
        run.step()
        report = run.report()
        state, reason, message = run.on_time()
        told.add(reason)
        late = seconds(report["expectedFinish"]) - seconds(report["time"])
        assert (state == "False") == (late > 0) or abs(late) < 0.05 * HOUR, message
    assert told == {"Reserved", "Late"}


def seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


# Predictions that are kept, and compared with what came.


def with_end(run: Life, seconds_before: int = 0) -> Life:
    """Let the pod of the job end."""
    pods = [each for each in run.present.objects.pods if each.metadata.name != "train-0"]
    (uid,) = (each["podUID"] for each in run.report()["pods"])
    finished = START + run.second - seconds_before
    ends = {**run.present.ends, uid: Lifetime(START, finished)}
    objects = replace(run.present.objects, pods=pods)
    run.present = replace(run.present, objects=objects, ends=ends)
    run.rates = {}
    run.step()
    return run


def predictions(run: Life) -> list[Document]:
    return list((run.present.markets[0].status or {}).get("predictions", []))


def test_the_end_that_was_predicted_halfway_is_compared_with_the_one_that_came() -> None:
    run = life(1.15, 4)
    while run.counters.get("train-0", 0.0) < 480_000:
        run.step()
        assert "predicted" not in run.report()
    while run.counters["train-0"] < 1_000_000:
        run.step()
    predicted = run.report()["predicted"]
    assert seconds(predicted["made"]) < START + 0.6 * run.second
    assert predictions(run) == []
    with_end(run)
    assert run.on_time()[1] == "Met"
    (found,) = predictions(run)
    assert (found["of"], found["number"]) == ("Finish", 1)
    off = abs(seconds(predicted["finish"]) - seconds(run.report()["finished"]))
    assert (float(found["coverage"]) == 1) == (off <= float(predicted["error"]))
    ahead = seconds(predicted["finish"]) - seconds(predicted["made"])
    assert float(found["width"]) == pytest.approx(float(predicted["error"]) / ahead, rel=1e-3)
    again = decide(run.present)
    assert [each for each in again.statuses if each.object.kind == "Market"] == []


def test_a_job_that_starts_after_bad_predictions_states_wider_errors() -> None:
    """A job that ended long after its predicted end widens the error of those that start later."""
    late = {
        "made": time_of(START - 7200),
        "finish": time_of(START - 3600),
        "error": "100",
    }
    bad = {"time": time_of(START), "widened": "1", "predicted": late, "finished": time_of(START)}
    errors = []
    for status in ({}, {"deadline": bad}):
        run = life(2, 4)
        ended = world(job("before", "ada", deadline="1h", created=time_of(START - 7200)))
        (before,) = ended.objects.jobs
        before = before.model_copy(update={"status": status})
        objects = run.present.objects
        run.present = replace(run.present, objects=replace(objects, jobs=[*objects.jobs, before]))
        for _ in range(6):
            run.step()
        errors.append(float(run.report()["workLeftError"]))
    assert errors[1] > 5 * errors[0]


# Counters are their users' own.


HOSTILE = ["-5", "1e400", "NaN", "", "x" * 500, "9" * 41, "1" + "0" * 39, None, 12, ["1"], "0"]


@pytest.mark.parametrize("value", HOSTILE)
def test_an_implausible_reading_harms_nobody(value: object) -> None:
    run = life(1.15, 4)
    for _ in range(4):
        run.step()
    (name, each), *_ = run.present.allocations.items()
    uid = each.spec.counters[0].pod_uid
    readings = [{"podUID": uid, "value": value, "time": run.present.now}, {"podUID": 7}, "?"]
    status = {**(each.status or {}), "counters": readings}
    told = replace(run.present, allocations={name: each.model_copy(update={"status": status})})
    decision = decide(told)
    json.dumps([each.status for each in decision.statuses])
    assert grants(decision).get("n1", {}).get("web-0", "8") == "8"


@given(st.lists(st.floats(0, 1e30) | st.sampled_from([0.0, 1e6, 2e6]), min_size=3, max_size=8))
@examples(25)
def test_whatever_a_counter_says_other_users_keep_their_cores(values: list[float]) -> None:
    run = life(1.15, 4)
    run.rates = {}
    run.step()
    for value in values:
        run.counters["train-0"] = value
        run.step()
        assert run.cores("web-0") == 8
        json.dumps(run.report())


def test_an_agent_cannot_report_counters_that_it_was_not_asked_for() -> None:
    present = cluster(deadline_of(1.15, progress={"file": "/progress"}), *others())
    run = Life(present, {"train-0": 100.0})
    run.step()
    (name, each), *_ = run.present.allocations.items()
    assert not each.spec.counters
    reading = {"podUID": "u-lab-train-0", "value": "999999", "time": run.present.now}
    status = {**(each.status or {}), "counters": [reading]}
    told = replace(run.present, allocations={name: each.model_copy(update={"status": status})})
    decide(told)
    assert run.on_time()[1] == "WorkUnknown"


# One pod's progress.


def test_parts_stay_few_and_grow_with_the_run() -> None:
    progress = PodProgress("u", "p").held(PodHolding(4000, 3.0), START)
    for number in range(1, 5000):
        progress = progress.read(CounterSample(10.0 * number, START + 30 * number))
        assert len(progress.parts) <= MOST_PARTS
    assert sum(each.work for each in progress.parts) == pytest.approx(
        progress.counted_work, rel=0.01
    )
    again = read_progress(progress.document())
    assert again == progress
    left = progress.left(100_000, None, START + 30 * 5000)
    assert left is not None
    assert left.seconds == pytest.approx(50_000 * 9, rel=0.1)


def test_a_counter_that_runs_backwards_begins_anew() -> None:
    progress = PodProgress("u", "p").held(PodHolding(1000, 1.0), START)
    progress = progress.read(CounterSample(0, START)).read(CounterSample(50, START + 60))
    assert progress.parts == (RunPart(60, 50),)
    progress = progress.read(CounterSample(10, START + 120))
    assert progress.parts == ()
    assert progress.left(100, None, START + 130) is None


def test_work_is_done_only_while_grants_are_enforced() -> None:
    progress = PodProgress("u", "p").held(PodHolding(2000, 1.8), START)
    assert progress.work_at(START + 100) == pytest.approx(180)
    idle = progress.held(None, START + 100)
    assert idle.work_at(START + 1000) == pytest.approx(180)
    assert idle.held(PodHolding(1000, 1.0), START + 1000).work_at(START + 1010) == pytest.approx(
        190
    )
    assert progress.held(PodHolding(2000, 1.805), START + 50) is progress


texts = st.text(max_size=5) | st.integers() | st.none() | st.floats() | st.just("-1")


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "podUID",
                "pod",
                "heldSince",
                "work",
                "counter",
                "countedAt",
                "parts",
                "reservedCores",
                "finished",
                "speedup",
                "millicores",
            ]
        ),
        texts,
    )
)
def test_malformed_progress_is_forgotten_not_believed(entry: Document) -> None:
    found = read_progress(entry)
    assert found is None or found.work >= 0
