"""`walras explain cluster`, and the bid curve of `walras explain user`."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console

from seen import decided, seen
from walras_api.market_status import PredictionReport
from walras_cli.cluster.explain.render import render_user
from walras_cli.cluster.explain.render_pools import render_cluster
from walras_cli.main import main
from walras_operator.decide.pool_averages import PoolAverages
from walras_operator.loop.pool_signals import PoolSignals
from walras_view.explain.bids import bids_of
from walras_view.explain.pools import ClusterExplanation, explain_cluster
from walras_view.explain.user import explain_user
from walras_view.sentences.pools import pool_sentences
from whole_decisions import decide
from worlds import entitlement, job, market, node, outcome, pod, world

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from walras_operator.decide.world import Document
    from walras_view.facts import Facts

ROOT = Path(__file__).parents[2]
LABEL = "karpenter.sh/nodepool"
PRICES = {"valuePerCoreHour": "0.5", "prices": [{"pool": "large", "perNodeHour": "1.92"}]}


def printed(parts: Sequence[RenderableType]) -> str:
    console = Console(width=200, record=True, file=StringIO())
    console.print(*parts)
    return console.export_text()


def documents(**rules: Any) -> list[Document]:
    """Return four nodes in two pools, and a job of each user on all of them."""
    nodes = [node(f"n{i}", "16") for i in range(4)]
    for number, each in enumerate(nodes):
        each["metadata"]["labels"] = {LABEL: "large" if number < 3 else "small"}
    return [
        market(**rules),
        *nodes,
        entitlement("vision"),
        entitlement("speech", shares=2),
        job("a", "vision", parallelFraction="0.97"),
        job("b", "speech", parallelFraction="0.8"),
        *(pod(f"a-{i}", "a", f"n{i}") for i in range(4)),
        *(pod(f"b-{i}", "b", f"n{i}") for i in range(4)),
    ]


def facts(**rules: Any) -> Facts:
    """Return what is seen once the operator has reported its first signals."""
    return seen_with_signals(documents(**rules))


def seen_with_signals(found: list[Document]) -> Facts:
    """Return what is seen of these objects once the operator has reported its first signals."""
    before = world(*found)
    first, signals = decide(before), PoolSignals()
    assert first.snapshot is not None
    assert first.plan is not None
    assert first.rules is not None
    signals.decided(first.snapshot, first.plan, first.rules)
    signals.sample()
    known = replace(outcome(before, first), node_pools=signals.reports)
    return seen(outcome(known, decide(known)))


def explained(**rules: Any) -> ClusterExplanation:
    known = facts(**rules)
    assert known.market is not None
    return explain_cluster(known, known.market)


def test_a_cluster_is_explained_by_its_pools() -> None:
    found = explained(nodePools=PRICES)
    assert found.ready == "True"
    assert found.value_per_core_hour == 0.5
    large, small = found.pools
    assert (large.name, large.nodes, large.cores) == ("large", 3, 48)
    assert large.one_more is not None
    assert large.one_less is not None
    assert large.one_more.worth_per_hour == pytest.approx(0.5 * large.one_more.speedup)
    assert large.one_more.progress > 0 > large.one_less.progress
    assert large.recommended_nodes is not None
    assert large.price_per_node_hour == 1.92
    assert large.advice == ""
    assert small.recommended_nodes is None
    assert small.one_less is None
    assert small.advice == (
        "for a recommended number of nodes, set a price of pool small in spec.nodePools"
    )
    text = printed(render_cluster(found, wide=False))
    progress = (
        f"{large.one_more.progress:.1%}"
        if large.one_more.progress < 0.0995
        else (f"{large.one_more.progress:.0%}")
    )
    assert f"one more node of pool large would bring {progress} ±1.0% more progress" in text
    assert "to vision" in text
    assert "Cluster  Cleared" in text
    assert f"{large.recommended_nodes} nodes are recommended" in text


def test_without_prices_the_way_to_a_recommendation_is_told() -> None:
    large, _ = explained().pools
    assert large.recommended_nodes is None
    assert "set valuePerCoreHour and a price of pool large in spec.nodePools" in large.advice
    assert large.one_more is not None
    assert large.one_more.worth_per_hour is None


def test_an_auction_has_no_values_and_says_so() -> None:
    found = explained(cores={"mechanism": "Auction"})
    for each in found.pools:
        assert each.core_value is None
        assert each.one_more is None
        assert "Auction does not say what more nodes" in each.advice
    assert "Auction does not say what more nodes" in printed(render_cluster(found, wide=False))


def test_before_the_first_signals_the_page_says_that_they_come() -> None:
    known = seen(decided(*documents()))
    assert known.market is not None
    found = explain_cluster(known, known.market)
    assert found.pools == ()
    assert "no node pools yet" in printed(render_cluster(found, wide=False))


def test_prices_that_the_operator_has_not_used_yet_are_told() -> None:
    known = facts()
    assert known.market is not None
    priced = replace(known.market, spec={"nodePools": PRICES})
    large, _ = explain_cluster(known, priced).pools
    assert "has not used the prices yet" in large.advice


def test_losses_and_ends_of_the_range_are_told_as_such() -> None:
    (large, *_) = explained(nodePools=PRICES).pools
    assert large.one_more is not None
    assert large.one_less is not None
    worse = replace(
        large.one_more,
        progress=-0.052,
        gaining=large.one_more.gaining[:1],
        losing=large.one_less.losing[:1],
    )
    pool = replace(large, one_more=worse, recommended_nodes=6)
    first, *_, money, recommended = (each for each in pool_sentences(pool) if "memory" not in each)
    assert first.startswith("one more node of pool large would cost 5.2% ±1.0% of progress (")
    assert "utility of others: " in first
    assert "a node costs 1.92" in money
    assert "3 more than there are" in recommended
    assert "more than twice as many were not considered" in recommended
    fewer = replace(pool, recommended_nodes=2)
    assert any("1 fewer than there are: another" in each for each in pool_sentences(fewer))
    same = replace(pool, recommended_nodes=3)
    assert "3 nodes are recommended, as many as there are" in list(pool_sentences(same))
    only = replace(pool, nodes=1, recommended_nodes=1)
    assert "1 node is recommended, as many as there are" in list(pool_sentences(only))


def test_a_table_shows_the_largest_pools_and_counts_the_others() -> None:
    found = explained()
    many = tuple(replace(found.pools[0], name=f"p{i:02d}", cores=100 - i) for i in range(14))
    text = printed(render_cluster(replace(found, pools=many, other_pools=2), wide=False))
    assert "p09" in text
    assert "p10" not in text
    assert "and 6 more" in text
    assert "p13" in printed(render_cluster(replace(found, pools=many), wide=True))


def test_the_bid_curve_goes_through_what_the_user_bought() -> None:
    known = facts()
    for name in ("vision", "speech"):
        status = known.entitlements[name].status
        assert status.cores is not None
        assert status.utility is not None
        now = next(each for each in bids_of(known, name) if each.factor == 1)
        assert now.cores == pytest.approx(float(status.cores.bought), rel=1e-4)
        assert now.utility == pytest.approx(float(status.utility.bought or 0), rel=2e-4)
        assert now.spend <= float(status.cores.entitled) * (1 + 1e-4)
    user = replace(explain_user(known, "vision"), bids=bids_of(known, "vision"))
    text = printed(render_user(user, wide=False))
    assert "At other prices, with the same budget" in text
    assert "cores bought" in text


def test_no_curve_is_told_of_part_of_the_pods_or_without_prices() -> None:
    known = facts()
    assert bids_of(replace(known, jobs={}), "vision") == ()
    assert bids_of(replace(known, market=None), "vision") == ()
    assert bids_of(facts(cores={"mechanism": "ProportionalSharing"}), "vision") == ()


def test_a_what_if_tells_of_node_pools(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(documents(nodePools=PRICES)))
    done = CliRunner().invoke(main, ["what-if", "-f", str(file), "--node-pools", "-o", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)["nodePools"]
    assert [each["name"] for each in found] == ["large", "small"]
    known = explained(nodePools=PRICES)
    assert found[0]["coreValue"] == pytest.approx(known.pools[0].core_value)
    assert found[0]["recommendedNodes"] == known.pools[0].recommended_nodes
    table = CliRunner().invoke(main, ["what-if", "-f", str(file), "--node-pools"])
    assert "one more node of pool large would bring" in table.output
    without = CliRunner().invoke(main, ["what-if", "-f", str(file), "-o", "json"])
    assert "nodePools" not in json.loads(without.output)
    several = CliRunner().invoke(
        main, ["what-if", "-f", str(file), "--node-pools", "-m", "all", "-o", "json"]
    )
    assert json.loads(several.output)["nodePools"] == found


def test_predictions_that_came_true_are_told_with_what_follows() -> None:
    known = facts()
    assert known.market is not None
    assert explain_cluster(known, known.market).predictions == ()
    report = PredictionReport(
        of="Finish", number=8, coverage="0.25", width="0.05", crps="0.111", widening="2.5"
    )
    status = known.market.status.model_copy(update={"predictions": [report]})
    market = replace(known.market, status=status)
    words = " ".join(printed(render_cluster(explain_cluster(known, market), wide=False)).split())
    assert "25% of 8 predicted ends came within their error, which was 5.0% of the time" in words
    assert "their score is 11.1% of it" in words
    assert "those of jobs that start now are 2.5 times as wide" in words
    gains = report.model_copy(update={"of": "Gain"})
    status = known.market.status.model_copy(update={"predictions": [gains]})
    market = replace(known.market, status=status)
    words = " ".join(printed(render_cluster(explain_cluster(known, market), wide=False)).split())
    assert "gains by moved cores came within their error, which was 5.0% of the progress" in words
    assert "right ones would have been 2.5 times as wide" in words
    nodes = report.model_copy(update={"of": "Node"})
    status = known.market.status.model_copy(update={"predictions": [nodes]})
    market = replace(known.market, status=status)
    words = " ".join(printed(render_cluster(explain_cluster(known, market), wide=False)).split())
    assert "gains by one more node came within their error" in words
    assert "those that are shown now are 2.5 times as wide" in words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cluster", "x"), "takes no NAME"),
        (("user",), "name the user to explain"),
    ],
)
def test_a_name_is_given_for_what_has_one(words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(main, ["explain", *words])
    assert done.exit_code == 2
    assert said in done.output


def test_the_page_shows_what_is_printed() -> None:
    example = yaml.safe_load((ROOT / "examples" / "node-pools" / "cluster.yaml").read_text())
    found = [
        {**each, "metadata": {"uid": f"u{number}", **each["metadata"]}}
        for number, each in enumerate(example["items"])
    ]
    known = seen_with_signals(found)
    assert known.market is not None
    user = replace(explain_user(known, "vision"), bids=bids_of(known, "vision"))
    said = {
        "explain cluster": printed(
            render_cluster(explain_cluster(known, known.market), wide=False)
        ),
        "explain user vision": printed(render_user(user, wide=False)),
    }
    page = (ROOT / "docs" / "node-pools.md").read_text()
    blocks = dict(re.findall(r"```console\n\$ walras (.*)\n((?:.*\n)*?)```", page))
    assert blocks.keys() == said.keys()
    for command, block in blocks.items():
        assert " ".join(block.removeprefix("...").split()) in " ".join(said[command].split())


def test_nothing_is_averaged_before_the_first_sample() -> None:
    assert PoolAverages({}).reports().pools == ()
