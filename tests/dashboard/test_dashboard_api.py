"""Every endpoint answers as openapi.json says, on a dump; bad requests get a sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import jsonschema
import pytest
import yaml

from dashboards import EXAMPLE, served
from walras_api.parse import parse_resource
from walras_dashboard.app import PREFIX, make_app
from walras_dashboard.dump import Dump
from walras_dashboard.viewers import OneViewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

pytestmark = pytest.mark.system

OPENAPI = Path(__file__).parents[2] / "dashboard/openapi.json"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with served(make_app(OneViewer(Dump.of([EXAMPLE])))) as made:
        yield made


def _checked(path: str, answer: Any, method: str = "get") -> Any:
    """Check an answer against the schema of its path."""
    document = json.loads(OPENAPI.read_text())
    found = document["paths"][f"{PREFIX}{path}"][method]["responses"][str(answer.status_code)]
    schema = found["content"]["application/json"]["schema"]
    jsonschema.validate(answer.json(), {**schema, "components": document["components"]})
    return answer.json()


def test_the_document_is_up_to_date(client: httpx.Client) -> None:
    assert client.get(f"{PREFIX}/openapi.json").json() == json.loads(OPENAPI.read_text()), (
        "run make openapi"
    )


def test_overview(client: httpx.Client) -> None:
    found = _checked("/overview", client.get(f"{PREFIX}/overview"))
    assert found["totals"]["cores"] == 20
    assert found["totals"]["sold"] == 20
    assert [each["name"] for each in found["users"]] == ["alice", "bob"]
    assert [each["price"] for each in found["nodes"]] == [1.00232, 0.997677]
    assert found["source"]["kind"] == "file"
    assert (found["mechanism"], found["memoryMechanism"]) == ("AmdahlBidding", "Karma")
    loans = {
        (each["from"], each["to"]): each["cores"] for each in found["lending"] if each["cores"]
    }
    assert loans.keys() == {("bob", "alice"), ("alice", "bob")}
    assert loans["bob", "alice"] > loans["alice", "bob"]
    assert found["lendingUnknown"] == 0


def test_jobs_are_filtered_sorted_and_cut(client: httpx.Client) -> None:
    def names(query: str) -> list[str]:
        found = _checked("/jobs", client.get(f"{PREFIX}/jobs?{query}"))
        return [each["name"] for each in found["jobs"]]

    assert names("") == ["bodytrack", "dedup", "raytrace", "x264"]
    assert names("user=bob") == ["raytrace", "x264"]
    assert names("node=node-1") == ["dedup", "x264"]
    assert names("q=ALICE/d") == ["dedup"]
    assert names("sort=-speedup") == ["x264", "bodytrack", "raytrace", "dedup"]
    assert names("sort=parallelFraction&limit=1&offset=1") == ["raytrace"]
    assert names("sort=used") == ["bodytrack", "dedup", "raytrace", "x264"]


def test_a_job(client: httpx.Client) -> None:
    path = "/jobs/{namespace}/{name}"
    found = _checked(path, client.get(f"{PREFIX}/jobs/alice/dedup"))
    assert found["curve"]["predicted"][1] == {"cores": 2, "speedup": pytest.approx(1.3605, 1e-4)}
    assert "buys 1.34 cores" in found["explanation"]["pods"][0]["reason"]
    assert found["explanation"]["oneMore"][0]["gain"] == pytest.approx(0.281, abs=1e-3)


def test_a_user(client: httpx.Client) -> None:
    found = _checked("/users/{name}", client.get(f"{PREFIX}/users/alice"))
    assert [each["name"] for each in found["jobs"]] == ["bodytrack", "dedup"]
    assert found["quantum"]["number"] == 1
    assert any("shares of the cluster" in each for each in found["text"])


def test_a_node(client: httpx.Client) -> None:
    found = _checked("/nodes/{name}", client.get(f"{PREFIX}/nodes/node-1"))
    assert {each["pod"] for each in found["grants"]} == {"dedup-0", "x264-0"}
    assert found["topology"] is None
    assert found["supply"]["cpus"] == 10


@pytest.mark.parametrize(
    ("kind", "name", "series"),
    [("user", "alice", 8), ("job", "dedup", 5), ("node", "node-1", 2), ("cluster", "", 6)],
)
def test_history(client: httpx.Client, kind: str, name: str, series: int) -> None:
    query = f"kind={kind}&name={name}&namespace=alice&since=3600&step=60"
    found = _checked("/history", client.get(f"{PREFIX}/history?{query}"))
    assert found["source"] == "session"
    assert len(found["series"]) == series
    assert all(len(each["values"]) == len(found["times"]) for each in found["series"])


def test_what_if_shows_both_divisions_and_the_documents_to_apply(client: httpx.Client) -> None:
    body = {"shares": {"alice": 3}, "fractions": {"bob/x264": 0.5}}
    found = _checked("/what-if", client.post(f"{PREFIX}/what-if", json=body), "post")
    entitled = {each["name"]: each["entitled"] for each in found["then"]["users"]}
    assert entitled == {"alice": pytest.approx(15), "bob": pytest.approx(5)}
    assert found["unchangedJobs"] + len(found["then"]["jobs"]) == 4
    documents = list(yaml.safe_load_all(found["yaml"]))
    assert [each["kind"] for each in documents] == ["Entitlement", "MarketJob"]
    for each in documents:
        parse_resource(each)
    assert documents[0]["spec"] == {"shares": 3, "namespaces": ["alice"]}
    assert documents[1]["spec"]["parallelFraction"] == "0.5"


def test_what_if_adds_and_removes_nodes(client: httpx.Client) -> None:
    body = {"addNodes": [{"like": "node-1", "count": 2}], "removeNodes": ["node-2"]}
    found = client.post(f"{PREFIX}/what-if", json=body).json()
    names = [each["name"] for each in found["then"]["nodes"]]
    assert names == ["node-1", "node-1-new-1", "node-1-new-2"]
    assert found["yaml"] == ""
    assert any("2 pods on removed nodes" in each for each in found["notes"])


def test_what_if_tries_every_mechanism(client: httpx.Client) -> None:
    shown = set()
    for name in client.get(f"{PREFIX}/overview").json()["mechanisms"]:
        answer = client.post(f"{PREFIX}/what-if", json={"mechanism": name})
        assert answer.status_code in {200, 422}, answer.text
        if answer.status_code == 200:
            assert answer.json()["then"]["mechanism"] == name
            shown.add(name)
    assert shown >= {"AmdahlBidding", "ProportionalSharing", "Auction"}


@pytest.mark.parametrize(
    ("body", "place", "text"),
    [
        ({"shares": {"nobody": 1}}, ["body", "shares", "nobody"], "no Entitlement nobody"),
        ({"shares": {"alice": 0}}, ["body", "shares", "alice"], "greater than"),
        ({"shares": {"alice": "many"}}, ["body", "shares", "alice"], "integer"),
        ({"fractions": {"alice/dedup": 1.5}}, ["body", "fractions", "alice/dedup"], "less than"),
        ({"fractions": {"x": 0.5}}, ["body", "fractions", "x"], "no MarketJob x"),
        ({"addNodes": [{"like": "n", "count": 1}]}, ["body", "addNodes", 0, "like"], "no Node n"),
        ({"removeNodes": ["n"]}, ["body", "removeNodes", 0], "no Node n"),
        ({"mechanism": "Magic"}, ["body", "mechanism"], "no mechanism Magic; use one of"),
        ({"share": {}}, ["body", "share"], "not permitted"),
        ([], ["body"], "valid dictionary"),
    ],
)
def test_bad_changes(client: httpx.Client, body: Any, place: list[Any], text: str) -> None:
    answer = client.post(f"{PREFIX}/what-if", json=body)
    assert answer.status_code == 422
    (problem,) = _checked("/what-if", answer, "post")["detail"]
    assert problem["loc"] == place
    assert text in problem["msg"]


def test_a_body_that_is_no_json_or_too_large(client: httpx.Client) -> None:
    path = f"{PREFIX}/what-if"
    kind = {"content-type": "application/json"}
    assert client.post(path, content=b"{", headers=kind).status_code == 422
    assert client.post(path, content=b" " * (2**20 + 1), headers=kind).status_code == 413
    assert client.post(path, content=b"{}", headers={"content-type": "text/plain"}).status_code in {
        415,
        422,
    }


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("users/alise", "Entitlement alise does not exist; did you mean alice?"),
        ("jobs/alice/dedupe", "did you mean alice/dedup?"),
        ("nodes/node", "Node node does not exist; did you mean"),
    ],
)
def test_unknown_objects(client: httpx.Client, path: str, text: str) -> None:
    answer = client.get(f"{PREFIX}/{path}")
    assert answer.status_code == 404
    assert text in answer.json()["error"]


@pytest.mark.parametrize(
    "query", ["jobs?sort=zzz", "jobs?limit=0", "jobs?offset=-1", "history?kind=pod", "history"]
)
def test_bad_queries(client: httpx.Client, query: str) -> None:
    answer = client.get(f"{PREFIX}/{query}")
    assert answer.status_code == 422
    _checked(f"/{query.partition('?')[0]}", answer)


@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", "../../etc/passwd", "\u202egnp.exe", "a" * 253, "%00", "é"],
)
def test_hostile_names_are_only_names(client: httpx.Client, name: str) -> None:
    for path in (f"users/{quote(name, safe='')}", f"nodes/{quote(name, safe='')}"):
        answer = client.get(f"{PREFIX}/{path}")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get(f"{PREFIX}/jobs", params={"q": name, "user": name}).json()["total"] == 0


def test_every_answer_has_the_security_headers(client: httpx.Client) -> None:
    for path in ("/", "/healthz", f"{PREFIX}/overview", f"{PREFIX}/users/x", "/no/such/file"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self'"
        )
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


def test_nothing_but_what_if_can_be_posted_to(client: httpx.Client) -> None:
    document = json.loads(OPENAPI.read_text())
    methods = {(path, each) for path, of in document["paths"].items() for each in of}
    assert {each for each in methods if each[1] != "get"} == {(f"{PREFIX}/what-if", "post")}
    assert client.post(f"{PREFIX}/overview").status_code == 405


def test_no_name_in_the_document_is_undescribed() -> None:
    document = json.loads(OPENAPI.read_text())
    for name, schema in document["components"]["schemas"].items():
        assert schema.get("description"), name
    assert not re.search(r"HTTPValidationError", json.dumps(document))
