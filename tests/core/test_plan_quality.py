"""The figures by which mechanisms are compared, on plans whose figures are known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.analysis.plan_quality import PlanQuality, evaluate_plan, proportional_progress
from walras.clearing import clear
from walras.market.snapshot import Entitlement, Job, Node, Policy, Snapshot
from walras.speedup.amdahls_law import SPARED


def cluster(first: float, second: float, shares: int = 1) -> Snapshot:
    """Two users with a job each on a node of 12 cores."""
    return Snapshot(
        (
            Entitlement("x", shares, None, frozenset({"a"})),
            Entitlement("y", 1, None, frozenset({"a"})),
        ),
        (Node("n", 12),),
        (Job("a", "j", "x", "n", first), Job("a", "k", "y", "n", second)),
    )


def test_equal_users_in_proportion_are_uniform_and_envy_nobody() -> None:
    snapshot = cluster(0.9, 0.9)
    plan = clear(snapshot, Policy("ProportionalSharing"))
    result = evaluate_plan(snapshot, plan)
    assert result.uniformity == result.envy_freeness == 1
    assert result.entitlement_error == 0
    assert result.held_progress == result.system_progress == pytest.approx(6 / (0.9 + 0.1 * 6))


def test_who_gets_less_than_its_part_of_anothers_envies_it() -> None:
    """Greedy gives a job of f = 0.5 little; with the other's cores it would do better."""
    snapshot = cluster(0.5, 0.99)
    plan = clear(snapshot, Policy("Greedy"))
    held = {grant.name: grant.bought for grant in plan.grants}
    result = evaluate_plan(snapshot, plan)

    def speedup(x: float, f: float) -> float:
        return x / (f + (1 - f) * x)

    assert result.envy_freeness == pytest.approx(speedup(held["j"], 0.5) / speedup(held["k"], 0.5))
    assert result.entitlement_error == pytest.approx(abs(held["j"] - 6) / 6)
    mine = speedup(held["j"], 0.5) / speedup(6, 0.5)
    assert result.uniformity == pytest.approx(mine / (speedup(held["k"], 0.99) / speedup(6, 0.99)))


def test_another_users_cores_are_scaled_to_ones_own_budget() -> None:
    snapshot = cluster(0.9, 0.9, shares=3)
    result = evaluate_plan(snapshot, clear(snapshot, Policy("ProportionalSharing")))
    assert result.envy_freeness == pytest.approx(1)


def test_what_a_job_cannot_use_is_not_envied() -> None:
    snapshot = cluster(0.9, 0.9)
    jobs = (replace(snapshot.jobs[0], max_cores=2), snapshot.jobs[1])
    bounded = replace(snapshot, jobs=jobs)
    assert evaluate_plan(bounded, clear(bounded)).envy_freeness == pytest.approx(1)


def test_too_many_to_compare_are_not_compared() -> None:
    snapshot = cluster(0.9, 0.9)
    assert evaluate_plan(snapshot, clear(snapshot), comparisons=3).envy_freeness is None


@examples(50)
@given(st.floats(0.05, 0.99), st.floats(0.05, 0.99), st.integers(1, 5))
def test_the_market_leaves_nobody_envious(first: float, second: float, shares: int) -> None:
    """Anybody could buy the other's cores, scaled to its budget, and gain as good as nothing."""
    snapshot = cluster(first, second, shares)
    result = evaluate_plan(snapshot, clear(snapshot))
    assert result.envy_freeness is not None
    assert result.envy_freeness >= 1 - SPARED - 1e-5
    assert 0 < result.uniformity <= 1


def test_a_plan_of_nothing_is_without_fault() -> None:
    empty = Snapshot((), (), ())
    assert evaluate_plan(empty, clear(empty)) == PlanQuality(0.0, 0.0, 0.0, 1.0, 1.0)


@given(st.floats(0.05, 0.99), st.floats(0.05, 0.99), st.integers(1, 5), st.integers(1, 9))
def test_proportional_progress_is_that_of_the_mechanism(
    first: float, second: float, shares: int, most: int
) -> None:
    snapshot = cluster(first, second, shares)
    bounded = (replace(snapshot.jobs[0], max_cores=most), *snapshot.jobs[1:])
    snapshot = replace(snapshot, jobs=bounded)
    rival = clear(snapshot, Policy(cores="ProportionalSharing"))
    assert proportional_progress(snapshot, clear(snapshot)) == pytest.approx(rival.system_progress)
