"""The operator's runtime on a real API server: watches, leadership, decisions, writes.

Operators are processes (`operator_process`) with a decision of their own that is simple enough to
foresee; what the market decides is tested elsewhere. Some tests use single parts within this
process, where what they are about would take minutes otherwise.
"""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from operator_cluster import CRDS, DEFINITIONS, OURS_PATH, OperatorCluster, Process
from real_cluster import (
    KUBECONFIG,
    RIGHTS,
    EtcdCopy,
    RealCluster,
    needs_cluster,
    needs_outage,
)
from rights import OPERATOR_OWN_RULES, OPERATOR_RULES
from waiting import eventually
from walras_api.contract import API_VERSION
from walras_operator.decide.world import (
    Event,
    NodeWrite,
    Placement,
    ProfileWrite,
    Reference,
    StatusWrite,
    Writes,
)
from walras_operator.lead.lease import EPOCHS
from walras_operator.publish.ledger_parts import LedgerParts
from walras_operator.publish.object_writer import ObjectWriter
from walras_operator.publish.publisher import Publisher
from walras_operator.publish.stamp import Stamp
from walras_operator.watch.cached_objects import CachedAllocation
from walras_operator.watch.kinds import Scope
from walras_operator.watch.mirror import Mirror
from walras_operator.watch.watches import Watches
from walras_service.api import MERGE, Api, settings
from walras_service.api_errors import ApiError
from walras_service.kinds import OURS
from worlds import pod, world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_cluster

Document = dict[str, Any]
PATIENCE = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OperatorCluster]:
    name = f"rt-{time.time_ns() % 10**10}"
    made = OperatorCluster(name, tmp_path)
    yield made
    made.close()


def settled(operator: Process) -> bool:
    """Return whether the operator has completed a decision since it was started."""
    return operator.metric("last_success_age_seconds") > 0


def grants_become(cluster: OperatorCluster, node: str, number: int) -> bool:
    return eventually(lambda: cluster.grants(node) == number, PATIENCE)


def test_nodes_and_statuses_are_published_and_follow_changes(cluster: OperatorCluster) -> None:
    node, entitlement = cluster.node(), cluster.entitlement()
    operator = cluster.operator("a")
    assert grants_become(cluster, node, 0), operator.log.read_text()
    (owner,) = (cluster.allocation(node) or {})["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Node", node)
    assert eventually(lambda: cluster.epoch(node) > EPOCHS, PATIENCE), "made empty, then applied"
    first = cluster.epoch(node)

    pod = cluster.pod("p", node)
    assert grants_become(cluster, node, 1)
    assert cluster.epoch(node) > first
    cluster.delete(pod)
    assert grants_become(cluster, node, 0), "a list may also become empty"
    cluster.pod("q", node)
    assert grants_become(cluster, node, 1)

    def told() -> str:
        found = cluster.read(entitlement) or {}
        return str(found.get("status", {}).get("conditions", [{}])[0].get("message"))

    assert eventually(lambda: told() == "1 nodes")
    cluster.node(2)
    assert eventually(lambda: told() == "2 nodes", PATIENCE)
    assert eventually(lambda: cluster.events() == ["Counted", "Counted"])


def test_what_is_mirrored_is_no_work_for_the_garbage_collector(cluster: OperatorCluster) -> None:
    cluster.pod("p", cluster.node())
    kinds = Scope(cluster.name).kinds
    mirror = Mirror(kinds, lambda _: None, time.monotonic)
    watches = Watches(cluster.api, kinds, mirror)
    watches.start()
    try:
        assert eventually(lambda: watches.complete, PATIENCE), watches.problem
        assert mirror.versions("Pod")
        assert eventually(lambda: gc.get_freeze_count() > 0)
    finally:
        watches.stop()
        gc.unfreeze()


