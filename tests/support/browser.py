"""Debian's Chromium without a screen, looking at a page of the dashboard."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from PIL import Image
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

WEB = Path(__file__).parents[2] / "dashboard" / "web"
AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"

QUIET = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--lang=en",
)
"""Options by which Chromium runs as root, and asks no host but the one it is told to."""

COLOURS = 192
"""Colours of a picture: enough for all of the page, and a third of the bytes."""

OWN_SCHEMES = frozenset({"data", "blob", "about", "chrome", "chrome-extension", "devtools"})

STALLS = """
window.stalls = [];
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) window.stalls.push(each.duration);
}).observe({ type: "longtask", buffered: true });
"""
"""Remember every task that kept the page from answering, from its first script on."""

SLIDE = """
const named = [...document.querySelectorAll(".slider")].find(
  (each) => each.querySelector(".name").title === arguments[0]);
const slider = named.querySelector("input[type=range]");
slider.value = arguments[1];
slider.dispatchEvent(new Event("input", { bubbles: true }));
"""

SHARES = """
const row = [...document.querySelectorAll("tbody tr")].find(
  (each) => each.querySelector(".name")?.title === arguments[0]);
return row ? row.querySelectorAll("td.numeric")[0].textContent : "";
"""

PART = """
const card = [...document.querySelectorAll("main .card")].find(
  (each) => each.querySelector("h2")?.textContent === arguments[0]);
const view = document.querySelector("main").getBoundingClientRect();
return [view.left, view.top, view.right, card.getBoundingClientRect().bottom + 16];
"""
"""Edges of the part of a view that ends with the card of a heading."""

AUDIT = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
  (found) => done(found.violations),
  (error) => done([{id: String(error), impact: "critical", nodes: []}]),
);
"""


def missing() -> str:
    """Return what this machine lacks to look at a page; empty if it lacks nothing."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"needs {program} (Debian's packages chromium and chromium-driver)"
    return "" if AXE.exists() else "needs axe-core: run `npm ci` in dashboard/web"


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser of its own, without cookies and storage of others."""
    with tempfile.TemporaryDirectory(prefix="walras-chromium-") as profile:
        options = Options()
        options.binary_location = shutil.which("chromium") or ""
        for each in (*QUIET, f"--user-data-dir={profile}"):
            options.add_argument(each)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options, Service(shutil.which("chromedriver") or ""))
        try:
            driver.set_script_timeout(60)
            driver.set_page_load_timeout(60)
            driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": STALLS})
            yield Browser(driver)
        finally:
            driver.quit()


