"""Entitlements that follow Kueue's queues or ResourceQuotas: what is read, and what is decided."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kueue import (
    cluster_queue,
    cohort,
    condition,
    local_queue,
    workload,
)
from waiting import eventually
from walras_api.entitlement import MOST_NAMESPACES
from walras_api.quotas import CpuQuota, QueuedWorkload, read_quota
from walras_operator.decide.conditions import Problem
from walras_operator.decide.entitling.borrowing import in_proportion, lend, worths
from walras_operator.decide.entitling.entitlements import CONDITION
from walras_operator.decide.known_quotas import Quotas, Waiting
from walras_operator.watch.quota_watches import MOST, KeptKind, QuotaWatches
from walras_service.api_errors import ApiError
from whole_decisions import decide
from worlds import condition as condition_of
from worlds import document, entitlement, market, node, pod, status, world

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_api.market import QuotaSource
    from walras_operator.decide.world import World
    from whole_decisions import Decision

Document = dict[str, Any]
OURS = {"labels": {"app.kubernetes.io/managed-by": "walras-operator"}}


def quotas(*documents: Document, source: QuotaSource = "Kueue", **fields: Any) -> Quotas:
    read = [found for each in documents if (found := read_quota(each)) is not None]
    return Quotas(source, quotas=tuple(read), **fields)


def namespace(name: str, **labels: str) -> Document:
    return document("Namespace", name, metadata={"labels": labels})


def scene(found: Quotas | None, *documents: Document) -> World:
    """A node, the namespaces lab and shop, and a Market that follows quotas."""
    follow: Document = {} if found is None else {"from": found.source}
    rules = market(entitlements=follow)
    return world(
        rules, node("n1", "16"), namespace("lab"), namespace("shop"), *documents, quotas=found
    )


def specs(decision: Decision) -> dict[str, Document | None]:
    """Return the specs of the Entitlements that a decision writes; None of deleted ones."""
    return {
        each.object.name: None if each.document is None else each.document["spec"]
        for each in decision.entitlements
    }


def written(decision: Decision) -> list[Document]:
    """Return the Entitlements that a decision writes, as the API server then has them."""
    return [
        document("Entitlement", each.object.name, metadata=OURS, spec=each.document["spec"])
        for each in decision.entitlements
        if each.document is not None
    ]


TWO_QUEUES = (
    cluster_queue("team-a", "6", "2", cohort="all"),
    cluster_queue("team-b", "4", cohort="all"),
    local_queue("lab", "main", "team-a"),
    local_queue("shop", "main", "team-b"),
)


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_queues_become_entitlements_below_their_cohorts(version: str) -> None:
    found = quotas(
        cluster_queue("team-a", "6", "1500m", cohort="all", version=version),
        cluster_queue("alone", "2", version=version),
        cohort("all", "1", parent="root", version=version),
        local_queue("lab", "main", "team-a", version=version),
        local_queue("shop", "main", "team-a", version=version),
        local_queue("shop", "spare", "alone", version=version),
    )
    assert specs(decide(scene(found))) == {
        "cohort-root": {"shares": 8500},
        "cohort-all": {"shares": 8500, "parent": "cohort-root"},
        "team-a": {"shares": 7500, "parent": "cohort-all", "namespaces": ["lab", "shop"]},
        "alone": {"shares": 2000, "namespaces": ["shop"]},
    }


def test_what_is_written_is_not_written_again_and_a_change_is() -> None:
    decision = decide(scene(quotas(*TWO_QUEUES)))
    made = written(decision)
    assert specs(decide(scene(quotas(*TWO_QUEUES), *made))) == {}
    changed = quotas(cluster_queue("team-a", "7", cohort="all"), *TWO_QUEUES[1:])
    after = decide(scene(changed, *made))
    assert {name: spec and spec["shares"] for name, spec in specs(after).items()} == {
        "cohort-all": 11000,
        "team-a": 7000,
    }
    state, reason, message = condition_of(after, "Market", "default", type_=CONDITION)
    assert (state, reason) == ("True", "Followed")
    assert "3 Entitlements follow ClusterQueues and their cohorts; 2 are not yet" in message


def test_an_entitlement_goes_with_its_queue_and_only_if_all_quotas_are_known() -> None:
    made = written(decide(scene(quotas(*TWO_QUEUES))))
    fewer = quotas(*TWO_QUEUES[:1], *TWO_QUEUES[2:])
    assert specs(decide(scene(fewer, *made)))["team-b"] is None
    unread = quotas(problem=Problem("QuotasUnread", "not yet"))
    unsure = decide(scene(unread, *made))
    assert specs(unsure) == {}
    assert condition_of(unsure, "Market", "default", type_=CONDITION) == (
        "False",
        "QuotasUnread",
        "not yet",
    )
    assert specs(decide(scene(None, *made))) == {}, "without `from`, they stay as they are"


def test_what_somebody_has_written_is_not_touched_and_the_market_says_so() -> None:
    by_hand = entitlement("team-a", shares=1, namespaces=["lab"])
    decision = decide(scene(quotas(*TWO_QUEUES), by_hand, entitlement("other", shares=3)))
    assert specs(decision).keys() == {"cohort-all", "team-b"}
    state, reason, message = condition_of(decision, "Market", "default", type_=CONDITION)
    assert (state, reason) == ("False", "NameTaken")
    assert "team-a" in message
    assert "other" not in message
    assert "managed-by=walras-operator" in message


def test_who_borrows_has_the_budget_for_what_was_admitted_and_who_lends_lacks_it() -> None:
    admitted = workload("lab", "large", "main", "11", admitted_by="team-a")
    found = specs(decide(scene(quotas(*TWO_QUEUES, admitted))))
    lab, shop, both = (found[name] or {} for name in ("team-a", "team-b", "cohort-all"))
    assert (lab["shares"], lab["memoryShare"]) == (11000, 8000), "CPUs are lent, and not memory"
    assert (shop["shares"], shop["memoryShare"]) == (1000, 4000)
    assert both == {"shares": 12000}
    ended = {**admitted, "status": {"conditions": [condition("Finished")]}}
    back = specs(decide(scene(quotas(*TWO_QUEUES, ended))))
    assert [(back[name] or {})["shares"] for name in ("team-a", "team-b")] == [8000, 4000]


def test_what_a_cohort_has_is_lent_before_what_its_queues_have() -> None:
    admitted = workload("lab", "large", "main", "10", admitted_by="team-a")
    found = quotas(*TWO_QUEUES, cohort("all", "3"), admitted)
    now = worths(found, found.set_aside)
    assert now.queues == {"team-a": 10000, "team-b": 4000}
    assert now.cohorts == {"all": 15000}


cpus = st.integers(0, 100_000)


@given(st.lists(st.tuples(cpus, cpus), max_size=8), cpus)
def test_loans_take_from_nobody_what_it_uses_and_add_up(
    queues: Sequence[tuple[int, int]], pool: int
) -> None:
    nominal, used = [own for own, _ in queues], [use for _, use in queues]
    worth, from_pool = lend(nominal, used, pool)
    assert all(each >= use for each, use in zip(worth, used, strict=True))
    assert 0 <= from_pool <= pool
    assert all(
        each <= max(own, use) for each, own, use in zip(worth, nominal, used, strict=True)
    ), "nobody has more than its quota unless that was admitted"
    if sum(used) <= sum(nominal) + pool:
        assert sum(worth) == sum(nominal) + from_pool
    assert lend(nominal, [0] * len(nominal), pool) == (nominal, 0)


@given(st.lists(cpus, max_size=8).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, sum(p)))))
def test_parts_add_up_and_none_is_larger_than_what_it_is_a_part_of(
    found: tuple[list[int], int],
) -> None:
    parts, amount = found
    divided = in_proportion(amount, parts)
    assert sum(divided) == amount
    assert all(0 <= mine <= part for mine, part in zip(divided, parts, strict=True))


names = st.sampled_from(["", "a", "b", "c"])


def test_queues_of_cohorts_that_are_above_each_other_keep_their_place_and_add_up() -> None:
    """An administrator's slip, to which Kueue admits nothing more; what runs goes on."""
    found = quotas(
        cluster_queue("team-a", "4", cohort="a"),
        cluster_queue("team-b", "4", cohort="b"),
        cohort("a", "2", parent="b"),
        cohort("b", "2", parent="a"),
        local_queue("lab", "main", "team-a"),
        workload("lab", "one", "main", "6", admitted_by="team-a"),
        workload("shop", "two", "main", "6", admitted_by="team-b"),
    )
    now = worths(found, found.set_aside)
    assert now.queues == {"team-a": 6000, "team-b": 6000}
    assert now.cohorts == {"a": 12000, "b": 6000}
    assert now.parents == {"a": "", "b": "a"}
    after = decide(scene(found, *written(decide(scene(found)))))
    assert condition_of(after, "Entitlement", "team-a")[:2] == ("True", "Ready")


