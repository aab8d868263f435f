"""The operator's cache: from documents to a world, and which of them count as news."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from walras_operator.decide.world import Reference
from walras_operator.watch.kinds import Scope
from walras_operator.watch.mirror import Mirror
from walras_operator.watch.watches import MirroredKind
from walras_service.api_errors import ApiError

Document = dict[str, Any]


class Cluster:
    """A mirror of a cluster with a clock that tests set, and the number of changes it reported."""

    def __init__(self) -> None:
        self.time = 100.0
        self.news = 0
        self.urgent = False
        self.mirror = Mirror(Scope("walras-system").kinds, self.changed, lambda: self.time)

    def changed(self, urgent: bool) -> None:
        self.news += 1
        self.urgent = urgent

    def is_news(self, kind: str, document: Document, *, deleted: bool = False) -> bool:
        before = self.news
        self.mirror.receive(kind, document, deleted=deleted)
        return self.news > before


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def entitlement(shares: Any = 1, *, version: int = 5, uid: str = "u1", **rest: Any) -> Document:
    return {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "Entitlement",
        "metadata": {
            "name": "lab",
            "uid": uid,
            "resourceVersion": str(version),
            "generation": version,
        },
        "spec": {"shares": shares, "namespaces": ["vision"]},
        **rest,
    }


def allocation(epoch: int, *, version: int = 5, status: Document | None = None) -> Document:
    return {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "NodeAllocation",
        "metadata": {"name": "n1", "uid": "a1", "resourceVersion": str(version)},
        "spec": {"epoch": epoch},
        "status": status or {},
    }


def lease(renewed: str, *, seconds: int = 40) -> Document:
    return {
        "metadata": {
            "name": "walras-agent-n1",
            "namespace": "walras-system",
            "uid": "l1",
            "resourceVersion": "9",
        },
        "spec": {"holderIdentity": "n1", "leaseDurationSeconds": seconds, "renewTime": renewed},
    }


def test_a_version_that_is_known_is_not_read_again(cluster: Cluster) -> None:
    """A write of the operator comes back twice, as an answer and by a watch."""
    cluster.mirror.wrote("Entitlement", entitlement(2, version=7))
    assert not cluster.is_news("Entitlement", entitlement("not read", version=7))
    assert [each.spec.shares for each in cluster.mirror.world("").objects.entitlements] == [2]


def test_an_object_is_news_once(cluster: Cluster) -> None:
    assert cluster.is_news("Entitlement", entitlement())
    assert not cluster.is_news("Entitlement", entitlement())
    (found,) = cluster.mirror.world("now").objects.entitlements
    assert found.spec.shares == 1


def test_the_status_that_the_operator_tells_is_no_news_to_it(cluster: Cluster) -> None:
    cluster.mirror.receive("Entitlement", entitlement())
    told = entitlement(status={"budget": "3"})
    told["metadata"]["resourceVersion"] = "6"
    assert not cluster.is_news("Entitlement", told)
    (found,) = cluster.mirror.world("now").objects.entitlements
    assert found.status == {"budget": "3"}


def test_what_an_agent_tells_is_news(cluster: Cluster) -> None:
    cluster.mirror.receive("NodeAllocation", allocation(3))
    assert cluster.is_news("NodeAllocation", allocation(3, version=6, status={"epoch": 3}))
    assert not cluster.urgent
    assert cluster.is_news("Entitlement", entitlement())
    assert cluster.urgent


@pytest.mark.parametrize("first", [1, "none"], ids=["understood", "not understood"])
def test_what_somebody_changed_before_a_status_was_written_is_news_by_its_answer(
    cluster: Cluster, first: Any
) -> None:
    """The watch tells of that change too late: of a version from before the answer."""
    cluster.mirror.receive("Entitlement", entitlement(first, version=5))
    edited = entitlement(2, version=6)
    answer = entitlement(2, version=6, status={"budget": "3"})
    answer["metadata"]["resourceVersion"] = "7"
    before = cluster.news
    cluster.mirror.wrote("Entitlement", answer)
    assert cluster.news == before + 1
    assert cluster.urgent
    assert not cluster.is_news("Entitlement", edited)
    assert not cluster.is_news("Entitlement", answer)
    again = entitlement(2, version=6, status={"budget": "4"})
    again["metadata"]["resourceVersion"] = "8"
    cluster.mirror.wrote("Entitlement", again)
    assert cluster.news == before + 1, "its own status is none"


def test_what_the_operator_has_written_is_known_at_once_and_no_news(cluster: Cluster) -> None:
    cluster.mirror.receive("NodeAllocation", allocation(3))
    before = cluster.news
    cluster.mirror.wrote("NodeAllocation", allocation(4, version=6))
    assert cluster.mirror.world("now").allocations["n1"].spec.epoch == 4
    assert not cluster.is_news("NodeAllocation", allocation(4, version=6))
    assert cluster.news == before


def test_a_watch_that_is_behind_does_not_undo_what_was_written(cluster: Cluster) -> None:
    cluster.mirror.wrote("NodeAllocation", allocation(4, version=10))
    assert not cluster.is_news("NodeAllocation", allocation(3, version=9))
    assert cluster.mirror.allocations()["n1"].epoch == 4


def test_what_cannot_be_understood_is_a_problem_of_that_object_alone(cluster: Cluster) -> None:
    assert cluster.is_news("Entitlement", entitlement(shares="many"))
    world = cluster.mirror.world("now")
    assert world.objects.entitlements == []
    (problem,) = world.broken[Reference("Entitlement", "lab")].problems
    assert problem.startswith("Entitlement lab: spec.shares: ")
    assert cluster.mirror.counts()["Entitlement"] == (1, 1)
    cluster.mirror.receive("Entitlement", entitlement(2, version=6))
    assert not cluster.mirror.world("now").broken


def test_a_nodeallocation_that_cannot_be_understood_can_still_be_written(cluster: Cluster) -> None:
    broken = allocation(7)
    broken["spec"]["grants"] = "all"
    cluster.mirror.receive("NodeAllocation", broken)
    assert "n1" not in cluster.mirror.world("now").allocations
    known = cluster.mirror.allocations()["n1"]
    assert (known.uid, known.version, known.epoch) == ("a1", "5", 7)


def test_epochs_that_agents_hold_to_are_known_unless_nobody_can_have_given_them(
    cluster: Cluster,
) -> None:
    """An object that was made anew begins with epoch 0, and its agent with what it had."""
    for told, known in ((7, 7), (2**60, 0), ("7", 0), (None, 0)):
        cluster.mirror.forget("NodeAllocation", cluster.mirror.versions("NodeAllocation"))
        cluster.mirror.receive("NodeAllocation", allocation(0, status={"epoch": told}))
        (found,) = cluster.mirror.allocations().values()
        assert (found.epoch, found.reported) == (0, known)


def test_the_end_of_an_object_does_not_end_the_next_one_of_its_name(cluster: Cluster) -> None:
    cluster.mirror.receive("Entitlement", entitlement(1, uid="old"))
    cluster.mirror.receive("Entitlement", entitlement(2, uid="new", version=8))
    (found,) = cluster.mirror.world("now").objects.entitlements
    assert found.spec.shares == 2
    assert cluster.is_news("Entitlement", entitlement(1, uid="old"), deleted=True)
    (found,) = cluster.mirror.world("now").objects.entitlements
    assert found.metadata.uid == "new"


@pytest.mark.parametrize("swept", [False, True], ids=["by a watch", "by a comparison"])
def test_a_late_answer_does_not_bring_back_an_object_that_was_deleted(
    cluster: Cluster, swept: bool
) -> None:
    cluster.mirror.receive("Entitlement", entitlement(1, uid="old"))
    if swept:
        cluster.mirror.forget("Entitlement", ["old"])
    else:
        cluster.mirror.receive("Entitlement", entitlement(1, uid="old", version=7), deleted=True)
    cluster.mirror.receive("Entitlement", entitlement(2, uid="new", version=8))
    news = cluster.news
    cluster.mirror.wrote("Entitlement", entitlement(1, uid="old", version=6))
    assert cluster.mirror.versions("Entitlement").keys() == {"new"}
    assert cluster.news == news
    assert cluster.is_news("Entitlement", entitlement(1, uid="old")), "restored"


def test_deleted_objects_are_remembered_for_a_while_only(cluster: Cluster) -> None:
    for number in range(1000):
        gone = entitlement(uid=f"u{number}")
        cluster.mirror.receive("Entitlement", gone)
        cluster.mirror.receive("Entitlement", gone, deleted=True)
    cluster.mirror.wrote("Entitlement", entitlement(uid="u999"))
    assert cluster.mirror.versions("Entitlement") == {}
    assert len(cluster.mirror._deleted_lately) <= 500


def large_pod(number: int, container: Document, containers: int) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"p{number}",
            "namespace": "lab",
            "uid": f"p{number}",
            "resourceVersion": "1",
        },
        "spec": {"containers": [container] * containers},
        "status": {"phase": "Pending"},
    }


@pytest.mark.parametrize(
    ("container", "containers"),
    [
        ({"ports": [{"containerPort": 1 + n, "name": "x" * 63} for n in range(250)]}, 1),
        ({"ports": [{"containerPort": 1, "hostPort": 1 + n} for n in range(250)]}, 1),
        ({"resources": {"requests": {f"example.com/{n}": "1" for n in range(250)}}}, 1),
        ({}, 250),
    ],
    ids=["ports", "ports of the host", "requests", "containers"],
)
def test_pods_that_were_deleted_leave_nothing_in_memory(
    cluster: Cluster, container: Document, containers: int
) -> None:
    def comes_and_goes(number: int) -> None:
        own = {**container, "restartPolicy": f"policy-{number}"}
        pod = large_pod(number, own, containers)
        cluster.mirror.receive("Pod", pod)
        cluster.mirror.receive("Pod", pod, deleted=True)

    comes_and_goes(0)
    tracemalloc.start()
    try:
        for number in range(1, 101):
            comes_and_goes(number)
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 200_000


def test_an_object_that_was_never_seen_may_be_deleted(cluster: Cluster) -> None:
    assert not cluster.is_news("Entitlement", entitlement(), deleted=True)


def test_forgotten_objects_are_gone(cluster: Cluster) -> None:
    cluster.mirror.receive("Entitlement", entitlement())
    cluster.mirror.forget("Entitlement", ["u1", "never seen"])
    assert cluster.mirror.versions("Entitlement") == {}
    assert cluster.news == 2


def test_objects_of_a_restored_etcd_replace_newer_ones_in_the_mirror(cluster: Cluster) -> None:
    cluster.mirror.wrote("NodeAllocation", allocation(7, version=9))
    assert not cluster.is_news("NodeAllocation", allocation(3, version=4))
    cluster.mirror.forget_versions("NodeAllocation")
    assert cluster.mirror.allocations()["n1"].epoch == 7, "nothing vanishes meanwhile"
    assert cluster.is_news("NodeAllocation", allocation(3, version=4))
    assert cluster.mirror.allocations()["n1"].epoch == 3


def test_an_agent_lives_while_its_renewals_are_seen(cluster: Cluster) -> None:
    assert cluster.is_news("Lease", lease("1"))
    cluster.time += 39
    assert cluster.mirror.agents() == {"n1"}
    assert not cluster.is_news("Lease", lease("2")), "a renewal alone changes nothing"
    cluster.time += 39
    assert cluster.mirror.agents() == {"n1"}
    assert not cluster.is_news("Lease", lease("2")), "the same renewal is none"
    cluster.time += 1
    assert cluster.mirror.agents() == frozenset()
    assert cluster.mirror.agents(grace=300) == {"n1"}
    assert cluster.mirror.world("now", grace=300).silent_agents == {"n1"}
    assert cluster.is_news("Lease", lease("3")), "it is back"
    assert cluster.mirror.world("now", grace=300).silent_agents == frozenset()
    cluster.time += 340
    assert cluster.mirror.world("now", grace=300).silent_agents == frozenset()


def test_agents_have_time_to_renew_their_leases_after_an_outage(cluster: Cluster) -> None:
    """The operator may list the cluster before the agents have tried again."""
    watched = Scope("walras-system").kinds["Lease"]
    follower = MirroredKind(watched, cluster.mirror, lambda: cluster.time, lambda _: None)
    cluster.mirror.receive("Lease", lease("1"))
    follower.failed(ApiError("connection refused", "unreachable"))
    cluster.time += 400
    follower.failed(ApiError("connection refused", "unreachable"))
    assert not cluster.is_news("Lease", lease("1"))
    assert cluster.mirror.agents(grace=300) == frozenset()
    follower.answered()
    cluster.time += 39
    assert cluster.mirror.agents() == {"n1"}
    cluster.time += 1
    assert cluster.mirror.agents() == frozenset(), "an agent that is gone stays lost"


@pytest.mark.parametrize(("seconds", "counts"), [(0, True), (100, True), (200, False)])
def test_an_outage_does_not_bring_agents_back_that_were_lost_before(
    cluster: Cluster, seconds: float, counts: bool
) -> None:
    cluster.mirror.receive("Lease", lease("1"))
    cluster.time += 40 + seconds
    watched = cluster.time
    cluster.time += 60
    cluster.mirror.resume_agents(watched)
    assert cluster.mirror.agents() == ({"n1"} if counts else frozenset())


def test_an_agent_whose_lease_is_deleted_lives_no_more(cluster: Cluster) -> None:
    cluster.mirror.receive("Lease", lease("1"))
    assert cluster.is_news("Lease", lease("1"), deleted=True)
    assert cluster.mirror.agents() == frozenset()


def holding(demand: str, state: str = "Enforced") -> Document:
    return {"pods": [{"podUID": "u", "state": state, "memoryDemand": demand}]}


def test_what_pods_use_changes_no_decision(cluster: Cluster) -> None:
    def using(cpus: str, state: str = "Enforced") -> Document:
        return {"pods": [{"podUID": "u", "state": state, "usedCpus": cpus}]}

    cluster.mirror.receive("NodeAllocation", allocation(1, status=using("1")))
    assert not cluster.is_news("NodeAllocation", allocation(1, version=6, status=using("2")))
    told = cluster.mirror.world("").allocations["n1"].status or {}
    assert told["pods"][0]["usedCpus"] == "2"
    failed = allocation(1, version=7, status=using("2", "Failed"))
    assert cluster.is_news("NodeAllocation", failed)


def test_what_pods_could_use_of_memory_waits_for_the_next_quantum(cluster: Cluster) -> None:
    """A thousand nodes tell of it at any time."""
    cluster.mirror.receive("NodeAllocation", allocation(1, status=holding("1")))
    assert not cluster.is_news("NodeAllocation", allocation(1, version=6, status=holding("2")))
    told = cluster.mirror.world("").allocations["n1"].status or {}
    assert told["pods"][0]["memoryDemand"] == "2"
    failed = holding("2", "Failed")
    assert cluster.is_news("NodeAllocation", allocation(1, version=7, status=failed))


def test_the_world_has_the_version_of_the_market_that_is_used(cluster: Cluster) -> None:
    for name, version in (("default", "8"), ("other", "9")):
        metadata = {"name": name, "uid": name, "resourceVersion": version}
        market = {"apiVersion": "walras.dev/v1alpha1", "kind": "Market", "metadata": metadata}
        cluster.mirror.receive("Market", {**market, "spec": {}})
    assert cluster.mirror.world("").version == "8"


def test_a_change_of_the_status_alone_leaves_spec_and_metadata_the_same_objects(
    cluster: Cluster,
) -> None:
    def received(document: Document) -> Any:
        cluster.mirror.receive("Entitlement", document)
        return cluster.mirror.world("").objects.entitlements[0]

    first = received(entitlement())
    document = entitlement(version=6, status={"cores": {"bought": "1"}})
    document["metadata"]["generation"] = 5
    told = received(document)
    assert told.status == {"cores": {"bought": "1"}}
    assert told.spec is first.spec
    assert told.metadata is first.metadata
    changed = received(entitlement(2, version=7))
    assert changed.spec.shares == 2
    assert changed.metadata.generation == 7
    written = allocation(3, version=6, status={"epoch": 3})
    cluster.mirror.receive("NodeAllocation", allocation(3))
    before = cluster.mirror.world("").allocations["n1"]
    cluster.mirror.receive("NodeAllocation", written)
    after = cluster.mirror.world("").allocations["n1"]
    assert after.status == {"epoch": 3}
    assert after.spec is before.spec
