"""docs/tutorial.md shows what its commands print, on one node of eight cores or of two.

Node and pods are objects only, and the node's agent is played (`market_cluster`); the operator, the
commands and the documents that are applied are real. `tests/e2e` follows the page on a real node.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cluster_tools import kubectl
from command_line import walras
from market_cluster import OURS, MarketCluster
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from worlds import document, node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_cluster

Document = dict[str, Any]

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"
PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
TEAMS = {"vision": ["train"], "speech": ["decode", "align"]}


def with_room(made: Document) -> Document:
    """A node on which the scheduler places pods."""
    made["status"]["allocatable"]["pods"] = "110"
    return made


class Tutorial:
    """A user who follows the tutorial.

    Args:
        cores: Cores of the one node; system pods request a part of one.
        folder: Folder for logs.
    """

    def __init__(self, cores: int, folder: Path) -> None:
        self.cores = cores
        self.cluster = MarketCluster(KUBECONFIG, folder)
        self._ended = threading.Event()
        self._agent = threading.Thread(target=self._answer, daemon=True)
        rules: Document = {"epochSeconds": 5}
        if cores == 8:  # the page shows what is printed before measuring begins
            rules["profiling"] = {"automatic": False}
        self.cluster.make(
            document("Market", "default", spec=rules),
            with_room(node("node-a", str(cores))),
            pod("system", "system", "node-a", namespace="walras-system", cpu="120m"),
        )
        self.cluster.agents_live(["node-a"])
        self.cluster.start_operator()
        self._agent.start()

    def close(self) -> None:
        self._ended.set()
        self._agent.join()
        for name in ("programs", "teams"):
            kubectl(
                "delete", "--ignore-not-found", "--wait=false", "-f", str(EXAMPLES / f"{name}.yaml")
            )
        for team in TEAMS:
            kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "-n", team)
        self.cluster.close()

    def _answer(self) -> None:
        """Do what kubelet and agent do: have pods run, and grants held."""
        while not self._ended.wait(0.5):
            for team in TEAMS:
                for each in self.pods(team):
                    if each["status"].get("phase") == "Pending" and each["spec"].get("nodeName"):
                        name = each["metadata"]["name"]
                        path = f"/api/v1/namespaces/{team}/pods/{name}/status"
                        self.cluster.change(path, {"status": {"phase": "Running"}})
            self.cluster.agents_answer(self.cores)

    def pods(self, team: str) -> list[Document]:
        found: Document = self.cluster.api.request("GET", f"/api/v1/namespaces/{team}/pods")
        return list(found["items"])

    def apply(self, *names: str) -> None:
        for name in names:
            kubectl("apply", "-f", str(EXAMPLES / f"{name}.yaml"))

    def label(self) -> None:
        """Label all programs, by the page's commands, so that they take part."""
        section = PAGE.partition("\n## Programs, and what a job is\n")[2].partition("\n## ")[0]
        commands = re.findall(r"^kubectl ((?:annotate|label) .*)$", section, re.MULTILINE)
        assert len(commands) == 4
        for each in commands:
            kubectl(*each.split())

    def enforced(self) -> bool:
        """Whether all three pods hold what they were granted by the last plan."""
        jobs = self.cluster.api.request("GET", f"{OURS}/marketjobs")["items"]
        counts = [each.get("status", {}).get("counts", {}) for each in jobs]
        return [each.get("enforced") for each in counts] == [1, 1, 1]

    def says(self, *arguments: str) -> str:
        done = walras(*arguments, KUBECONFIG=KUBECONFIG, COLUMNS="110")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def comes_to(self, row: str) -> bool:
        """Wait until the table of jobs has a row; return whether it did in time."""
        return eventually(lambda: row in plain(self.says("top", "jobs", "-A")), 60)


def shown(title: str) -> list[list[str]]:
    """The lines of each block of output in a section of the page."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    outputs = (block for language, block in blocks if not language)
    return [block.splitlines() for block in outputs if not block.startswith(("sed", "grep"))]


def plain(text: str) -> str:
    """Return a text without line breaks, generated names of pods, and numbers of decisions."""
    return re.sub(r"-[a-z0-9]+-[a-z0-9]{5}\b|decision \d+", "", " ".join(text.split()))


def assert_said(block: list[str], said: str) -> None:
    """Check that every part of a block between lines of dots is in the output."""
    assert block
    parts = [plain(part) for part in "\n".join(block).split("\n...\n")]
    assert [part for part in parts if part not in plain(said)] == []


@pytest.fixture(params=[8, 2], ids="{} cores".format)
def tutorial(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tutorial]:
    made = Tutorial(request.param, tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_the_tutorial_shows_what_its_commands_print(tutorial: Tutorial) -> None:
    tutorial.apply("teams", "programs")
    assert eventually(lambda: sum(len(tutorial.pods(team)) for team in TEAMS) == 3, 60)
    tutorial.label()
    assert eventually(tutorial.enforced, 60)
    for team in TEAMS:
        kubectl("wait", "--for=condition=Ready", "marketjob", "--all", "-n", team)
    top, job = tutorial.says("top", "-A"), tutorial.says("explain", "job", "train", "-n", "vision")
    assert "vision's budget of" in job
    assert "Node node-a  Enforced" in tutorial.says("explain", "node", "node-a")
    assert "Entitlement speech  Ready" in tutorial.says("explain", "user", "speech")
    tutorial.says("what-if", "-f", str(EXAMPLES / "more-for-speech.yaml"))
    tutorial.says("what-if")
    tutorial.apply("more-for-speech")
    if tutorial.cores == 2:
        assert "vision/train vision 1/1 1.41 1.41" in plain(top)
        assert "measuring Pod train-" in job
        assert tutorial.comes_to("vision/train vision 1/1 0.47 0.47")
        return
    assert_said(shown("Programs, and what a job is")[0], top)
    assert_said(shown("Why this many cores")[0], job)
    (after,) = shown("Change an entitlement")
    assert tutorial.comes_to(plain("\n".join(after)))
