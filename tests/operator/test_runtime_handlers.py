"""Kopf starts and ends the operator, and reaches the API server as its own client does."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from kubeconfigs import kubeconfig
from operator_cluster import PROGRAM
from played_api import PlayedApi
from waiting import eventually
from walras_operator.watch.handlers import _login
from walras_service.api import settings

if TYPE_CHECKING:
    from pathlib import Path

HOST, PROXY = "https://10.96.0.1:443", "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_without_a_proxy_there_is_none(tmp_path: Path) -> None:
    found = settings(str(kubeconfig(tmp_path / "config", HOST)))
    assert _login(found).proxy_url is None
    assert _login(found).server == HOST


@pytest.mark.parametrize(
    ("exempt", "proxy"),
    [
        ("", PROXY),
        (".svc,.cluster.local,192.0.2.0/24", PROXY),
        (".svc,10.96.0.0/12", None),
        ("*", None),
    ],
)
def test_a_proxy_of_the_environment_is_used_except_for_exempt_addresses(
    exempt: str, proxy: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", exempt)
    assert _login(settings(str(kubeconfig(tmp_path / "config", HOST)))).proxy_url == proxy


def test_a_proxy_of_the_kubeconfig_is_used(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", HOST)
    document = yaml.safe_load(path.read_text())
    document["clusters"][0]["cluster"]["proxy-url"] = PROXY
    path.write_text(yaml.safe_dump(document))
    assert _login(settings(str(path))).proxy_url == PROXY


@pytest.mark.system
def test_an_operator_that_is_told_to_end_stops_its_parts_and_succeeds(tmp_path: Path) -> None:
    api = PlayedApi()
    log = tmp_path / "log"
    command = [sys.executable, str(PROGRAM), str(kubeconfig(tmp_path / "config", api.url))]
    with log.open("w") as out:
        operator = subprocess.Popen([*command, "system", "a", "0"], stdout=out, stderr=out)
    try:
        assert eventually(lambda: "objects cannot be watched" in log.read_text(), 60)
        assert operator.poll() is None, "what cannot be watched ends nothing"
        operator.send_signal(signal.SIGTERM)
        assert operator.wait(60) == 0, log.read_text()
        assert re.search(r"INFO ending$", log.read_text(), re.MULTILINE)
        assert "Traceback" not in log.read_text()
    finally:
        operator.kill()
        api.stop()


SIGNALLED = """
import os, signal, sys, time
from walras_operator.watch.handlers import run_lifecycle
from walras_service.api import settings

def start():
    print("started", flush=True)
    while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        time.sleep(0.01)  # until Kopf listens to signals
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.3)

run_lifecycle(settings(sys.argv[1]), start, lambda: print("ended", flush=True))
"""


@pytest.mark.system
def test_a_signal_during_the_start_ends_what_has_started(tmp_path: Path) -> None:
    api = PlayedApi()
    command = [sys.executable, "-c", SIGNALLED, str(kubeconfig(tmp_path / "config", api.url))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    finally:
        api.stop()
    assert done.stdout.split() == ["started", "ended"]
