"""Pure: compute the status of an Entitlement: its share, and what its jobs get."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from walras.market.balances import UNIT, with_subtrees
from walras.outcome.reasons import explain_shortfall
from walras_api.assembly import policy_of
from walras_api.entitlement import (
    MOST_LOANS,
    MOST_SPENDS,
    CoreCredits,
    Credits,
    EntitledCores,
    EntitledMemory,
    EntitlementStatus,
    Loan,
    Utility,
)
from walras_operator.decide.conditions import (
    ConditionState,
    Problem,
    conditions,
    fails,
    holds,
    summarize,
)
from walras_operator.decide.known_quotas import Waiting
from walras_operator.decide.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.market.balances import Balance
    from walras.market.plan import MemoryOutcome, Plan, UserOutcome
    from walras_api.kinds import EntitlementObject
    from walras_operator.decide.known_quotas import Quotas
    from walras_operator.decide.validation import Validated
    from walras_operator.decide.world import Document


BELOW = 0.01
"""Part of a utility by which a user may be below its entitlement."""

VISIBLE = 0.01
"""Fewest cores of which a message tells."""


@dataclass(slots=True)
class _Spend:
    """Budget spent and cores bought on one node."""

    spend: float = 0.0
    cores: float = 0.0


@dataclass(frozen=True, slots=True)
class EntitlementOutcomes:
    """The outcome of a decision, by name of the entitlement.

    Attributes:
        problems: Problems of entitlements that have no valid way up to a root.
        parents: Names of entitlements that have children.
        shares: Part of the whole cluster that each is entitled to, from 0 to 1.
        jobs: Number of MarketJobs that draw on each.
        pods: Number of pods with a grant.
        spends: Budget and cores by node.
        users: Outcome of the market for cores.
        memory: Outcome of the division of memory.
        quantum: Number of the Karma quantum; 0 without Karma.
        account: What others owe each and all below it, also those that have a problem.
        half_life: Seconds in which a balance halves.
        costs: What each user's requests cost others, a sentence each.
        waiting: Workloads of Kueue that wait for the ClusterQueue that each follows.
    """

    problems: Mapping[str, Problem]
    parents: frozenset[str]
    shares: Mapping[str, float]
    jobs: Counter[str]
    pods: Counter[str]
    spends: Mapping[str, Mapping[str, _Spend]]
    users: Mapping[str, UserOutcome]
    memory: Mapping[str, MemoryOutcome]
    quantum: int
    account: Mapping[str, Balance]
    half_life: float
    costs: Mapping[str, Sequence[str]]
    waiting: Mapping[str, Waiting]

    @classmethod
    def of(
        cls,
        validated: Validated,
        plan: Plan,
        account: Mapping[str, Balance],
        quotas: Quotas | None = None,
    ) -> EntitlementOutcomes:
        """Index a plan by entitlement.

        Args:
            validated: Objects that take part.
            plan: Outcome of the market.
            account: What others owe each entitlement and all below it.
            quotas: Quotas that Entitlements follow; None if they follow none.
        """
        quantum = 0 if plan.quantum is None else plan.quantum.number
        spends: defaultdict[str, defaultdict[str, _Spend]] = defaultdict(
            lambda: defaultdict(_Spend)
        )
        for grant in plan.grants:
            spent = spends[grant.entitlement][grant.node]
            spent.spend += grant.spend
            spent.cores += grant.bought
        entitlements = validated.objects.entitlements
        return cls(
            validated.entitlements,
            frozenset(each.spec.parent for each in entitlements if each.spec.parent is not None),
            parts_of_whole(entitlements),
            Counter(
                job.spec.entitlement
                for job in validated.objects.jobs
                if (job.metadata.namespace, job.metadata.name) not in validated.jobs
            ),
            Counter(grant.entitlement for grant in plan.grants),
            spends,
            {each.name: each for each in plan.users},
            {each.name: each for each in plan.memory},
            quantum,
            with_subtrees(account),
            policy_of(validated.objects.rules).core_half_life,
            _costs(plan.users),
            {} if quotas is None else quotas.waiting,
        )


def _costs(users: Iterable[UserOutcome]) -> dict[str, list[str]]:
    """Return whom the requests of each user leave short, and where."""
    hurt: defaultdict[str, list[str]] = defaultdict(list)
    for user in users:
        for each in user.short_of:
            if each.user != user.name:
                hurt[each.user].append(f"{user.name} is short of cores on {each.node}")
    return {name: sorted(each) for name, each in hurt.items()}


def parts_of_whole(entitlements: Sequence[EntitlementObject]) -> dict[str, float]:
    """Return each entitlement's part of the whole: the product of its shares up the tree.

    Entitlements without jobs count, too.
    """
    siblings: defaultdict[str | None, list[EntitlementObject]] = defaultdict(list)
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
    entitlement: EntitlementObject,
    outcomes: EntitlementOutcomes,
    before: Mapping[str, Any],
    now: str,
) -> Document:
    """Return the status of an entitlement.

    Args:
        entitlement: The Entitlement.
        outcomes: Outcome of the decision.
        before: Status as last written.
        now: Current time (RFC 3339).
    """
    name = entitlement.metadata.name
    user, share = outcomes.users.get(name), outcomes.shares.get(name)
    spends = sorted(
        outcomes.spends.get(name, {}).items(), key=lambda item: (-item[1].spend, item[0])
    )
    rest = spends[MOST_SPENDS:]
    states = {"Ready": _ready(entitlement, outcomes)}
    waiting = outcomes.waiting.get(name, Waiting()) if entitlement.is_automatic else Waiting()
    if user is not None:
        balance = outcomes.account.get(name)
        costs = () if balance is None or balance.rate >= 0 else outcomes.costs.get(name, ())
        states["Entitled"] = _entitled(user, costs)
    status = EntitlementStatus(
        budget_share=None if share is None else figure(share),
        jobs=outcomes.jobs[name],
        pods=outcomes.pods[name],
        cores=None if user is None else _cores(user),
        memory=_memory(outcomes.memory.get(name)),
        utility=None if user is None else _utility(user),
        credits=_credits(outcomes, name),
        core_credits=_core_credits(
            outcomes.account.get(name), outcomes.half_life, has_jobs=user is not None
        ),
        waiting=waiting.report(),
        other_nodes=len(rest),
        other_spend=figure(sum(each.spend for _, each in rest)) if rest else None,
        conditions=conditions(states, before, now, entitlement.metadata.generation),
    )
    # These are many, so they are not built as models (`walras_api.entitlement.NodeSpend`).
    by_node = [
        {"node": node, "spend": figure(each.spend), "cores": figure(each.cores)}
        for node, each in spends[:MOST_SPENDS]
    ]
    return status.document() | {"spendByNode": by_node}


def _cores(user: UserOutcome) -> EntitledCores:
    return EntitledCores(
        entitled=figure(user.entitled),
        bought=figure(user.bought),
        held=figure(user.held),
    )


def _utility(user: UserOutcome) -> Utility:
    return Utility(
        now=figure(user.held_utility),
        bought=figure(user.utility),
        at_entitlement=figure(user.entitlement_utility),
    )


def _entitled(user: UserOutcome, costs: Sequence[str]) -> ConditionState:
    """Return the state of ``Entitled``, with what keeps the user from what it is entitled to."""
    over = user.spent - user.entitled
    requests = (
        f"what its pods requested costs {user.spent:.2f} at today's prices, {over:.2f} more than "
        f"its budget, so it can buy no more: request less, or raise its shares"
        if over > VISIBLE
        else ""
    )
    if requests and costs:
        requests += f"; it owes others what they lack for it: {summarize(costs)}"
    if user.gain is None or user.held_utility > user.entitlement_utility * (1 - BELOW):
        if requests:
            return holds("RequestsAboveBudget", requests)
        return holds("AtEntitlement", "its cores give its jobs at least the utility of its share")
    trade, moved = user.bought - user.entitled, user.held - user.bought
    message = (
        f"its jobs have a utility of {user.held_utility:.3g}, and its share of every node would "
        f"give {user.entitlement_utility:.3g}: it is entitled to {user.entitled:.2f} cores "
        f"and holds {user.held:.2f} (trade: {trade:+.2f}, minimums and "
        f"hysteresis: {moved:+.2f})"
    )
    causes = [each for each in (summarize(explain_shortfall(user)), requests) if each]
    return fails(Problem("BelowEntitlement", "; ".join([*causes, message])))


def _memory(outcome: MemoryOutcome | None) -> EntitledMemory | None:
    if outcome is None:
        return None
    return EntitledMemory(
        entitled=str(outcome.entitled), demand=str(outcome.demand), granted=str(outcome.granted)
    )


def _credits(outcomes: EntitlementOutcomes, name: str) -> Credits | None:
    outcome = outcomes.memory.get(name)
    if outcome is None or outcome.account is None:
        return None
    account = outcome.account
    return Credits(
        quantum=outcomes.quantum,
        balance=account.balance,
        earned=account.earned,
        spent=account.spent,
        lent=_loans(account.lent),
        borrowed=_loans(account.borrowed),
    )


def _core_credits(
    balance: Balance | None, half_life: float, *, has_jobs: bool
) -> CoreCredits | None:
    if balance is None:
        return None
    return CoreCredits(
        core_hours=figure(balance.core_hours),
        level=f"{round(balance.level(half_life), 2) + 0.0:.2f}",
        cores=figure(balance.rate / UNIT) if balance.rate else None,
        budget_factor=figure(balance.factor) if has_jobs else None,
    )


def _loans(loans: Iterable[tuple[str, int]]) -> list[Loan]:
    return [
        Loan(entitlement=name or None, memory=str(amount))
        for name, amount in islice(loans, MOST_LOANS)
    ]


def _ready(entitlement: EntitlementObject, outcomes: EntitlementOutcomes) -> ConditionState:
    spec, name = entitlement.spec, entitlement.metadata.name
    problem = outcomes.problems.get(name)
    if problem is not None:
        return fails(problem)
    if name in outcomes.parents:
        return holds("Divided", "its children divide its budget")
    if not spec.namespaces and spec.namespace_selector is None:
        return fails(
            Problem(
                "NoNamespaces",
                "spec: no namespace may draw on it; set namespaces or namespaceSelector",
            )
        )
    return holds("Ready", "jobs may draw on it")
