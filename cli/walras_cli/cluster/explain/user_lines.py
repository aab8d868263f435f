"""An entitlement's explanation as people read it: what it is worth, gets, lends and borrows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from walras_cli.cluster.explain.lines import MOST, facts, heading, line, rest, title
from walras_cli.cluster.top.tables import STYLE, cores, decimal, memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from walras_cli.cluster.explain.lending import NodeBalance
    from walras_cli.cluster.explain.user import Quantum, UserExplanation
    from walras_cli.cluster.top.users import UserRow


def of_user(user: UserExplanation, *, wide: bool) -> list[RenderableType]:
    """Return an entitlement's explanation."""
    row = user.user
    parts: list[RenderableType] = [title(f"Entitlement {row.name}", user.reason, user.message)]
    parts.append(
        facts(
            ("place", _places(user)),
            ("cores", _cores(row)),
            ("memory", _memory(row)),
            ("utility", _utility(row)),
            ("credits", _credits(row)),
            *_quantum(user.quantum),
        )
    )
    shown = user.nodes if wide else _largest(user.nodes)
    if shown:
        parts += [heading("Nodes"), _balances(shown), *rest(len(user.nodes), len(shown))]
    parts += _partners(user)
    if user.unlisted_nodes:
        parts.append(Text(f"and {user.unlisted_nodes} nodes more, where it spends least"))
    if user.jobs:
        listed = user.jobs if wide else user.jobs[:MOST]
        parts.append(heading("Jobs"))
        parts += [line(f"{job.namespace}/{job.name}", job.message) for job in listed]
        parts += rest(len(user.jobs), len(listed))
    return parts


def _cores(row: UserRow) -> str:
    if row.cores.entitled is None:
        return "none, since no job draws on it"
    used = "" if row.cores.used is None else f", uses {cores(row.cores.used)}"
    return (
        f"entitled to {cores(row.cores.entitled)}, which is its budget; bought "
        f"{cores(row.cores.allocated)}, holds {cores(row.cores.held)}{used}"
    )


def _memory(row: UserRow) -> str:
    if row.memory.entitled is None:
        return "none is divided for it"
    return (
        f"entitled to {memory(row.memory.entitled)}, granted {memory(row.memory.allocated)} of the "
        f"{memory(row.memory.demand)} that its jobs could use"
    )


def _utility(row: UserRow) -> str:
    if row.gain is None:
        return "none of its own"
    return (
        f"{decimal(row.utility, 3)}, against {decimal(row.entitlement_utility, 3)} with its part "
        f"of every node and no trade ({row.gain:+.1%})"
    )


def _credits(row: UserRow) -> str:
    if row.credits_above_mean is None:
        return "none are kept"
    return f"{row.credits_above_mean:+.1f} against the mean of all; memory lent earns them"


def _quantum(quantum: Quantum | None) -> list[tuple[str, str]]:
    """Return what Karma's last quantum did to it."""
    if quantum is None:
        return []
    said = [f"earned {quantum.earned} credits, spent {quantum.spent}"]
    for verb, whom, loans in (
        ("lent", "to", quantum.lent),
        ("borrowed", "from", quantum.borrowed),
    ):
        if loans:
            names = [f"{memory(each.memory)} {whom} {each.name or 'nobody'}" for each in loans]
            said.append(f"{verb} {', '.join(names)}")
    return [(f"quantum {quantum.number}", "; ".join(said))]


def _places(user: UserExplanation) -> str:
    steps = [
        f"{each.shares} of {each.of} shares of {each.parent or 'the whole'}" for each in user.places
    ]
    part = user.user.budget_share
    return ", ".join(steps) + ("" if part is None else f": {part:.1%} of the cluster")


def _largest(nodes: Sequence[NodeBalance]) -> list[NodeBalance]:
    most = sorted(nodes, key=lambda each: (-abs(each.lent), each.node))[:MOST]
    return sorted(most, key=lambda each: each.node)


def _balances(nodes: Sequence[NodeBalance]) -> Table:
    table = Table(**STYLE)
    table.add_column("node", no_wrap=True)
    for head in ("entitled", "bought", "price", "spend"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for each in nodes:
        verb, whom = ("lends", "to") if each.lent > 0 else ("borrows", "from")
        names = ", ".join(f"{abs(x.cores):.2f} {whom} {x.name}" for x in each.partners)
        table.add_row(
            each.node,
            f"{each.entitled:.2f}",
            f"{each.bought:.2f}",
            f"{each.price:.3f}",
            f"{each.spend:.2f}",
            f"{verb} {names}" if names else "",
        )
    return table


def _partners(user: UserExplanation) -> list[RenderableType]:
    lent = [f"{each.cores:.2f} to {each.name}" for each in user.partners if each.cores > 0]
    borrowed = [f"{-each.cores:.2f} from {each.name}" for each in user.partners if each.cores < 0]
    sentences = [
        f"{verb} {', '.join(whom)}"
        for verb, whom in (("lends", lent), ("borrows", borrowed))
        if whom
    ]
    return [line("in all", "; ".join(sentences))] if sentences else []
