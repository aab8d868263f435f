"""The page of the dashboard in a real browser, on the real server: `make verify STAGES=browser`."""

from __future__ import annotations

import csv
import io
import os
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from browser import chromium, missing
from dashboard_clusters import lab, large, leases, troubled, write
from dashboard_server import Gateway, served
from dashboards import EXAMPLE
from kubeconfigs import kubeconfig
from played_api import PlayedApi
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from browser import Browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(missing()), reason=missing() or "nothing is missing"),
]

PICTURES = Path(__file__).parents[2] / "docs" / "images" / "dashboard"
MOST_BYTES = 200 * 1024

VIEWS = {
    "cluster": ("cluster", "Entitlements"),
    "nodes": ("nodes", "node-2"),
    "node": ("nodes/node-3", "Shared CPUs"),
    "jobs": ("jobs", "vision/train"),
    "job": ("jobs/vision/train", "One more core"),
    "users": ("users", "astronomy"),
    "user": ("users/vision-lab", "Ledger"),
    "time": ("time", "Cores over time"),
    "what-if": ("what-if", "Jobs that change"),
}
"""Address of each view, and a text that is there once it has its figures."""

HTML_JOB = "<b onclick=alert(3)>render</b>"
HTML = "<img src=x onerror=alert(1)><b>bold</b>"
LONG = "long-" + "x" * 248
LONG_NODE = "node-" + "y" * 248
RIGHT_TO_LEFT = "\u202eexe.\u05e9\u05dc\u05d5\u05dd"
HOSTILE = {
    "vision-lab": HTML,
    "speech-lab": LONG,
    "batch": RIGHT_TO_LEFT,
    "render": HTML_JOB,
    "node-3": LONG_NODE,
}

STILL = 100.0  # milliseconds that a page may not answer


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a server of the lab's cluster, and yield its URL."""
    path = write(tmp_path_factory.mktemp("lab") / "cluster.json", lab())
    with served("-f", str(path)) as url:
        yield url


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(window: Browser, url: str) -> Browser:
    """The cluster's view of the lab; no other host is known, and nothing complained of yet."""
    window.hosts()
    window.look(1440)
    window.open(url)
    window.complaints()
    return window


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_its_figures_and_nothing_is_wrong_with_it(page: Browser, view: str) -> None:
    address, text = VIEWS[view]
    for width, theme in ((1920, "light"), (1920, "dark"), (360, "light"), (360, "dark")):
        page.look(width, theme)
        page.view(address)
        assert page.shows(text), page.text("main")
        assert page.fits(), width
        assert page.audit() == [], (width, theme)
    assert page.complaints() == []
    assert page.hosts() == {urlsplit(page.address).netloc}


def test_headings_are_in_order_and_a_view_says_its_name(page: Browser) -> None:
    for address, _ in VIEWS.values():
        page.view(address)
        levels = page.script(
            "return [...document.querySelectorAll('h1,h2,h3,h4')].map(e => +e.tagName[1])"
        )
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))
        assert page.driver.title.endswith(" \u2013 Walras")


def test_a_reader_without_a_mouse_gets_everywhere(page: Browser) -> None:
    """Every link and control can be focused, is seen when it is, and the first one skips."""
    page.view("cluster")
    page.script("document.activeElement.blur(); scrollTo(0, 0)")
    page.press("\ue004")  # Tab
    assert page.script("return document.activeElement.textContent") == "Skip to the content"
    page.press("\ue007")  # Enter
    assert page.script("return document.activeElement.id") == "main"
    seen = set()
    for _ in range(80):
        page.press("\ue004")
        focused = page.script(
            "const e = document.activeElement; const s = getComputedStyle(e);"
            "return [e.tagName, e.textContent.slice(0, 30), s.outlineStyle,"
            " e.matches('input.hidden')]"
        )
        assert focused[2] != "none" or focused[3] or focused[0] == "BODY", focused
        seen.add(focused[1])
    assert {"astronomy", "engineering", "node-1"} <= seen


def test_each_chart_has_its_numbers_in_a_table(page: Browser) -> None:
    page.view("jobs/vision/train")
    page.click(".chart details summary")
    assert page.shows("from \u2013 to", ".chart details")
    rows = page.script("return document.querySelectorAll('.chart details tbody tr').length")
    assert rows >= 12


def test_a_chosen_theme_stays(page: Browser) -> None:
    ground = "return getComputedStyle(document.documentElement).backgroundColor"
    page.look(1440, "light")
    light = page.script(ground)
    page.click("input[value=dark] + span")
    dark = page.script(ground)
    assert dark != light
    page.driver.refresh()
    page.settle()
    assert page.script(ground) == dark
    page.click("input[value=system] + span")
    assert page.script(ground) == light


