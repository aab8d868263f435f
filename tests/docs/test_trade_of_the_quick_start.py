"""On the two nodes of docs/quickstart.md, both teams gain, by what the page says or more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from command_line import walras_here
from worlds import node

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "cluster"
PAGE = (ROOT / "docs" / "quickstart.md").read_text()

Document = dict[str, Any]


def programs() -> list[Document]:
    return list(yaml.safe_load((EXAMPLES / "programs.yaml").read_text())["items"])


def pod_of(program: Document, at: str) -> Document:
    template, name = program["spec"]["template"], program["metadata"]["name"]
    where = {"name": f"{name}-0", "namespace": program["metadata"]["namespace"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], **where},
        "spec": {**template["spec"], "nodeName": at},
        "status": {"phase": "Running"},
    }


def job_of(program: Document) -> Document:
    metadata = program["metadata"]
    selector = program["spec"]["selector"]
    return {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "MarketJob",
        "metadata": metadata,
        "spec": {"entitlement": metadata["namespace"], "selector": selector},
    }


@pytest.mark.parametrize("align", ["walras", "walras-worker"])
def test_both_teams_gain_wherever_the_third_program_runs(align: str, tmp_path: Path) -> None:
    places = {"train": "walras", "decode": "walras-worker", "align": align}
    made = [node(each, "4") for each in sorted(set(places.values()))]
    for each in programs():
        made += [pod_of(each, places[each["metadata"]["name"]]), job_of(each)]
    made += yaml.safe_load_all((EXAMPLES / "teams.yaml").read_text())
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(made))
    done = walras_here("what-if", "-f", str(file), "-o", "json")
    users = json.loads(done.stdout)["users"]
    gains = {each["name"]: each["utility"] / each["entitlementUtility"] - 1 for each in users}
    (vision, speech) = re.findall(r"\+([\d.]+) % or more\s+for (?:vision|speech)", PAGE)
    assert round(100 * gains["vision"], 1) >= float(vision)
    assert round(100 * gains["speech"], 1) >= float(speech)


def test_the_second_program_asks_for_another_node_than_the_first() -> None:
    (decode,) = (each for each in programs() if each["metadata"]["name"] == "decode")
    wish = decode["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
    (term,) = wish["preferredDuringSchedulingIgnoredDuringExecution"]
    train = programs()[0]
    asked = term["podAffinityTerm"]
    labels = train["spec"]["template"]["metadata"]["labels"]
    assert asked["labelSelector"]["matchLabels"].items() <= labels.items()
    assert asked["namespaces"] == [train["metadata"]["namespace"]]