def test_what_others_change_about_a_nodeallocation_is_put_right(cluster: OperatorCluster) -> None:
    node = cluster.node()
    cluster.pod("p", node)
    cluster.operator("a")
    assert grants_become(cluster, node, 1)
    path = f"{OURS_PATH}/nodeallocations/{node}"
    cluster.change(path, {"spec": {"grants": []}})
    assert grants_become(cluster, node, 1)
    cluster.delete(path)
    assert grants_become(cluster, node, 1)


def test_in_steady_state_it_decides_every_epoch_and_writes_nothing(
    cluster: OperatorCluster,
) -> None:
    cluster.market(epoch_seconds=1)
    node = cluster.node()
    cluster.pod("p", node)
    cluster.entitlement()
    operator = cluster.operator("a")
    assert grants_become(cluster, node, 1)
    assert eventually(lambda: settled(operator) and operator.metric("decide_seconds_count") >= 3)
    assert eventually(lambda: cluster.events() == ["Counted"])
    writes, decisions = cluster.writes(), operator.metric("decide_seconds_count")
    assert eventually(lambda: operator.metric("decide_seconds_count") >= decisions + 4, PATIENCE)
    assert cluster.writes() == writes
    assert cluster.events() == ["Counted"]


def test_no_finalizer_and_no_annotation_appears_on_any_object(cluster: OperatorCluster) -> None:
    node, entitlement = cluster.node(), cluster.entitlement()
    cluster.pod("p", node)
    cluster.operator("a")
    assert grants_become(cluster, node, 1)
    cluster.change(entitlement, {"spec": {"shares": 3}})
    cluster.pod("q", node)
    assert grants_become(cluster, node, 2)
    for metadata in cluster.everything():
        assert not metadata.get("finalizers"), metadata
        annotations = " ".join(metadata.get("annotations") or {})
        assert "kopf" not in annotations
        assert "walras" not in annotations


def test_of_two_one_leads_and_the_other_takes_over_from_a_dead_one(
    cluster: OperatorCluster,
) -> None:
    node = cluster.node()
    pair = [cluster.operator("a"), cluster.operator("b")]
    assert eventually(lambda: all(each.ready() for each in pair), PATIENCE)
    assert grants_become(cluster, node, 0)
    (leader,) = (each for each in pair if each.leads())
    (standby,) = (each for each in pair if each is not leader)
    assert not settled(standby), "a standby decides nothing"
    assert standby.get("/healthz") == (200, "ok\n")
    before = cluster.epoch(node)

    leader.kill()
    cluster.pod("p", node)
    assert grants_become(cluster, node, 1), standby.log.read_text()
    assert cluster.lease()["holderIdentity"] == standby.identity
    assert cluster.epoch(node) // EPOCHS == before // EPOCHS + 1, "its epochs are of another term"


def test_an_operator_that_is_told_to_end_lets_the_next_one_lead_at_once(
    cluster: OperatorCluster,
) -> None:
    node = cluster.node()
    first = cluster.operator("a")
    assert grants_become(cluster, node, 0)
    assert first.end() == 0
    assert cluster.lease()["holderIdentity"] == ""
    cluster.operator("b")
    cluster.pod("p", node)
    assert grants_become(cluster, node, 1)
    assert cluster.lease()["leaseTransitions"] == 2


def test_a_decision_that_fails_ends_neither_the_process_nor_the_next_one(
    cluster: OperatorCluster,
) -> None:
    node = cluster.node()
    operator = cluster.operator("a")
    assert grants_become(cluster, node, 0)
    poison = cluster.pod("poison", node)
    assert eventually(lambda: operator.metric("crashes_total") >= 2, PATIENCE)
    assert operator.leads()
    cluster.delete(poison)
    cluster.pod("p", node)
    assert grants_become(cluster, node, 1)
    assert "a pod that is called poison" in operator.log.read_text()


def test_what_cannot_be_said_of_a_decision_keeps_no_node_from_its_plan(
    cluster: OperatorCluster,
) -> None:
    node = cluster.node()
    operator = cluster.operator("a")
    assert grants_become(cluster, node, 0)
    cluster.pod("mute", node)
    assert grants_become(cluster, node, 1)
    assert eventually(lambda: operator.metric("crashes_total") >= 1, PATIENCE)


