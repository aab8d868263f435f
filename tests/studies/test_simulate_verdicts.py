"""Verdicts on claims: by all draws and parts of them, by rules, and by the cores of a machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from walras_studies.abacus.runs import Rounds
from walras_studies.abacus.study import STUDY as ABACUS
from walras_studies.abacus.study import AbacusRows
from walras_studies.karma.runs import BEYOND_MEMORY, closed_throughput, throughput
from walras_studies.karma.study import as_all_printed
from walras_studies.lying.study import PROMISES, LyingRows, LyingSize
from walras_studies.lying.study import STUDY as LYING
from walras_studies.page import page
from walras_studies.programs.study import STUDY as PROGRAMS
from walras_studies.programs.study import Fraction, ProgramRows, Simulated, Time
from walras_studies.results import Result, judge
from walras_studies.study import DRAWS, Claim, Finding, Study, as_printed, draws, mean, silent

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True, slots=True)
class Drawn:
    number: int
    value: float


@dataclass(frozen=True, slots=True)
class Worked:
    value: float


@dataclass(frozen=True, slots=True)
class Rows:
    drawn: tuple[Drawn, ...]
    worked: tuple[Worked, ...] = (Worked(1.0),)


def study(judged: Callable[[Rows], Finding], *, measured: bool = False) -> Study[None, Rows]:
    return Study(
        "title",
        "paper",
        "data",
        lambda *_: Rows(()),
        None,
        None,
        (Claim("1", "it grows", "2", judged),),
        lambda _: (),
        measured=measured,
        missing=(("fig. 3", "its machine is not to be had"),),
    )


def above(rows: Rows) -> Finding:
    """Judge the claim that values are above 0; the figure is above 1, and better above 2."""
    value = mean(rows.drawn, "value")
    return Finding(f"{value:.2f}", value > 0, value > 1, better=value > 2, reason="too few")


def drawn(*values: float) -> Rows:
    """Return forty draws, two in each part, of these values in turn."""
    return Rows(tuple(Drawn(k, values[k % DRAWS % len(values)]) for k in range(2 * DRAWS)))


@pytest.mark.parametrize(
    ("values", "verdict", "spread"),
    [
        ((1.5, 1.6), "reproduced", "20 of 20"),
        ((1.5, 2.6, 2.8), "reproduced", "20 of 20"),  # better on average, not in nine tenths
        ((2.5, 2.6), "better", "20 of 20"),
        # One draw of four makes up for three that do not meet the figure.
        ((0.5, 0.6, 0.5, 9.0), "direction only", "20 of 20, figure 5"),
        # Two draws of three are not enough.
        ((1.5, 1.6, 0.9), "direction only", "20 of 20, figure 14"),
        ((-1.0, -2.0, 1.2, 0.2), "not reproduced", "10 of 20, figure 5"),
    ],
)
def test_a_verdict_is_no_better_than_most_draws(
    values: tuple[float, ...], verdict: str, spread: str
) -> None:
    (found,) = judge(study(above), drawn(*values))
    assert (found.verdict, found.spread) == (verdict, spread)
    if verdict == "direction only":
        assert re.fullmatch(
            r"true on average, but in only (5|14) of 20 parts of the draws", found.reason
        )


def test_what_is_not_drawn_has_no_spread() -> None:
    for rows in (drawn(1.5), Rows(drawn(1.5, 1.6).drawn[: DRAWS - 1])):
        (found,) = judge(study(above), rows)
        assert found.spread == ""
    (measured,) = judge(study(above, measured=True), drawn(1.5, 1.6))
    assert measured.spread == ""


def test_parts_share_no_draw_and_have_all_that_is_not_drawn() -> None:
    parts = draws(drawn(1.0, 2.0))
    numbers = [row.number for part in parts for row in part.drawn]
    assert sorted(numbers) == list(range(2 * DRAWS))
    assert len(parts) == DRAWS
    assert all(part.worked == (Worked(1.0),) for part in parts)


def test_the_page_lists_what_is_not_repeated_and_the_spread() -> None:
    of = study(above)
    result = Result(
        "s", of.title, of.paper, of.stands_in, 1, False, 1.0, "a machine",
        judge(of, drawn(1.5, 1.6)), (), of.missing,
    )  # fmt: skip
    text = page([result])
    assert "| where | claim | paper | ours | verdict | draws |" in text
    assert "| **reproduced**: too few | 20 |" in text
    assert "- fig. 3: its machine is not to be had." in text


def test_throughput_is_in_proportion_to_slices_and_falls_faster_with_one_query() -> None:
    demands = np.array([[10, 0], [10, 4]])
    slices = np.array([[5, 3], [10, 1]])
    np.testing.assert_allclose(throughput(slices, demands), [0.75, 0.25])
    waiting = 2 / (1 + BEYOND_MEMORY)
    expected = [(waiting + 1) / 2, 1 / (0.25 + 0.75 * BEYOND_MEMORY)]
    np.testing.assert_allclose(closed_throughput(slices, demands), expected)


def measured_on(cores: int, disturbed: float = 0.0) -> ProgramRows:
    programs = [
        Fraction(name, "", value + 0.01, value, value, disturbed)
        for name, value in (("a", 0.8), ("b", 0.95))
    ]
    times = [Time("a", each, 1.0, 1.05, -0.05) for each in (1, cores)]
    return ProgramRows(tuple(programs), tuple(times), (Simulated("a", 8, 2, 0.9),) * 2)


def test_parallel_fractions_need_eight_cores_and_the_reason_names_the_command() -> None:
    found = {each.claim: each for each in judge(PROGRAMS, measured_on(2))}
    fractions = found["F from sampled data is close to F on all of it"]
    assert fractions.verdict == "not judged"
    assert "this machine has 2" in fractions.reason
    assert "`walras simulate programs`" in fractions.reason
    on_eight = {each.claim: each.verdict for each in judge(PROGRAMS, measured_on(8))}
    assert on_eight["F from sampled data is close to F on all of it"] == "reproduced"
    busy = judge(PROGRAMS, measured_on(8, disturbed=0.3))
    assert all(each.verdict == "not judged" for each in busy)


def test_the_guide_to_karma_has_the_studys_figures() -> None:
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if "users gain by becoming conformant" in line)
    ours = [float(each) for each in re.findall(r"(\d\.\d\d) at \d+ %", row)]
    guide = (DOCS / "mechanisms/karma.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"gains a factor of (\d\.\d\d) [^)]*\) to (\d\.\d\d)", guide)
    assert [float(each) for each in said] == [min(ours), max(ours)]


@pytest.mark.parametrize(
    ("ours", "printed", "so"),
    [(2.0, 1.9, True), (1.7, 1.9, True), (2.7, 1.9, False), (1.2, 1.9, False)],
)
def test_a_printed_figure_is_missed_to_either_side(ours: float, printed: float, so: bool) -> None:
    assert as_printed(ours, printed, 0.15) == so


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        ((10.0, 27.0), "direction only"),
        ((10.0, 19.0), "reproduced"),
        ((10.0, 9.0), "not reproduced"),
    ],
)
def test_more_than_the_printed_doubling_is_no_reproduction(
    rounds: tuple[float, float], verdict: str
) -> None:
    table = tuple(
        Rounds("linear", "alpha", 4, 2, alpha, 0, "printed", number, number, 1.0)
        for alpha, number in zip((0.5, 0.9), rounds, strict=True)
    )
    (claim,) = (each for each in ABACUS.claims if "almost double" in each.claim)
    assert claim.judge(AbacusRows(table, (), (), (), (), ())).verdict == verdict


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [((1.9, 4.0, 8.0), "reproduced"), ((1.9, 2.3, 14.2), "direction only")],
)
def test_all_ratios_that_are_printed_have_to_be_reached(
    ratios: tuple[float, float, float], verdict: str
) -> None:
    assert as_all_printed("told", list(ratios), (1.8, 4.3, 7.8)).verdict == verdict


@pytest.mark.long
def test_lies_are_judged_by_draws_although_promises_have_fewer_populations() -> None:
    once = LYING.run(1, LyingSize(1, (2, 4), 1, 20, 1, (2, 20), (1, 1)), silent)
    drawn = [row for row in once.lies if row.about not in PROMISES]
    promised = tuple(row for row in once.lies if row.about in PROMISES)
    many = [replace(row, number=number) for number in range(DRAWS) for row in drawn]
    rows = LyingRows((*many, *promised))
    assert len(draws(rows)) == DRAWS
    told = judge(LYING, rows)
    assert len(told) == len(LYING.claims)
    assert {each.spread for each in told if "in auctions gain less" in each.claim} == {""}
