"""``walras pause`` and ``walras resume`` on an API server without an operator."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from command_line import walras_here as walras
from kubeconfigs import kubeconfig
from played_api import PlayedApi
from worlds import market

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.system

Document = dict[str, Any]
NODES = [f"n{number}" for number in range(30)]


def plan(name: str, grants: int = 2) -> Document:
    given = [{"podUID": f"u-{name}-{k}", "name": f"p{k}", "cores": "1"} for k in range(grants)]
    return {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "NodeAllocation",
        "metadata": {"name": name},
        "spec": {"epoch": 4, "mode": "enforce", "grants": given},
    }


@pytest.fixture
def server() -> Iterator[PlayedApi]:
    made = PlayedApi([market(), *map(plan, NODES)])
    yield made
    made.stop()


def paused(server: PlayedApi) -> set[str]:
    """Return what is paused: nodes, and the Market as its name."""
    plans = (server.get("NodeAllocation", name) for name in NODES)
    objects = [*plans, server.get("Market", "default")]
    return {each["metadata"]["name"] for each in objects if each["spec"].get("paused") is True}


def on(server: PlayedApi, folder: Path, *arguments: str) -> Any:
    command, *rest = arguments
    return walras(command, "--kubeconfig", str(kubeconfig(folder / "config", server.url)), *rest)


def test_all_is_paused_and_goes_on(server: PlayedApi, tmp_path: Path) -> None:
    before = {name: server.get("NodeAllocation", name)["spec"] for name in NODES}
    done = on(server, tmp_path, "pause")
    assert done.returncode == 0, done.stderr
    assert " ".join(done.stdout.split()) == (
        "30 nodes are paused: the grants of 60 pods stay; nodes without a plan get none. "
        "Go on with: walras resume"
    )
    assert paused(server) == {*NODES, "default"}
    again = on(server, tmp_path, "pause")
    assert "30 nodes are paused (30 of them already)" in " ".join(again.stdout.split())
    done = on(server, tmp_path, "resume")
    assert done.returncode == 0, done.stderr
    assert " ".join(done.stdout.split()) == (
        "30 nodes go on: the operator decides anew on 60 grants"
    )
    assert {name: server.get("NodeAllocation", name)["spec"] for name in NODES} == before
    assert not paused(server)


def test_some_nodes_are_paused_alone(server: PlayedApi, tmp_path: Path) -> None:
    done = on(server, tmp_path, "pause", "--node", "n3", "--node", "n5", "-o", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "paused": True,
        "market": None,
        "nodes": [
            {"name": name, "grants": 2, "state": "Changed", "problem": ""} for name in ("n3", "n5")
        ],
    }
    assert paused(server) == {"n3", "n5"}


def test_a_node_without_a_plan_is_told(server: PlayedApi, tmp_path: Path) -> None:
    done = on(server, tmp_path, "pause", "--node", "n3", "--node", "nobody")
    assert done.returncode == 1
    assert "nobody: has no NodeAllocation" in done.stdout
    assert "1 of 2 nodes could not be changed" in done.stderr
    assert paused(server) == {"n3"}


def test_plans_are_paused_where_there_is_no_market(server: PlayedApi, tmp_path: Path) -> None:
    server.delete("Market", "default")
    done = on(server, tmp_path, "pause", "-o", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["market"] == "Missing"
    assert all(server.get("NodeAllocation", name)["spec"]["paused"] for name in NODES)


def test_who_may_not_pause_is_told(server: PlayedApi, tmp_path: Path) -> None:
    server.forbidden[""] = {"nodeallocations"}
    done = on(server, tmp_path, "pause")
    assert done.returncode == 1
    assert "forbidden" in done.stderr