def test_a_deleted_lease_is_made_anew_and_epochs_go_on_growing(cluster: OperatorCluster) -> None:
    node = cluster.node()
    cluster.operator("a")
    cluster.operator("b")
    assert grants_become(cluster, node, 0)
    before = cluster.epoch(node)
    cluster.delete(f"/apis/coordination.k8s.io/v1/namespaces/{cluster.name}/leases/walras-operator")
    assert eventually(lambda: cluster.lease().get("holderIdentity"), PATIENCE)
    cluster.pod("p", node)
    assert grants_become(cluster, node, 1)
    assert cluster.epoch(node) > before


def test_it_waits_for_the_definitions_and_says_so(cluster: OperatorCluster) -> None:
    cluster.delete(f"{DEFINITIONS}/speedupprofiles.walras.dev")
    assert eventually(lambda: cluster.read(f"{OURS_PATH}/speedupprofiles") is None)
    node, operator = cluster.node(), cluster.operator("a")
    assert eventually(lambda: "CustomResourceDefinitions" in operator.get("/readyz")[1], PATIENCE)
    assert operator.get("/healthz")[0] == 200
    assert cluster.epoch(node) == 0, "without all objects nothing is decided"
    (path,) = (each for each in CRDS if "speedupprofiles" in each.name)
    cluster.install(path)
    assert grants_become(cluster, node, 0)
    assert operator.ready()


def test_it_survives_that_a_definition_goes_and_comes_back(cluster: OperatorCluster) -> None:
    node = cluster.node()
    operator = cluster.operator("a")
    assert grants_become(cluster, node, 0)
    cluster.delete(f"{DEFINITIONS}/speedupprofiles.walras.dev")
    assert eventually(lambda: operator.get("/readyz")[0] == 200)
    assert eventually(lambda: cluster.read(f"{OURS_PATH}/speedupprofiles") is None)
    (path,) = (each for each in CRDS if "speedupprofiles" in each.name)
    cluster.install(path)
    cluster.pod("p", node)
    assert grants_become(cluster, node, 1), operator.log.read_text()


def test_a_missing_permission_is_named_as_the_rule_to_add_and_no_others_are_needed(
    cluster: OperatorCluster, tmp_path: Path
) -> None:
    stranger = RealCluster(f"{cluster.name}-x", tmp_path)
    try:
        node, entitlement = cluster.node(), cluster.entitlement()
        operator = cluster.operator("a", str(stranger.kubeconfig()))
        rule = '{apiGroups: ["walras.dev"], resources: [entitlements], verbs: [list, watch]}'
        assert eventually(lambda: rule in operator.get("/readyz")[1], PATIENCE)
        rule = '{apiGroups: ["coordination.k8s.io"], resources: [leases], verbs: [get]}'
        assert eventually(lambda: rule in operator.log.read_text(), PATIENCE)
        assert operator.get("/healthz")[0] == 200

        create, create_here = (
            stranger.objects.create_cluster_custom_object,
            stranger.objects.create_namespaced_custom_object,
        )
        create(*RIGHTS, "clusterroles", stranger.role("ClusterRole", OPERATOR_RULES))
        create(*RIGHTS, "clusterrolebindings", stranger.binding("ClusterRole"))
        role = stranger.role("Role", OPERATOR_OWN_RULES)
        create_here(*RIGHTS, cluster.name, "roles", role)
        create_here(*RIGHTS, cluster.name, "rolebindings", stranger.binding("Role"))
        assert grants_become(cluster, node, 0), operator.log.read_text()
        assert eventually(lambda: cluster.events() == ["Counted"])
        assert eventually(lambda: "conditions" in (cluster.read(entitlement) or {})["status"])
        cluster.pod("p", node)
        assert grants_become(cluster, node, 1), operator.log.read_text()
        assert "not published" not in operator.log.read_text()
    finally:
        stranger.close()


