"""Every study at its quick size: verdicts on claims, the same rows for the same seed, the page.

Claims that are known not to be true here are listed, so that a changed verdict is noticed.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from walras_studies.page import IMAGES
from walras_studies.registry import STUDIES, load
from walras_studies.results import judge
from walras_studies.study import silent, tables

DOCS = Path(__file__).parents[2] / "docs"

NOT_SO = {"not reproduced", "does not hold"}

OVERHEADS_ADJUSTED = (
    "with exact counters, adjustment (first figure) gives programs with overheads more progress "
    "than measuring"
)
THREADS_ADJUSTED = (
    "with exact counters, adjustment (first figure) gives programs of fixed threads more progress "
    "than measuring"
)
ADJUSTED_WORST_OFF = (
    "the user with the least progress relative to even bids has more under adjustment (first "
    "figure) than under measuring"
)
LONGER_SAMPLES = (
    "with exact counters, measuring with samples of 30 s (first figure) gives Amdahl and linear "
    "programs more progress than adjustment"
)

WORST_OFF = (
    "the worst-off twentieth of users have at least what they have under reservations and fair "
    "share"
)
BUSY_WORST_OFF = (
    "with core credits, the worst-off twentieth of busy users have at least what fair share gives"
)

NOT_REPRODUCED = {
    ("abacus", "the auction takes fewer iterations with more users"),
    ("abacus", "the auction takes slightly more iterations with more resources"),
    ("cooper", "penalties do not follow demand under GR, CO and SMP"),
    ("cooper", "SMR has the fewest blocking pairs"),
    ("cooper", "upper whiskers of stable policies are within a tolerance of 10 %"),
    ("cooper", "SMP has the smallest penalties in the memory-intensive mix"),
    ("credits", BUSY_WORST_OFF),
    ("adjustment", THREADS_ADJUSTED),
    ("adjustment", OVERHEADS_ADJUSTED),
    ("adjustment", ADJUSTED_WORST_OFF),
    ("adjustment", LONGER_SAMPLES),
    ("adjustment", "measuring gives all kinds more progress than even bids, whatever the errors"),
    ("month", WORST_OFF),
}


REPEATABLE = [name for name in STUDIES if not load(name).measured]
"""Studies without measured times, of which nothing is asserted here."""


@pytest.mark.system
@pytest.mark.long
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_repeated_to_the_bit_and_judged_as_the_page_says(name: str) -> None:
    if name == "programs" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("programs are measured on two cores at least: this machine offers one")
    study: Any = load(name)
    rows = study.run(1, study.quick, silent)
    assert all(tables(rows).values())
    charts = study.charts(rows)
    assert len({chart.name for chart in charts}) == len(charts)
    for chart in charts:
        assert all(len(points) > 0 for points in chart.series.values())
    if name in REPEATABLE:
        judged = judge(study, rows)
        wrong = {each.claim for each in judged if each.verdict in NOT_SO}
        assert wrong == {claim for of, claim in NOT_REPRODUCED if of == name}
        unmet = NOT_SO | {"direction only", "holds in part"}
        assert all(each.reason for each in judged if each.verdict in unmet)
        again = study.run(1, study.quick, silent)
        assert repr(asdict(again)) == repr(asdict(rows))


@pytest.mark.parametrize("name", STUDIES)
def test_the_page_has_every_claim_and_says_the_same_of_it(name: str) -> None:
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
    for claim in load(name).claims:
        (row,) = (line for line in section.splitlines() if f"| {claim.claim} |" in line)
        if name in REPEATABLE:
            assert any(f"**{word}**" in row for word in NOT_SO) == (
                (name, claim.claim) in NOT_REPRODUCED
            )


def test_the_page_shows_plots_that_are_there() -> None:
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    shown = {part.split(")")[0] for part in page.split("](")[1:] if part.startswith(IMAGES)}
    assert shown == {f"{IMAGES}/{path.name}" for path in (DOCS / IMAGES).iterdir()}
