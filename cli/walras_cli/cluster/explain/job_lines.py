"""A job's explanation as people read it: why, what one more core would bring, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from walras_cli.cluster.explain.lines import MOST, facts, faults, heading, line, rest, title
from walras_cli.cluster.top.tables import STYLE, cores, decimal, memory, state

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType
    from rich.text import Text

    from walras_cli.cluster.explain.job import (
        Budget,
        JobExplanation,
        PodCoRunner,
        PodReason,
        Weighing,
        Worth,
    )
    from walras_cli.cluster.explain.margin import OneMore


def of_job(job: JobExplanation, *, wide: bool) -> list[RenderableType]:
    """Return a job's explanation."""
    shown = job.pods if wide else job.pods[:MOST]
    names = {pod.name for pod in shown}
    parts: list[RenderableType] = [
        title(f"MarketJob {job.namespace}/{job.name}", job.reason, job.message),
        facts(
            ("pays", _budget(job.budget)),
            (
                "speedup",
                f"{_times(job.speedup)}; F is {decimal(job.parallel_fraction, 3)}, {job.whence}",
            ),
            *([] if job.weights is None else [("bids by", _weighing(job.weights))]),
        ),
        *faults(job.faults),
    ]
    if shown:
        parts += [heading("Pods"), _pods(shown), *rest(len(job.pods) + job.unlisted, len(shown))]
        parts += [heading("Why"), *(line for pod in shown for line in _why(pod))]
    if more := [each for each in job.one_more if each.pod in names]:
        parts += [heading("One core more"), *(line for each in more for line in _more(each))]
    return parts


def _budget(budget: Budget) -> str:
    if budget.cores is None:
        return f"Entitlement {budget.entitlement}, whose budget is not known here"
    part = "" if budget.part is None else f" ({budget.part:.1%})"
    return (
        f"Entitlement {budget.entitlement}, with a budget of {budget.cores:.2f} cores, of which "
        f"this job spends {decimal(budget.spend)}{part}"
    )


def _times(speedup: float | None) -> str:
    return "none predicted" if speedup is None else f"{speedup:.2f} times one core"


def _weighing(weights: Weighing) -> str:
    """Return what a job bids by, how sure that is, and what it is from."""
    both = f"weights {_worth(weights.cores)} of cores and {_worth(weights.memory)} of memory"
    if weights.source == "Given":
        return f"{both}, given by its spec.auction.weights"
    number = f"{weights.runs} run{'' if weights.runs == 1 else 's'}, {weights.recorded} recorded"
    if weights.source == "Estimated":
        return f"{both} (95 % intervals), estimated from {number}"
    return f"{both}, since none are known: {number}, which are too few or do not tell"


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
        shared = f" of {pod.shared_cores} shared" if pod.shared_cores else ""
        table.add_row(
            pod.name,
            pod.node or "-",
            cores(pod.cores) + shared,
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
    if pod.company:
        yield line(pod.name, _company(pod.company))


def _company(company: PodCoRunner) -> str:
    if company.partner is None:
        return "was placed with a processor to itself"
    known, source = company.measured, "as measured"
    if known is None:
        known, source = company.predicted, "predicted"
    loss = "" if known is None else f", beside which it loses {known:.1%} ({source})"
    advice = "take part"
    if company.companion is not None:
        advice = f"rather share with {company.companion}, which would save it {company.gain:.1%}"
    return f"was placed beside {company.partner}{loss}; advice: {advice}"


def _more(more: OneMore) -> Iterable[Text]:
    part = "" if more.cost_part is None else f", {more.cost_part:.1%} of the budget,"
    if not more.cost:
        yield line(more.pod, "cores have no price under this mechanism")
        return
    yield line(
        more.pod,
        f"on {more.node} it costs {more.cost:.3f}{part} and brings {more.gain:+.3f} of speedup "
        f"({more.speedup:.2f} to {more.speedup + more.gain:.2f})"
        + ("; but its maxCores does not allow it: raise that" if more.bound else ""),
    )
    if more.instead is None:
        yield line("", "no other pod of its user could pay; that takes more shares", "dim")
    elif not more.bound:
        worth = "worth it" if more.worthwhile else "not worth it"
        yield line(
            "",
            f"best paid by {more.instead.cores:.2f} cores less for {more.instead.pod} "
            f"({more.instead.job}) on {more.instead.node}, which loses {more.instead.loss:.3f}: "
            f"{worth}",
            "dim",
        )
