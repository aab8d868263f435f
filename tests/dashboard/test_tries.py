"""A what-if by hand is what `walras what-if` says of the same documents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from dashboard_clusters import lab, write
from dashboards import EXAMPLE
from walras_cli.cluster.options import Target
from walras_cli.what_if.changes import ChangedCluster
from walras_cli.what_if.comparison import Comparison, MechanismOptions
from walras_cli.what_if.situation import situation_of_world
from walras_dashboard.dump import Dump
from walras_dashboard.what_if import Today, Tries, changed_situation
from walras_dashboard.what_if_models import WhatIf

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.system


def test_the_same_as_the_command_says(tmp_path: Path) -> None:
    answer = Tries().answer(
        Dump.of([EXAMPLE]).world(), WhatIf(shares={"alice": 3}, fractions={"bob/x264": 0.5})
    )
    file = tmp_path / "change.yaml"
    file.write_text(answer.yaml)
    said = Comparison.of(
        ChangedCluster.of([file], [EXAMPLE], None, Target(), live=False), MechanismOptions()
    )
    assert said.before is not None
    for division, cleared in ((answer.now, said.before), (answer.then, said.cleared[0])):
        assert [(each.name, each.held) for each in division.users] == [
            (each.name, each.held) for each in cleared.plan.users
        ]
        assert [each.price for each in division.nodes] == pytest.approx(
            [each.price for each in cleared.plan.nodes]
        )


def test_other_shares_are_applied_to_the_market_as_to_the_objects() -> None:
    today = Today.of(Dump.of([EXAMPLE]).world())
    fast = changed_situation(today, WhatIf(shares={"bob": 5}))
    objects = today.objects
    others = [
        each.model_copy(update={"spec": each.spec.model_copy(update={"shares": 5})})
        if each.metadata.name == "bob"
        else each
        for each in objects.entitlements
    ]
    whole = situation_of_world(today.world, replace(objects, entitlements=others))
    assert fast.snapshot.entitlements == whole.snapshot.entitlements
    assert fast.snapshot.jobs == whole.snapshot.jobs
    assert fast.snapshot.nodes == whole.snapshot.nodes
    assert fast.notes == whole.notes


def test_a_file_sells_the_cores_that_its_market_sells(tmp_path: Path) -> None:
    """Its nodes have two threads for each core, as their agents have reported."""
    dump = Dump.of([write(tmp_path / "cluster.json", lab())])
    market = dump.state().facts.market
    assert market is not None
    sold = {each.node: float(each.cores) for each in market.status.prices}
    now = Tries().answer(dump.world(), WhatIf()).now
    assert {each.name: each.cores for each in now.nodes} == sold
