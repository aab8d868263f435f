"""Explanations as people read them: of a job, a user and a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from walras.market.plan import format_bytes
from walras_cli.cluster.notes import EPOCHS
from walras_cli.cluster.top.tables import STYLE, cores, memory, state
from walras_cli.output import decimal, own_and_shared

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from walras.analysis.bid_curve import BidPoint
    from walras_cli.cluster.explain.job import (
        AuctionWeights,
        Budget,
        DeadlineOutlook,
        Fault,
        JobExplanation,
        PodCoRunner,
        PodReason,
        Worth,
    )
    from walras_cli.cluster.explain.lending import NodeBalance
    from walras_cli.cluster.explain.margin import OneMore
    from walras_cli.cluster.explain.node import NodeExplanation, Supply
    from walras_cli.cluster.explain.penalties import CoRunnerPenalty
    from walras_cli.cluster.explain.user import CoreCreditFigures, Quantum, UserExplanation
    from walras_cli.cluster.top.nodes import NodeRow
    from walras_cli.cluster.top.users import UserRow

MOST = 10
"""Pods, nodes or jobs that are told of; wide tells of all."""

SMALLEST_RATE = 0.005
"""Cores by which a balance must grow or shrink for that to be told."""

SMALLEST_CHANGE = 0.005
"""Part of a budget that counts as no change, half of what is printed."""

COUNTED = {
    "cpuTime": "CPU time",
    "file": "its own count in a file",
    "http": "its own count by HTTP",
}
"""Sources of progress in words, where the status has other names for them."""

NOT_ESTIMATED = {
    "TooFew": "{}, too few to estimate weights from",
    "TooSimilar": "{}, whose shares are too similar to tell the weights apart",
    "NoGain": "{}, in which utility rose with neither share",
}
"""Why weights are not estimated, by the cause that a status names."""

UNUSABLE = "{}, too few or too similar to estimate weights from"


def title(name: str, reason: str, message: str) -> Text:
    """Return what is explained, and how it is."""
    return Text.assemble((name, "bold"), "  ", state(reason), f": {message}")


def facts(*pairs: tuple[str, str]) -> Table:
    """Return facts, each after its name."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for key, value in pairs:
        table.add_row(f"  {key}", value)
    return table


def faults(found: Sequence[Fault]) -> list[RenderableType]:
    """Return what is wrong, and with which object."""
    lines = [line(f"{each.object}, {each.condition}", each.message, "red") for each in found]
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
            ("paid by", _budget(job.budget)),
            ("speedup", f"{_times(job.speedup)}; {fraction}"),
            *([] if job.weights is None else [("bids with", auction_weights(job.weights))]),
            *([] if job.deadline is None else [("deadline", _deadline(job.deadline))]),
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


def _budget(budget: Budget) -> str:
    if budget.cores is None:
        return f"Entitlement {budget.entitlement}, whose budget is unknown"
    part = "" if budget.part is None else f" ({budget.part:.1%})"
    return (
        f"Entitlement {budget.entitlement}, with a budget of {budget.cores:.2f} cores, of which "
        f"this job spends {decimal(budget.spend)}{part}"
    )


def _deadline(deadline: DeadlineOutlook) -> str:
    """Return a deadline, and what is expected; what is wrong with it is among the problems."""
    if deadline.met is not None:
        return f"{deadline.time}; it {deadline.message}"
    if deadline.state != "False":
        return f"{deadline.time}; {deadline.message}"
    finish = f"expected at {deadline.finish}" if deadline.finish else "end unknown"
    between = (
        f" (between {deadline.earliest} and {deadline.latest})"
        if deadline.earliest and deadline.latest
        else ""
    )
    return f"{deadline.time}; late: {finish}{between}"


def _times(speedup: float | None) -> str:
    return "not predicted" if speedup is None else f"{speedup:.2f} times one core"


def auction_weights(weights: AuctionWeights) -> str:
    """Return what a job bids by, how sure that is, and what it is from."""
    both = f"weights {_worth(weights.cores)} of cores and {_worth(weights.memory)} of memory"
    if weights.source == "Given":
        return f"{both}, given by spec.auction.weights"
    number = f"{weights.runs} run{'' if weights.runs == 1 else 's'}, {weights.recorded} recorded"
    if weights.source == "Estimated":
        return f"{both} (95 % intervals), estimated from {number}"
    return f"{both}, the default: {NOT_ESTIMATED.get(weights.cause or '', UNUSABLE).format(number)}"


def _worth(worth: Worth) -> str:
    if worth.lower is None:
        return decimal(worth.value)
    until = "or more" if worth.upper is None else f"to {decimal(worth.upper)}"
    return f"{decimal(worth.value)} ({decimal(worth.lower)} {until})"


