"""A local server answers only the browser that opened its URL, and only by its own name."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest
from starlette.middleware import Middleware

from dashboards import EXAMPLE, served
from walras_dashboard.access import LocalAccess, LocalGate
from walras_dashboard.app import PREFIX, make_app
from walras_dashboard.dump import Dump
from walras_dashboard.serving import bound, names_of
from walras_dashboard.viewers import OneViewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

pytestmark = pytest.mark.system

HOST = "127.0.0.1:8765"
OVERVIEW = f"{PREFIX}/overview"
ACCESS = LocalAccess.to(8765, names_of("127.0.0.1"))


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    app = make_app(OneViewer(Dump.of([EXAMPLE])), [Middleware(LocalGate, access=ACCESS)])
    with served(app) as made:
        made.headers["host"] = HOST
        yield made


@pytest.fixture(autouse=True)
def _forgetful(client: httpx.Client) -> None:
    client.cookies.clear()


def test_the_url_sets_a_cookie_that_scripts_and_other_sites_cannot_use(
    client: httpx.Client,
) -> None:
    answer = client.get("/", params={"token": ACCESS.token})
    assert answer.status_code == 303
    assert answer.headers["location"] == ACCESS.page  # the token leaves the address bar
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"walras-8765={ACCESS.token};")
    attributes = {each.strip() for each in cookie.split(";")}
    assert {"HttpOnly", "SameSite=Strict", f"Path={ACCESS.page}"} <= attributes
    inside = client.get(OVERVIEW, headers={"cookie": f"walras-8765={ACCESS.token}"})
    assert inside.status_code == 200
    assert inside.headers["cache-control"] == "no-store"


def test_the_cookie_is_sent_below_a_path_only_that_no_server_on_another_port_knows(
    client: httpx.Client,
) -> None:
    page = client.get("/", params={"token": ACCESS.token}, follow_redirects=True)
    assert page.url.path == ACCESS.page
    assert page.headers["content-type"].startswith("text/html")
    script = re.search(r'src="\./(assets/[^"]+)"', page.text)
    assert script is not None
    assert client.get(f"{ACCESS.page}{script[1]}").status_code == 200
    below = f"{ACCESS.page}{OVERVIEW.removeprefix('/')}"
    inside = client.get(below)
    assert inside.status_code == 200
    assert inside.headers["cache-control"] == "no-store"
    assert client.get(OVERVIEW).status_code == 401  # the client keeps the cookie for the page
    client.cookies.clear()
    assert client.get(below).status_code == 401
    assert client.get(below, headers={"host": "evil.example:8765"}).status_code == 421


def test_a_page_of_an_earlier_server_asks_for_the_token_of_this_one(client: httpx.Client) -> None:
    page = LocalAccess.to(8765, ["127.0.0.1"]).page
    assert client.get(page).headers["content-type"].startswith("text/html")
    below = f"{page}{OVERVIEW.removeprefix('/')}"
    assert client.get(below).status_code == 401
    headers = {"authorization": f"Bearer {ACCESS.token}"}
    assert client.get(below, headers=headers).status_code == 200


def test_a_bearer_token_is_as_good_as_the_cookie(client: httpx.Client) -> None:
    headers = {"authorization": f"Bearer {ACCESS.token}"}
    assert client.get(OVERVIEW, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"cookie": "walras-8765=wrong"},
        {"cookie": f"walras-1={ACCESS.token}"},
        {"cookie": "walras-8765=\u00e9".encode().decode("latin-1")},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer"},
    ],
)
def test_without_the_token_nothing_is_told(client: httpx.Client, headers: dict[str, str]) -> None:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    for path in ("overview", "events", "openapi.json", "jobs", "no-such"):
        answer = client.get(f"{PREFIX}/{path}", headers=encoded)
        assert answer.status_code == 401
        assert "URL" in answer.json()["error"]


def test_a_wrong_token_in_the_url(client: httpx.Client) -> None:
    answer = client.get("/?token=wrong")
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["evil.example:8765", "127.0.0.1", "127.0.0.1:1", ""])
def test_a_name_that_others_point_to_this_machine_is_refused(
    client: httpx.Client, host: str
) -> None:
    headers = {"host": host, "authorization": f"Bearer {ACCESS.token}"}
    for path in ("/", OVERVIEW, "/healthz"):
        assert client.get(path, headers=headers).status_code in {400, 421}


def test_a_page_of_another_origin_is_refused(client: httpx.Client) -> None:
    headers = {"authorization": f"Bearer {ACCESS.token}", "origin": "https://evil.example"}
    assert client.get(OVERVIEW, headers=headers).status_code == 403
    headers["origin"] = f"http://{HOST}"
    assert client.get(OVERVIEW, headers=headers).status_code == 200
    assert "access-control-allow-origin" not in client.get(OVERVIEW, headers=headers).headers


def test_tokens_are_long_and_differ() -> None:
    other = LocalAccess.to(8765, ["127.0.0.1"])
    assert len(other.token) >= 43
    assert other.token != ACCESS.token
    assert len(other.page) >= 43
    assert other.page != ACCESS.page
    assert other.token not in other.page


def test_all_addresses_are_those_of_ipv4_and_ipv6() -> None:
    with bound("::", 0) as on:
        port = on.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()
        if on.family != socket.AF_INET6:
            pytest.skip("this machine has no IPv6, so only IPv4 was tested")
        socket.create_connection(("::1", port)).close()
