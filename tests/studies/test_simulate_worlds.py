"""Worlds and computations of the studies in which an error would change no verdict."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from walras_studies.amdahl.populations import FRACTIONS, draw_population
from walras_studies.cooper.worlds import BANDWIDTH, MIXES, WORLDS, draw_jobs, losses
from walras_studies.karma.demands import FAIR_SHARE, draw_demands
from walras_studies.lying.runs import JOBS_OF_USER, SERVERS, draw_market
from walras_studies.month.policies import POLICIES, live_through
from walras_studies.month.world import CORES, MEMORY, MonthWorld, draw_world
from walras_studies.page import page
from walras_studies.programs.runs import Program
from walras_studies.programs.study import simulated_fractions
from walras_studies.registry import load
from walras_studies.results import Judgement, Result, read, write
from walras_studies.study import Finding, mean, pick, silent, steps

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("servers", "density"), [(0.25, 24), (4.0, 2)])
def test_every_user_has_a_job_and_servers_have_as_many_as_their_density_says(
    servers: float, density: int
) -> None:
    market = draw_population(40, servers, density, [1])
    assert set(market.user.tolist()) == set(range(40))
    on_server = np.bincount(market.server, minlength=len(market.capacities))
    assert len(on_server) == 40 * servers
    assert on_server.min() >= density // 2
    assert np.isin(market.fraction, FRACTIONS).all()


def test_demands_are_as_bursty_as_the_paper_prints() -> None:
    """Section 2, figure 1; see the core's own tests of its claims."""
    demands = np.concatenate(
        [draw_demands(100, 900, np.random.default_rng(seed)) for seed in range(4)], axis=1
    )
    mean_demand, deviation = demands.mean(axis=0), demands.std(axis=0)
    assert 0.4 < (deviation >= 0.5 * mean_demand).mean() < 0.75
    assert 0.15 < (deviation >= mean_demand).mean() < 0.3
    assert mean_demand.mean() == pytest.approx(FAIR_SHARE, rel=0.07)


@pytest.mark.parametrize("world", WORLDS)
def test_penalties_grow_with_the_co_runners_bandwidth(world: str) -> None:
    drawn = [losses(world, np.random.default_rng(seed)) for seed in range(20)]
    beside = np.mean(drawn, axis=(0, 1))
    assert np.corrcoef(beside, BANDWIDTH)[0, 1] > 0.9


def test_mixes_lean_the_way_of_their_names() -> None:
    drawn = {mix: BANDWIDTH[draw_jobs(mix, 4000, np.random.default_rng(1))].mean() for mix in MIXES}
    assert drawn["Beta-Low"] < drawn["Gaussian"] < drawn["Beta-High"]
    assert drawn["Uniform"] == pytest.approx(BANDWIDTH.mean(), rel=0.05)


def test_liars_live_in_markets_of_eight_servers() -> None:
    market = draw_market(50, np.random.default_rng(1))
    assert len(market.capacities) == SERVERS
    for user in range(50):
        assert len(set(market.server[market.user == user])) == JOBS_OF_USER


@pytest.fixture(scope="module")
def world() -> MonthWorld:
    return draw_world(users=12, nodes=3, hours=12, seed=1)


def test_jobs_know_their_demand_for_every_hour(world: MonthWorld) -> None:
    assert [life.start for life in world.lives] == sorted(life.start for life in world.lives)
    for life in world.lives:
        assert len(life.demand) == life.end - life.start
        assert 0 <= life.node < world.nodes
    (shares,) = {each.shares for each in world.snapshot(0, alike=True).entitlements}
    assert shares == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_gives_what_is_not_there(world: MonthWorld, policy: str) -> None:
    hours = list(live_through(world, policy))
    assert len(hours) == world.hours
    for hour, found in enumerate(hours):
        assert set(found.users) == {life.user for life in world.present(hour)}
        assert sum(found.memory) <= world.nodes * MEMORY
        assert all(has <= wants for has, wants in zip(found.memory, found.demand, strict=True))
        assert all(
            utility <= speed * (1 + 1e-9)
            for utility, speed in zip(found.utility, found.speedup, strict=True)
        )
        assert max(found.speedup) <= CORES
        assert 0 <= found.moved <= world.nodes * CORES
    assert hours[0].moved == 0


def test_f_of_tasks_falls_only_where_they_do_not_fill_the_cores() -> None:
    program = Program("some", "", (), (), tasks=48)
    by_cores = {row.cores: row.fraction for row in simulated_fractions(program, 0.9)}
    assert all(by_cores[cores] == pytest.approx(0.9) for cores in (2, 4, 8, 12, 16, 24, 48))
    few = Program("few", "", (), (), tasks=11)
    by_cores = {row.cores: row.fraction for row in simulated_fractions(few, 0.9)}
    assert by_cores[2] < 0.9
    assert by_cores[48] < by_cores[12] < 0.9
    assert simulated_fractions(Program("none", "", (), ()), 0.9) == []


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        (Finding("", direction=True), "reproduced"),
        (Finding("", direction=True, better=True), "better"),
        (Finding("", direction=True, figure=False), "direction only"),
        (Finding("", direction=False, better=True), "not reproduced"),
        (Finding("", direction=True, judged=False), "not judged"),
    ],
)
def test_a_verdict_says_what_was_found(finding: Finding, verdict: str) -> None:
    assert finding.verdict == verdict


def test_progress_is_told_before_each_step_and_at_the_end() -> None:
    told: list[tuple[float, str]] = []
    assert list(steps([5, 6], lambda part, doing: told.append((part, doing)), "step")) == [5, 6]
    assert told == [(0.0, "step 5"), (0.5, "step 6"), (1.0, "done")]


def test_means_are_of_the_rows_picked() -> None:
    rows = [Finding("a", direction=True), Finding("a", direction=False)]
    assert pick(rows, direction=False) == rows[1:]
    assert mean(rows, "direction", ours="a") == 0.5
    assert math.isnan(mean(rows, "direction", ours="b"))


def result(paper: str) -> Result:
    judged = (Judgement("1", "it is | so", "2 %", "3 %", "direction only", "why"),)
    return Result("abacus", "A title", paper, "Stand-ins.", 1, False, 2.0, "m", judged, ())


@pytest.mark.long
def test_results_are_read_as_they_were_written_and_json_has_no_infinities(tmp_path: Path) -> None:
    study = load("abacus")
    rows = study.run(1, study.quick, silent)
    assert any(math.isinf(row.ratio) for row in rows.estimates)
    write(study, rows, result("A paper"), tmp_path)
    assert read(tmp_path) == result("A paper")

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    json.loads((tmp_path / "rows.json").read_text(), parse_constant=refuse)


def test_the_page_leaves_out_the_papers_column_where_there_is_no_paper() -> None:
    of_paper, of_ours = page([result("A paper")]), page([result("")])
    assert "| 1 | it is / so | 2 % | 3 % | **direction only**: why |" in of_paper
    assert "| it is / so | 3 % | **direction only**: why |" in of_ours
    assert "Paper:" not in of_ours