class Browser:
    """A browser with one page.

    Args:
        driver: Driver of the browser.

    Attributes:
        driver: Driver of the browser.
        address: Address of the dashboard that it looks at, without a view.
    """

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self.address = ""
        self._hosts: set[str] = set()
        self._complaints: list[str] = []

    def look(self, width: int, theme: str = "light", height: int = 900) -> None:
        """Give the window a size in pixels, and the system a theme."""
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def open(self, url: str) -> None:
        """Open a dashboard at its first view."""
        self.driver.get(url)
        parts = urlsplit(self.driver.current_url)
        self.address = f"{parts.scheme}://{parts.netloc}/"
        self.settle()

    def view(self, view: str) -> None:
        """Go to a view by its part of the address, and wait until it shows its figures."""
        self.script("location.hash = arguments[0]", f"/{view}")
        there = "return document.querySelector('main').dataset.route === location.hash"
        assert eventually(lambda: self.script(there), 60)
        self.settle()

    def settle(self) -> None:
        """Wait until everything that the view asked for has come."""
        assert eventually(self._settled, 60), self.text("body")

    def _settled(self) -> bool:
        return bool(
            self.script(
                "return !!document.querySelector('h1') && !document.querySelector('.loading')"
            )
        )

    def script(self, source: str, *arguments: object) -> Any:
        """Run a script in the page; return what it returns."""
        return self.driver.execute_script(source, *arguments)

    def text(self, selector: str) -> str:
        """Return the text of the first element that a selector names; empty without one."""
        with suppress(StaleElementReferenceException):  # drawn anew meanwhile
            for element in self.driver.find_elements(By.CSS_SELECTOR, selector):
                return element.text
        return ""

    def click(self, selector: str) -> None:
        """Click the first element that a selector names."""
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def press(self, keys: str) -> None:
        """Press keys, as the driver names them, wherever the focus is."""
        ActionChains(self.driver).send_keys(keys).perform()

    def write(self, selector: str, text: str) -> None:
        """Write into a field, instead of what is in it."""
        field = self.driver.find_element(By.CSS_SELECTOR, selector)
        field.clear()
        field.send_keys(text)

    def choose(self, selector: str, text: str) -> None:
        """Choose an option of a list by its text."""
        Select(self.driver.find_element(By.CSS_SELECTOR, selector)).select_by_visible_text(text)

    def slide(self, name: str, value: float) -> None:
        """Move the slider of a name to a value, as a hand would."""
        self.script(SLIDE, name, value)

    def shows(self, text: str, selector: str = "main", seconds: float = 20) -> bool:
        """Return whether a text is to be seen within a time."""
        return bool(eventually(lambda: text in self.text(selector), seconds))

    def shares(self, user: str) -> str:
        """Return what the table of entitlements says of the shares of a user."""
        return str(self.script(SHARES, user))

    def fits(self) -> bool:
        """Return whether the page is as narrow as its window, which charts follow in time."""
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return eventually(lambda: self.script(wide) <= 0, 20)

    def audit(self) -> list[str]:
        """Return what axe-core finds serious or critical on the page, a line for each."""
        self.script(AXE.read_text())
        found: list[dict[str, Any]] = self.driver.execute_async_script(AUDIT)
        return [
            f"{each['id']} ({each['impact']}): {node.get('html', '')[:200]}"
            for each in found
            if each["impact"] in {"serious", "critical"}
            for node in each["nodes"] or [{}]
        ]

    def stalls(self) -> list[float]:
        """Return the milliseconds of the tasks that kept the page still, and forget them."""
        found: list[float] = self.script("return window.stalls.splice(0)")
        return found

    def hosts(self) -> set[str]:
        """Return the hosts that the browser has asked, and forget them."""
        self._read()
        found, self._hosts = self._hosts, set()
        return found

    def complaints(self) -> list[str]:
        """Return what the browser's console has complained of, and forget it."""
        self._read()
        found, self._complaints = self._complaints, []
        return found

    def _read(self) -> None:
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                parts = urlsplit(message["params"]["request"]["url"])
                if parts.scheme not in OWN_SCHEMES:
                    self._hosts.add(parts.netloc)
        self._complaints += [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in {"SEVERE", "WARNING"}
        ]

    def picture(self, path: Path, most: int = 1800, through: str = "") -> None:
        """Save the page as a picture.

        Args:
            path: File of the picture.
            most: Most pixels of its height.
            through: Heading of the last card to show, without what is around the view; empty for
                the whole page.
        """
        size = "const e = document.documentElement; return [e.clientWidth, e.scrollHeight]"
        width, height = self.script(size)
        metrics = {
            "width": width,
            "height": min(height, most),
            "deviceScaleFactor": 1,
            "mobile": False,
        }
        self.script("document.activeElement.blur(); scrollTo(0, 0)")
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        away = {"type": "mouseMoved", "x": 0, "y": 0}  # from what lights up below the pointer
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", away)
        assert eventually(lambda: self.script("return document.getAnimations().length === 0"), 20)
        path.parent.mkdir(parents=True, exist_ok=True)
        shot = Image.open(io.BytesIO(self.driver.get_screenshot_as_png())).convert("RGB")
        if through:
            left, top, right, bottom = map(round, self.script(PART, through))
            shot = shot.crop((left, top, right, bottom))
        shot.quantize(COLOURS).save(path, optimize=True)
