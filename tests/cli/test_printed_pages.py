"""docs/cluster-cli.md and docs/what-if.md show what their commands print, except for times.

Nodes and pods are objects only, and agents are played (`market_cluster`).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from command_line import walras
from market_cluster import OURS, MarketCluster
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from worlds import document, job, node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_cluster

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```console\n\$ walras ([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PRINTED = [
    (page, *found)
    for page in ("cluster-cli.md", "what-if.md")
    for found in BLOCK.findall((DOCS / page).read_text())
]
OF_THE_TIME = re.compile(
    r"[+-]\d+\.\d\b(?!%)"  # credits, which change with every quantum
    r"|\b\d+\.\d{5,}\b"
    r"|(?<=decision )\d+|(?<=quantum )\d+|(?<=plan )\d+|(?<=full is )\d+"
    r"|(?<=iterations )\d+ \d+|(?<=residual )\S+ \S+"
    r"|\u2500+"
)

MORE_FOR_SPEECH = {
    "apiVersion": "walras.dev/v1alpha1",
    "kind": "Entitlement",
    "metadata": {"name": "speech-lab"},
    "spec": {"shares": 5, "parent": "engineering", "namespaces": ["speech"]},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MarketCluster]:
    """The cluster of the pages: a tree of users, and a job that is refused."""
    made = MarketCluster(KUBECONFIG, tmp_path_factory.mktemp("pages"))
    try:
        _fill(made)
        yield made
    finally:
        made.close()


def _fill(made: MarketCluster) -> None:
    for name in ("vision", "speech"):
        made.namespace(name)
    users = {
        "engineering": {"shares": 2},
        "vision-lab": {"shares": 3, "parent": "engineering", "namespaces": ["vision"]},
        "speech-lab": {"shares": 1, "parent": "engineering", "namespaces": ["speech"]},
        "batch": {"shares": 1, "namespaces": ["default"]},
    }
    made.make(
        document(
            "Market",
            "default",
            spec={"epochSeconds": 5, "cores": {"reservedCores": 1}},
        ),
        node("node-1", "16"),
        node("node-2", "16"),
        *(document("Entitlement", name, spec=spec) for name, spec in users.items()),
        job("train", "vision-lab", "vision", parallelFraction="0.98", memory={"demand": "6Gi"}),
        job("render", "vision-lab", "vision", parallelFraction="0.75"),
        job("decode", "speech-lab", "speech", parallelFraction="0.9", memory={"demand": "2Gi"}),
        job("index", "batch", "default", parallelFraction="0.9"),
        job("lost", "nobody", "default"),
        pod("train-0", "train", "node-1", namespace="vision"),
        pod("train-1", "train", "node-2", namespace="vision"),
        pod("render-2", "render", "node-1", namespace="vision"),
        pod("decode-3", "decode", "node-2", namespace="speech"),
        pod("decode-4", "decode", "node-1", namespace="speech"),
        pod("index-5", "index", "node-2", namespace="default"),
        pod("lost-6", "lost", "node-1", namespace="default"),
        pod("web-0", "web", "node-1", namespace="default", cpu="1500m"),
    )
    made.agents_live(["node-1", "node-2"])
    made.start_operator()
    allocations = f"{OURS}/nodeallocations"
    assert eventually(lambda: len(made.api.request("GET", allocations)["items"]) == 2)


def plain(text: str) -> str:
    """Return a text without line breaks and without parts that change with time."""
    return " ".join(OF_THE_TIME.sub("", " ".join(text.split())).split())


@pytest.mark.parametrize(("page", "command", "printed"), PRINTED, ids=lambda each: each[:30])
def test_a_page_shows_what_is_printed(
    cluster: MarketCluster, tmp_path: Path, page: str, command: str, printed: str
) -> None:
    change = tmp_path / "more-for-speech.yaml"
    change.write_text(json.dumps(MORE_FOR_SPEECH))

    def said() -> str:
        cluster.agents_answer()
        words = command.replace(change.name, str(change)).split()
        done = walras(*words, KUBECONFIG=cluster.kubeconfig)
        assert done.returncode == 0, done.stderr
        return plain(done.stdout)

    assert len(printed.splitlines()) > 10, page
    eventually(lambda: plain(printed) in said(), 30, pause=1)  # until agents are heard
    assert plain(printed) in said()