@settings(deadline=None)
@given(
    st.lists(st.tuples(cpus, names, cpus), max_size=5),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.tuples(cpus, names)),
)
def test_any_tree_of_cohorts_is_divided_without_a_loss_and_settles(
    queues: list[tuple[int, str, int]], cohorts: dict[str, tuple[int, str]]
) -> None:
    """Even cohorts that are above themselves, which Kueue allows to be written."""
    found = quotas(
        *(cluster_queue(f"q{n}", f"{own}m", cohort=of) for n, (own, of, _) in enumerate(queues)),
        *(cohort(name, f"{own}m", parent=above) for name, (own, above) in cohorts.items()),
    )
    admitted = {f"q{n}": use for n, (_, _, use) in enumerate(queues)}
    now = worths(found, admitted)
    for name, parent in now.parents.items():
        assert parent in {"", *now.cohorts}
        members = sum(now.queues[f"q{n}"] for n, (_, of, _) in enumerate(queues) if of == name)
        assert now.cohorts[name] >= members
    decision = decide(scene(found))
    assert specs(decide(scene(found, *written(decision)))) == {}


def test_only_namespaces_that_the_queue_admits_may_draw_on_it() -> None:
    """Otherwise whoever may write LocalQueues could draw on everybody's budget."""
    picky = {
        "matchLabels": {"team": "a"},
        "matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["test"]}],
    }
    queues = [
        cluster_queue("team-a", "6", selector=picky),
        *(local_queue(each, "mine", "team-a") for each in ("lab", "shop", "mall", "nowhere")),
    ]
    mall = namespace("mall", team="a", env="test")
    plain = world(
        market(entitlements={"from": "Kueue"}),
        namespace("lab", team="a"),
        namespace("shop", team="b"),
        mall,
        quotas=quotas(*queues),
    )
    assert (specs(decide(plain))["team-a"] or {})["namespaces"] == ["lab"]
    closed = {"spec": {"resourceGroups": queues[0]["spec"]["resourceGroups"]}}
    nobody = quotas({**queues[0], **closed}, *queues[1:])
    assert (specs(decide(scene(nobody)))["team-a"] or {})["namespaces"] == []


