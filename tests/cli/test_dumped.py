"""`walras top`, `explain` and `check` say of a dump what they say of the cluster itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from command_line import walras_here as walras
from dashboards import decided, leases
from kubeconfigs import kubeconfig
from played_api import PlayedApi
from walras_api.contract import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMANDS = [
    ["top", "-A"],
    ["top", "users"],
    ["top", "jobs", "-n", "alice"],
    ["top", "nodes", "-l", "pool=batch"],
    ["explain", "user", "alice"],
    ["explain", "job", "dedup", "-n", "alice"],
    ["explain", "node", "node-1"],
    ["explain", "cluster"],
    ["check", "-A"],
]


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    found = [{"apiVersion": API_VERSION, **each} for each in decided()]
    for number, each in enumerate(each for each in found if each["kind"] == "Node"):
        each["metadata"].setdefault("labels", {})["pool"] = ("batch", "other")[number % 2]
    found += leases()
    return found


@pytest.fixture(scope="module")
def server(documents: list[dict[str, Any]]) -> Iterator[PlayedApi]:
    made = PlayedApi(documents)
    yield made
    made.stop()


@pytest.fixture
def dump(documents: list[dict[str, Any]], tmp_path: Path) -> str:
    file = tmp_path / "dump.yaml"
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    file.write_text(yaml.safe_dump(json.loads(json.dumps(listed))))
    return str(file)


def told(*arguments: str) -> dict[str, Any]:
    done = walras(*arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    found.pop("time", None)
    return found


@pytest.mark.system
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_dump_says_what_its_cluster_says(
    command: list[str], server: PlayedApi, dump: str, tmp_path: Path
) -> None:
    config = kubeconfig(tmp_path / "config", server.url)
    assert told(*command, "-f", dump) == told(*command, "--kubeconfig", str(config))


def test_rows_of_a_dump(dump: str) -> None:
    users = told("top", "-A", "-f", dump)["users"]
    assert {each["name"] for each in users} >= {"alice", "bob"}
    assert all(each["cores"]["held"] is not None for each in users if not each.get("children"))
    [node] = told("top", "nodes", "-l", "pool!=batch,pool", "-f", dump)["nodes"]
    assert node["name"] == "node-2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["top", "nodes", "-l", "pool in (a)"], "of files, write labels such as a=b,c!=d,e"),
        (["explain", "user", "nobody"], "Entitlement nobody"),
        (["top", "-n", "nowhere", "jobs"], "namespace nowhere does not exist"),
    ],
)
def test_wrong_questions_are_told(arguments: list[str], message: str, dump: str) -> None:
    done = walras(*arguments, "-f", dump)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize("command", [["top"], ["explain", "cluster"], ["explain", "user", "alice"]])
def test_a_dump_without_leases_is_told_as_such(
    command: list[str], documents: list[dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "dump.json"
    items = [each for each in documents if each["kind"] != "Lease"]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    done = walras(*command, "-f", str(file))
    assert done.returncode == 0, done.stderr
    assert f"agents run is unknown: {file}: contains no leases" in " ".join(done.stdout.split())
    assert "no right" not in done.stdout


def test_no_color_means_no_attributes(dump: str) -> None:
    plain = walras("top", "-f", dump, FORCE_COLOR="1", NO_COLOR="1").stdout
    assert "\x1b" not in plain
    assert "\x1b[1m" in walras("top", "-f", dump, FORCE_COLOR="1", NO_COLOR="").stdout


@pytest.mark.parametrize("command", [["top"], ["check"], ["explain", "user", "a"]])
def test_a_dump_without_walras_is_told(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "dump.yaml"
    file.write_text('{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}')
    done = walras(*command, "-f", str(file))
    assert done.returncode == 2
    assert "contains no object of Walras; make the file by `kubectl get ent,mj" in done.stderr
    assert "`walras what-if -f` says what it would have" in done.stderr


def test_check_of_a_dump(dump: str, tmp_path: Path) -> None:
    assert walras("check", "-A", "-f", dump).returncode == 0
    label = {"walras.dev/entitlement": "alice"}
    odd = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "odd", "labels": label}}
    file = tmp_path / "more.json"
    file.write_text(json.dumps(odd))
    findings = told("check", "-A", "-f", dump, "-f", str(file))["findings"]
    assert [each["object"] for each in findings] == ["Namespace odd"]


@pytest.mark.parametrize("kind", ["DaemonSet", "Lease", "ResourceQuota"])
def test_objects_of_several_namespaces_may_have_one_name(
    kind: str, dump: str, tmp_path: Path
) -> None:
    there, elsewhere = (
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "same", "namespace": namespace}}
        for namespace in ("alice", "bob")
    )
    file = tmp_path / "more.yaml"
    file.write_text(yaml.safe_dump_all([there, elsewhere]))
    assert walras("check", "-A", "-f", dump, "-f", str(file)).returncode == 0
    file.write_text(yaml.safe_dump_all([there, there]))
    assert f"{kind} same: metadata.name: is used twice" in walras("check", "-f", str(file)).stderr


@pytest.mark.parametrize("command", [["top"], ["explain", "user", "alice"], ["explain", "cluster"]])
def test_what_waits_in_kueue_is_named(
    command: list[str], documents: list[dict[str, Any]], tmp_path: Path
) -> None:
    waiting = {"workloads": 2, "cpus": "6.5"}
    items = json.loads(json.dumps(documents))
    for each in items:
        if each["kind"] == "Market" or each["metadata"]["name"] == "alice":
            each.setdefault("status", {})["waiting"] = waiting
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    (line,) = [each for each in told(*command, "-f", str(file))["notes"] if "Kueue" in each]
    assert "2 Workloads" in line
    assert "6.5 CPUs" in line
