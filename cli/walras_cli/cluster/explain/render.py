"""Explanations as people read them: of a job, a user and a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from walras_cli.cluster.top.tables import STYLE, state
from walras_view.sentences.job import (
    auction_weights,
    budget_sentence,
    can_use_sentence,
    co_runner_sentence,
    deadline_sentence,
    one_more_sentences,
    penalty_sentence,
    speedup_text,
)
from walras_view.sentences.node import (
    agent_sentence,
    other_sentence,
    supply_sentence,
    unsold_sentence,
    used_sentence,
)
from walras_view.sentences.user import account_rows, partners_sentence, user_facts
from walras_view.text import cores, decimal, memory, thousandths, used

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from walras.analysis.bid_curve import BidPoint
    from walras_view.explain.faults import Fault
    from walras_view.explain.job import JobExplanation, PodReason
    from walras_view.explain.lending import NodeBalance
    from walras_view.explain.margin import OneMore
    from walras_view.explain.node import NodeExplanation
    from walras_view.explain.user import UserExplanation

MOST = 10
"""Pods, nodes or jobs that are told of; wide tells of all."""


def title(name: str, reason: str, message: str) -> Text:
    """Return what is explained, and how it is."""
    return Text.assemble((name, "bold"), "  ", state(reason), f": {message}")


def facts(*pairs: tuple[str, str]) -> Table:
    """Return facts, each after its name."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for key, value in pairs:
        table.add_row(f"  {key}", value)
    return table


def faults(conditions: Sequence[Fault]) -> list[RenderableType]:
    """Return what is wrong, and with which object."""
    lines = [line(f"{each.object}, {each.condition}", each.message, "red") for each in conditions]
    return [heading("Problems"), *lines] if lines else []


def heading(text: str) -> Text:
    """Return a heading."""
    return Text(f"\n{text}", style="bold")


def line(subject: str, text: str, style: str = "") -> Text:
    """Return a sentence about something, or one that goes on about the last."""
    return Text(f"  {subject}: {text}" if subject else f"    {text}", style=style)


def rest(there: int, shown: int) -> list[RenderableType]:
    """Return how many more there are, if any."""
    return [] if there <= shown else [Text(f"  and {there - shown} more; -o wide shows all")]


def render_job(job: JobExplanation, *, wide: bool) -> list[RenderableType]:
    """Return a job's explanation."""
    shown = job.pods if wide else job.pods[:MOST]
    names = {pod.name for pod in shown}
    fraction = f"F is {decimal(job.parallel_fraction, 3)}, {job.source_text}"
    parts: list[RenderableType] = [
        title(f"MarketJob {job.namespace}/{job.name}", job.reason, job.message),
        facts(
            ("paid by", budget_sentence(job.budget)),
            ("speedup", f"{speedup_text(job.speedup)}; {fraction}"),
            *(("can use", can_use_sentence(each)) for each in job.can_use),
            *([] if job.weights is None else [("bids with", auction_weights(job.weights))]),
            *([] if job.deadline is None else [("deadline", deadline_sentence(job.deadline))]),
        ),
        *faults(job.faults),
    ]
    if shown:
        parts += [heading("Pods"), _pods(shown), *rest(len(job.pods) + job.unlisted, len(shown))]
        parts += [heading("Why"), *(line for pod in shown for line in _why(pod))]
    parts += _penalties(job, wide=wide)
    if more := [each for each in job.one_more if each.pod in names]:
        parts += [heading("One more core"), *(line for each in more for line in _more(each))]
    return parts


def _pods(pods: Sequence[PodReason]) -> Table:
    table = Table(**STYLE)
    for head in ("pod", "node"):
        table.add_column(head, no_wrap=True)
    for head in ("held", "bought", "used", "price", "spend", "speedup", "memory"):
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("CPUs", "state"):
        table.add_column(head, no_wrap=True)
    for pod in pods:
        table.add_row(
            pod.name,
            pod.node or "-",
            thousandths(pod.held),
            decimal(pod.bought),
            used(pod.used, pod.used_beyond),
            decimal(pod.price, 3),
            decimal(pod.spend),
            decimal(pod.speedup),
            memory(pod.memory),
            pod.cpus or "-",
            state(pod.state),
        )
    return table


def _why(pod: PodReason) -> Iterable[Text]:
    yield line(pod.name, pod.reason)
    if pod.memory_reason:
        yield line(pod.name, f"memory: {pod.memory_reason}")
    if pod.co_runner:
        yield line(pod.name, co_runner_sentence(pod.co_runner))


