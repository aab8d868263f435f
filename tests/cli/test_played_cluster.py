"""Lists, what-if and outages of a live cluster, whose API server is played in this process."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from command_line import walras_here as walras
from dashboards import EXAMPLE, decided, leases
from kubeconfigs import kubeconfig
from played_api import PlayedApi
from walras_api.contract import API_VERSION
from walras_cli.cluster import connection
from walras_cli.cluster.connection import connect
from walras_cli.cluster.options import Target
from walras_service.kinds import OURS
from worlds import job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.system

Document = dict[str, Any]


@pytest.fixture
def played() -> Iterator[Callable[[list[Document]], PlayedApi]]:
    """Yield a function that plays an API server with objects."""
    made: list[PlayedApi] = []

    def play(documents: list[Document]) -> PlayedApi:
        made.append(PlayedApi(documents))
        return made[-1]

    yield play
    for each in made:
        each.stop()


def test_lists_come_in_pages(
    played: Callable[[list[Document]], PlayedApi], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [job(name) for name in ("a1", "b1", "a2", "b2", "a3")]
    for each in documents:
        each["metadata"]["labels"] = {"tier": each["metadata"]["name"][0]}
    server = played(documents)
    there = connect(Target(kubeconfig=str(kubeconfig(tmp_path / "config", server.url))))
    monkeypatch.setattr(connection, "PAGE", 1)

    def listed(selector: str = "") -> list[str]:
        found = there.every(OURS["MarketJob"], "lab", labelSelector=selector)
        return [each["metadata"]["name"] for each in islice(found, 9)]  # a page twice never ends

    assert listed() == ["a1", "a2", "a3", "b1", "b2"]
    assert len(server.asked) == 5
    assert listed("tier=a") == ["a1", "a2", "a3"]


def test_what_a_change_of_a_live_cluster_would_do_is_what_the_operator_does(
    played: Callable[[list[Document]], PlayedApi], tmp_path: Path
) -> None:
    items = yaml.safe_load(EXAMPLE.read_text())["items"]
    (alice,) = (each for each in items if each["metadata"]["name"] == "alice")
    alice["spec"]["shares"] *= 9
    change, after = tmp_path / "change.yaml", tmp_path / "after.yaml"
    change.write_text(yaml.safe_dump(alice))
    after.write_text(yaml.safe_dump_all(items))
    server = played([*({"apiVersion": API_VERSION, **each} for each in decided()), *leases()])
    config = str(kubeconfig(tmp_path / "config", server.url))
    done = walras("what-if", "--kubeconfig", config, "-f", str(change), "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    assert _of_plan(found["before"]) == _of_statuses(decided())
    assert _of_plan(found) == _of_statuses(decided(after)) != _of_statuses(decided())


def _of_plan(plan: Document) -> dict[str, float]:
    return {each["name"]: each["held"] for each in plan["jobs"]}


def _of_statuses(documents: list[Document]) -> dict[str, float]:
    return {
        each["metadata"]["name"]: float(each["status"]["pods"][0]["held"])
        for each in documents
        if each["kind"] == "MarketJob"
    }


@pytest.mark.parametrize("command", [["top"], ["explain", "user", "a"], ["check"], ["what-if"]])
def test_a_server_that_does_not_answer_is_named(
    command: list[str], played: Callable[[list[Document]], PlayedApi], tmp_path: Path
) -> None:
    server = played([])
    config = str(kubeconfig(tmp_path / "config", server.url))
    server.stop()
    done = walras(*command, "--kubeconfig", config)
    assert done.returncode == 1
    assert f"{server.url}: is unreachable: Connection refused" in done.stderr
    assert len(done.stderr.splitlines()) == 1