def test_the_colour_of_a_cpu_is_never_its_only_sign(page: Browser) -> None:
    page.view("nodes/node-3")
    signs = page.script(
        "return [...document.querySelectorAll('.sockets .cpu')].map("
        "e => [e.querySelector('.cpu-owner').textContent, getComputedStyle(e).backgroundColor])"
    )
    assert len(signs) == 16
    owners: dict[str, set[str]] = {}
    for letters, colour in signs:
        assert letters
        owners.setdefault(letters, set()).add(colour)
    assert len(owners) >= 3
    assert all(len(colours) == 1 for colours in owners.values())
    grants = page.script(
        "return [...document.querySelectorAll('.owner-mark')].map(e => e.textContent)"
    )
    assert {each for each in owners if each.isalpha()} <= set(grants)


def test_a_slider_moves_the_whole_division_and_gives_yaml(page: Browser) -> None:
    page.view("what-if")
    assert page.shows("Today's division")
    page.slide("astronomy", 6)
    assert page.shows("1 change")
    assert page.shows("+", ".change-up")
    yaml = page.text(".yaml")
    assert "kind: Entitlement" in yaml
    assert "astronomy" in yaml
    page.slide("astronomy", 2)
    assert page.shows("Today's division")


def test_only_the_last_of_many_changes_is_shown(page: Browser) -> None:
    """A slider that is dragged asks a few times, and the answer to the last question stays."""
    page.view("what-if")
    assert page.shows("Today's division")
    for shares in (*range(3, 11), *range(10, 2, -1), *range(3, 10)):
        page.slide("astronomy", shares)
    last = page.text(".outcome-line")
    assert eventually(lambda: "computing" not in page.text(".outcome-line"), 30), last
    assert "shares: 9" in page.text(".yaml")
    page.click(".controls .card-head .button")
    assert page.shows("Today's division")
    assert page.complaints() == []


def test_nodes_and_speedups_and_mechanisms_can_be_changed(page: Browser) -> None:
    page.view("what-if")
    page.choose("select", "ProportionalSharing")
    assert page.shows("1 change")
    page.script("document.querySelectorAll('.field-row .button')[0].click()")
    assert page.shows("2 changes")
    page.script("document.querySelector('.chip-button').click()")
    page.click(".controls .card-head .button")
    assert page.shows("Today's division")


def test_what_is_not_there_says_so_and_the_others_stay_usable(page: Browser) -> None:
    page.view("jobs/vision/nothing")
    assert page.shows("nothing")
    assert page.text(".notice")
    page.view("no-such-view")
    assert page.shows("There is no such view")
    assert page.audit() == []
    page.click("main a")
    assert page.shows("Entitlements")


def test_a_lost_connection_is_noticed_and_what_comes_back_is_right(
    window: Browser, url: str
) -> None:
    gateway = Gateway(url)
    try:
        window.open(gateway.url)
        assert window.shows("As read", ".live")
        gateway.stop()
        assert window.shows("is lost", ".messages", 60)
        assert window.text(".live").startswith("Not connected")
        assert window.shows("astronomy")  # what was there stays, and says how old it is
        assert window.audit() == []
        gateway.start()
        assert eventually(lambda: not window.text(".messages"), 60)
        assert window.shows("As read", ".live")
        window.view("users")
        assert window.shows("astronomy")
    finally:
        gateway.stop()
        window.complaints()  # of the requests that nobody answered


def test_another_server_asks_for_its_own_token(window: Browser, tmp_path: Path) -> None:
    """A page that outlives its server says so; the token of the new one opens it."""
    path = str(write(tmp_path / "cluster.json", lab()))
    with served("-f", path) as first:
        window.open(first)
        port = str(urlsplit(first).port)
    assert window.shows("is lost", ".messages", 60)
    with served("-f", path, port=port) as second:
        assert window.shows("Sign in", "main", 60)
        assert window.audit() == []
        window.write("#token", second.partition("token=")[2])
        window.click("main form button")
        assert window.shows("Entitlements", "main", 60)
    window.complaints()


