"""docs/what-if.md tells scripts of every field that `walras what-if -o json` has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from page_fields import untold
from walras_cli.main import main

ROOT = Path(__file__).parents[2]
CLUSTER = str(ROOT / "examples" / "what-if" / "cluster.yaml")


@pytest.mark.parametrize(
    "options",
    [
        ["-f", CLUSTER, "--sensitivity"],
        ["-f", str(ROOT / "examples" / "node-pools" / "cluster.yaml"), "--node-pools"],
        ["-f", CLUSTER, "-m", "Auction", "--memory", "Auction"],
        ["--from", CLUSTER, "-f", str(ROOT / "examples" / "cluster" / "teams.yaml"), "-m", "all"],
        ["-f", str(ROOT / "tests" / "cli" / "dumps" / "kubeadm.yaml")],
    ],
    ids=[
        "with sensitivity",
        "with node pools",
        "with an auction",
        "with a change, and others",
        "without Walras",
    ],
)
def test_every_field_is_on_the_page(options: list[str]) -> None:
    done = CliRunner().invoke(main, ["what-if", *options, "-o", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["jobs"]
    assert untold(found, "what-if.md") == set()
