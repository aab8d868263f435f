"""Bids are lowered by what programs lose beside others, and over-estimates move no cores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.analysis.forecast import forecast
from walras.analysis.plan_quality import evaluate_plan, proportional_progress
from walras.analysis.sensitivity import sensitivity
from walras.clearing import clear
from walras.division.interference import lower_fractions
from walras.market.snapshot import Entitlement, Job, Node, Policy, Snapshot, identity

PENALTIES = {("stream", "stream"): 0.3, ("stream", "solve"): 0.1, ("solve", "stream"): 0.2}


def job(name: str, program: str, owner: str = "x", node: str = "n", f: float = 0.9) -> Job:
    return Job("a", name, owner, node, f, program=program)


def market(*jobs: Job, cores: int = 12) -> Snapshot:
    users = (Entitlement("x", 1, None, frozenset("a")), Entitlement("y", 1, None, frozenset("a")))
    nodes = tuple(Node(name, cores) for name in dict.fromkeys(each.node for each in jobs))
    return Snapshot(users, nodes, jobs, PENALTIES)


def fractions(*jobs: Job) -> list[float]:
    return [each.fraction for each in lower_fractions(jobs, PENALTIES).jobs]


def test_a_loss_of_some_percent_lowers_the_fraction_by_as_many() -> None:
    """Section VI-E reduces F by the percentage that performance degrades."""
    assert fractions(job("j", "stream"), job("k", "solve")) == pytest.approx([0.81, 0.72])


def test_the_neighbour_that_costs_most_counts() -> None:
    beside_its_kind = fractions(job("j", "stream"), job("k", "solve"), job("l", "stream"))
    assert beside_its_kind == pytest.approx([0.63, 0.72, 0.63])


@pytest.mark.parametrize(
    "neighbours",
    [(), (job("k", "other"),), (job("k", "solve", node="m"),)],
    ids=["alone", "beside one that it was not measured with", "on another node"],
)
def test_where_nothing_was_measured_nothing_is_lost(neighbours: tuple[Job, ...]) -> None:
    assert fractions(job("j", "stream"), *neighbours)[0] == 0.9


def test_a_gain_beside_another_is_no_loss() -> None:
    pair = (job("j", "stream"), job("k", "solve"))
    assert lower_fractions(pair, {("stream", "solve"): -0.1}).jobs == pair


def test_what_was_measured_among_neighbours_has_the_loss_in_it() -> None:
    for beside in (None, frozenset({"solve"})):
        mine = replace(job("j", "stream"), measured_beside=beside)
        assert fractions(mine, job("k", "solve")) == pytest.approx([0.9, 0.72])


def test_what_was_measured_beside_one_program_loses_beside_another() -> None:
    mine = replace(job("j", "stream"), measured_beside=frozenset({"other"}))
    assert fractions(mine, job("k", "solve"))[0] == pytest.approx(0.81)


def test_losses_lower_bids_and_the_sentence_says_so() -> None:
    jobs = (
        job("s", "stream", "x", "n"),
        job("t", "other", "x", "m"),
        job("u", "solve", "y", "n"),
        job("v", "other", "y", "m"),
    )
    snapshot = market(*jobs)
    snapshot = replace(snapshot, penalties={("stream", "solve"): 0.4})
    ignored = clear(snapshot, Policy(interference=False))
    counted = clear(snapshot)
    assert counted.grants[0].bought < ignored.grants[0].bought
    assert counted.grants[1].bought > ignored.grants[1].bought
    assert counted.grants[0].fraction == pytest.approx(0.54)
    assert counted.grants[0].reason.endswith(
        "its parallel fraction of 0.900 counts as 0.540, "
        "since it loses 40.0% of its throughput beside solve"
    )
    assert "counts as" not in "".join(grant.reason for grant in counted.grants[1:])
    assert ignored == clear(replace(snapshot, penalties={}))


def test_scores_and_forecasts_go_by_what_is_left() -> None:
    pair = (job("j", "stream", "x"), job("k", "solve", "y"))
    disturbed = market(*pair)
    known = replace(disturbed, jobs=lower_fractions(pair, PENALTIES).jobs, penalties={})
    plan, same = clear(disturbed), clear(known)
    assert evaluate_plan(disturbed, plan) == evaluate_plan(known, same)
    assert proportional_progress(disturbed, plan) == proportional_progress(known, same)
    alone = dict.fromkeys(map(identity, pair), 100.0)
    lasts = forecast(replace(disturbed, jobs=pair[:1]), Policy(), alone)
    assert lasts[identity(pair[0])] < forecast(disturbed, Policy(), alone)[identity(pair[0])]


@examples(40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_no_fraction_rises_or_leaves_its_range(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    programs = ["p", "q", "r"]
    jobs = [
        job(f"j{number}", programs[random.integers(3)], node=f"n{random.integers(2)}",
            f=float(random.uniform(0.001, 1)))
        for number in range(count)
    ]  # fmt: skip
    penalties = {
        (one, other): float(random.uniform(-0.2, 1))
        for one in programs for other in programs if random.uniform() < 0.7
    }  # fmt: skip
    disturbed = lower_fractions(jobs, penalties)
    for before, after in zip(jobs, disturbed.jobs, strict=True):
        assert 0 < after.fraction <= before.fraction
        assert (after.fraction < before.fraction) <= (identity(before) in disturbed.losses)
        assert replace(after, fraction=before.fraction) == before


def test_nothing_moves_under_a_mechanism_that_knows_no_fractions() -> None:
    snapshot = market(job("j", "p", "x"), job("k", "q", "y"))
    shifts = sensitivity(snapshot, Policy("ProportionalSharing", hysteresis=0.5))
    assert {(each.mean_error, each.cores_moved) for each in shifts} == {(0.0, 0)}
    assert [each.user for each in shifts] == ["x"] * 3 + ["y"] * 3
