"""The rows of `walras top`, of worlds that the real decision was made about."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kueue import cluster_queue, local_queue, workload
from seen import NOW, decided, seen
from walras_api.quotas import read_quota
from walras_cli.cluster.top.page import TableOptions, TopPage
from walras_operator.decide.conditions import Problem
from walras_operator.decide.known_quotas import Quotas
from walras_view.explain.job import explain_job
from walras_view.facts import Leases, Use, Used
from walras_view.notes import (
    headline_of,
    remarks_of,
    waiting_for_quota,
    waiting_in_queues,
    warnings_of,
)
from walras_view.rows.jobs import PodRow, job_rows, per_pod
from walras_view.rows.nodes import node_rows
from walras_view.rows.users import UserRow, user_rows
from worlds import enforced, entitlement, job, market, node, pod

if TYPE_CHECKING:
    from walras_operator.decide.world import World

GIB = 1024**3


def tree() -> World:
    """Return a root with two children, and a root of its own; one job each, but for the root."""
    return decided(
        market(memory={"sliceSize": "1Gi"}),
        entitlement("lab", shares=2, namespaces=None),
        entitlement("vision", parent="lab", shares=3),
        entitlement("speech", parent="lab"),
        entitlement("batch"),
        node("n1", "12"),
        *(job(f"of-{name}", name, memory={"demand": "2Gi"}) for name in ("vision", "speech")),
        job("of-batch", "batch"),
        *(pod(f"{name}-0", f"of-{name}") for name in ("vision", "speech", "batch")),
    )


def by_name(row: UserRow) -> str:
    return row.name


def test_users_are_a_tree_and_parents_sum_up_what_is_below() -> None:
    rows = user_rows(seen(tree()), by_name)
    assert [(row.name, row.depth) for row in rows] == [
        ("batch", 0),
        ("lab", 0),
        ("speech", 1),
        ("vision", 1),
    ]
    batch, lab, speech, vision = rows
    assert lab.cores.entitled == pytest.approx(8)
    assert vision.cores.entitled == pytest.approx(6)
    assert lab.cores.bought == pytest.approx(
        (speech.cores.bought or 0) + (vision.cores.bought or 0)
    )
    assert sum(row.cores.held or 0 for row in (batch, speech, vision)) == pytest.approx(12)
    assert (lab.jobs, lab.pods) == (2, 2)
    assert lab.memory.granted == 4 * GIB
    assert lab.utility is None
    assert vision.gain is not None
    assert vision.utility is not None
    assert vision.gain == pytest.approx(vision.utility / (vision.entitlement_utility or 1) - 1)


def test_a_user_with_less_than_its_entitlement_is_in_that_state() -> None:
    """Two equal users of four cores: what one of them requests leaves the other one core."""
    users = [entitlement("ada"), entitlement("bob")]
    jobs = [job(name, name, parallelFraction="0.9") for name in ("ada", "bob")]
    pods = [pod("ada", "ada", cpu="3"), pod("bob", "bob", cpu="0")]
    rules = market(cores={"floor": "Requests"})
    facts = seen(decided(rules, node("n1", "4"), *users, *jobs, *pods))
    ada, bob = user_rows(facts, lambda row: row.name)
    assert bob.reason == "BelowEntitlement"
    assert ada.cores.held == 3
    assert "holds 1.00" in bob.message
    assert bob.gain is not None
    assert bob.gain < -0.2


def test_a_namespace_without_jobs_is_told_of_once() -> None:
    page = TopPage.of(seen(tree()), TableOptions("all", "empty"))
    (line,) = [str(part) for part in page.render(wide=False) if "namespace" in str(part)]
    assert line == "There are no MarketJobs in namespace empty; -A shows the 3 in others."


def test_credits_are_exact_and_stand_against_their_mean() -> None:
    rows = {row.name: row for row in user_rows(seen(tree()), by_name)}
    leaves = [rows[name] for name in ("vision", "speech", "batch")]
    assert sum(row.credits_above_mean or 0.0 for row in leaves) == pytest.approx(0, abs=1e-3)
    assert all(len(row.credits or "") >= 13 for row in leaves)  # a million millions to begin with


def test_a_cycle_of_parents_is_shown_once_each() -> None:
    broken = decided(
        market(), entitlement("a", parent="b"), entitlement("b", parent="a"), entitlement("c")
    )
    rows = user_rows(seen(broken), by_name)
    assert sorted(row.name for row in rows) == ["a", "b", "c"]
    assert {row.name for row in rows if row.reason == "Cycle"} == {"a", "b"}


def test_siblings_are_sorted_by_what_is_asked() -> None:
    page = TopPage.of(seen(tree()), TableOptions("users", "", sort_by="entitled"))
    assert [row.name for row in page.users or ()] == ["lab", "vision", "speech", "batch"]


def with_use(world: World, threads_of_core: int = 1) -> Any:
    """Return facts with every pod using one and a half CPUs, on nodes with so many threads."""
    topology = {"cpus": "0-11", "cores": 12 // threads_of_core, "threads": 12, "sockets": 1}
    shown = {
        name: each.model_copy(
            update={"status": {"topology": {**topology, "numaNodes": 1, "memory": "1"}}}
        )
        for name, each in world.allocations.items()
    }
    names = [("lab", each.metadata.name) for each in world.objects.pods]
    used = Use(dict.fromkeys(names, Used(1.5, GIB)), {"n1": Used(6.0, 5 * GIB)})
    return seen(replace(world, allocations=shown), use=used)


@pytest.mark.parametrize(("threads", "cores"), [(1, 1.5), (2, 0.75)])
def test_use_is_told_in_the_cores_that_are_sold(threads: int, cores: float) -> None:
    """Kubernetes counts hardware threads, and the market physical cores."""
    facts = with_use(tree(), threads)
    assert [row.used for row in job_rows(facts)] == [cores] * 3
    rows = {row.name: row for row in user_rows(facts, by_name)}
    assert rows["lab"].cores.used == 2 * cores
    assert rows["lab"].memory.used == 2 * GIB
    (row,) = node_rows(facts)
    assert (row.used, row.memory_used) == (4 * cores, 5 * GIB)


def test_cpu_time_is_what_agents_count_with_or_without_a_metrics_api() -> None:
    world = tree()
    counted = {}
    for name, each in world.allocations.items():
        pods = [
            {
                "podUID": grant.pod_uid,
                "namespace": grant.namespace,
                "name": grant.name,
                "state": "Enforced",
                "usedCpus": "0.5",
            }
            for grant in each.spec.grants
        ]
        status = {**(each.status or {}), "pods": pods}
        counted[name] = each.model_copy(update={"status": status})
    facts = seen(replace(world, allocations=counted))
    assert [row.used for row in job_rows(facts)] == [0.5] * 3
    rows = {row.name: row for row in user_rows(facts, by_name)}
    assert (rows["lab"].cores.used, rows["lab"].memory.used) == (1.0, None)
    job = next(iter(facts.jobs.values()))
    assert [pod.used for pod in explain_job(facts, job).pods] == [0.5]
    both = replace(facts, use=with_use(world).use)
    assert [(row.used, row.memory_used) for row in job_rows(both)] == [(0.5, GIB)] * 3


def test_what_users_use_is_not_told_where_not_all_of_their_jobs_are_seen() -> None:
    facts = replace(with_use(tree()), namespace="lab")
    assert all(row.cores.used is None for row in user_rows(facts, by_name))
    assert all(row.used for row in job_rows(facts))


def test_jobs_show_what_they_have_pay_and_get_done() -> None:
    rows = {row.name: row for row in job_rows(seen(tree()))}
    one = rows["of-vision"]
    assert (one.pods, one.granted, one.entitlement, one.source) == (1, 1, "vision", "Given")
    assert one.held == one.each[0].held
    assert one.price == pytest.approx((one.spend or 0) / (one.bought or 1))
    assert one.memory == 2 * GIB
    assert job_rows(seen(tree()), "elsewhere") == []


HELD: dict[str, list[float]] = {
    "4": [4, 4],
    "3-5": [5, 3],
    "0.4": [0.4],
    "0.25-2.333": [2.333, 1, 0.25],
    "-": [],
}


@pytest.mark.parametrize(("shown", "held"), HELD.items(), ids=HELD.keys())
def test_what_pods_have_is_told_shortly(shown: str, held: list[float]) -> None:
    assert per_pod([PodRow("p", "n1", "Granted", each) for each in held]) == shown


def test_a_status_that_is_older_than_the_spec_is_no_verdict() -> None:
    facts = seen(tree())
    newer = replace(facts.jobs["lab", "of-batch"], generation=2)
    (row,) = job_rows(replace(facts, jobs={("lab", "of-batch"): newer}))
    assert (row.ready, row.reason) == ("Unknown", "Changed")


def states_of_nodes() -> dict[str, tuple[World, dict[str, Any]]]:
    there = tree()
    off = node("n1")
    off["metadata"]["labels"] = {"walras.dev/mode": "off"}
    shut = decided(market(), off)
    behind = enforced(there)
    (known,) = behind.allocations.values()
    ready = {
        "type": "Ready", "status": "True", "reason": "Enforced", "message": "all is held",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }  # fmt: skip
    status = {**(known.status or {}), "conditions": [ready]}
    held = replace(behind, allocations={"n1": known.model_copy(update={"status": status})})
    older = {**status, "epoch": known.spec.epoch - 1}
    late = replace(behind, allocations={"n1": known.model_copy(update={"status": older})})
    silent = Leases(known=True, operator=NOW, operator_alive=True, agents={"n1": False})
    return {
        "Awaited": (there, {}),
        "Enforced": (held, {}),
        "Behind": (late, {}),
        "Closed": (shut, {}),
        "Silent": (there, {"leases": silent}),
    }


@pytest.mark.parametrize("state", ["Awaited", "Enforced", "Behind", "Closed", "Silent"])
def test_nodes_say_how_their_agents_are(state: str) -> None:
    world, more = states_of_nodes()[state]
    (row,) = node_rows(seen(world, **more))
    assert row.agent == state
    assert row.message


def test_nodes_show_what_they_sell_and_to_how_many() -> None:
    (row,) = node_rows(seen(tree()))
    assert (row.cores, row.sold, row.pods, row.memory) == (12, 12.0, 3, 4 * GIB)
    assert row.price == pytest.approx(1)
    assert node_rows(replace(seen(tree()), nodes={}), selected=True) == []


def test_a_healthy_market_warns_of_nothing() -> None:
    facts = seen(tree())
    assert warnings_of(facts) == ()
    assert remarks_of(facts) == ()
    assert headline_of(facts).startswith("AmdahlBidding: 12 cores, 1 node, 3 pods of 3 jobs and 3")


DOUBTS: dict[str, tuple[dict[str, Any], str]] = {
    "an operator that is gone": (
        {"leases": Leases(known=True, operator=NOW - timedelta(minutes=5))},
        "the operator is not running: it last renewed its Lease 5m ago",
    ),
    "an operator that never was": (
        {"leases": Leases(known=True)},
        "the operator has never run in this cluster (there is no Lease walras-operator in name",
    ),
    "no Market": ({"market": None}, "there is no Market named default"),
}


@pytest.mark.parametrize(("more", "line"), DOUBTS.values(), ids=DOUBTS.keys())
def test_what_makes_figures_doubtful_is_said(more: dict[str, Any], line: str) -> None:
    (found,) = warnings_of(seen(tree(), **more))
    assert found.startswith(line)


def test_without_a_right_to_leases_statuses_that_lag_make_one_doubt() -> None:
    facts = seen(tree(), leases=Leases())
    assert warnings_of(facts) == ()
    newer = replace(facts.entitlements["batch"], generation=2)
    (line,) = warnings_of(replace(facts, entitlements={"batch": newer}))
    assert "Entitlement batch" in line


def test_a_market_that_cannot_be_seen_is_not_taken_for_none() -> None:
    facts = seen(tree(), market=None, withheld=("get markets.walras.dev", "list nodes"))
    assert warnings_of(facts) == ()
    (line,) = remarks_of(facts)
    assert "get markets.walras.dev, list nodes" in line


def test_what_waits_in_kueue_is_named_below_the_tables_and_beside_node_pools() -> None:
    queues = [
        cluster_queue("vision", "8"),
        local_queue("lab", "main", "vision"),
        workload("lab", "a", "main", "2", pods=3),
        workload("lab", "b", "main", "500m"),
    ]
    quotas = Quotas("Kueue", quotas=tuple(filter(None, map(read_quota, queues))))
    label = {"app.kubernetes.io/managed-by": "walras-operator"}
    claim = entitlement("vision", shares=8000)
    claim["metadata"]["labels"] = label
    world = decided(market(entitlements={"from": "Kueue"}), node(), claim, quotas=quotas)
    lines = [
        str(part) for part in TopPage.of(seen(world), TableOptions("all", "")).render(wide=False)
    ]
    said = "waiting in Kueue to be admitted, without cores: vision 2 Workloads (6.5 CPUs)"
    assert f"note: {said}" in lines
    told = seen(world).market
    assert told is not None
    (line,) = waiting_for_quota(told.status)
    assert line.startswith("2 Workloads with 6.5 CPUs wait in Kueue for quota; the worth of more")
    (line,) = waiting_for_quota(seen(world).entitlements["vision"].status)
    assert line == "2 Workloads with 6.5 CPUs wait in Kueue for quota"
    assert list(waiting_in_queues(seen(tree()))) == []


def test_quotas_that_are_not_followed_are_said_above_all() -> None:
    quotas = Quotas("Kueue", Problem("KueueMissing", "install Kueue"))
    (line,) = warnings_of(seen(decided(market(), node(), quotas=quotas)))
    assert line == "Market default: install Kueue"


def test_mode_observe_is_said_above_all() -> None:
    (line,) = warnings_of(seen(decided(market(mode="observe"), node())))
    assert "mode observe" in line
