"""Pure: what an entitlement is worth, what it gets, and who has its part meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_api.market import MarketSpec
from walras_view.documents import Shown
from walras_view.explain.faults import Fault, failing
from walras_view.explain.lending import (
    NodeBalance,
    Partner,
    balances,
    purchases_of,
    together,
)
from walras_view.figures import ready_condition
from walras_view.rows.jobs import JobRow, job_rows
from walras_view.rows.users import UserRow, user_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walras.analysis.bid_curve import BidPoint
    from walras_api.entitlement import CoreCredits, Credits, Loan
    from walras_view.facts import Facts


GIB = 2**30


@dataclass(frozen=True, slots=True)
class Place:
    """One step of an entitlement's way up to the whole.

    Attributes:
        name: Name of the entitlement.
        shares: Shares of the entitlement.
        of: Shares of the entitlement and its siblings together; None if siblings are not visible.
        parent: Entitlement whose budget the shares divide; empty for the whole cluster.
    """

    name: str
    shares: int
    of: int | None
    parent: str


@dataclass(frozen=True, slots=True)
class MemoryLoan(Shown):
    """Memory that one entitlement has of another's part.

    Attributes:
        name: Name of the other entitlement; empty for memory that nobody owns.
        memory: Memory lent, in bytes.
    """

    name: str
    memory: int


@dataclass(frozen=True, slots=True)
class Quantum(Shown):
    """The effect of the last Karma quantum on an entitlement, as its status shows it.

    Attributes:
        number: Number of the quantum.
        earned: Credits earned: its part of the free credits, and credits for memory lent.
        spent: Credits spent for memory borrowed.
        lent: Memory lent, by entitlement, most first.
        borrowed: Memory borrowed, by entitlement, most first.
    """

    number: int
    earned: str
    spent: str
    lent: tuple[MemoryLoan, ...]
    borrowed: tuple[MemoryLoan, ...]


@dataclass(frozen=True, slots=True)
class CoreCreditFigures:
    """What others owe an entitlement and all below it, as its status shows it.

    Attributes:
        core_hours: Core-hours that others owe it; negative if it owes.
        level: These core-hours relative to what it would have if it always lent all its cores.
        cores: Cores by which that grows now; negative if it shrinks.
        budget_factor: Its budget relative to the one by its shares alone; None without jobs.
    """

    core_hours: float
    level: float
    cores: float
    budget_factor: float | None


@dataclass(frozen=True, slots=True)
class UserExplanation:
    """Everything about an Entitlement.

    Attributes:
        user: Row of the entitlement in ``walras top``; a parent sums up all below it.
        places: Steps from the entitlement up to the whole cluster.
        below: Names of all entitlements below it, sorted.
        nodes: Its cores on each node, compared with its part there.
        unknown_nodes: Number of nodes on which it is not known who bought what.
        partners: Cores lent (positive) to others, and then borrowed, on the nodes that are known.
        quantum: Last Karma quantum; None if no credits are kept.
        core_credits: Core-hours that others owe it; None if the market keeps no account.
        gib_hours: GiB-hours that others owe it, by its credits above the mean; None if unknown.
        jobs: Jobs that draw on it, if they may be seen.
        faults: Problems of the entitlement.
        bids: Its purchases at other prices (`walras.analysis.bid_curve`); empty unless they are
            asked for, and can be told.
        ready: Status of the condition ``Ready``.
        reason: Reason of the condition ``Ready``.
        message: Message of the condition ``Ready``.
    """

    user: UserRow
    places: tuple[Place, ...]
    below: tuple[str, ...]
    nodes: tuple[NodeBalance, ...]
    unknown_nodes: int
    partners: tuple[Partner, ...]
    quantum: Quantum | None
    core_credits: CoreCreditFigures | None
    gib_hours: float | None
    jobs: tuple[JobRow, ...]
    faults: tuple[Fault, ...]
    ready: str
    reason: str
    message: str
    bids: tuple[BidPoint, ...] = ()


def explain_user(
    facts: Facts,
    name: str,
    users: Iterable[UserRow] | None = None,
    jobs: Iterable[JobRow] | None = None,
) -> UserExplanation:
    """Explain an entitlement that is among the facts.

    Args:
        facts: Facts about the cluster.
        name: Name of the entitlement.
        users: Rows of all entitlements; computed if None.
        jobs: Rows of all jobs; computed if None.
    """
    all_rows = user_rows(facts, lambda row: row.name) if users is None else users
    rows = {row.name: row for row in all_rows}
    members = with_all_below(facts, name)
    bought = purchases_of(facts)
    nodes = () if bought is None else balances(bought, members)
    ready = ready_condition(facts.entitlements[name])
    return UserExplanation(
        user=rows[name],
        places=_places(facts, name),
        below=tuple(sorted(members - {name})),
        nodes=tuple(each for each in nodes if each.bought or each.partners),
        unknown_nodes=0 if bought is None else bought.unknown,
        partners=together(nodes),
        quantum=_quantum(facts.entitlements[name].status.credits),
        core_credits=_core_credits(facts.entitlements[name].status.core_credits),
        gib_hours=gib_hours(facts, rows[name]),
        jobs=tuple(
            row for row in (job_rows(facts) if jobs is None else jobs) if row.entitlement in members
        ),
        faults=tuple(failing(f"Entitlement {name}", facts.entitlements[name].status.conditions)),
        ready=ready.status,
        reason=ready.reason,
        message=ready.message,
    )


def _quantum(credits_: Credits | None) -> Quantum | None:
    if credits_ is None or credits_.quantum is None:
        return None
    return Quantum(
        credits_.quantum,
        credits_.earned,
        credits_.spent or "0",
        _loans(credits_.lent),
        _loans(credits_.borrowed),
    )


def _core_credits(credits_: CoreCredits | None) -> CoreCreditFigures | None:
    if credits_ is None:
        return None
    factor = credits_.budget_factor
    return CoreCreditFigures(
        float(credits_.core_hours),
        float(credits_.level),
        float(credits_.cores or 0),
        None if factor is None else float(factor),
    )


def gib_hours(facts: Facts, row: UserRow) -> float | None:
    """Return what a user's credits are worth: each buys one slice for one quantum."""
    if row.credits_above_mean is None or facts.market is None:
        return None
    try:
        rules = MarketSpec.model_validate(facts.market.spec).memory
    except ValueError:
        return None
    return row.credits_above_mean * rules.slice_size / GIB * rules.quantum_seconds / 3600


def _loans(loans: Iterable[Loan]) -> tuple[MemoryLoan, ...]:
    return tuple(MemoryLoan(each.entitlement or "", int(each.memory)) for each in loans)


def with_all_below(facts: Facts, name: str) -> set[str]:
    """Return an entitlement and all below it."""
    names, pending = {name}, [name]
    while pending:
        parent = pending.pop()
        children = {
            child
            for child, each in facts.entitlements.items()
            if each.spec.get("parent") == parent and child not in names
        }
        names |= children
        pending += children
    return names


def _places(facts: Facts, name: str) -> tuple[Place, ...]:
    """Return the way up from an entitlement, which ends at the whole or where it is broken."""
    places: list[Place] = []
    at: str | None = name
    while at is not None and at in facts.entitlements and all(at != each.name for each in places):
        spec = facts.entitlements[at].spec
        parent = spec.get("parent")
        together = sum(
            each.spec.get("shares", 0)
            for each in facts.entitlements.values()
            if each.spec.get("parent") == parent
        )
        of = together if facts.all_entitlements else None
        places.append(Place(at, spec.get("shares", 0), of, parent or ""))
        at = parent
    return tuple(places)
