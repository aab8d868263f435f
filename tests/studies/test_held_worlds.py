"""Clusters of the study `held`, and how its rivals divide them: worked examples, and a judge."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from numpy.random import default_rng

from held_clusters import verdicts
from walras.clearing import clear
from walras.market.snapshot import Policy
from walras_studies.held.runs import (
    BUSY,
    by_grants,
    by_requests,
    by_shares,
    by_static_quotas,
    divide,
    in_whole_cores,
    live_through,
)
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
    for requests, expected in (
        ((1.0, 0.25), [3.2, 0.8]),
        ((1.0, 0.0), [4 * 1024 / 1026, 4 * 2 / 1026]),
    ):
        there = pods(*requests)
        assert divide(by_requests(world, there), there) == pytest.approx(expected)


def test_kubernetes_gives_what_a_pod_has_no_threads_for_to_the_others() -> None:
    world = ClusterMonth((1, 1, 1), (4,), ())
    first, *others = pods(1.0, 0.5, 0.25)
    there = [replace(first, threads=1), *others]
    assert divide(by_requests(world, there), there) == pytest.approx([1, 2, 1])


def test_weights_by_shares_divide_a_users_shares_among_its_pods_on_the_node() -> None:
    world, there = ClusterMonth((3, 1), (8,), ()), pods(0, 0, 0, users=(0, 0, 1))
    groups = by_shares(world, there)
    assert divide(groups, there) == pytest.approx([3, 3, 2])
    assert divide(groups, there[1:]) == pytest.approx([8 * 1.5 / 2.5, 8 * 1 / 2.5])


def test_pods_that_compute_divide_what_others_leave_by_what_they_bought() -> None:
    world, there = ClusterMonth((1, 1, 1), (4,), ()), pods(0, 0, 0)
    plan = bought(2.0, 1.5, 0.5)
    held = tuple(each._replace(held=each.bought) for each in plan.grants)
    groups = by_grants(world, there, replace(plan, grants=held))
    assert divide(groups, there) == pytest.approx([2, 1.5, 0.5])
    assert divide(groups, there[1:]) == pytest.approx([3, 1])


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
    world, random = ClusterMonth((1, 1), (4,), (pod,)), default_rng(1)
    found, at_moments = live_through(world, [0.0, 5.0, 20.0], 7, random)
    speeds = {row.policy: row.speed for row in found}
    four, two = 4 / (0.9 + 0.1 * 4), 2 / (0.9 + 0.1 * 2)
    assert speeds == pytest.approx(
        {
            "Walras": four,
            "Kubernetes": four,
            "weights by shares": four,
            "static quotas": two,
            "whole cores": four,
        }
    )
    for row in at_moments:
        assert row.progress == pytest.approx(speeds[row.policy])
    assert {row.busy for row in at_moments} == set(BUSY)
    assert {row.policy for row in found if row.short} == {"static quotas"}
    assert {row.number for row in found} == {7}