@needs_outage
def test_it_goes_on_when_the_api_server_is_back(cluster: OperatorCluster, tmp_path: Path) -> None:
    server = RealCluster(f"{cluster.name}-s", tmp_path)
    try:
        node = cluster.node()
        operator = cluster.operator("a")
        assert grants_become(cluster, node, 0)
        before = cluster.epoch(node)
        server.kill_server()
        try:
            assert eventually(lambda: not operator.leads(), PATIENCE)
            assert eventually(lambda: not operator.ready(), PATIENCE)
            assert operator.get("/healthz")[0] == 200
        finally:
            server.restart_server()
        cluster.pod("p", node)
        assert grants_become(cluster, node, 1), operator.log.read_text()
        assert cluster.epoch(node) > before
        assert operator.ready()
    finally:
        server.close()


@needs_outage
def test_what_a_restored_etcd_has_forgotten_is_forgotten(
    cluster: OperatorCluster, tmp_path: Path
) -> None:
    """Versions go back by a hundred changes, and the operator decides on what there is now."""
    node = cluster.node()
    operator = cluster.operator("a")
    cluster.pod("kept", node)
    assert grants_become(cluster, node, 1)
    copy = EtcdCopy(tmp_path)
    for number in range(30):
        cluster.pod(f"lost-{number}", node)
    assert grants_become(cluster, node, 31), operator.log.read_text()
    before = cluster.epoch(node)
    copy.restore()
    server = RealCluster(f"{cluster.name}-s", tmp_path)
    try:
        assert eventually(server.answers)
        cluster.pod("new", node)
        assert grants_become(cluster, node, 2), operator.log.read_text()
        assert eventually(lambda: cluster.epoch(node) > before, PATIENCE)
        assert operator.ready()
    finally:
        server.close()


@pytest.fixture
def api() -> Api:
    return Api(settings(KUBECONFIG), "walras-test")


def plan(cluster: OperatorCluster, node: str, *pods: str) -> NodeWrite:
    uid = (cluster.read(f"/api/v1/nodes/{node}") or {})["metadata"]["uid"]
    grants = [{"podUID": pod, "name": pod, "cores": "1"} for pod in pods]
    return NodeWrite(node, uid, {"mode": "enforce", "grants": grants})


def test_a_write_about_another_version_than_the_last_is_refused(
    cluster: OperatorCluster, api: Api
) -> None:
    node, writer = cluster.node(), ObjectWriter(api)
    known = CachedAllocation.read(writer.allocation(plan(cluster, node, "a", "b"), 5, None))
    writer.allocation(plan(cluster, node, "a"), 6, known)
    for stale in (known, None):
        with pytest.raises(ApiError) as refused:
            writer.allocation(plan(cluster, node, "c"), 4, stale)
        assert refused.value.reason == "conflict"
    assert (cluster.epoch(node), cluster.grants(node)) == (6, 1)


def test_the_api_server_does_not_track_the_fields_of_a_nodeallocation(
    cluster: OperatorCluster, api: Api
) -> None:
    """Also if it did before, as for one that was written by an earlier version."""
    node, writer = cluster.node(), ObjectWriter(api)
    known = CachedAllocation.read(writer.allocation(plan(cluster, node, "a"), 5, None))
    path = OURS["NodeAllocation"].path(name=node)
    tracked = [{"manager": "earlier", "operation": "Update", "apiVersion": API_VERSION}]
    api.request("PATCH", path, {"metadata": {"managedFields": tracked}}, content_type=MERGE)
    for epoch in (6, 7):
        known = CachedAllocation.read(api.request("GET", path))
        writer.allocation(plan(cluster, node, "a", "b"), epoch, known)
        status = {"status": {"mode": "enforce", "epoch": epoch}}
        told = api.request("PATCH", f"{path}/status", status, content_type=MERGE)
        assert "managedFields" not in told["metadata"]
    assert (cluster.epoch(node), cluster.grants(node)) == (7, 2)


