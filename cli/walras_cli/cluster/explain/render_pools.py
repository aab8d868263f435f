"""Node pools as people read them: a table, and sentences about each pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from walras_cli.cluster.explain.render import MOST, facts, heading, rest, title
from walras_cli.cluster.top.tables import STYLE
from walras_view.sentences.pools import percent, pool_sentences, prediction_sentence
from walras_view.text import decimal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from walras_view.explain.pools import (
        ClusterExplanation,
        PoolExplanation,
    )


def render_cluster(cluster: ClusterExplanation, *, wide: bool) -> list[RenderableType]:
    """Return the explanation of a cluster."""
    parts: list[RenderableType] = [title("Cluster", cluster.reason, cluster.message)]
    if cluster.headline:
        parts.append(facts(("market", cluster.headline)))
    if cluster.predictions:
        parts.append(heading("Predictions"))
        parts += [Text(f"  {prediction_sentence(each)}") for each in cluster.predictions]
    if not cluster.pools:
        return [
            *parts,
            Text("  no node pools yet; the operator reports them within two minutes of a decision"),
        ]
    shown = cluster.pools if wide else _largest(cluster.pools)
    parts += render_pools(shown)
    parts += rest(len(cluster.pools) + cluster.other_pools, len(shown))
    return parts


def render_pools(pools: Sequence[PoolExplanation]) -> list[RenderableType]:
    """Return node pools: a table, and what is to be said of each."""
    parts: list[RenderableType] = [heading("Node pools"), _table(pools)]
    for pool in pools:
        parts.append(heading(f"Pool {pool.name}"))
        parts += [Text(f"  {sentence}") for sentence in pool_sentences(pool)]
    return parts


def _largest(pools: Sequence[PoolExplanation]) -> list[PoolExplanation]:
    most = sorted(pools, key=lambda each: (-each.cores, each.name))[:MOST]
    return sorted(most, key=lambda each: each.name)


def _table(pools: Sequence[PoolExplanation]) -> Table:
    table = Table(**STYLE)
    table.add_column("pool", no_wrap=True)
    for head in ("nodes", "recommended", "cores", "price", "core adds", "node adds", "GiB used"):
        table.add_column(head, justify="right", no_wrap=True)
    for each in pools:
        table.add_row(
            each.name,
            str(each.nodes),
            "-" if each.recommended_nodes is None else str(each.recommended_nodes),
            f"{each.cores:.12g}",
            decimal(each.price or None, 3),
            decimal(each.core_value, 3),
            "-" if each.one_more is None else percent(each.one_more.progress, sign=True),
            "-" if each.memory_value is None else f"{each.memory_value:.0%}",
        )
    return table