def test_a_queue_of_more_namespaces_than_an_entitlement_names_is_told() -> None:
    places = [f"n{number}" for number in range(MOST_NAMESPACES + 1)]
    found = quotas(
        cluster_queue("team-a", "4"), *(local_queue(each, "main", "team-a") for each in places)
    )
    decision = decide(scene(found, *map(namespace, places)))
    assert len((specs(decision)["team-a"] or {})["namespaces"]) == MOST_NAMESPACES
    message = condition_of(decision, "Market", "default", type_=CONDITION)[2]
    assert "; LocalQueues of 1001 namespaces lead to team-a, on which at most 1000 can" in message


def test_pods_of_a_workload_draw_on_the_queue_that_admitted_it() -> None:
    """The namespace has queues of two, so that only the Workload says which."""
    found = quotas(
        *TWO_QUEUES,
        local_queue("lab", "urgent", "team-b"),
        workload("lab", "train", "urgent", "2", owner="u-job", admitted_by="team-b"),
    )
    job = {"apiVersion": "lab.dev/v1", "kind": "Training", "name": "train", "uid": "u-job"}
    labels = {"app": "train", "walras.dev/job": ""}
    runs = pod("train-1", labels=labels, ownerReferences=[{**job, "controller": True}])
    (write,) = decide(scene(found, runs)).jobs
    assert write.document is not None
    assert write.document["spec"]["entitlement"] == "team-b"

    # A lead has divided what follows the queue, so that pods draw on what is below it.
    below = entitlement("team-b.nlp", parent="team-b", shares=1, namespaces=["lab"])
    made = [each for each in written(decide(scene(found))) if each["metadata"]["name"] != "team-a"]
    (write,) = decide(scene(found, runs, below, *made)).jobs
    assert write.document is not None
    assert write.document["spec"]["entitlement"] == "team-b.nlp"


