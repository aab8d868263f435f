"""Deadlines on the command line: what walras explain prints, and what walras what-if says."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from seen import seen
from walras_api.market import MarketSpec
from walras_cli.cluster.explain.render import render_job
from walras_cli.what_if.changes import ChangedCluster
from walras_cli.what_if.comparison import Comparison, MechanismOptions
from walras_cli.what_if.situation import situation_of_world
from walras_view.explain.job import explain_job
from whole_decisions import decide
from worlds import NOW, entitlement, job, market, node, outcome, pod, profile, world

if TYPE_CHECKING:
    from walras_operator.decide.world import World

TIMES = [
    {"cores": cores, "dataSize": size, "seconds": [str(part * seconds)]}
    for size, part in (("10%", 1), ("20%", 2))
    for cores, seconds in ((1, 1440), (4, 468))
]
"""Four hours on one core for all of the data, with a parallel fraction of 0.9."""


def cluster(deadline: str) -> World:
    return world(
        market(),
        entitlement("ada"),
        entitlement("bob"),
        node(cpu="16"),
        profile("p", measurements=TIMES),
        job("train", "ada", profile="p", deadline=deadline, created=NOW),
        job("etl", "ada"),
        job("web", "bob"),
        *(pod(f"{name}-0", name, cpu="0") for name in ("train", "etl", "web")),
    )


@pytest.mark.parametrize(
    ("deadline", "words"),
    [
        ("70m", ("needs 4.7 cores from now on and 4.696 are reserved", "2026-01-31T13:10:00Z")),
        ("50m", ("late: expected at", "raise the shares of Entitlement ada")),
        ("20m", ("all cores that it can use on n1 are too few",)),
    ],
)
def test_explain_says_what_a_deadline_takes(deadline: str, words: tuple[str, ...]) -> None:
    before = cluster(deadline)
    facts = seen(outcome(before, decide(before)))
    found = explain_job(facts, facts.jobs["lab", "train"])
    assert found.deadline is not None
    console = Console(width=400, record=True, file=StringIO())
    console.print(*render_job(found, wide=True))
    text = console.export_text()
    assert all(each in text for each in words), text


def test_explain_says_nothing_of_a_job_without_a_deadline() -> None:
    before = cluster("70m")
    facts = seen(outcome(before, decide(before)))
    assert explain_job(facts, facts.jobs["lab", "web"]).deadline is None


def test_what_if_says_whether_a_deadline_would_be_accepted() -> None:
    before = cluster("70m")
    objects = replace(before.objects, rules=MarketSpec())
    situation = situation_of_world(before, objects)
    found = Comparison.of(ChangedCluster(situation), MechanismOptions())
    assert any(
        "its deadline needs 4.7 cores" in each and "Reserved" in each for each in found.notes
    )
    assert found.document()["deadlines"][0]["reserved"] == 4.696
