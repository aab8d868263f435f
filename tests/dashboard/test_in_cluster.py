"""Each viewer of a dashboard in a cluster sees what they may see themselves."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from starlette.middleware import Middleware
from starlette.requests import Request

from dashboards import decided, served
from played_api import PlayedApi
from waiting import PATIENCE, eventually
from walras_dashboard.admission import CHECKS
from walras_dashboard.app import PREFIX, make_app
from walras_dashboard.in_cluster import (
    IDLE_SECONDS,
    MOST_BEGUN,
    MOST_OF_OWNER,
    MOST_VIEWERS,
    ClusterViewers,
    NamespaceGate,
    ProxyIdentities,
    TokenIdentities,
    connections,
)
from walras_dashboard.limits import MOST_STREAMS
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

pytestmark = pytest.mark.system

OVERVIEW = f"{PREFIX}/overview"
SECRET = "s3cret-of-the-proxy"  # noqa: S105 - of no real proxy
EVERY = {"entitlements", "marketjobs", "markets", "nodeallocations", "nodes", "leases"}


@pytest.fixture
def api() -> Iterator[PlayedApi]:
    made = PlayedApi(decided())
    yield made
    made.stop()


class _Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def by_token(api: PlayedApi, clock: _Clock) -> Iterator[httpx.Client]:
    viewers = ClusterViewers(TokenIdentities(), connections(api.configuration(), "default"), clock)
    with served(make_app(viewers, [Middleware(NamespaceGate)])) as client:
        yield client
    viewers.stop()


@pytest.fixture
def by_proxy(api: PlayedApi) -> Iterator[httpx.Client]:
    identities = ProxyIdentities(SECRET, "X-Forwarded-User", "X-Forwarded-Groups")
    viewers = ClusterViewers(identities, connections(api.configuration("own"), "default"))
    with served(make_app(viewers)) as client:
        yield client
    viewers.stop()


def _as(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_without_a_token_nothing_is_told_or_asked(api: PlayedApi, by_token: httpx.Client) -> None:
    for headers in ({}, {"authorization": "Basic eDp5"}, {"authorization": "Bearer"}):
        answer = by_token.get(OVERVIEW, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    assert not api.asked


def test_without_a_token_not_even_mistakes_are_told(api: PlayedApi, by_token: httpx.Client) -> None:
    for body in (b'{"x":1', b'{"x": 1}', b'{"shares": {"a": "b"}}'):
        headers = {"content-type": "application/json"}
        answer = by_token.post(f"{PREFIX}/what-if", content=body, headers=headers)
        assert answer.status_code == 401
        headers |= _as("root")
        assert by_token.post(f"{PREFIX}/what-if", content=body, headers=headers).status_code == 422
        api.asked.clear()
    assert by_token.get(f"{PREFIX}/jobs?limit=none").status_code == 401
    assert not api.asked


def test_a_token_that_the_cluster_does_not_know(api: PlayedApi, by_token: httpx.Client) -> None:
    api.unknown.add("stolen")
    answer = by_token.get(OVERVIEW, headers=_as("stolen"))
    assert answer.status_code == 401
    assert {path for path, *_ in api.asked} == {"/apis/walras.dev/v1alpha1"}


def test_each_viewer_sees_with_their_own_token(api: PlayedApi, by_token: httpx.Client) -> None:
    api.forbidden["ada"] = EVERY
    api.allowed["ada"] = {"alice/marketjobs", "alice/entitlements"}
    everything = by_token.get(f"{PREFIX}/jobs", headers=_as("root")).json()
    assert everything["total"] == 4
    chosen = by_token.get("/", params={"namespace": "alice"})
    assert chosen.status_code == 303
    cookie = {"cookie": chosen.headers["set-cookie"].partition(";")[0]}
    own = by_token.get(f"{PREFIX}/jobs", headers={**_as("ada"), **cookie}).json()
    assert {each["namespace"] for each in own["jobs"]} == {"alice"}
    overview = by_token.get(OVERVIEW, headers={**_as("ada"), **cookie}).json()
    assert overview["nodes"] == []
    assert any("list nodes" in each for each in overview["notes"])
    other = by_token.get(f"{PREFIX}/jobs/bob/x264", headers={**_as("ada"), **cookie})
    assert other.status_code in {403, 404}
    hidden = by_token.get(f"{PREFIX}/nodes/node-1", headers={**_as("ada"), **cookie})
    assert hidden.status_code == 403
    assert {token for _, token, *_ in api.asked} == {"ada", "root"}


def test_a_viewer_without_rights(api: PlayedApi, by_token: httpx.Client) -> None:
    api.forbidden["eve"] = EVERY
    answer = by_token.get(OVERVIEW, headers=_as("eve"))
    assert answer.status_code == 403
    assert "you have no right to" in answer.json()["error"]


def test_a_token_that_expires_is_refused_a_minute_later(
    api: PlayedApi, by_token: httpx.Client, clock: _Clock
) -> None:
    assert by_token.get(OVERVIEW, headers=_as("brief")).status_code == 200
    api.unknown.add("brief")
    clock.ahead += 61
    assert by_token.get(OVERVIEW, headers=_as("brief")).status_code == 401


def test_an_idle_viewer_is_forgotten(api: PlayedApi, by_token: httpx.Client, clock: _Clock) -> None:
    by_token.get(OVERVIEW, headers=_as("one"))
    clock.ahead += IDLE_SECONDS + 1
    by_token.get(OVERVIEW, headers=_as("two"))
    before = len([asker for _, asker, *_ in api.asked if asker == "one"])
    assert by_token.get(OVERVIEW, headers=_as("one")).status_code == 200
    assert len([asker for _, asker, *_ in api.asked if asker == "one"]) > before + 5


def _request(token: str, namespace: str = "") -> Request:
    headers = {**_as(token), "cookie": f"walras-namespace={namespace}"}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": encoded})


@pytest.fixture
def viewers(api: PlayedApi, clock: _Clock) -> Iterator[ClusterViewers]:
    made = ClusterViewers(TokenIdentities(), connections(api.configuration(), "default"), clock)
    yield made
    made.stop()


def test_one_token_cannot_take_all_places(viewers: ClusterViewers) -> None:
    for number in range(MOST_VIEWERS):
        with suppress(ApiError):
            viewers.viewer(_request("greedy", f"n{number}"))
    assert viewers.viewer(_request("root")) is viewers.viewer(_request("root"))


def test_one_more_namespace_replaces_that_which_was_looked_at_longest_ago(
    viewers: ClusterViewers, clock: _Clock
) -> None:
    requests = [_request("root", f"n{number}") for number in range(MOST_OF_OWNER + 1)]
    seen = []
    for each in requests[:-1]:
        seen.append(viewers.viewer(each))
        clock.ahead += 1
    assert viewers.viewer(requests[0]) is seen[0]
    clock.ahead += 1
    seen.append(viewers.viewer(requests[-1]))
    kept = [viewers.is_current(*each) for each in zip(seen, requests, strict=True)]
    assert kept == [True, False, True, True]


def test_the_limit_of_requests_is_one_for_all_namespaces(viewers: ClusterViewers) -> None:
    limit = viewers.viewer(_request("root", "one")).limit
    for number in range(MOST_OF_OWNER):
        assert viewers.viewer(_request("root", f"n{number}")).limit is limit
    assert viewers.viewer(_request("ada", "one")).limit is not limit


def test_namespaces_are_not_begun_without_end(viewers: ClusterViewers, clock: _Clock) -> None:
    for number in range(MOST_BEGUN):
        viewers.viewer(_request("root", f"n{number}"))
    with pytest.raises(ApiError, match="try again in 10 minutes"):
        viewers.viewer(_request("root", "other"))
    viewers.viewer(_request("root", f"n{MOST_BEGUN - 1}"))
    clock.ahead += IDLE_SECONDS + 1
    viewers.viewer(_request("root", "other"))


def test_events_end_within_a_minute_of_the_token(
    api: PlayedApi, by_token: httpx.Client, clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walras_dashboard.events.PING", 0.05)
    with by_token.stream("GET", f"{PREFIX}/events", headers=_as("brief")) as answer:
        lines = answer.iter_lines()
        assert _next(lines) == "change"
        pings = (each for each in lines if each == ": ping")
        assert len(list(islice(pings, 3))) == 3
        api.unknown.add("brief")
        clock.ahead += 60
        assert len(list(islice(pings, 100))) < 100
    assert by_token.get(OVERVIEW, headers=_as("brief")).status_code == 401


def _through(user: str, groups: str = "", secret: str = SECRET) -> dict[str, str]:
    return {
        "x-walras-proxy-secret": secret,
        "x-forwarded-user": user,
        "x-forwarded-groups": groups,
    }


def test_the_proxy_names_the_viewer(api: PlayedApi, by_proxy: httpx.Client) -> None:
    headers = _through("ada", "vision, speech,vision")
    assert by_proxy.get(OVERVIEW, headers=headers).status_code == 200
    assert {(token, user, tuple(groups)) for _, token, user, groups in api.asked} == {
        ("own", "ada", ("vision", "speech"))
    }


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        (_through("ada", secret=SECRET[:-1]), "does not come from the authenticating proxy"),
        (_through("ada", secret=""), "does not come from the authenticating proxy"),
        (_through(""), "names no user"),
        (_through("system:admin"), "belongs to Kubernetes"),
        (_through("ada", "system:masters"), "belongs to Kubernetes"),
        (_through("ada", "vision,system:masters"), "belongs to Kubernetes"),
        (_as("own"), "does not come from the authenticating proxy"),
    ],
)
def test_what_the_proxy_may_not_say(
    api: PlayedApi, by_proxy: httpx.Client, headers: dict[str, str], text: str
) -> None:
    answer = by_proxy.get(OVERVIEW, headers=headers)
    assert answer.status_code == 401
    assert text in answer.json()["error"]
    assert not api.asked


def test_events_tell_of_changes_outages_and_returns(api: PlayedApi, by_token: httpx.Client) -> None:
    with by_token.stream("GET", f"{PREFIX}/events", headers=_as("root")) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines).startswith(":")  # at once
        assert _next(lines) == "change"
        before = api.get("Entitlement", "alice")
        api.put({**before, "spec": {**before["spec"], "shares": 9}})
        assert _next(lines) == "change"
        api.stop()
        assert _next(lines) == "lost"
        api.start()
        while (event := _next(lines)) != "restored":
            assert event in {"lost", "change"}
    overview = by_token.get(OVERVIEW, headers=_as("root")).json()
    assert [each["shares"] for each in overview["users"]] == [9, 1]


def _next(lines: Iterator[str]) -> Any:
    return next(each for each in lines if each.startswith("event: ")).removeprefix("event: ")


@pytest.mark.parametrize("chosen", ["", "vision"])
def test_a_namespace_is_chosen_by_the_address(by_token: httpx.Client, chosen: str) -> None:
    answer = by_token.get("/", params={"namespace": chosen})
    assert answer.headers["set-cookie"].startswith(f"walras-namespace={chosen};")


@pytest.mark.parametrize("chosen", ["../x", "UPPER", "a;b", "a" * 64])
def test_what_is_no_namespace_is_not_chosen(by_token: httpx.Client, chosen: str) -> None:
    assert "set-cookie" not in by_token.get("/", params={"namespace": chosen}).headers


def tokens_of(user: str, number: int) -> list[str]:
    return [f"{user}-{each}" for each in range(number)]


def test_one_user_with_many_tokens_takes_no_place_of_others(
    api: PlayedApi, by_token: httpx.Client
) -> None:
    tokens = tokens_of("eve", MOST_VIEWERS + 5)
    api.users = dict.fromkeys(tokens, "eve")
    codes = [by_token.get(OVERVIEW, headers=_as(each)).status_code for each in tokens]
    assert codes == [200] * MOST_BEGUN + [503] * (len(tokens) - MOST_BEGUN)
    assert by_token.get(OVERVIEW, headers=_as("ada")).status_code == 200
    assert by_token.get(OVERVIEW, headers=_as(tokens[MOST_BEGUN - 1])).status_code == 200


def test_one_user_has_some_streams_open_and_others_theirs(
    api: PlayedApi, by_token: httpx.Client
) -> None:
    one, other = tokens_of("eve", 2)
    api.users = {one: "eve", other: "eve"}
    events = f"{PREFIX}/events"
    with ExitStack() as opened:
        for number in range(MOST_STREAMS):
            headers = _as(one if number % 2 else other)
            answer = opened.enter_context(by_token.stream("GET", events, headers=headers))
            assert answer.status_code == 200
        assert by_token.get(events, headers=_as(one)).status_code == 429
        answer = opened.enter_context(by_token.stream("GET", events, headers=_as("ada")))
        assert answer.status_code == 200

    def is_open() -> bool:
        with by_token.stream("GET", events, headers=_as(one)) as answer:
            return answer.status_code == 200

    assert eventually(is_open)


def test_whoever_is_known_waits_for_no_check_of_others(by_token: httpx.Client) -> None:
    """Eight checks at a time hang at the API server, as many as are made."""
    hang, hung = threading.Event(), threading.Semaphore(0)
    assert by_token.get(OVERVIEW, headers=_as("ada")).status_code == 200
    check = ClusterViewers._check

    def slow(self: ClusterViewers, *arguments: Any) -> None:
        hung.release()
        hang.wait(60)
        check(self, *arguments)

    with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(CHECKS) as pool:
        patched.setattr(ClusterViewers, "_check", slow)
        waiting = [
            pool.submit(by_token.get, OVERVIEW, headers=_as(f"new-{number}"), timeout=60)
            for number in range(CHECKS)
        ]
        for _ in waiting:
            assert hung.acquire(timeout=PATIENCE)
        assert by_token.get(OVERVIEW, headers=_as("ada")).status_code == 200
        hang.set()
        assert {each.result().status_code for each in waiting} == {200}
