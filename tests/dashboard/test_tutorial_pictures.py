"""The dashboard shows what docs/tutorial.md says.

`WALRAS_SCREENSHOTS=yes` makes the pictures of the page anew.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from browser import chromium, missing
from dashboard_clusters import write
from dashboard_server import served
from tutorial_cluster import NODE, PAGE, ROOT, figures, section, steps
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from browser import Browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(missing()), reason=missing() or "nothing is missing"),
]

PICTURES = ROOT / "docs" / "images" / "tutorial"
MOST_BYTES = 120 * 1024
WIDTH = 1280

PROGRAMS = "Programs, and what a job is"
CHANGE = "Change an entitlement"
MEASURED = "How a job's speedup is measured"

ROW = """
const table = [...document.querySelectorAll("main table")].find(
  (each) => each.getAttribute("aria-label") === arguments[0]);
const row = [...(table?.querySelectorAll("tbody tr") ?? [])].find(
  (each) => each.querySelector("th .name").title === arguments[1]);
if (row === undefined) return {};
const heads = [...table.querySelectorAll("thead tr:last-child th")];
const name = (head) => head.querySelector("button")?.ariaLabel ?? head.textContent;
return Object.fromEntries([...row.children].map(
  (cell, index) => [name(heads[index]), cell.textContent.trim()]));
"""
"""The cells of the row of a table by their headings; both are named by what they are called."""

MEASURED_POINTS = """
const table = document.querySelector(".chart details table");
const column = [...table.querySelectorAll("thead th")].findIndex(
  (each) => each.textContent === "Measured");
return [...table.querySelectorAll("tbody tr")]
  .map((each) => [each.children[0].textContent, each.children[column].textContent])
  .filter(([, measured]) => /[0-9]/.test(measured));
"""
"""Core counts and speedups of the measured points, by the table of the chart."""


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Run a server of the cluster after each step, and yield their URLs."""
    found = {}
    with ExitStack() as servers:
        for step, documents in steps(tmp_path_factory.mktemp("agents")):
            folder = tmp_path_factory.mktemp(step)
            write(folder / "cluster.yaml", documents)
            server = served("-f", "cluster.yaml", folder=folder)
            found[step] = servers.enter_context(server)
        yield found


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(
    request: pytest.FixtureRequest, window: Browser, urls: Mapping[str, str]
) -> Iterator[Browser]:
    """The dashboard after the step that the test is named for."""
    window.look(WIDTH)
    window.open(urls[request.param])
    yield window
    assert window.complaints() == []


def after(step: str) -> pytest.MarkDecorator:
    """Show the cluster after a step."""
    return pytest.mark.parametrize("page", [step], indirect=True)


def row(page: Browser, table: str, name: str) -> dict[str, str]:
    """Return the cells of a row by their headings."""
    found: dict[str, str] = {}

    def there() -> bool:
        found.update(page.script(ROW, table, name))
        return bool(found)

    assert eventually(there, 30), page.text("main")
    return found


def picture(page: Browser, name: str, through: str) -> None:
    """Take a picture of the view through a card if pictures are asked for; the page shows it."""
    assert f"](images/tutorial/{name}.png)" in PAGE
    path = PICTURES / f"{name}.png"
    if os.environ.get("WALRAS_SCREENSHOTS"):
        page.picture(path, through=through)
    assert path.stat().st_size < MOST_BYTES


@after("entitled")
def test_entitlements_exist_and_nobody_holds_anything(page: Browser) -> None:
    assert "7.88 cores are for sale" in PAGE
    assert page.shows("Cores for sale\n7.88\n")
    for user, shares in (("vision", "3"), ("speech", "1")):
        found = row(page, "Entitlements", user)
        assert (found["Shares"], found["State"]) == (shares, "Ready")
        assert found["Held"] in {"0", "0.00", "\u2013"}
    picture(page, "entitlements", "Entitlements")


@after("labelled")
def test_programs_with_a_label_have_cores(page: Browser) -> None:
    for user in ("speech", "vision"):
        entitled, held = figures(PROGRAMS, user)[:2]
        found = row(page, "Entitlements", user)
        assert (found["Entitled"], found["Held"]) == (entitled, held)
    assert figures(PROGRAMS, "speech")[0] == "1.97"
    picture(page, "cluster", "Entitlements")


@after("labelled")
def test_a_job_says_why_it_has_this_many_cores(page: Browser) -> None:
    page.view("jobs/vision/train")
    granted, speedup = figures(PROGRAMS, "vision/train")[2], figures(PROGRAMS, "vision/train")[-2]
    assert granted == "5.90"
    assert page.shows(f"Cores held\n{granted}\n")
    assert page.shows(f"{speedup}\u00d7")
    said = " ".join(section("Why this many cores").split())
    for words in ("buys 5.90 cores at 0.996 each", "it costs 0.996, 16.8% of the budget"):
        assert words in said
        assert page.shows(words)
    picture(page, "why", "One more core")


@after("labelled")
def test_a_preview_shows_the_change_before_it_is_made(page: Browser) -> None:
    page.view("what-if")
    assert page.shows("Today's division")
    assert "nine shares" in section("Preview a change")
    page.slide("speech", 9)
    assert page.shows("1 change")
    assert eventually(lambda: "computing" not in page.text(".outcome-line"), 30)
    found = row(page, "Users today and then", "speech")
    assert (found["Held: today"], found["Held: then"]) == ("1.98", "5.91")
    picture(page, "what-if", "Users")


@after("changed")
def test_cores_have_moved_after_the_change(page: Browser) -> None:
    page.view("jobs")
    for job, cores in (("speech/decode", "4.85"), ("vision/train", "1.97")):
        assert figures(CHANGE, job)[2] == cores
        assert float(row(page, "Jobs", job)["Held"]) == float(cores)
    picture(page, "jobs", "All jobs")


@after("changed")
def test_a_node_shows_what_pods_hold_of_the_cpus_that_they_share(page: Browser) -> None:
    page.view(f"nodes/{NODE}")
    assert "Nearly four cores have moved" in section(CHANGE)
    owners = page.script(
        "return [...document.querySelectorAll('.sockets .cpu .cpu-owner')].map(e => e.textContent)"
    )
    assert owners == ["~"] * 8
    assert "its pods share all eight" in " ".join(section(CHANGE).split())
    for cores in ("4.85", "1.97", "1.06"):
        assert page.shows(f"{cores} held", ".pools")
    picture(page, "node", "Shared CPUs")


@after("measured")
def test_a_measured_speedup_has_its_points(page: Browser) -> None:
    page.view("jobs/vision/train")
    told = " ".join(section(MEASURED).split())
    assert "was measured on up to five cores of its own" in told
    assert page.shows("measured while it ran")
    page.click(".chart details summary")
    assert page.shows("from \u2013 to", ".chart details")
    measured = dict(page.script(MEASURED_POINTS))
    assert list(measured) == ["1", "2", "4", "5"]
    assert float(measured["5"].split("\u00d7")[0]) > float(measured["4"].split("\u00d7")[0])
    page.click(".chart details summary")
    picture(page, "measured", "Speedup")


def test_the_page_shows_no_other_pictures() -> None:
    shown = re.findall(r"\]\(images/tutorial/(\S+)\.png\)", PAGE)
    assert sorted(shown) == sorted(each.stem for each in PICTURES.glob("*.png"))
