"""What is sold, entitled and bought is the same wherever it is shown: one engine, one unit."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from command_line import walras_here as walras
from walras_dashboard.dump import Dump
from walras_dashboard.what_if import Tries
from walras_dashboard.what_if_models import WhatIf

ROOT = Path(__file__).parents[2]
OURS = ("kind: MarketJob", '"kind": "MarketJob"', "walras.dev/job")
NODES = ("kind: Node\n", "kind: Node,", '"kind": "Node"', '"kind":"Node"')

Figures = dict[str, dict[str, float]]


def whole_inputs() -> list[Path]:
    """Return the files of examples and tests that describe a cluster with jobs in its market."""
    found = []
    for folder in ("examples", "tests", "crds/examples"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in {".yaml", ".json"}:
                text = file.read_text(encoding="utf-8")
                if any(each in text for each in NODES) and any(each in text for each in OURS):
                    found.append(file)
    return found


def printed(*arguments: str) -> Any:
    done = walras(*arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of_what_if(file: Path) -> Figures:
    plan = printed("what-if", "-f", str(file))
    return {
        "nodes": {each["name"]: each["cores"] for each in plan["nodes"]},
        "entitled": {each["name"]: each["entitled"] for each in plan["users"]},
        "bought": {each["name"]: each["bought"] for each in plan["users"]},
        "jobs": _by_job(plan["jobs"]),
    }


def of_top(file: Path) -> Figures:
    tables = printed("top", "-A", "-f", str(file))
    return {
        "nodes": {each["name"]: each["cores"] for each in tables["nodes"] if each["cores"]},
        "entitled": {each["name"]: each["cores"]["entitled"] for each in tables["users"]},
        "bought": {each["name"]: each["cores"]["bought"] for each in tables["users"]},
        "jobs": _by_job(tables["jobs"]),
    }


def _by_job(rows: list[dict[str, Any]]) -> dict[str, float]:
    bought: defaultdict[str, float] = defaultdict(float)
    for each in rows:
        bought[f"{each['namespace']}/{each['name']}"] += each["bought"] or 0.0
    return bought


def of_explain(file: Path) -> Figures:
    names = of_what_if(file)
    users = {each: printed("explain", "user", each, "-f", str(file)) for each in names["entitled"]}
    nodes = {each: printed("explain", "node", each, "-f", str(file)) for each in names["nodes"]}
    return {
        "nodes": {name: each["node"]["cores"] for name, each in nodes.items()},
        "entitled": {name: each["user"]["cores"]["entitled"] for name, each in users.items()},
        "bought": {name: each["user"]["cores"]["bought"] for name, each in users.items()},
    }


def of_page(file: Path) -> Figures:
    """Return what the page's own what-if starts from."""
    now = Tries().answer(Dump.of([file]).world(), WhatIf()).now
    return {
        "nodes": {each.name: each.cores for each in now.nodes},
        "entitled": {each.name: each.entitled for each in now.users},
        "bought": {each.name: each.bought for each in now.users},
    }


def test_there_are_such_inputs() -> None:
    assert {"cluster.yaml", "hyperthreads.yaml", "bystander.yaml"} <= {
        each.name for each in whole_inputs()
    }


@pytest.mark.parametrize("file", whole_inputs(), ids=lambda file: str(file.relative_to(ROOT)))
@pytest.mark.parametrize("view", [of_top, of_explain, of_page])
def test_views_of_a_file_agree(view: Any, file: Path) -> None:
    expected = of_what_if(file)
    shown = view(file)
    for what, figures in shown.items():
        # A status has six digits.
        assert figures == pytest.approx(expected[what], rel=1e-4, abs=1e-4), what


def test_hyperthreads_do_not_count_as_cores() -> None:
    file = Path(__file__).parent / "first_look/hyperthreads.yaml"
    assert of_what_if(file)["nodes"] == {"node-1": 16, "node-2": 8}


def test_a_node_whose_cores_nobody_has_counted_is_named(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "first_look/hyperthreads.yaml").read_text()
    document = yaml.safe_load(text)
    document["items"] = [
        each
        for each in document["items"]
        if (each["kind"], each["metadata"]["name"]) != ("NodeAllocation", "node-2")
    ]
    file = tmp_path / "dump.yaml"
    file.write_text(json.dumps(document))
    plan = printed("what-if", "-f", str(file))
    assert {each["name"]: each["cores"] for each in plan["nodes"]} == {"node-1": 16, "node-2": 16}
    assert [note for note in plan["notes"] if "hyperthreads" in note] == [
        (
            "nodes whose cores no agent has counted, so that each CPU counts as a core, with "
            "hyperthreads, too: node-2"
        )
    ]


def test_a_cpu_limit_below_a_core_costs_its_pod_nothing_and_nobody_else() -> None:
    file = Path(__file__).parent / "first_look/limit-below-a-core.yaml"
    look = printed("what-if", "-f", str(file))
    for each in (*look["users"], *look["jobs"]):
        gain = each["gain"]["market"] if "market" in (each["gain"] or {}) else each["gain"]
        assert gain["least"] > -0.005, each["name"]


def test_a_pod_outside_the_market_is_named_with_what_it_has_and_would_have(tmp_path: Path) -> None:
    file = Path(__file__).parent / "first_look/bystander.yaml"
    said = (
        "Pod a/shop on n1 is outside the market: while all pods are busy, 8 cores today, at least "
        "its request of 1 with Walras"
    )
    plan = printed("what-if", "-f", str(file))
    assert said in plan["notes"]
    [shop] = plan["bystanders"]
    assert (shop["plain"], shop["least"], shop["requested"]) == pytest.approx((8, 1, 1))
    assert shop["uses"] is None

    for cpu, loses in (("3", "up to 2"), ("500m", "nothing")):
        measured = {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {"name": "shop", "namespace": "a"},
            "containers": [{"name": "c", "usage": {"cpu": cpu}}],
        }
        used = tmp_path / "used.yaml"
        used.write_text(f"{file.read_text()}---\n{json.dumps(measured)}\n")
        (note,) = [each for each in printed("what-if", "-f", str(used))["notes"] if said in each]
        assert note.endswith(f" that it uses it would lose {loses}")
