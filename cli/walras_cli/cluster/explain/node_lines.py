"""A node's explanation as people read it: what it sells, who holds it, how its agent is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from walras.plan import format_bytes
from walras_cli.cluster.explain.lines import MOST, facts, faults, heading, line, rest, title
from walras_cli.cluster.notes import EPOCHS
from walras_cli.cluster.top.tables import STYLE, cores, decimal, memory, state

if TYPE_CHECKING:
    from rich.console import RenderableType

    from walras_cli.cluster.explain.node import NodeExplanation, Supply
    from walras_cli.cluster.top.nodes import NodeRow


def of_node(node: NodeExplanation, *, wide: bool) -> list[RenderableType]:
    """Return a node's explanation."""
    row, supply = node.node, node.supply
    parts: list[RenderableType] = [title(f"Node {row.name}", row.agent, row.message)]
    price = "" if row.price is None else f" at {row.price:.3f} each; {cores(row.sold)} are granted"
    parts.append(
        facts(
            ("cores", _supply(supply)),
            ("for sale", f"{'none' if row.cores is None else row.cores}{price}"),
            ("used", _used(row)),
            ("agent", _agent(row)),
        )
    )
    parts += faults(node.faults)
    if node.holders:
        parts += [heading("Granted"), _holders(node)]
    if supply.others:
        shown = supply.others if wide else supply.others[:MOST]
        parts.append(heading("Left to pods outside the market"))
        parts += [
            line(f"{each.namespace}/{each.name}", f"{each.cpus:g} CPU, {format_bytes(each.memory)}")
            for each in shown
        ]
        parts += rest(len(supply.others), len(shown))
    return parts


def _used(row: NodeRow) -> str:
    if row.used is None:
        return "not known"
    return (
        f"{cores(row.used)} cores and {memory(row.memory_used)} of memory, by all that runs on it"
    )


def _agent(row: NodeRow) -> str:
    if row.epoch is None:
        return "has no plan"
    held = "none yet" if row.enforced_epoch is None else str(row.enforced_epoch % EPOCHS)
    return f"{row.mode}s plan {row.epoch % EPOCHS}; the last that it held in full is {held}"


def _supply(supply: Supply) -> str:
    if supply.cpus is None:
        return "not known here"
    least = "" if supply.cores == supply.cpus else f" ({cores(supply.cores)} physical cores)"
    left = "?" if supply.unmanaged is None else str(supply.unmanaged)
    return (
        f"{cores(supply.cpus)} CPUs{least} for pods, less {supply.reserved} that the Market "
        f"reserves and {left} for pods outside the market"
    )


def _holders(node: NodeExplanation) -> Table:
    table = Table(**STYLE)
    for head in ("pod", "job", "user"):
        table.add_column(head, no_wrap=True)
    for head in ("cores", "memory", "spend"):
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("CPUs", "state", ""):
        table.add_column(head, no_wrap=True)
    for each in node.holders:
        table.add_row(
            f"{each.namespace}/{each.pod}",
            each.job or "-",
            each.user or "-",
            cores(each.cores),
            memory(each.memory),
            decimal(each.spend),
            each.cpus or "-",
            state(each.state),
            each.reason,
        )
    return table
