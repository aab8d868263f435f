"""Pure: what is said of a job: its budget, bids, deadline, co-runners, penalties, one more core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_view.text import decimal

if TYPE_CHECKING:
    from walras_view.explain.job import (
        AuctionWeights,
        Budget,
        CanUse,
        DeadlineOutlook,
        PodCoRunner,
        Worth,
    )
    from walras_view.explain.margin import OneMore
    from walras_view.explain.penalties import CoRunnerPenalty


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


def budget_sentence(budget: Budget) -> str:
    """Return which budget pays for a job, and how much of it the job spends."""
    if budget.cores is None:
        return f"Entitlement {budget.entitlement}, whose budget is unknown"
    part = "" if budget.part is None else f" ({budget.part:.1%})"
    return (
        f"Entitlement {budget.entitlement}, with a budget of {budget.cores:.2f} cores, of which "
        f"this job spends {decimal(budget.spend)}{part}"
    )


def can_use_sentence(can_use: CanUse) -> str:
    """Return how many CPUs a pod can use at once, how sure that is, and how old."""
    of = f" ({can_use.images})" if can_use.images else ""
    if can_use.by_threads:
        return f"at most {decimal(can_use.cpus)} CPUs at once, the number of its threads{of}"
    return (
        f"{decimal(can_use.cpus)} ± {decimal(can_use.error)} CPUs at once, last seen at "
        f"{can_use.seen}{of}"
    )


def deadline_sentence(deadline: DeadlineOutlook) -> str:
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


def speedup_text(speedup: float | None) -> str:
    """Return a predicted speedup in words."""
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


def co_runner_sentence(co_runner: PodCoRunner) -> str:
    """Return beside what a pod was placed, what that costs it, and the advice to its user."""
    if co_runner.partner is None:
        return f"was placed on a socket of its own{_exploration(co_runner, 'how fast it is alone')}"
    lost, source = co_runner.measured, "measured"
    if lost is None:
        lost, source = co_runner.predicted, "predicted"
    loss = "" if lost is None else f", where it loses {lost:.1%} of its throughput ({source})"
    loss += _exploration(co_runner, "how much programs slow each other down")
    advice = "stay"
    if co_runner.companion is not None:
        advice = f"break away with {co_runner.companion}, which would save it {co_runner.gain:.1%}"
    return f"was placed beside {co_runner.partner}{loss}; advice: {advice}"


def _exploration(co_runner: PodCoRunner, subject: str) -> str:
    """Return what a placement was made to learn and its cost; empty if the policy chose it."""
    if co_runner.exploration is None:
        return ""
    cost = "no expected cost"
    if co_runner.exploration > 0:
        cost = f"an expected cost of {co_runner.exploration:.1%} of its throughput"
    return f", to learn {subject} at {cost}"


def penalty_sentence(penalty: CoRunnerPenalty) -> str:
    """Return what a program loses beside another, how that is known, and whether it counts."""
    verb = "loses" if penalty.penalty >= 0 else "gains"
    loss = f"{verb} {abs(penalty.penalty):.1%} of its throughput ({_measurement(penalty)})"
    if penalty.why_not:
        return f"{loss}; does not count: {penalty.why_not}"
    return (
        f"{loss}; counts as {penalty.counted:.1%}" if penalty.counted else f"{loss}; lowers nothing"
    )


def _measurement(penalty: CoRunnerPenalty) -> str:
    if penalty.looks is None:
        return "spec.penalties of its profile"
    error = "error unknown" if penalty.error is None else f"error {penalty.error:.1%}"
    checks = f"{penalty.looks} check{'' if penalty.looks == 1 else 's'}"
    method = COUNTED.get(penalty.source, penalty.source)
    where = "" if penalty.cores is None else f" on {penalty.cores} core"
    where += "s" if penalty.cores is not None and penalty.cores != 1 else ""
    return f"{error}, {checks} of {method}{where}"


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
        return (first, "no other pod of its user can pay for it; it needs more shares")
    if more.bound:
        return (first,)
    worth = "worth it" if more.worthwhile else "not worth it"
    cheapest = (
        f"the cheapest way to pay: {more.instead.cores:.2f} fewer cores for {more.instead.pod} "
        f"({more.instead.job}) on {more.instead.node}, which loses {more.instead.loss:.3f}: "
        f"{worth}"
    )
    return (first, cheapest)
