"""Node pools as people read them: a table, and sentences about each pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from walras_cli.cluster.explain.render import MOST, facts, heading, rest, title
from walras_cli.cluster.top.tables import STYLE, memory
from walras_cli.output import decimal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from walras_cli.cluster.explain.cluster import (
        ClusterExplanation,
        NodesEffect,
        PoolExplanation,
        UserChange,
    )


def render_cluster(cluster: ClusterExplanation, *, wide: bool) -> list[RenderableType]:
    """Return the explanation of a cluster."""
    parts: list[RenderableType] = [title("Cluster", cluster.reason, cluster.message)]
    if cluster.headline:
        parts.append(facts(("market", cluster.headline)))
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
            "-" if each.one_more is None else _percent(each.one_more.progress, sign=True),
            "-" if each.memory_value is None else f"{each.memory_value:.0%}",
        )
    return table


def pool_sentences(pool: PoolExplanation) -> Iterator[str]:
    """Yield what more and fewer nodes of a pool would change, and what is recommended."""
    if pool.one_more is not None:
        yield f"one more node of pool {pool.name} would {_effect(pool.one_more)}"
    if pool.one_less is not None:
        yield f"one node less would {_effect(pool.one_less)}"
    if pool.core_value is not None:
        yield f"one more core would add {_speedup(pool.core_value)}"
    yield from _in_money(pool)
    if pool.advice:
        yield pool.advice
    if pool.memory_value is not None:
        yield (
            f"jobs here could use {memory(pool.unmet_memory)} of memory beyond their grants; of "
            f"one more GiB, they would use {pool.memory_value:.0%} at once"
        )


def _effect(effect: NodesEffect) -> str:
    gains = effect.progress >= 0
    verb = "bring {} more progress" if gains else "cost {} of progress"
    mine, others = (effect.gaining, effect.losing) if gains else (effect.losing, effect.gaining)
    parts = ", ".join(f"{each.part:.0%} {'to' if gains else 'from'} {each.user}" for each in mine)
    said = verb.format(_percent(abs(effect.progress))) + (f" ({parts})" if parts else "")
    return said + (f"; {_others(others)}" if others else "")


def _others(users: Sequence[UserChange]) -> str:
    """Return how the utility of users changes against the trend."""
    changes = ", ".join(f"{each.user} {_percent(each.utility, sign=True)}" for each in users)
    return f"utility of others: {changes}"


def _speedup(value: float) -> str:
    return f"{value:.3f} to the total speedup, in which a job alone on one core counts as 1"


def _in_money(pool: PoolExplanation) -> Iterator[str]:
    price, more = pool.price_per_node_hour, pool.one_more
    if more is not None and more.worth_per_hour is not None:
        beside = "" if price is None else f", and a node costs {price:g}"
        yield f"the work of one more node is worth {more.worth_per_hour:.3g} an hour{beside}"
    if pool.recommended_nodes is not None:
        yield _recommendation(pool.nodes, pool.recommended_nodes)


def _recommendation(present: int, number: int) -> str:
    said = f"{number} node{' is' if number == 1 else 's are'} recommended"
    if number == present:
        return f"{said}, as many as there are"
    why = "the last of them is worth its price, and another one is not"
    if number == 2 * present:
        why = "the last of them is worth its price; more than twice as many are not looked at"
    elif number == -(-present // 2):
        why = "another one is not worth its price; less than half as many are not looked at"
    difference = f"{abs(number - present)} {'more' if number > present else 'fewer'}"
    return f"{said}, {difference} than there are: {why}"


def _percent(value: float, *, sign: bool = False) -> str:
    """Return a part as a percentage of two significant digits."""
    percent = 100 * value
    digits = 0 if abs(percent) >= 9.95 else 1 if abs(percent) >= 0.995 else 2
    return f"{percent:{'+' if sign else ''}.{digits}f}%"
