"""Pure: what makes a table doubtful or incomplete: a line each, with the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walras.resources.market import MarketSpec
from walras_cli.cluster.figures import is_behind
from walras_cli.cluster.kinds import MARKETS, resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from walras_cli.cluster.facts import Entry, Facts

EPOCHS = 10**9
"""Epochs in a leader term (`walras_operator.runtime.lease`): an epoch divided by it is the term."""

MOST_NAMED = 3
RIGHT_TO_MARKET = f"get {resource(MARKETS)}"


def warnings_of(facts: Facts) -> tuple[str, ...]:
    """Return what makes all figures doubtful."""
    return (*_operator(facts), *_market(facts))


def remarks_of(facts: Facts) -> tuple[str, ...]:
    """Return what is left out."""
    lines = [*facts.use.missing, *_unreadable(facts)]
    if facts.withheld:
        lines.append(
            f"left out for want of rights: {', '.join(facts.withheld)}; ask whoever runs the "
            f"cluster for a role with these"
        )
    return tuple(lines)


def _unreadable(facts: Facts) -> Iterator[str]:
    entries: list[Entry[Any]] = [
        *facts.entitlements.values(),
        *facts.jobs.values(),
        *facts.allocations.values(),
    ]
    unread = [each.title for each in entries if not each.readable]
    if unread:
        yield (
            f"the status of {_listed(unread)} cannot be read; use the walras of the operator's "
            f"version"
        )


def _operator(facts: Facts) -> Iterator[str]:
    leases = facts.leases
    if leases.known and leases.operator is None:
        yield (
            "no operator has ever run here (there is no Lease walras-operator), so nothing is "
            "decided; install the chart, or see to the Deployment of the operator"
        )
    elif leases.known and leases.operator is not None and not leases.operator_alive:
        ago = in_time(facts.now - leases.operator)
        yield (
            f"the operator does not run: it was heard of {ago} ago, and what follows is as old; "
            f"see to its Deployment (kubectl get deployments -A | grep walras)"
        )
    elif not leases.known and (behind := _behind(facts)):
        yield (
            f"not decided yet since they changed: {_listed(behind)}; if that stays so, the "
            f"operator does not run"
        )


def _behind(facts: Facts) -> list[str]:
    jobs = [f"MarketJob {each.title}" for each in facts.jobs.values() if is_behind(each)]
    users = [f"Entitlement {each.name}" for each in facts.entitlements.values() if is_behind(each)]
    return [*users, *jobs]


def _market(facts: Facts) -> Iterator[str]:
    market = facts.market
    if market is None:
        if RIGHT_TO_MARKET not in facts.withheld:
            yield (
                "there is no Market named default, so nothing is divided; create one (all of its "
                "fields have defaults)"
            )
        return
    ready = market.ready
    if ready is not None and ready.status != "True":
        yield f"Market default: {ready.message}"
    if market.spec.get("mode", MarketSpec().mode) == "observe":
        yield (
            "Market default is in mode observe: figures are what would be, and nodes stay as they "
            "are; set spec.mode to enforce to have it so"
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
        f"{mechanism}: {_count(size.cores, 'core')}",
        f"{_count(size.nodes, 'node')}, {whom} and {_count(size.entitlements, 'user')}",
    ]
    if status.scores is not None:
        rival = status.scores.proportional_progress
        beside = f" (proportional sharing: {float(rival):.2f})" if rival else ""
        parts.append(f"progress {float(status.scores.system_progress):.2f}{beside}")
    if epoch is not None:
        parts.append(f"decision {epoch.number % EPOCHS}")
    return ", ".join(parts)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def in_time(span: timedelta) -> str:
    """Return a span as kubectl writes an age."""
    seconds = max(int(span.total_seconds()), 0)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