def test_hostile_names_are_text(window: Browser, url: str) -> None:
    """Names of HTML, of 253 characters and from right to left, in every view."""
    gateway = Gateway(url, HOSTILE)
    try:
        window.look(1440)
        window.open(gateway.url)
        window.complaints()
        views = [each.replace("node-3", quote(LONG_NODE)) for each, _ in VIEWS.values()]
        views = [each.replace("vision-lab", quote(HTML, safe="")) for each in views]
        for view in [*views, f"jobs/vision/{quote(HTML_JOB, safe='')}"]:
            for width in (360, 1440):
                window.look(width)
                window.view(view)
                assert window.shows(" ", "main")
                assert window.fits(), (view, width)
                assert not window.script(
                    "return document.querySelectorAll('main b, main img').length"
                )
        window.view("users")
        names = window.script(
            "return [...document.querySelectorAll('tbody th .name')].map("
            "e => [e.title, getComputedStyle(e.firstChild).unicodeBidi, e.clientWidth])"
        )
        assert {HTML, LONG, RIGHT_TO_LEFT} <= {title for title, _, _ in names}
        assert {bidi for _, bidi, _ in names} == {"isolate"}
        assert all(width < 400 for _, _, width in names)
        cut = (
            "const e = [...document.querySelectorAll('tbody th .name')]"
            ".find(e => e.title === arguments[0]);"
            "const [start, end] = e.children;"
            "return [start.scrollWidth > start.clientWidth, start.textContent + end.textContent,"
            " end.getBoundingClientRect().right <= e.getBoundingClientRect().right + 0.5]"
        )
        assert window.script(cut, LONG) == [True, LONG, True]
        assert window.complaints() == []
    finally:
        gateway.stop()


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = write(tmp_path_factory.mktemp("trouble") / "cluster.json", troubled())
    with served("-f", str(path)) as url:
        yield url


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_first_screen_says_who_starves_and_who_is_below(
    window: Browser, trouble: str, width: int, height: int, theme: str
) -> None:
    window.look(width, theme, height)
    window.open(trouble)
    titles = window.script(
        "return [...document.querySelectorAll('.notice-title')].filter("
        "e => e.closest('.notice').getBoundingClientRect().bottom < innerHeight"
        ").map(e => e.textContent)"
    )
    assert titles == [
        "2\u00a0pods starve: less than a tenth of a core each",
        "1 user is below its entitlement",
    ]
    assert window.shows("research holds 10.96 of the 15.97 cores that it is entitled to")
    assert window.shows("3 users share 24 cores of 2 nodes, and trade 10.34 of them.")
    assert "AmdahlBidding" not in window.text("main")
    assert not window.script("return document.querySelector('.notice-good')")


def test_the_bar_of_the_smallest_user_is_as_long_as_that_of_the_largest(
    window: Browser, trouble: str
) -> None:
    window.look(1440)
    window.open(trouble)
    wide = window.script(
        "return [...document.querySelectorAll('.bullet')].map(e => Math.max("
        "e.children[0].offsetWidth, e.children[1].offsetLeft) / e.offsetWidth)"
    )
    assert len(wide) == 3
    assert all(part > 0.85 for part in wide)


def test_no_agent_is_missing_from_a_file(window: Browser) -> None:
    with served("-f", str(EXAMPLE)) as url:
        window.look(1440)
        window.open(url)
        window.view("nodes")
        kinds = window.script(
            "return [...document.querySelectorAll('tbody .state')].map("
            "e => [e.textContent, e.className])"
        )
        assert {tuple(each) for each in kinds} == {("Awaited", "state state-still")}
        window.view("nodes/node-1")
        assert "No pod of this node shares a core" not in window.text("main")
    window.complaints()


def test_what_is_looked_for_is_in_the_address_and_back_undoes_a_step(page: Browser) -> None:
    page.view("users")
    page.press("/")
    page.press("batch")
    assert page.shows("1 of 5")
    assert page.script("return location.hash") == "#/users?q=batch"
    page.driver.refresh()
    page.settle()
    assert page.shows("1 of 5")
    page.view("jobs")
    page.click("th[scope=col]:nth-child(6) button")
    assert eventually(lambda: page.script("return location.hash") == "#/jobs?sort=-held", 20)
    page.click("th[scope=col]:nth-child(8) button")
    assert eventually(lambda: page.script("return location.hash") == "#/jobs?sort=-speedup", 20)
    page.driver.back()
    sorted_by = "return document.querySelector('th[aria-sort=descending]')?.textContent"
    assert eventually(lambda: page.script(sorted_by) == "Held", 20)
    page.view("time?since=900")
    assert page.script("return document.querySelector('.segment-chosen').textContent") == (
        "15 minutes"
    )


def test_a_try_is_in_the_address_and_a_dearer_core_is_not_better(page: Browser) -> None:
    page.view("what-if")
    assert page.shows("Today's division")
    page.slide("astronomy", 6)
    asked = "return new URLSearchParams(location.hash.split('?')[1]).get('try')"
    assert eventually(lambda: page.script(asked) == '{"shares":{"astronomy":6}}', 20)
    assert page.shows("1 change")
    judged = page.script(
        "return [...document.querySelectorAll('table[aria-label^=Nodes] .change-up,"
        "table[aria-label^=Nodes] .change-down')].length"
    )
    assert judged == 0
    page.driver.back()
    assert page.shows("Today's division")
    page.click("input[value=system] + span")


