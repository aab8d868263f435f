"""A live cluster is followed: changes, outages, and viewers with few rights."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from dashboard_clusters import leases
from dashboards import decided
from played_api import PlayedApi
from waiting import eventually
from walras_cli.cluster.connection import Cluster
from walras_dashboard import live as dashboard_live
from walras_dashboard.live import Live
from walras_dashboard.shared_objects import SharedObjects
from walras_service.api_errors import ApiError
from walras_service.failures import Failure
from walras_view.facts import Leases

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.system


@pytest.fixture
def api() -> Iterator[PlayedApi]:
    made = PlayedApi(decided())
    yield made
    made.stop()


@pytest.fixture
def live(api: PlayedApi) -> Iterator[Live]:
    made = Live(Cluster(api.configuration(), "alice", connections=24))
    yield made
    made.stop()


def _shares(live: Live, name: str = "alice") -> Any:
    return live.state().facts.entitlements[name].spec["shares"]


def _with_shares(api: PlayedApi, shares: int) -> None:
    before = api.get("Entitlement", "alice")
    api.put({**before, "spec": {**before["spec"], "shares": shares}})


def test_what_is_there_and_what_changes(api: PlayedApi, live: Live) -> None:
    first = live.state()
    assert {*first.facts.jobs} == {
        ("alice", "dedup"),
        ("alice", "bodytrack"),
        ("bob", "x264"),
        ("bob", "raytrace"),
    }
    _with_shares(api, 7)
    assert eventually(lambda: _shares(live) == 7)
    assert live.state().revision > first.revision
    api.delete("MarketJob", "dedup", "alice")
    assert eventually(lambda: ("alice", "dedup") not in live.state().facts.jobs)


def test_what_does_not_change_makes_no_new_state(api: PlayedApi, live: Live) -> None:
    live.state()
    _with_shares(api, 7)
    assert eventually(lambda: _shares(live) == 7)
    revision = live.state().revision
    api.put(api.get("Node", "node-1"))
    _with_shares(api, 8)
    assert eventually(lambda: _shares(live) == 8)
    assert live.state().revision == revision + 1


def test_an_outage_is_told_and_what_happened_meanwhile_is_seen_afterwards(
    api: PlayedApi, live: Live
) -> None:
    heard: list[str] = []
    live.listen(heard.append)
    assert _shares(live) == 1
    api.stop()
    assert eventually(lambda: bool(heard) and "is unreachable" in heard[-1])
    assert _shares(live) == 1  # the last known figures stay
    _with_shares(api, 5)
    api.start()
    assert eventually(lambda: _shares(live) == 5 and heard[-1] == "")


def test_moved_cpus_are_told_of(api: PlayedApi, live: Live) -> None:
    live.state()
    node = api.get("NodeAllocation", "node-1")
    uid = node["spec"]["grants"][0]["podUID"]
    for cpus in ("0-8", "0-7"):
        holding = {"podUID": uid, "namespace": "bob", "name": "x264-0", "cpus": cpus}
        api.put({**node, "status": {"pods": [{**holding, "state": "Enforced"}]}})
        assert eventually(partial(_has_cpus, live, cpus))
    (last, first) = live.state().moved["node-1"]
    assert first.what == "bob/x264-0 got CPUs 0-8"
    assert last.what == "bob/x264-0 moved from CPUs 0-8 to 0-7"


def _has_cpus(live: Live, cpus: str) -> bool:
    pods = live.state().facts.allocations["node-1"].status.pods
    return bool(pods) and pods[0].cpus == cpus


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_live, "LEASE_SECONDS", 0.05)


@pytest.mark.usefixtures("often")
def test_only_leases_in_the_operators_namespace_show_that_it_lives(
    api: PlayedApi, live: Live
) -> None:
    for each in leases(["node-1"]):
        forged = {**each["metadata"], "namespace": "tenant"}
        api.put({**each, "metadata": forged})
        api.put({**each, "metadata": {**forged, "name": f"{forged['name']}-x"}})
    assert eventually(lambda: live.state().facts.leases.known)
    assert not live.state().facts.leases.operator_alive
    assert not live.state().facts.leases.agents
    market = api.get("Market", "default")
    api.put({**market, "status": {**market["status"], "operatorNamespace": "tenant"}})
    assert eventually(lambda: live.state().facts.leases.operator_alive)
    assert live.state().facts.leases.agents == {"node-1": True}


@pytest.mark.usefixtures("often")
def test_leases_are_looked_at_again_after_any_error(
    api: PlayedApi, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([OverflowError("date value out of range"), ApiError("busy", "busy")])

    def of(*_: object) -> Leases:
        problem = next(answers, None)
        if problem is not None:
            raise problem
        return Leases(known=True, operator_alive=True)

    monkeypatch.setattr("walras_dashboard.live.leases_of", of)
    assert eventually(lambda: live.state().facts.leases.operator_alive)


def test_a_viewer_sees_what_a_role_for_one_namespace_allows(api: PlayedApi) -> None:
    every = {"entitlements", "marketjobs", "markets", "nodeallocations", "nodes"}
    api.forbidden["ada"] = {*every, "speedupprofiles", "leases"}
    api.allowed["ada"] = {"alice/marketjobs", "alice/speedupprofiles", "alice/entitlements"}
    live = Live(Cluster(api.configuration("ada"), "alice", connections=24))
    try:
        assert eventually(lambda: {*live.state().facts.entitlements} == {"alice"})
        facts = live.state().facts
        assert {namespace for namespace, _ in facts.jobs} == {"alice"}
        assert facts.namespace == "alice"
        assert not facts.nodes
        assert not facts.allocations
        assert facts.market is None
        assert {
            "list entitlements.walras.dev",
            "list marketjobs.walras.dev",
            "list nodes",
        } <= {*facts.withheld}
        _with_shares(api, 4)
        assert eventually(lambda: _shares(live) == 4)
    finally:
        live.stop()


def test_a_right_that_is_missing_for_a_what_if_is_remembered_for_some_seconds(
    api: PlayedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.forbidden["eve"] = {"nodes"}
    live = Live(Cluster(api.configuration("eve"), "default", connections=24))

    def asked() -> int:
        before = len(api.asked)
        with pytest.raises(Failure, match="you have no right to list nodes"):
            live.world()
        return len(api.asked) - before

    assert asked() > 0
    assert asked() == 0
    monkeypatch.setattr("walras_dashboard.kept_world.REFUSAL_SECONDS", 0.0)
    assert asked() > 0
    api.forbidden.clear()
    assert live.world().objects.nodes


def test_a_cluster_that_is_away_from_the_beginning(api: PlayedApi, live: Live) -> None:
    api.stop()
    with pytest.raises(ApiError, match="is unreachable"):
        live.state()
    api.start()
    assert eventually(lambda: _is_there(live))


def _is_there(live: Live) -> bool:
    try:
        return bool(live.state().facts.jobs)
    except ApiError:
        return False


def test_viewers_share_the_memory_of_what_both_see(api: PlayedApi) -> None:
    api.forbidden["eve"] = {"marketjobs"}
    api.allowed["eve"] = {"alice/marketjobs"}
    shared = SharedObjects()
    ada, eve = (
        Live(Cluster(api.configuration(token), "alice", connections=24), "", shared)
        for token in ("ada", "eve")
    )
    try:
        every, own = ada.state().facts.jobs, eve.state().facts.jobs
        assert {namespace for namespace, _ in every} == {"alice", "bob"}
        assert {namespace for namespace, _ in own} == {"alice"}
        assert all(each is every[key] for key, each in own.items())
    finally:
        ada.stop()
        eve.stop()


def test_an_object_is_forgotten_with_its_last_viewer() -> None:
    shared = SharedObjects()
    document = decided()[0] | {"kind": "MarketJob"}
    document["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    first = shared.read("jobs", document)
    assert shared.read("jobs", document) is first
    gone = weakref.ref(first)
    del first
    assert gone() is None
