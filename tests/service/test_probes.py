"""Pages and metrics are answered by HTTP, and an address that cannot be had is told."""

from __future__ import annotations

import logging
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Gauge

from walras_service.failures import BadInput
from walras_service.probes import serve, verdict

pytestmark = pytest.mark.system


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - always http
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_probes_say_what_is_wrong_and_metrics_are_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    problems: list[str] = []
    registry = CollectorRegistry()
    Gauge("walras_answer", "Of everything.", registry=registry).set(42)
    pages = {"/healthz": lambda: verdict(problems), "/readyz": lambda: verdict([], "epoch 7")}
    serve(("127.0.0.1", 0), pages, registry)
    (told,) = caplog.messages
    url = told.removeprefix("listening on ")
    assert get(f"{url}/healthz?verbose") == (200, "ok\n")
    assert get(f"{url}/readyz") == (200, "epoch 7\n")
    problems += ["a thread is stuck", "so is another"]
    assert get(f"{url}/healthz") == (503, "a thread is stuck\nso is another\n")
    assert "walras_answer 42.0\n" in get(f"{url}/metrics")[1]
    assert get(f"{url}/nowhere") == (404, "not found; try /metrics /healthz /readyz\n")


def test_an_address_that_cannot_be_had_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"192\.0\.2\.1:9: .*choose another address with --listen"):
        serve(("192.0.2.1", 9), {}, CollectorRegistry())