def test_jobs_keep_their_figures_in_sight(page: Browser) -> None:
    page.view("jobs")
    edges = (
        "const r = document.querySelector('.table-scroll').getBoundingClientRect();"
        "return [...document.querySelectorAll('tbody tr:first-child > *')].map("
        "e => e.getBoundingClientRect()).every(e => e.left >= r.left && e.right <= r.right + 1)"
    )
    assert page.script(edges)
    page.look(390, height=844)
    page.view("jobs")
    assert page.script(edges)
    titles = page.script(
        "return [...document.querySelectorAll('tbody tr:first-child td')].map("
        "e => getComputedStyle(e, '::before').content)"
    )
    assert {'"Speedup"', '"Price"', '"F"', '"State"'} <= set(titles)
    assert page.audit() == []


SAVED = """
    const [label, done] = arguments;
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
      URL.createObjectURL = make;
      blob.text().then(done);
      return make.call(URL, blob);
    };
    document.querySelector(`[aria-label="Save ${label} as CSV"]`).click();
"""
"""What a click on a table's button saves."""


def saved(window: Browser, label: str) -> list[dict[str, str]]:
    text = window.driver.execute_async_script(SAVED, label)
    return list(csv.DictReader(io.StringIO(text, newline="")))


def asked(url: str, path: str, body: object = None) -> Any:
    base, _, token = url.partition("?token=")
    method = "GET" if body is None else "POST"
    headers = {"Authorization": f"Bearer {token}"}
    address = f"{base}api/v1/{path}"
    return httpx.request(method, address, json=body, headers=headers, timeout=60).json()


def test_a_table_is_saved_with_all_digits_and_no_name_becomes_a_formula(
    window: Browser, url: str
) -> None:
    gateway = Gateway(url, {"batch": "=1+2,3", "speech-lab": "-0"})
    try:
        window.open(gateway.url)
        window.view("users")
        rows = {each["User"]: each for each in saved(window, "All users")}
        names = {"batch": "'=1+2,3", "speech-lab": "'-0"}
        users = {
            names.get(each["name"], each["name"]): each for each in asked(url, "overview")["users"]
        }
        assert rows.keys() == users.keys()
        for name, each in users.items():
            assert float(rows[name]["Held"]) == each["cores"]["held"]
            gain = rows[name]["Over share"]
            assert (float(gain) if gain else None) == each["gain"]
        window.view("users?q=astronomy")
        assert window.shows("1 of 5")
        assert [each["User"] for each in saved(window, "All users")] == ["astronomy"]
    finally:
        gateway.stop()
    window.complaints()


def test_pods_lead_to_their_logs_and_show_what_they_use(window: Browser, tmp_path: Path) -> None:
    documents = lab()
    for each in documents:
        if each["kind"] == "NodeAllocation":
            for pod in each["status"]["pods"]:
                pod["usedCpus"] = "2.5"
    path = write(tmp_path / "cluster.json", documents)
    logs = "https://logs.example/?namespace={namespace}&pod={pod}"
    with served("-f", str(path), "--logs", logs) as url:
        window.open(url)
        window.view("jobs/vision/train")
        link = "return [...document.querySelectorAll('a[aria-label^=Logs]')].map(e => e.href)"
        assert window.script(link) == [
            f"https://logs.example/?namespace=vision&pod=train-{number}" for number in (0, 1)
        ]
        assert [each["Used"] for each in saved(window, "Pods")] == ["1.25", "1.25"]
        assert window.audit() == []
        window.view("nodes/node-1")
        assert {each["Cores used"] for each in saved(window, "Grants")} == {"1.25"}
    window.complaints()


def test_a_what_if_stands_beside_plain_kubernetes(page: Browser, url: str) -> None:
    page.view("what-if")
    assert page.shows("Beside plain Kubernetes")
    plain = asked(url, "what-if", {})["plain"]
    rows = saved(page, "Users beside plain Kubernetes")
    shown = {each["User"]: float(each["Held: plain Kubernetes"]) for each in rows}
    assert shown == {each["name"]: each["held"] for each in plain["users"]}
    assert page.shows("would hold less than a tenth of a core on plain Kubernetes")


