"""docs/install.md and docs/tutorial.md, followed word for word on a real node.

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

from cluster_tools import ROOT, SYSTEM, Node, ToolError, clients, get, helm, kubectl
from installed import PARTS
from node_watcher import ALLOCATIONS
from shared_node import values
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.node, pytest.mark.gate]

MARKETS = "/apis/walras.dev/v1alpha1/markets"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


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
        blocks: list[str] = BLOCK.findall((ROOT / "docs" / document).read_text())
        assert blocks, f"docs/{document} has no block marked sh"
        return "".join(map(self.type, blocks))

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


def test_a_new_administrator_gets_a_market_and_its_reasons(reader: Reader) -> None:
    reader.follow("install.md")  # which looks first, then enforces, and upgrades in both ways
    assert get(f"{MARKETS}/default")["spec"]["mode"] == "enforce"
    assert eventually(lambda: get(ALLOCATIONS)["items"][0]["spec"]["mode"] == "enforce")
    said = reader.follow("tutorial.md")
    assert re.search(r"of vision's budget of [\d.]+ buys [\d.]+ cores at [\d.]+ each", said)