def _pods(pods: Sequence[PodReason]) -> Table:
    table = Table(**STYLE)
    for head in ("pod", "node"):
        table.add_column(head, no_wrap=True)
    for head in ("cores", "bought", "price", "spend", "speedup", "memory"):
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("CPUs", "state"):
        table.add_column(head, no_wrap=True)
    for pod in pods:
        table.add_row(
            pod.name,
            pod.node or "-",
            own_and_shared(pod.cores),
            decimal(pod.bought),
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
        yield line(pod.name, _co_runner(pod.co_runner))


def _co_runner(co_runner: PodCoRunner) -> str:
    if co_runner.partner is None:
        return f"was placed on a socket of its own{_exploration(co_runner, 'how fast it is alone')}"
    known, source = co_runner.measured, "measured"
    if known is None:
        known, source = co_runner.predicted, "predicted"
    loss = "" if known is None else f", where it loses {known:.1%} of its throughput ({source})"
    loss += _exploration(co_runner, "how much programs slow each other down")
    advice = "stay"
    if co_runner.companion is not None:
        advice = f"break away with {co_runner.companion}, which would save it {co_runner.gain:.1%}"
    return f"was placed beside {co_runner.partner}{loss}; advice: {advice}"


def _penalties(job: JobExplanation, *, wide: bool) -> list[RenderableType]:
    """Return what a job's program loses beside others; nothing if that is not known of any."""
    if not job.penalties:
        return []
    shown = job.penalties if wide else job.penalties[:MOST]
    lines = [line(each.co_runner, _penalty(each)) for each in shown]
    if job.interference is False:
        lines.append(
            line("", "no penalty lowers F: spec.cores.interference of the Market is ignored")
        )
    return [heading("Beside other programs"), *lines, *rest(len(job.penalties), len(shown))]


def _penalty(penalty: CoRunnerPenalty) -> str:
    verb = "loses" if penalty.penalty >= 0 else "gains"
    told = f"{verb} {abs(penalty.penalty):.1%} of its throughput ({_measurement(penalty)})"
    if penalty.why_not:
        return f"{told}; does not count: {penalty.why_not}"
    return (
        f"{told}; counts as {penalty.counted:.1%}" if penalty.counted else f"{told}; lowers nothing"
    )


def _measurement(penalty: CoRunnerPenalty) -> str:
    if penalty.looks is None:
        return "spec.penalties of its profile"
    error = "error unknown" if penalty.error is None else f"error {penalty.error:.1%}"
    checks = f"{penalty.looks} check{'' if penalty.looks == 1 else 's'}"
    what = COUNTED.get(penalty.source, penalty.source)
    where = "" if penalty.cores is None else f" on {penalty.cores} core"
    where += "s" if penalty.cores is not None and penalty.cores != 1 else ""
    return f"{error}, {checks} of {what}{where}"


def _exploration(co_runner: PodCoRunner, subject: str) -> str:
    """Return what a placement was made to learn and its cost; empty if the policy chose it."""
    if co_runner.exploration is None:
        return ""
    cost = "no expected cost"
    if co_runner.exploration > 0:
        cost = f"an expected cost of {co_runner.exploration:.1%} of its throughput"
    return f", to learn {subject} at {cost}"


def _more(more: OneMore) -> Iterable[Text]:
    first, *others = one_more_sentences(more)
    yield line(more.pod, first)
    for each in others:
        yield line("", each, "dim")


def one_more_sentences(more: OneMore) -> tuple[str, ...]:
    """Return what one more core costs and brings, and how it could be paid for."""
    part = "" if more.cost_part is None else f", {more.cost_part:.1%} of the budget,"
    if not more.cost:
        return ("cores have no price under this mechanism",)
    first = (
        f"on {more.node} it costs {more.cost:.3f}{part} and brings {more.gain:+.3f} of speedup "
        f"({more.speedup:.2f} to {more.speedup + more.gain:.2f})"
        + ("; its maxCores forbids it: raise maxCores" if more.bound else "")
    )
    if more.instead is None:
        return (first, "no other pod of its user can pay for it; it takes more shares")
    if more.bound:
        return (first,)
    worth = "worth it" if more.worthwhile else "not worth it"
    cheapest = (
        f"the cheapest way to pay: {more.instead.cores:.2f} fewer cores for {more.instead.pod} "
        f"({more.instead.job}) on {more.instead.node}, which loses {more.instead.loss:.3f}: "
        f"{worth}"
    )
    return (first, cheapest)


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
    if user.unlisted_nodes:
        parts.append(Text(f"and {user.unlisted_nodes} more nodes, on which it spends least"))
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


def user_facts(user: UserExplanation) -> tuple[tuple[str, str], ...]:
    """Return what is said about an entitlement, each after its name."""
    row = user.user
    return (
        ("shares", _places(user)),
        ("cores", _cores(row)),
        ("memory", _memory(row)),
        ("utility", _utility(row)),
        *_quantum(user.quantum),
    )


def _cores(row: UserRow) -> str:
    if row.cores.entitled is None:
        return "none, because no job draws on it"
    used = "" if row.cores.used is None else f", uses {cores(row.cores.used)}"
    return (
        f"entitled to {cores(row.cores.entitled)}, its budget; bought "
        f"{cores(row.cores.allocated)}, holds {cores(row.cores.held)}{used}"
    )


def _memory(row: UserRow) -> str:
    if row.memory.entitled is None:
        return "none; the market divides no memory for it"
    return (
        f"entitled to {memory(row.memory.entitled)}, granted {memory(row.memory.allocated)} of the "
        f"{memory(row.memory.demand)} that its jobs could use"
    )


def _utility(row: UserRow) -> str:
    if row.gain is None:
        return "unknown"
    return (
        f"{decimal(row.utility, 3)}, against {decimal(row.entitlement_utility, 3)} at its bare "
        f"entitlement ({row.gain:+.1%})"
    )


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


def account_rows(user: UserExplanation) -> list[tuple[str, str, str]]:
    """Return what others owe an entitlement: of what, how much, and what follows from it."""
    rows = []
    cores = user.core_credits
    if cores is not None:
        owed = _owed(cores.core_hours, "core-hours")
        if abs(cores.cores) >= SMALLEST_RATE:
            grows = "more" if (cores.cores > 0) == (cores.core_hours > 0) else "less"
            owed += f", {abs(cores.cores):.2f} {grows} each hour"
        rows.append(("cores", owed, _effect(cores)))
    above = user.user.credits_above_mean
    if above is not None:
        owed = f"{above:+.1f} credits" if user.gib_hours is None else _owed(user.gib_hours, "GiB-h")
        rows.append(("memory", owed, f"{above:+.1f} credits relative to the mean of all users"))
    elif user.user.credits is not None:
        mean = "the mean of all users, to compare with, is not visible to you"
        rows.append(("memory", f"{user.user.credits} credits", mean))
    return rows


def _owed(amount: float, unit: str) -> str:
    if round(abs(amount), 1) == 0:
        return "nothing"
    return f"{'is owed' if amount > 0 else 'owes'} {abs(amount):.1f} {unit}"


def _effect(credits_: CoreCreditFigures) -> str:
    if credits_.budget_factor is None:
        return "no budget without jobs"
    change = credits_.budget_factor - 1
    if abs(change) < SMALLEST_CHANGE:
        return "its budget is as by its shares"
    return f"its budget is {abs(change):.0%} {'larger' if change > 0 else 'smaller'} now"


def _account(rows: Sequence[tuple[str, str, str]]) -> Table:
    table = Table(**STYLE)
    for head in ("of", "owed", "effect"):
        table.add_column(head)
    for row in rows:
        table.add_row(*row)
    return table


def _places(user: UserExplanation) -> str:
    steps = [
        f"{each.shares}{'' if each.of is None else f' of {each.of}'} shares of "
        f"{each.parent or 'the cluster'}"
        for each in user.places
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
    sentence = partners_sentence(user)
    return [line("in total", sentence)] if sentence else []


def partners_sentence(user: UserExplanation) -> str:
    """Return to whom an entitlement lends and from whom it borrows; empty if to and from none."""
    lent = [f"{each.cores:.2f} to {each.name}" for each in user.partners if each.cores > 0]
    borrowed = [f"{-each.cores:.2f} from {each.name}" for each in user.partners if each.cores < 0]
    return "; ".join(
        f"{verb} {', '.join(whom)}"
        for verb, whom in (("lends", lent), ("borrows", borrowed))
        if whom
    )


def render_node(node: NodeExplanation, *, wide: bool) -> list[RenderableType]:
    """Return a node's explanation."""
    row, supply = node.node, node.supply
    parts: list[RenderableType] = [title(f"Node {row.name}", row.agent, row.message)]
    price = "" if row.price is None else f" at {row.price:.3f} each; {cores(row.sold)} granted"
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
        parts.append(heading("Pods outside the market"))
        parts += [
            line(f"{each.namespace}/{each.name}", f"{each.cpus:g} CPU, {format_bytes(each.memory)}")
            for each in shown
        ]
        parts += rest(len(supply.others), len(shown))
    return parts


def _used(row: NodeRow) -> str:
    if row.used is None:
        return "unknown"
    return (
        f"{cores(row.used)} cores and {memory(row.memory_used)} of memory, "
        f"by everything on the node"
    )


def _agent(row: NodeRow) -> str:
    if row.epoch is None:
        return "has no plan yet"
    held = "none yet" if row.enforced_epoch is None else str(row.enforced_epoch % EPOCHS)
    return f"{row.mode}s plan {row.epoch % EPOCHS}; last plan enforced in full: {held}"


def _supply(supply: Supply) -> str:
    if supply.cpus is None:
        return "unknown"
    least = "" if supply.cores == supply.cpus else f" ({cores(supply.cores)} physical cores)"
    left = "?" if supply.unmanaged is None else cores(supply.unmanaged)
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
