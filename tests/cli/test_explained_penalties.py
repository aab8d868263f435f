"""`walras explain job` tells how much throughput a program loses beside others."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from played_api import PlayedApi
from seen import decided, seen
from walras_api.speedup_profile_status import SpeedupProfileStatus
from walras_cli.cluster.connection import Cluster
from walras_cli.cluster.explain.pages import page_of
from walras_cli.cluster.explain.render import render_job
from walras_view.explain.job import JobExplanation, explain_job
from walras_view.facts import ApiObject
from worlds import NOW, entitlement, job, market, node, pod, profile

if TYPE_CHECKING:
    from collections.abc import Iterator


def measured(other: str, penalty: str, **fields: Any) -> dict[str, Any]:
    return {
        "profile": other,
        "namespace": "lab",
        "penalty": penalty,
        "error": "0.03",
        "cores": 4,
        "source": "instructions",
        "looks": 6,
        "finished": NOW,
        **fields,
    }


def explained(
    *penalties: dict[str, Any],
    written: tuple[dict[str, str], ...] = (),
    wide: bool = False,
    **cores: Any,
) -> str:
    """Return the explanation of a job whose profile has these penalties."""
    facts = seen(decided(market(cores=cores), entitlement(), node(), job(), pod("train-0")))
    found = {
        "metadata": {"name": "train", "namespace": "lab"},
        "spec": {"penalties": list(written)},
        "status": {"penalties": list(penalties)},
    }
    profile = ApiObject.read(found, SpeedupProfileStatus)
    console = Console(width=200, record=True, file=StringIO())
    for each in render_job(explain_job(facts, facts.jobs["lab", "train"], profile), wide=wide):
        console.print(each)
    return console.export_text()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "loses 12.0% of its throughput (error 3.0%, 6 checks of instructions on 4 cores)"),
        ({}, "on 4 cores); counts as 9.0%"),
        (
            {"source": "file", "error": "0", "looks": 1, "cores": 1},
            "(error 0.0%, 1 check of its own count in a file on 1 core); counts as 12.0%",
        ),
        ({"penalty": "0.02"}, "does not count: it is within its error"),
        ({"penalty": "-0.05"}, "gains 5.0% of its throughput"),
        ({"penalty": "-0.05"}, "lowers nothing"),
        ({"source": "cpuTime"}, "6 checks of CPU time on 4 cores)"),
        ({"source": "cpuTime"}, "does not count: CPU time does not show slow memory"),
        ({"error": "0.15"}, "(error 15.0%, 6 checks of instructions on 4 cores)"),
        ({"error": "0.15"}, "does not count: its error is above 10%"),
    ],
)
def test_each_penalty_is_told_with_its_source_and_whether_it_counts(
    fields: dict[str, Any], told: str
) -> None:
    text = explained(measured("stream", **{"penalty": "0.12", **fields}))
    assert "Beside other programs" in text
    (line,) = (each for each in text.splitlines() if "lab/stream:" in each)
    assert told in line


def test_a_penalty_in_the_spec_counts_instead_of_a_measured_one() -> None:
    text = explained(measured("stream", "0.12"), written=({"profile": "stream", "penalty": "0.2"},))
    assert "lab/stream: loses 20.0% of its throughput (spec.penalties of its profile); " in text
    assert "counts as 20.0%" in text
    assert "does not count: spec.penalties has another" in text


def test_the_largest_that_count_come_first_and_the_others_are_left_to_wide() -> None:
    many = [measured(f"p{number:02}", f"0.{number + 10}") for number in range(12)]
    doubtful = measured("cpu", "0.9", source="cpuTime")
    text = explained(doubtful, *many)
    shown = [each.split(":")[0].strip() for each in text.splitlines() if "throughput (" in each]
    assert shown == [f"lab/p{number:02}" for number in range(11, 1, -1)]
    assert "and 3 more; -o wide shows all" in text
    assert "lab/cpu: loses 90.0%" in explained(doubtful, *many, wide=True)


def test_it_is_said_where_the_market_ignores_penalties() -> None:
    text = explained(measured("stream", "0.12"), interference="ignored")
    assert "no penalty lowers F: spec.cores.interference of the Market is ignored" in text


def test_nothing_is_said_of_a_program_without_penalties() -> None:
    assert "Beside" not in explained()


@pytest.fixture
def api() -> Iterator[PlayedApi]:
    """An API server with two jobs: one whose SpeedupProfile has another name, and one without."""
    written = [{"profile": "stream", "penalty": "0.2"}]
    made = PlayedApi(
        [
            market(),
            entitlement(),
            profile("solver", penalties=written),
            job("train", profile="solver"),
            job("other"),
        ]
    )
    yield made
    made.stop()


@pytest.mark.system
@pytest.mark.parametrize(("name", "others"), [("train", ["lab/stream"]), ("other", [])])
def test_the_profile_of_a_jobs_program_is_read(
    api: PlayedApi, name: str, others: list[str]
) -> None:
    page = page_of(Cluster(api.configuration(), "lab"), "job", name)
    assert isinstance(page.explanation, JobExplanation)
    assert [each.co_runner for each in page.explanation.penalties] == others
    assert not any("penalties" in each for each in page.notes)


@pytest.mark.system
def test_a_user_without_the_right_to_profiles_is_told_so(api: PlayedApi) -> None:
    api.forbidden["ada"] = {"speedupprofiles"}
    page = page_of(Cluster(api.configuration("ada"), "lab"), "job", "train")
    assert isinstance(page.explanation, JobExplanation)
    assert page.explanation.penalties == ()
    assert any("no right to get speedupprofiles.walras.dev" in each for each in page.notes)
