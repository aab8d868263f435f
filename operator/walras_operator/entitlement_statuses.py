"""Chooses (pure): the status of an Entitlement: what it is worth, and what it gets."""

from __future__ import annotations

import contextlib
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from walras.forecast import held_cores
from walras.resources.statuses import (
    MOST_LOANS,
    MOST_SPENDS,
    Credits,
    EntitledCores,
    EntitledMemory,
    EntitlementStatus,
    Loan,
    NodeSpend,
    Utility,
)
from walras.snapshot import identity
from walras_operator.conditions import Problem, Verdict, conditions, fails, holds
from walras_operator.figures import figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.plan import MemoryOutcome, Plan, UserOutcome
    from walras.resources.kinds import Entitlement
    from walras_operator.screening import Screened
    from walras_operator.world import Document


MOST_WRITES = 10
"""Entitlements a second whose status is written since their credits have changed."""


@dataclass(slots=True)
class _Spend:
    """What is spent on one node."""

    spend: float = 0.0
    cores: float = 0.0


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was decided, by entitlement.

    Attributes:
        problems: of those that have no place in the tree.
        parents: names of those that others hang below.
        shares: part of the whole.
        jobs: MarketJobs that draw on each.
        pods: with a grant.
        held: cores in hardware.
        spends: by node.
        users: what the market gave.
        memory: likewise.
        quantum: of Karma; 0 without.
        told: of whose credits it is time to tell.
    """

    problems: Mapping[str, Problem]
    parents: frozenset[str]
    shares: Mapping[str, float]
    jobs: Counter[str]
    pods: Counter[str]
    held: Mapping[str, float]
    spends: Mapping[str, Mapping[str, _Spend]]
    users: Mapping[str, UserOutcome]
    memory: Mapping[str, MemoryOutcome]
    quantum: int
    told: frozenset[str]

    @classmethod
    def of(cls, screened: Screened, plan: Plan) -> Ledger:
        """Sort what was decided by entitlement."""
        quantum = 0 if plan.quantum is None else plan.quantum.number
        seconds = screened.objects.rules.memory.quantum_seconds
        held: defaultdict[str, float] = defaultdict(float)
        spends: defaultdict[str, defaultdict[str, _Spend]] = defaultdict(
            lambda: defaultdict(_Spend)
        )
        cores = held_cores(plan)
        for grant in plan.grants:
            held[grant.entitlement] += cores[identity(grant)]
            spent = spends[grant.entitlement][grant.node]
            spent.spend += grant.spend
            spent.cores += grant.cores
        entitlements = screened.objects.entitlements
        return cls(
            screened.entitlements,
            frozenset(each.spec.parent for each in entitlements if each.spec.parent is not None),
            parts_of_whole(entitlements),
            Counter(
                job.spec.entitlement
                for job in screened.objects.jobs
                if (job.metadata.namespace, job.metadata.name) not in screened.jobs
            ),
            Counter(grant.entitlement for grant in plan.grants),
            held,
            spends,
            {each.name: each for each in plan.users},
            {each.name: each for each in plan.memory},
            quantum,
            told_in([each.name for each in plan.memory], quantum, seconds),
        )


def told_in(names: Sequence[str], quantum: int, seconds: int) -> frozenset[str]:
    """Return the entitlements of whose credits is told in a quantum, each in turn.

    All balances change in every quantum, and each status is a request: there are at most
    `MOST_WRITES` a second.
    """
    turns = math.ceil(len(names) / (MOST_WRITES * seconds)) or 1
    return frozenset(names[(-quantum) % turns :: turns])


def parts_of_whole(entitlements: Sequence[Entitlement]) -> dict[str, float]:
    """Return the product of each entitlement's shares up the tree, whoever has jobs."""
    siblings: defaultdict[str | None, list[Entitlement]] = defaultdict(list)
    for each in entitlements:
        siblings[each.spec.parent].append(each)
    parts: dict[str, float] = {}
    pending: list[tuple[str | None, float]] = [(None, 1.0)]
    while pending:
        parent, part = pending.pop()
        total = sum(each.spec.shares for each in siblings[parent])
        for each in siblings[parent]:
            mine = part * each.spec.shares / total
            parts[each.metadata.name] = mine
            pending.append((each.metadata.name, mine))
    return parts


def entitlement_status(
    entitlement: Entitlement, ledger: Ledger, before: Mapping[str, Any], now: str
) -> Document:
    """Return the status of an entitlement.

    Args:
        entitlement: the entitlement.
        ledger: what was decided.
        before: its status before.
        now: the time.
    """
    name = entitlement.metadata.name
    user, share = ledger.users.get(name), ledger.shares.get(name)
    spends = sorted(ledger.spends.get(name, {}).items(), key=lambda item: (-item[1].spend, item[0]))
    rest = spends[MOST_SPENDS:]
    verdict = _ready(entitlement, ledger)
    return EntitlementStatus(
        budget_share=None if share is None else figure(share),
        jobs=ledger.jobs[name],
        pods=ledger.pods[name],
        cores=None if user is None else _cores(user, ledger.held.get(name, 0.0)),
        memory=_memory(ledger.memory.get(name)),
        utility=None
        if user is None
        else Utility(now=figure(user.utility), at_entitlement=figure(user.entitlement_utility)),
        credits=_credits(ledger, name, before),
        spend_by_node=[
            NodeSpend(node=node, spend=figure(each.spend), cores=figure(each.cores))
            for node, each in spends[:MOST_SPENDS]
        ],
        other_nodes=len(rest),
        other_spend=figure(sum(each.spend for _, each in rest)) if rest else None,
        conditions=conditions({"Ready": verdict}, before, now, entitlement.metadata.generation),
    ).document()


def _cores(user: UserOutcome, held: float) -> EntitledCores:
    return EntitledCores(
        entitled=figure(user.entitled_cores), allocated=figure(user.cores), held=figure(held)
    )


def _memory(outcome: MemoryOutcome | None) -> EntitledMemory | None:
    if outcome is None:
        return None
    return EntitledMemory(
        entitled=str(outcome.entitled), demand=str(outcome.demand), allocated=str(outcome.granted)
    )


def _credits(ledger: Ledger, name: str, before: Mapping[str, Any]) -> Credits | None:
    outcome = ledger.memory.get(name)
    if outcome is None or outcome.account is None:
        return None
    if "credits" in before and name not in ledger.told:
        with contextlib.suppress(ValidationError):
            return Credits.read(before["credits"])
    account = outcome.account
    return Credits(
        quantum=ledger.quantum,
        balance=account.balance,
        earned=account.earned,
        spent=account.spent,
        lent=_loans(account.lent),
        borrowed=_loans(account.borrowed),
    )


def _loans(loans: Iterable[tuple[str, int]]) -> list[Loan]:
    return [
        Loan(entitlement=name or None, memory=str(amount))
        for name, amount in islice(loans, MOST_LOANS)
    ]


def _ready(entitlement: Entitlement, ledger: Ledger) -> Verdict:
    spec, name = entitlement.spec, entitlement.metadata.name
    problem = ledger.problems.get(name)
    if problem is not None:
        return fails(problem)
    if name in ledger.parents:
        return holds("Divided", "its children divide its budget")
    if not spec.namespaces and spec.namespace_selector is None:
        return fails(
            Problem(
                "NoNamespaces",
                "spec: no namespace may draw on it; set namespaces or namespaceSelector",
            )
        )
    return holds("Ready", "jobs may draw on it")