def test_workloads_that_wait_are_counted_where_they_wait() -> None:
    inactive = workload("lab", "off", "main", "5")
    inactive["spec"]["active"] = False
    found = quotas(
        *TWO_QUEUES,
        workload("lab", "first", "main", "2", pods=3),
        workload("lab", "second", "main", "500m"),
        workload("lab", "runs", "main", "1", admitted_by="team-a"),
        workload("lab", "lost", "nowhere", "1"),
        inactive,
    )
    assert found.waiting == {"team-a": Waiting(2, 6500)}
    made = written(decide(scene(found)))
    after = status(decide(scene(found, *made)), "Entitlement", "team-a")
    assert after["waiting"] == {"workloads": 2, "cpus": "6.5"}


@pytest.mark.parametrize(("admitted_by", "kept"), [("", 1), ("team-a", 256)])
def test_many_owners_are_kept_only_of_workloads_that_kueue_has_admitted(
    admitted_by: str, kept: int
) -> None:
    """Users may write any number of Workloads, and all owners are gone through at each change."""
    found = workload("lab", "w", "main", "1", owner="u", admitted_by=admitted_by)
    found["metadata"]["ownerReferences"] = [{"uid": f"u-{number}"} for number in range(300)]
    read = read_quota(found)
    assert isinstance(read, QueuedWorkload)
    assert read.owners == tuple(f"u-{number}" for number in range(kept))


def test_pods_that_have_ended_no_longer_hold_quota() -> None:
    admitted = workload("lab", "large", "main", "2", pods=4, admitted_by="team-a")
    admitted["status"]["reclaimablePods"] = [{"name": "main", "count": 3}]
    found = read_quota(admitted)
    assert isinstance(found, QueuedWorkload)
    assert found.cpus == 2000


def test_namespaces_with_a_quota_of_cpus_become_entitlements() -> None:
    def of(place: str, name: str, **spec: Any) -> Document:
        metadata = {"name": name, "namespace": place}
        return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}

    found = quotas(
        of("lab", "most", hard={"requests.cpu": "12"}),
        of("lab", "less", hard={"cpu": "7500m"}),
        of("lab", "urgent", hard={"requests.cpu": "1"}, scopes=["Terminating"]),
        of("shop", "pods", hard={"pods": "10"}),
        of("mall", "most", hard={"cpu": "5"}),
        of("mall", "closed", hard={"requests.cpu": "0"}),
        source="ResourceQuota",
    )
    assert found.quotas[0] == CpuQuota("lab", "most", 12000)
    assert specs(decide(scene(found))) == {
        "lab": {"shares": 7500, "namespaces": ["lab"]},
        "mall": {"shares": 1, "namespaces": ["mall"]},
    }


def test_a_cohort_of_the_name_of_a_queue_has_another_one() -> None:
    long = "x" * 253
    found = quotas(
        cluster_queue("all", "1", cohort="all"),
        cluster_queue("cohort-all", "1"),
        cluster_queue("far", "1", cohort=long),
    )
    made = specs(decide(scene(found)))
    assert (made["all"] or {})["parent"] == "cohort-cohort-all"
    assert len((made["far"] or {})["parent"]) == 253


def test_no_two_cohorts_have_one_name() -> None:
    found = quotas(
        cluster_queue("cohort-x", "1", cohort="x"),
        cluster_queue("other", "1", cohort="cohort-x"),
        cohort("x", parent="cohort-x"),
    )
    made = specs(decide(scene(found)))
    assert len(made) == 4
    below = (made["cohort-x"] or {})["parent"]
    assert (made[below] or {})["parent"] == (made["other"] or {})["parent"] != below


def test_a_cohort_of_the_name_of_a_teams_own_entitlement_takes_nothing_from_the_team() -> None:
    by_hand = entitlement("cohort-all", shares=1, namespaces=["shop"])
    found = quotas(*TWO_QUEUES)
    made = decide(scene(found, by_hand))
    assert (specs(made)["team-a"] or {})["parent"] == "cohort-cohort-all"
    after = decide(scene(found, by_hand, *written(made)))
    assert condition_of(after, "Entitlement", "cohort-all")[:2] == ("True", "Ready")
    only_a_parent = {**by_hand, "spec": {"shares": 5}}
    kept = decide(scene(found, only_a_parent))
    assert (specs(kept)["team-a"] or {})["parent"] == "cohort-all"


