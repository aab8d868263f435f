"""Lending, topology, curves and moves: what the views make of facts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dashboards import EXAMPLE, decided
from walras_api.node_allocation_status import CorePlace, NodeAllocationStatus, NodeTopology
from walras_api.parse import parse_resource
from walras_api.speedup_profile import SpeedupProfile
from walras_dashboard.curve import measured_points
from walras_dashboard.dump import Dump, facts_in
from walras_dashboard.job_query import JobQuery
from walras_dashboard.node_models import Owner
from walras_dashboard.topology import Ownership
from walras_dashboard.views import Views
from walras_view.documents import plain
from walras_view.explain.job import explain_job
from walras_view.explain.lending import balances, partners_of_each, purchases_of, together

if TYPE_CHECKING:
    from pydantic import BaseModel

pytestmark = pytest.mark.system


def test_lending_of_all_users_is_what_explain_says_of_each() -> None:
    facts = facts_in(decided())
    groups = {**{name: {name} for name in facts.entitlements}, "both": {"alice", "bob"}}
    bought = purchases_of(facts)
    assert bought is not None
    found = partners_of_each(bought, groups)
    for name, members in groups.items():
        expected = together(balances(bought, members))
        assert [each.name for each in found[name]] == [each.name for each in expected]
        assert [each.cores for each in found[name]] == pytest.approx(
            [each.cores for each in expected]
        )
    assert found["alice"]


def test_rows_that_did_not_change_are_kept() -> None:
    state = Dump.of([EXAMPLE]).state()
    before = Views(state)
    rows = before.job_rows, before.node_rows
    facts = state.facts
    changed = {
        **facts.jobs,
        ("alice", "dedup"): replace(facts.jobs["alice", "dedup"], generation=9),
    }
    after = Views(replace(state, revision=2, facts=replace(facts, jobs=changed)), before)
    assert [old is new for old, new in zip(rows[0], after.job_rows, strict=True)] == [
        True,
        False,
        True,
        True,
    ]
    assert all(old is new for old, new in zip(rows[1], after.node_rows, strict=True))
    assert after.jobs(JobQuery()).revision == 2


TOPOLOGY = NodeTopology(
    cpus="0-6",
    cores=4,
    threads=7,
    sockets=2,
    numa_nodes=2,
    reserved="0",
    memory="1024",
    layout=[
        CorePlace(socket=0, numa_node=0, cpus="0,4"),
        CorePlace(socket=0, numa_node=0, cpus="1,5"),
        CorePlace(socket=1, numa_node=1, cpus="2,6"),
        CorePlace(socket=1, numa_node=1, cpus="3,7"),
    ],
)


def test_every_cpu_has_its_owner() -> None:
    def pod(uid: str, cpus: str) -> dict[str, str]:
        return {"podUID": uid, "namespace": "lab", "name": uid, "cpus": cpus, "state": "Enforced"}

    status = NodeAllocationStatus.read(
        {
            "topology": TOPOLOGY.document(),
            "sharedCpus": "0,4,6",
            "pods": [pod("a", "1,5"), pod("b", "0,4"), pod("c", "0,4"), pod("d", "2-3")],
        }
    )
    owner = Owner(namespace="lab", pod="a", job="train", user="ada")
    placed = Ownership(status, {"a": owner})
    found = placed.topology()
    assert found is not None
    assert [(each.id, [n.id for n in each.numa_nodes]) for each in found.sockets] == [
        (0, [0]),
        (1, [1]),
    ]
    threads = {
        thread.cpu: thread
        for socket in found.sockets
        for numa in socket.numa_nodes
        for core in numa.cores
        for thread in core.threads
    }
    assert {cpu: thread.state for cpu, thread in threads.items()} == {
        0: "shared",
        1: "owned",
        2: "owned",
        3: "owned",
        4: "shared",
        5: "owned",
        6: "free",
        7: "outside",
    }
    assert threads[1].owner == owner
    assert threads[2].owner == Owner(namespace="lab", pod="d", job=None, user=None)
    (pool,) = placed.pools()
    assert pool.cpus == "0,4"
    assert [each.pod for each in pool.owners] == ["b", "c"]


def test_a_node_of_an_older_agent_has_no_topology() -> None:
    status = NodeAllocationStatus.read(
        {"topology": TOPOLOGY.model_copy(update={"layout": []}).document()}
    )
    assert Ownership(status, {}).topology() is None


def profile(**fields: object) -> SpeedupProfile:
    found = parse_resource(
        {
            "apiVersion": "walras.dev/v1alpha1",
            "kind": "SpeedupProfile",
            "metadata": {"name": "p", "namespace": "lab"},
            **fields,
        }
    )
    assert isinstance(found, SpeedupProfile)
    return found


def test_measured_times_become_speedups_with_their_scatter() -> None:
    found = profile(
        spec={
            "measurements": [
                {"cores": 1, "seconds": ["10", "10"]},
                {"cores": 4, "seconds": ["4", "5"]},
            ]
        }
    )
    one, four = measured_points(found)
    assert (one.cores, one.speedup) == (1, 1)
    assert (four.cores, four.low, four.high) == (4, 2, 2.5)
    assert four.speedup == pytest.approx(2.25)


def test_measurements_of_running_pods_become_speedups_too() -> None:
    sample = {"seconds": "2"}
    status = {
        "source": "Online",
        "online": {
            "measurements": [
                {
                    "id": "m",
                    "pod": "p-0",
                    "podUID": "u",
                    "node": "n",
                    "finished": "2026-01-31T12:00:00Z",
                    "source": "instructions",
                    "samples": [
                        {**sample, "cores": 1, "progress": "100"},
                        {**sample, "cores": 2, "progress": "180"},
                        {**sample, "cores": 2, "progress": "160"},
                    ],
                }
            ]
        },
    }
    _, two = measured_points(profile(spec={}, status=status))
    assert (two.cores, two.low, two.high) == (2, 1.6, 1.8)


@pytest.mark.parametrize("status", [None, {"online": 5}, {"online": {"measurements": [{}]}}])
def test_a_profile_that_cannot_be_read_has_no_points(status: object) -> None:
    assert measured_points(profile(spec={}, status=status)) == []


def test_the_page_gets_all_that_is_printed_for_scripts() -> None:
    """Under the same names and with the same values, but for digits that nobody needs."""
    dump = Dump.of([EXAMPLE])
    views = Views(dump.state())
    job, user, node = (
        views.job("alice", "dedup"),
        views.user("alice"),
        views.node("node-1", dump.pods_on("node-1")),
    )
    assert job is not None
    assert user is not None
    assert node is not None
    (row,) = (each for each in views.job_rows if each.name == "dedup")
    users = {each.name: each for each in views.user_rows}
    nodes = {each.name: each for each in views.node_rows}
    explained = explain_job(views.facts, views.facts.jobs["alice", "dedup"])
    for printed, answer in [
        (row, _api(job)["row"] | {"each": [plain(each) for each in row.each]}),
        (explained, _api(job)["explanation"]),
        (users["alice"], _api(user)["row"]),
        (nodes["node-1"], _api(node)["row"]),
    ]:
        assert _rounded(plain(printed)) == {key: _rounded(answer[key]) for key in plain(printed)}


def _api(answer: BaseModel) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(answer.model_dump_json(by_alias=True))
    return made


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(f"{value:.9g}") if known else value
