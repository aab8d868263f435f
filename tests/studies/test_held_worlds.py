"""Clusters of the study `held`, and how its rivals divide them: worked examples, and a judge."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from held_clusters import verdicts
from walras.clearing import clear
from walras.market.snapshot import Policy
from walras_studies.held.runs import by_requests, by_static_quotas, in_whole_cores, live_through
from walras_studies.held.worlds import ClusterMonth, Pod, draw_month

if TYPE_CHECKING:
    from walras.market.plan import Plan

POLICY = Policy(hysteresis=0.02)


def pods(*requests: float, threads: int = 16, users: tuple[int, ...] = ()) -> list[Pod]:
    return [
        Pod(f"pod-{number}", user, 0, 0.0, 1.0, 0.9, threads, request)
        for number, request in enumerate(requests)
        for user in ((*users, *range(len(requests)))[number],)
    ]


def bought(*cores: float) -> Plan:
    world = ClusterMonth((1,) * len(cores), (4,), tuple(pods(*(0.0 for _ in cores))))
    plan = clear(world.snapshot(0.0), POLICY)
    grants = (each._replace(bought=has) for each, has in zip(plan.grants, cores, strict=True))
    return replace(plan, grants=tuple(grants))


def test_kubernetes_divides_by_requests() -> None:
    world = ClusterMonth((1, 1), (4,), ())
    assert by_requests(world, pods(1.0, 0.25)) == pytest.approx([3.2, 0.8])
    few = by_requests(world, pods(1.0, 0.0))
    assert few == pytest.approx([4 * 1024 / 1026, 4 * 2 / 1026])


def test_kubernetes_gives_what_a_pod_has_no_threads_for_to_the_others() -> None:
    world = ClusterMonth((1, 1, 1), (4,), ())
    first, *others = pods(1.0, 0.5, 0.25)
    found = by_requests(world, [replace(first, threads=1), *others])
    assert found == pytest.approx([1, 2, 1])


def test_static_quotas_are_parts_of_the_users_share() -> None:
    world = ClusterMonth((3, 1), (8,), ())
    assert by_static_quotas(world, pods(0, 0, 0, users=(0, 0, 1))) == [3, 3, 2]


def test_whole_cores_go_to_the_largest_fractions_and_to_a_pool() -> None:
    world = ClusterMonth((1, 1, 1), (4,), ())
    found = in_whole_cores(world, pods(0, 0, 0), bought(2.7, 0.8, 0.5))
    assert found == pytest.approx([3, 1 * 0.8 / 1.3, 1 * 0.5 / 1.3])
    assert in_whole_cores(world, pods(0, 0), bought(2.4, 1.6)) == [2, 2]


def test_nobody_requests_more_than_seven_tenths_of_its_share() -> None:
    for number in range(10):
        world = draw_month(200, [1, number])
        for hour in range(0, 200, 10):
            asked: dict[tuple[int, int], float] = {}
            for pod in world.present(hour):
                key = pod.user, pod.node
                asked[key] = asked.get(key, 0.0) + pod.request
            for (user, node), cores in asked.items():
                share = world.shares[user] / sum(world.shares) * world.cores[node]
                assert cores <= 0.7 * share + 1e-9


def test_a_judge_that_knows_no_market_agrees_on_what_shares_alone_could_give() -> None:
    for number in range(5):
        world = draw_month(100, [2, number])
        snapshot = world.snapshot(50.0)
        plan = clear(snapshot, POLICY)
        for user in plan.users:
            verdict = verdicts(snapshot, POLICY, plan)[user.name]
            assert verdict.fits
            assert user.entitlement_utility == pytest.approx(verdict.entitled, rel=2e-3)


def test_a_month_of_one_pod_is_the_same_for_all_but_quotas() -> None:
    """One of two users has a pod with four threads on a node of four cores."""
    pod = Pod("pod-0", 0, 0, 0.0, 10.0, 0.9, 4, 0.0)
    found = live_through(ClusterMonth((1, 1), (4,), (pod,)), [0.0, 5.0, 20.0], 7)
    speeds = {row.policy: row.speed for row in found}
    four, two = 4 / (0.9 + 0.1 * 4), 2 / (0.9 + 0.1 * 2)
    assert speeds == pytest.approx(
        {"Walras": four, "Kubernetes": four, "static quotas": two, "whole cores": four}
    )
    assert {row.policy for row in found if row.short} == {"static quotas"}
    assert {row.number for row in found} == {7}
