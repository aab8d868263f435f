"""docs/install.md, docs/tutorial.md and docs/quickstart.md, followed word for word on a real node.

What a block marked ``sh`` says is run as it stands, by a shell that ends at the first error. Only
values.yaml is another: it says what is particular about this cluster, as the reader's does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from cluster_tools import (
    ROOT,
    SYSTEM,
    Node,
    ToolError,
    clients,
    containers,
    get,
    helm,
    kubectl,
    pods,
)
from installed import PARTS
from node_watcher import ALLOCATIONS
from shared_node import values
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.node

MARKETS = "/apis/walras.dev/v1alpha1/markets"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks_of(document: str) -> list[str]:
    """Return the commands of a document, block by block."""
    blocks: list[str] = BLOCK.findall((ROOT / "docs" / document).read_text())
    assert blocks, f"docs/{document} has no block marked sh"
    return blocks


class Reader:
    """Somebody who types what a document says, in a folder like the project's.

    Attributes:
        folder: Folder in which the commands run.
        said: Commands that were typed, each with its output.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said = ""
        for name in ("helm", "examples"):
            (folder / name).symlink_to(ROOT / name)

    def follow(self, document: str) -> str:
        """Run all of a document; returns what was printed."""
        return "".join(map(self.type, blocks_of(document)))

    def type(self, block: str) -> str:
        """Run a block; returns what it printed."""
        programs = (str(clients()), str(Path(sys.executable).parent), os.environ["PATH"])
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=self.folder,
            env=os.environ | {"PATH": ":".join(programs), "COLUMNS": "110"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.said += f"$ {block}{done.stdout}{done.stderr}\n"
        assert done.returncode == 0, self.said
        return done.stdout


@pytest.fixture
def reader(tmp_path: Path, node: Node) -> Iterator[Reader]:
    for archive in PARTS:
        node.load(archive)
    chosen = values(node)
    for part in ("operator", "agent", "hooks"):
        del chosen[part]["resources"]  # a new administrator has the chart's
    chosen["market"]["spec"] = {}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(chosen))
    yield Reader(tmp_path)
    with suppress(ToolError):
        helm("uninstall", "walras", "--wait", "--ignore-not-found")
    with suppress(ToolError):
        kubectl("delete", "--ignore-not-found", "namespace", SYSTEM, "vision", "speech")


@pytest.mark.gate
def test_a_new_administrator_gets_a_market_and_its_reasons(reader: Reader) -> None:
    reader.follow("install.md")  # which looks first, then enforces, and upgrades in both ways
    assert get(f"{MARKETS}/default")["spec"]["mode"] == "enforce"
    assert eventually(lambda: get(ALLOCATIONS)["items"][0]["spec"]["mode"] == "enforce")
    said = reader.follow("tutorial.md")
    assert re.search(r"of vision's budget of [\d.]+ buys [\d.]+ cores at [\d.]+ each", said)


def test_a_quick_start_moves_cores_and_puts_back_what_it_changed(
    reader: Reader, node: Node
) -> None:
    with suppress(ToolError):  # one that an earlier test left might enforce
        kubectl("delete", "markets", "--all")
    install, teams, observe, enforce, shares, uninstall, remove = blocks_of("quickstart.md")
    reader.type(install + teams)
    observed = reader.type(observe)
    before = settings(node)
    reader.type(enforce)
    assert settings(node) != before, reader.said
    moved = reader.type(shares)
    assert "Enforced" in moved
    assert held_by_train(moved) < held_by_train(observed)
    reader.type(uninstall)
    assert eventually(lambda: settings(node) == before, 120, pause=1), reader.said
    reader.type(remove)
    assert "walras" not in kubectl("get", "crd,clusterroles,namespaces", "-o", "name")


def settings(node: Node) -> dict[str, dict[str, str | None]]:
    """Return what the containers of the two teams' programs have in files that an agent writes."""
    groups = node.cgroups.containers()
    programs = [
        each for team in ("vision", "speech") for pod in pods(team) for each in containers(pod)
    ]
    assert len(programs) == 3
    return {each: node.cgroups.settings(groups[each]) for each in programs}


def held_by_train(top: str) -> float:
    found = re.search(r"^vision/train +vision +1/1 +([\d.]+)", top, re.MULTILINE)
    assert found, top
    return float(found[1])