def test_of_one_namespace_a_bounded_number_of_objects_is_kept() -> None:
    """Users may create any number of Workloads, which wait; nobody else's are left out for it."""
    told: list[bool] = []
    kept = KeptKind(told.append)

    def see(number: int, place: str, *, deleted: bool = False, admitted_by: str = "") -> None:
        found = workload(place, f"w{number}", "main", "1", admitted_by=admitted_by)
        found["metadata"]["uid"] = f"{place}-{number}"
        kept.receive(found, deleted=deleted)

    for number in range(MOST + 2):
        see(number, "hostile")
    see(0, "lab")
    assert (len(kept.quotas()), kept.left_out) == (MOST + 1, 2)
    assert set(told) == {False}, "what waits changes no division of cores, and is not urgent"
    see(0, "hostile", deleted=True)
    see(MOST, "hostile", admitted_by="team-a")
    assert (len(kept.quotas()), kept.left_out) == (MOST + 1, 1)
    assert told[-1] is True
    assert f"hostile-{MOST + 1}" in kept.known(), "or it would never be found to be gone"
    kept.listed(kept.known() - {"lab-0"})
    assert [found.name for found in kept.quotas() if isinstance(found, QueuedWorkload)] == ["w0"]
    assert kept.left_out == 0


def test_no_queue_of_many_is_left_out_since_its_entitlement_would_be_deleted() -> None:
    kept = KeptKind(lambda _: None)
    for number in range(MOST + 1):
        found = cluster_queue(f"q{number}", "1")
        found["metadata"]["uid"] = f"u-{number}"
        kept.receive(found, deleted=False)
    assert (len(kept.quotas()), kept.left_out) == (MOST + 1, 0)


class InstalledApi:
    """An API server to which kinds of Kueue are added, and which answers no list before the end."""

    def __init__(self, *kinds: str) -> None:
        self.kinds, self.listed, self.looks = kinds, list[str](), 0
        self.end = threading.Event()

    def find(self, path: str) -> Document | None:
        self.looks += 1
        if self.kinds and path.endswith("/v1beta1"):
            return {"resources": [{"name": each} for each in self.kinds]}
        return {"versions": [{"version": "v1beta1"}]} if self.kinds else None

    def opened(self, path: str, **_: Any) -> Any:
        self.listed.append(path.rpartition("/")[2])
        self.end.wait()
        raise ApiError("it has ended", "unreachable")


def test_cohorts_that_come_with_a_later_kueue_are_followed_without_a_restart() -> None:
    old = "clusterqueues", "localqueues", "workloads"
    stand_in = InstalledApi(*old)
    api: Any = stand_in
    watches = QuotaWatches(api, lambda _: None, pause=0.001)
    watches.of("Kueue")
    watches.start()
    try:
        assert eventually(lambda: stand_in.looks >= 8 and len(stand_in.listed) >= 3)
        assert sorted(stand_in.listed) == [*old], "what is followed is left alone"
        stand_in.kinds = (*old, "cohorts")
        assert eventually(lambda: len(stand_in.listed) >= 7)
        assert sorted(stand_in.listed[3:]) == sorted(stand_in.kinds)
    finally:
        watches.stop()
        stand_in.end.set()


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("-3"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
FIELDS = [
    "admission",
    "clusterQueue",
    "cohort",
    "cohortName",
    "conditions",
    "count",
    "flavors",
    "hard",
    "matchExpressions",
    "matchLabels",
    "name",
    "namespaceSelector",
    "nominalQuota",
    "parentName",
    "podSetAssignments",
    "podSets",
    "queueName",
    "reclaimablePods",
    "requests.cpu",
    "resourceGroups",
    "resources",
    "resourceUsage",
    "spec",
    "template",
    "type",
]
body = st.recursive(
    junk,
    lambda inner: (
        st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4) | st.lists(inner, max_size=2)
    ),
    max_leaves=12,
)


@given(
    st.sampled_from(["ClusterQueue", "Cohort", "LocalQueue", "Workload", "ResourceQuota"]),
    body,
    body,
)
def test_no_document_breaks_the_reading(kind: str, spec: Any, stated: Any) -> None:
    group = "v1" if kind == "ResourceQuota" else "kueue.x-k8s.io/v1beta1"
    metadata = {"name": "x", "namespace": "lab"}
    found = read_quota(
        {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec, "status": stated}
    )
    assert getattr(found, "cpus", 0) >= 0
