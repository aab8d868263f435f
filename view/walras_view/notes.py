"""Pure: what makes a table doubtful or incomplete: a line each, with the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walras_api.market import MarketSpec
from walras_api.market_status import MarketStatus
from walras_service.kinds import OURS
from walras_view.facts import operator_namespace
from walras_view.figures import is_behind
from walras_view.text import listed, missing_rights

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from walras_api.entitlement import EntitlementStatus
    from walras_view.facts import ApiObject, Facts

EPOCHS = 10**9
"""Epochs in a leader term (`walras_operator.lead.lease`): an epoch divided by it is the term."""

MOST_NAMED = 3
RIGHT_TO_MARKET = f"get {OURS['Market'].resource}"


def warnings_of(facts: Facts) -> tuple[str, ...]:
    """Return what makes all figures doubtful."""
    return (*_operator(facts), *_market(facts))


def remarks_of(facts: Facts) -> tuple[str, ...]:
    """Return what is left out."""
    lines = [
        *facts.notes,
        *facts.use.missing,
        *filter(None, [facts.leases.missing]),
        *_unreadable(facts),
    ]
    if facts.withheld:
        lines.append(f"not shown, since {missing_rights(facts.withheld)}")
    return tuple(lines)


def waiting_for_quota(status: EntitlementStatus | MarketStatus) -> tuple[str, ...]:
    """Return a line about Workloads that wait in Kueue, if any do."""
    waiting = status.waiting
    if waiting is None:
        return ()
    workloads, cpus = _count(waiting.workloads, "Workload"), _count(float(waiting.cpus), "CPU")
    line = f"{workloads} with {cpus} wait in Kueue for quota"
    of_all = isinstance(status, MarketStatus)
    return (f"{line}; the worth of more nodes does not count them" if of_all else line,)


def waiting_in_queues(facts: Facts) -> Iterator[str]:
    """Yield a line about Workloads that wait in Kueue, and so are in no table."""
    waiting = {
        each.name: each.status.waiting
        for each in facts.entitlements.values()
        if each.status.waiting is not None
    }
    if waiting:
        most = sorted(waiting, key=lambda name: (-float(waiting[name].cpus), name))
        said = [
            f"{name} {_count(waiting[name].workloads, 'Workload')} "
            f"({_count(float(waiting[name].cpus), 'CPU')})"
            for name in most
        ]
        yield f"waiting in Kueue to be admitted, without cores: {listed(said, MOST_NAMED)}"


def _unreadable(facts: Facts) -> Iterator[str]:
    entries: list[ApiObject[Any]] = [
        *facts.entitlements.values(),
        *facts.jobs.values(),
        *facts.allocations.values(),
    ]
    unread = [each.title for each in entries if not each.readable]
    if unread:
        yield (
            f"the status of {listed(unread, MOST_NAMED)} cannot be read; install the version of "
            f"walras that the operator has"
        )


def _operator(facts: Facts) -> Iterator[str]:
    leases = facts.leases
    if leases.known and leases.operator is None:
        yield (
            f"the operator has never run in this cluster (there is no Lease walras-operator in "
            f"namespace {_place(facts)}); install the chart, or check the operator's Deployment"
        )
    elif leases.known and leases.operator is not None and not leases.operator_alive:
        ago = in_time(facts.now - leases.operator)
        yield (
            f"the operator is not running: it last renewed its Lease {ago} ago, and the figures "
            f"below are from then; check its Deployment (kubectl get deployments -A | grep walras)"
        )
    elif not leases.known and (behind := _behind(facts)):
        yield (
            f"the operator has not decided yet on changes of {listed(behind, MOST_NAMED)}; if this "
            f"persists, check that the operator runs"
        )


def _place(facts: Facts) -> str:
    return operator_namespace(MarketStatus() if facts.market is None else facts.market.status)


def _behind(facts: Facts) -> list[str]:
    jobs = [f"MarketJob {each.title}" for each in facts.jobs.values() if is_behind(each)]
    users = [f"Entitlement {each.name}" for each in facts.entitlements.values() if is_behind(each)]
    return [*users, *jobs]


TO_CREATE_A_MARKET = (
    "create one by market.create of the chart, or apply {apiVersion: walras.dev/v1alpha1, "
    "kind: Market, metadata: {name: default}, spec: {mode: observe, "
    "cores: {requests: WithinShare}}}"
)
"""Advice for a cluster without a Market."""


def _market(facts: Facts) -> Iterator[str]:
    market = facts.market
    if market is None:
        if RIGHT_TO_MARKET not in facts.withheld:
            yield (
                f"there is no Market named default, so no cores are divided; {TO_CREATE_A_MARKET}"
            )
        return
    ready = market.ready
    if ready is not None and ready.status != "True":
        yield f"Market default: {ready.message}"
    for each in market.status.conditions:
        if each.type != "Ready" and each.status == "False":
            yield f"Market default: {each.message}"
    if market.spec.get("paused"):
        yield "Market default is paused: all grants stay as they are until walras resume"
    if market.spec.get("mode", MarketSpec().mode) == "observe":
        yield (
            "Market default is in mode observe: the figures are not enforced on the nodes; to "
            "enforce them, set spec.mode to enforce"
        )


def headline_of(facts: Facts) -> str:
    """Return the market in a line; empty where it is not known, or was never cleared."""
    if facts.market is None or (size := facts.market.status.size) is None:
        return ""
    status = facts.market.status
    solver, epoch = status.solver, status.epoch
    whom = f"{_count(size.pods, 'pod')} of {_count(size.jobs, 'job')}"
    mechanism = "Market" if solver is None else solver.mechanism
    parts = [
        f"{mechanism}: {_count(float(size.cores), 'core')}",
        f"{_count(size.nodes, 'node')}, {whom} and {_count(size.entitlements, 'user')}",
    ]
    if status.scores is not None:
        rival = status.scores.proportional_progress
        beside = f" (proportional sharing: {float(rival):.2f})" if rival else ""
        parts.append(f"progress {float(status.scores.system_progress):.2f}{beside}")
    if epoch is not None:
        parts.append(f"decision {epoch.number % EPOCHS}")
    return ", ".join(parts)


def _count(number: float, noun: str) -> str:
    return f"{number:.12g} {noun}{'' if number == 1 else 's'}"


def in_time(span: timedelta) -> str:
    """Return a span as kubectl writes an age."""
    seconds = max(int(span.total_seconds()), 0)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