def _penalties(job: JobExplanation, *, wide: bool) -> list[RenderableType]:
    """Return what a job's program loses beside others; nothing if that is not known of any."""
    if not job.penalties:
        return []
    shown = job.penalties if wide else job.penalties[:MOST]
    lines = [line(each.co_runner, penalty_sentence(each)) for each in shown]
    if job.interference is False:
        lines.append(
            line("", "no penalty lowers F: spec.cores.interference of the Market is ignored")
        )
    return [heading("Beside other programs"), *lines, *rest(len(job.penalties), len(shown))]


def _more(more: OneMore) -> Iterable[Text]:
    first, *others = one_more_sentences(more)
    yield line(more.pod, first)
    for each in others:
        yield line("", each, "dim")


def render_user(user: UserExplanation, *, wide: bool) -> list[RenderableType]:
    """Return an entitlement's explanation."""
    parts: list[RenderableType] = [
        title(f"Entitlement {user.user.name}", user.reason, user.message),
        facts(*user_facts(user)),
    ]
    owed = account_rows(user)
    if owed:
        parts += [heading("Account"), _account(owed)]
    shown = user.nodes if wide else _largest(user.nodes)
    if shown:
        parts += [heading("Nodes"), _balances(shown), *rest(len(user.nodes), len(shown))]
    parts += _partners(user)
    if user.unknown_nodes:
        count = f"{user.unknown_nodes} node{'' if user.unknown_nodes == 1 else 's'}"
        parts.append(Text(f"unknown for {count}, whose pods you may not all see"))
    if user.jobs:
        listed = user.jobs if wide else user.jobs[:MOST]
        parts.append(heading("Jobs"))
        parts += [line(f"{job.namespace}/{job.name}", job.message) for job in listed]
        parts += rest(len(user.jobs), len(listed))
    if user.bids:
        parts += [heading("At other prices, with the same budget"), _bids(user.bids)]
    return parts


def _bids(bids: Sequence[BidPoint]) -> Table:
    table = Table(**STYLE)
    for head in ("times the prices", "cores bought", "spend", "utility"):
        table.add_column(head, justify="right", no_wrap=True)
    for each in bids:
        table.add_row(
            f"{each.factor:g}",
            f"{each.cores:.2f}",
            f"{each.spend:.2f}",
            f"{each.utility:.3f}",
        )
    return table


def _account(rows: Sequence[tuple[str, str, str]]) -> Table:
    table = Table(**STYLE)
    for head in ("of", "owed", "effect"):
        table.add_column(head)
    for row in rows:
        table.add_row(*row)
    return table


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
    sentence = partners_sentence(user)
    return [line("in total", sentence)] if sentence else []


def render_node(node: NodeExplanation, *, wide: bool) -> list[RenderableType]:
    """Return a node's explanation."""
    row, supply = node.node, node.supply
    parts: list[RenderableType] = [title(f"Node {row.name}", row.agent, row.message)]
    price = "" if row.price is None else f" at {row.price:.3f} each; {cores(row.sold)} granted"
    parts.append(
        facts(
            ("cores", supply_sentence(supply)),
            (
                "for sale",
                f"{'none' if row.cores is None else row.cores}{price}{unsold_sentence(row)}",
            ),
            ("used", used_sentence(row)),
            ("agent", agent_sentence(row)),
        )
    )
    parts += faults(node.faults)
    if node.holders:
        parts += [heading("Granted"), _holders(node)]
    if supply.others:
        shown = supply.others if wide else supply.others[:MOST]
        parts.append(heading("Pods outside the market"))
        parts += [line(f"{each.namespace}/{each.name}", other_sentence(each)) for each in shown]
        parts += rest(len(supply.others), len(shown))
    return parts


def _holders(node: NodeExplanation) -> Table:
    table = Table(**STYLE)
    for head in ("pod", "job", "user"):
        table.add_column(head, no_wrap=True)
    for head in ("held", "used", "memory", "spend"):
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("CPUs", "state", ""):
        table.add_column(head, no_wrap=True)
    for each in node.holders:
        table.add_row(
            f"{each.namespace}/{each.pod}",
            each.job or "-",
            each.user or "-",
            cores(each.held),
            used(each.used, each.used_beyond),
            memory(each.memory),
            decimal(each.spend),
            each.cpus or "-",
            state(each.state),
            each.reason,
        )
    return table