def test_parts_of_a_ledger_never_change_and_are_deleted_when_nobody_needs_them(
    cluster: OperatorCluster, api: Api
) -> None:
    parts = LedgerParts(api, cluster.name)
    parts.create({"walras-ledger-a": "one", "walras-ledger-b": "two"})
    parts.create({"walras-ledger-a": "one"})
    another = LedgerParts(api, cluster.name)
    with pytest.raises(ApiError, match="exists"):
        another.create({"walras-ledger-a": "forged"})
    names = ("walras-ledger-a", "walras-ledger-b", "walras-ledger-c")
    assert another.read(names) == {"walras-ledger-a": "one", "walras-ledger-b": "two"}
    another.delete({"walras-ledger-b": "", "walras-ledger-c": ""})
    assert another.read(names) == {"walras-ledger-a": "one"}
    now = datetime.now(UTC)
    another.sweep((), now)
    another.sweep(["walras-ledger-a"], now + timedelta(days=2))
    assert LedgerParts(api, cluster.name).read(names) == {"walras-ledger-a": "one"}
    another.sweep((), now + timedelta(days=2))
    assert LedgerParts(api, cluster.name).read(names) == {}


def test_an_object_that_cannot_be_written_hinders_no_other(
    cluster: OperatorCluster, api: Api
) -> None:
    good, bad = cluster.node(1), cluster.node(2)
    broken = plan(cluster, bad)
    broken.spec["mode"] = "perhaps"
    mirror = Mirror(Scope(cluster.name).kinds, lambda _: None, time.monotonic)
    publisher = Publisher(api, mirror, lambda: True, LedgerParts(api, cluster.name))
    decision = Writes((broken, plan(cluster, good, "a")), (), ())
    outcome = publisher.publish(decision, Stamp(7, "", 0, "me"))
    assert (outcome.count("failed"), outcome.count("written")) == (1, 1)
    assert cluster.grants(good) == 1
    publisher.close()


def test_a_measurement_by_a_page_names_no_file_of_the_one_before(
    cluster: OperatorCluster, api: Api
) -> None:
    """Also if the one before was written with the last grant removed, which has been special."""
    node, writer = cluster.node(), ObjectWriter(api)
    known = CachedAllocation.read(writer.allocation(plan(cluster, node, "a"), 5, None))
    by_file, by_page = plan(cluster, node), plan(cluster, node, "b")
    asked = {"id": "m", "podUID": "a", "podIP": "10.0.0.1"}
    by_file.spec["profiling"] = {**asked, "progress": {"file": "/progress"}}
    by_page.spec["profiling"] = {**asked, "progress": {"http": {"port": 80, "path": "/"}}}
    for epoch, write in enumerate((by_file, by_page), 6):
        known = CachedAllocation.read(writer.allocation(write, epoch, known))
        spec = (cluster.allocation(node) or {})["spec"]
        assert spec["profiling"]["progress"] == write.spec["profiling"]["progress"]


def test_a_profile_is_made_once_and_one_that_is_there_is_left_as_it_is(
    cluster: OperatorCluster, api: Api
) -> None:
    path = f"{OURS_PATH}/namespaces/{cluster.name}/speedupprofiles"
    head = {"apiVersion": "walras.dev/v1alpha1", "kind": "SpeedupProfile"}
    metadata = {"name": "train", "namespace": cluster.name}
    write = ProfileWrite(
        Reference("SpeedupProfile", "train", cluster.name),
        {**head, "metadata": metadata, "spec": {}},
    )
    assert ObjectWriter(api).profile(write) is not None
    assert ObjectWriter(api).profile(write) is None
    cluster.delete(f"{path}/train")
    written = {**head, "metadata": metadata, "spec": {"parallelFraction": "0.7"}}
    cluster.api.request("POST", path, written)
    assert ObjectWriter(api).profile(write) is None
    found = cluster.read(f"{path}/train")
    assert found is not None
    assert found["spec"] == {"parallelFraction": "0.7"}


