"""The page in a real browser while the cluster changes, is lost and comes back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from browser import chromium, missing
from dashboard_clusters import lab
from dashboard_server import served
from kubeconfigs import kubeconfig
from played_api import PlayedApi
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from browser import Browser

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "nothing is missing")

SOON = 3.0
"""Seconds within which a change of the cluster is on the page."""


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def api() -> Iterator[PlayedApi]:
    made = PlayedApi(lab())
    yield made
    made.stop()


@pytest.fixture
def url(api: PlayedApi, tmp_path: Path) -> Iterator[str]:
    config = str(kubeconfig(tmp_path / "config", api.url))
    with served("--kubeconfig", config) as url:
        yield url


@pytest.mark.browser
def test_a_change_is_on_the_page_at_once(window: Browser, api: PlayedApi, url: str) -> None:
    window.open(url)
    assert window.shows("Live", ".live")
    assert window.shares("astronomy") == "2"
    before = api.get("Entitlement", "astronomy")
    api.put({**before, "spec": {**before["spec"], "shares": 9}})
    began = time.monotonic()
    assert eventually(lambda: window.shares("astronomy") == "9", 60)
    assert time.monotonic() - began < SOON
    assert window.complaints() == []


@pytest.mark.browser
def test_a_lost_cluster_is_noticed_and_what_changed_meanwhile_is_shown(
    window: Browser, api: PlayedApi, url: str
) -> None:
    window.open(url)
    assert window.shows("Live", ".live")
    api.stop()
    assert window.shows("has lost the cluster", ".messages", 120), window.text("main")
    assert window.audit() == []
    assert window.shares("batch") == "1"
    before = api.get("Entitlement", "batch")
    api.put({**before, "spec": {**before["spec"], "shares": 7}})
    api.start()
    assert eventually(lambda: window.shares("batch") == "7", 120), window.text("main")
    assert eventually(lambda: not window.text(".messages"), 60)
    assert window.shows("Live", ".live")
    window.complaints()  # of what could not be asked meanwhile