def test_a_range_of_ones_own_is_in_the_address(page: Browser) -> None:
    page.view("time?from=2026-01-30T10:00:00Z&to=2026-01-30T11:00:00Z")
    assert page.shows("Nothing is known of this time")
    fields = "return [...document.querySelectorAll('input[type=datetime-local]')].map(e => e.value)"
    assert page.script("return new Date('2026-01-30T10:00Z').getTimezoneOffset()") == 0
    assert page.script(fields) == ["2026-01-30T10:00", "2026-01-30T11:00"]
    page.script(
        "const e = document.querySelectorAll('input[type=datetime-local]')[1];"
        "e.value = '2999-01-01T00:00'; e.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    assert page.shows("Cores over time")
    assert "to=2999-01-01T00%3A00%3A00.000Z" in page.script("return location.hash")
    page.driver.back()
    assert page.shows("Nothing is known of this time")
    page.view("time?from=2026-01-30T12:00:00Z&to=2026-01-30T11:00:00Z")
    assert page.shows("ends before it begins")
    page.click(".segment")
    assert eventually(lambda: page.script("return location.hash") == "#/time?since=900", 20)


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = write(tmp_path_factory.mktemp("large") / "cluster.json", large())
    with served("-f", str(path)) as url:
        yield url


def test_a_thousand_nodes_and_ten_thousand_jobs_never_stop_the_page(
    window: Browser, huge: str
) -> None:
    """A view that stops the page does so each time; other work on the machine only now and then."""
    window.look(1920)
    window.open(huge)
    assert window.shows("10\u202f000")
    window.stalls()  # its scripts were compiled
    window.complaints()  # of servers that other tests have stopped
    for _ in range(3):
        long = _long_stalls(window)
        if not long:
            break
    assert long == {}
    assert window.complaints() == []
    window.view("jobs")
    assert len(saved(window, "Jobs")) == 10_000


def _long_stalls(window: Browser) -> dict[str, float]:
    """Go to every view, and return for how long each step stopped the page, in milliseconds."""
    stalls = {}
    for view in ("cluster", "nodes", "nodes/node-7", "jobs", "jobs/lab/job-7", "users", "time"):
        window.view(view)
        stalls[view] = window.stalls()
    window.view("nodes")
    window.write("input[type=search]", "node-99")
    assert window.shows("11 of 1\u202f000 rows")
    window.click("th[scope=col]:nth-child(6) button")
    stalls["filter and sort"] = window.stalls()
    window.view("jobs")
    window.click("[aria-label='Last page']")
    assert window.shows("10\u202f000 of 10\u202f000")
    window.write("input[type=search]", "job-4242")
    assert window.shows("1 found")
    stalls["find a job"] = window.stalls()
    window.view("what-if")
    assert window.shows("Today's division")
    window.slide("user-11", 9)
    assert window.shows("1 change")
    stalls["what-if"] = window.stalls()
    window.click(".controls .card-head .button")
    return {view: max(found) for view, found in stalls.items() if found and max(found) > STILL}


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a server of a cluster that has changed for a while, and yield its URL."""
    api = PlayedApi([*lab(), *leases(["node-1", "node-2", "node-3"])])
    try:
        config = kubeconfig(tmp_path_factory.mktemp("lively") / "config", api.url)
        with served("--kubeconfig", str(config)) as url:
            for count, shares in enumerate((2, 3, 4, 4, 3, 2, 1, 2), start=1):
                assert eventually(partial(_sampled, api, url, shares, count), 120, pause=1)
            yield url
    finally:
        api.stop()


def _sampled(api: PlayedApi, url: str, shares: int, count: int) -> bool:
    """Change the cluster, and return whether the server has a number of samples of its history."""
    for each in lab(shares):
        api.put(each)
    base, _, token = url.partition("?token=")
    path = "api/v1/history?kind=cluster&since=3600&step=5"
    headers = {"Authorization": f"Bearer {token}"}
    found = httpx.get(f"{base}{path}", headers=headers, timeout=60).json()
    return len(found["times"]) >= count


@pytest.mark.skipif(
    not os.environ.get("WALRAS_SCREENSHOTS"), reason="WALRAS_SCREENSHOTS is not set"
)
@pytest.mark.parametrize("view", VIEWS)
def test_pictures_for_the_documentation(window: Browser, lively: str, view: str) -> None:
    address, text = VIEWS[view]
    window.look(1280, "dark" if view in {"time", "node"} else "light")
    window.open(lively)
    window.view(address)
    assert window.shows(text)
    if view == "what-if":
        window.slide("astronomy", 6)
        assert window.shows("1 change")
        assert eventually(lambda: "computing" not in window.text(".outcome-line"), 30)
    path = PICTURES / f"{view}.png"
    window.picture(path)
    assert path.stat().st_size < MOST_BYTES