def test_events_wait_for_the_status_that_they_are_about(cluster: OperatorCluster, api: Api) -> None:
    """Else a status that cannot be written would be told of with every decision."""
    path = cluster.entitlement()
    metadata = (cluster.read(path) or {})["metadata"]
    mirror = Mirror(Scope(cluster.name).kinds, lambda _: None, time.monotonic)
    publisher = Publisher(api, mirror, lambda: True, LedgerParts(api, cluster.name))
    mine = Reference("Entitlement", cluster.name, uid=metadata["uid"])
    event = Event(mine, "Normal", "Counted", "it was counted")
    stamp = Stamp(1, "2026-01-31T12:00:00Z", 1, "operator-0")
    for status in ({"jobs": "many"}, {"jobs": 1}):
        decision = Writes((), (StatusWrite(mine, status),), (event,))
        outcome = publisher.publish(decision, stamp)
        assert outcome.count("refused") == (status["jobs"] == "many")
    publisher.close()
    assert cluster.events() == ["Counted"]


def test_statuses_are_left_to_a_decision_that_is_due_and_nodes_are_not(
    cluster: OperatorCluster, api: Api
) -> None:
    node, metadata = cluster.node(), (cluster.read(cluster.entitlement()) or {})["metadata"]
    mirror = Mirror(Scope(cluster.name).kinds, lambda _: None, time.monotonic)
    publisher = Publisher(api, mirror, lambda: True, LedgerParts(api, cluster.name), slice_=0)
    mine = Reference("Entitlement", cluster.name, uid=metadata["uid"])
    event = Event(mine, "Normal", "Counted", "it was counted")
    writes = (StatusWrite(mine, {"jobs": 1}),) * 3
    decision = Writes((plan(cluster, node, "a"),), writes, (event,))
    stamp = Stamp(1, "2026-01-31T12:00:00Z", 1, "operator-0")
    outcome = publisher.publish(decision, stamp, yield_early=lambda: True)
    assert outcome.results == {("NodeAllocation", "written"): 1, ("Entitlement", "deferred"): 3}
    assert cluster.grants(node) == 1
    (gone,) = world(pod("gone", "train", node)).objects.pods
    reference = Reference("Pod", "gone", cluster.name)
    placed = Placement(reference, "scheduler", node, {"metadata": {"name": "gone"}}, gone)
    decision = replace(decision, nodes=(), placements=(placed,))
    outcome = publisher.publish(decision, stamp, yield_early=lambda: True)
    assert outcome.count("deferred") == 0, "whom a pod is placed beside is told first"
    publisher.close()
    assert cluster.events() == ["Counted"]


def test_no_status_is_left_to_the_next_decision_for_ever(
    cluster: OperatorCluster, api: Api
) -> None:
    """Eight of 24 are written before the next decision is due, each time."""
    mirror = Mirror(Scope(cluster.name).kinds, lambda _: None, time.monotonic)
    publisher = Publisher(api, mirror, lambda: True, LedgerParts(api, cluster.name), slice_=0)
    paths = [cluster.entitlement(suffix=f"-{number}") for number in range(24)]
    mine = [
        Reference("Entitlement", metadata["name"], uid=metadata["uid"])
        for metadata in ((cluster.read(path) or {})["metadata"] for path in paths)
    ]
    asked = count().__next__
    for turn in range(1, 7):
        decision = Writes((), tuple(StatusWrite(each, {"jobs": turn}) for each in mine), ())
        stamp = Stamp(turn, "2026-01-31T12:00:00Z", 1, "operator-0")
        outcome = publisher.publish(decision, stamp, yield_early=lambda: asked() % 24 >= 8)
        assert outcome.results[("Entitlement", "written")] == 8
    publisher.close()
    assert all((cluster.read(path) or {})["status"]["jobs"] > 1 for path in paths)
