"""Requests for the objects of one namespace hold up no other, whoever refuses them."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from walras_operator.decide.workload_jobs import _free_name
from walras_operator.decide.workload_members import Target
from walras_operator.decide.world import AutomaticWrite, NodeWrite, Reference, Writes
from walras_operator.publish.publisher import THREADS, Publisher
from walras_operator.publish.stamp import Stamp
from walras_operator.publish.write_budget import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MOST_REFUSED,
    MOST_WRITES,
    WriteBudget,
)
from walras_service.api_errors import refusal
from whole_decisions import decide
from worlds import entitlement, job, market, node, pod, world

STAMP = Stamp(7, "2026-01-31T12:00:00Z", 1, "operator-0")


class Quota:
    """An API server that refuses MarketJobs in one namespace, and notes all requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def request(self, method: str, path: str, body: Any = None, **_: Any) -> Any:
        self.asked.append(path)
        if "/hostile/" in path:
            raise refusal("https://cluster", method, path, 403, "exceeded quota: q")
        metadata = {"uid": "u", "resourceVersion": "1"}
        return {
            **(body if isinstance(body, dict) else {}),
            "kind": "MarketJob",
            "metadata": metadata,
        }


def wanted(namespace: str, number: int) -> AutomaticWrite:
    name = f"job-{number:04}"
    document = {"metadata": {"name": name, "namespace": namespace, "ownerReferences": []}}
    return AutomaticWrite(Reference("MarketJob", name, namespace), {**document, "spec": {}})


def test_creates_that_a_quota_refuses_wait_and_plans_come_first() -> None:
    api: Any = Quota()
    mirror: Any = SimpleNamespace(allocations=dict, wrote=lambda *_: None)
    no: Any = None
    publisher = Publisher(api, mirror, lambda: True, no)
    jobs = tuple(wanted("hostile", number) for number in range(2000))
    writes = Writes(nodes=(NodeWrite("n1", "u", {}),), jobs=(*jobs, wanted("honest", 1)))
    try:
        outcome = publisher.publish(writes, STAMP)
        first = len(api.asked)
        publisher.publish(writes, STAMP)
    finally:
        publisher.close()
    assert api.asked[0].endswith("/nodeallocations")
    assert outcome.results["MarketJob", "written"] == 1
    assert 1 <= outcome.results["MarketJob", "refused"] <= MOST_REFUSED + 8, "one for each thread"
    assert first <= 2 + 1 + MOST_REFUSED + 8
    assert len(api.asked) - first <= 2 + 1 + MOST_REFUSED + 8
    again = [each for each in api.asked if each.endswith("/nodeallocations/n1")]
    assert len(again) == 2, "every decision writes its plans"


def test_an_object_that_was_refused_is_tried_again_after_a_pause_that_grows() -> None:
    now = 0.0
    budget = WriteBudget(lambda: now)
    one, other = (Reference("MarketJob", name, "lab") for name in ("a", "b"))
    tried = []
    for second in range(3000):
        now = float(second)
        budget.begin([one, other])
        if budget.take(one):
            tried.append(second)
            budget.ended(one, refused=True)
        assert budget.take(other)
        budget.ended(other, refused=False)
    gaps = [after - before for before, after in pairwise(tried)]
    assert gaps[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert max(gaps) == LONGEST_PAUSE


def test_one_decision_makes_some_writes_in_each_namespace() -> None:
    budget = WriteBudget(lambda: 0.0)
    objects = [Reference("MarketJob", str(number), "lab") for number in range(2 * MOST_WRITES)]
    budget.begin(objects)
    assert sum(map(budget.take, objects)) == MOST_WRITES
    assert budget.take(Reference("MarketJob", "a", "other"))
    budget.begin(objects)
    assert budget.take(objects[-1])


def test_what_was_put_off_comes_first_even_if_everything_changes_all_the_time() -> None:
    """The shares of a cohort's queues do with every Workload that is admitted or ends."""
    api: Any = Quota()
    mirror: Any = SimpleNamespace(allocations=dict, wrote=lambda *_: None)
    no: Any = None
    publisher = Publisher(api, mirror, lambda: True, no)
    names = [f"q{number:03}" for number in range(3 * MOST_WRITES - 1)]
    known = tuple(
        AutomaticWrite(Reference("Entitlement", name, uid=name), {"metadata": {}, "spec": {}})
        for name in names
    )
    new = AutomaticWrite(Reference("Entitlement", "cohort"), {"metadata": {}, "spec": {}})
    try:
        publisher.publish(Writes(entitlements=known), STAMP)
        publisher.publish(Writes(entitlements=(*known, new)), STAMP)
        publisher.publish(Writes(entitlements=known), STAMP)
    finally:
        publisher.close()
    changed = [path.rpartition("/")[2] for path in api.asked]
    assert len(changed) == 3 * MOST_WRITES
    assert set(changed) == {*names, "entitlements"}
    assert changed.index("entitlements") < MOST_WRITES + THREADS, "parents before children"


def test_a_job_that_waits_for_its_finalizers_is_not_deleted_again() -> None:
    metadata = {
        "labels": {"app.kubernetes.io/managed-by": "walras-operator"},
        "deletionTimestamp": "2026-01-31T11:00:00Z",
    }
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "gone"}
    made = job("gone", targetRef=target)
    left = {**made, "metadata": {**made["metadata"], "labels": metadata["labels"]}}
    ending = {**left, "metadata": {**left["metadata"], **metadata}}
    around = (
        market(),
        node(),
        entitlement(),
        pod("p", "gone", ownerReferences=[{**target, "uid": "w", "controller": True}]),
    )
    assert [each.document for each in decide(world(*around, left)).jobs] == [None]
    assert decide(world(*around, ending)).jobs == ()


def test_names_are_valid_and_take_linear_time() -> None:
    """Four thousand workloads whose names begin with the same 200 characters."""

    class Counted(set[Any]):
        looks = 0

        def __contains__(self, each: object) -> bool:
            self.looks += 1
            return super().__contains__(each)

    taken = Counted()
    for number in range(4000):
        target = Target("lab", "Deployment", f"{'a' * 199}--{number}", "apps")
        name = _free_name(target, taken)
        assert len(name) <= 253
        assert name[-1].isalnum()
        taken.add(("lab", name))
    assert len(taken) == 4000
    assert taken.looks <= 4 * 4000


def test_a_workload_whose_200th_character_is_a_hyphen_gets_a_job() -> None:
    name = "a" * 199 + "-" + "b" * 20
    labelled = pod(name, labels={"walras.dev/job": "true", "app": "x"})
    (write,) = decide(world(market(), node(), entitlement(), labelled)).jobs
    assert write.object.name == "a" * 199
