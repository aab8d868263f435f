"""Pure: compute the status of a Market: prices, their accuracy, and scores of the plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from walras_api.contract import MARKET_NAME
from walras_api.market_status import (
    MOST_NODES,
    MarketSize,
    MarketStatus,
    NodePrice,
    ScoreReport,
    SolverReport,
)
from walras_operator.decide.conditions import ConditionState, Problem, conditions, fails, holds
from walras_operator.decide.numbers import figure, thousandths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.analysis.plan_quality import PlanQuality
    from walras.market.plan import NodeOutcome, Plan
    from walras.market.snapshot import Snapshot
    from walras_api.kinds import Market, MarketSpec
    from walras_api.market_status import LedgerReport, NodeGain, PredictionReport
    from walras_api.status import WaitingWorkloads
    from walras_operator.decide.pool_averages import NodePoolReports
    from walras_operator.decide.world import Document

STAMP = frozenset({"epoch", "leader"})
"""Fields that the publisher adds when it writes."""


PODS_SHARE = "PodsShareDomains"
"""Type of the condition of a Market whose pods share CPUs, unless their jobs say otherwise."""

REQUESTS_BOUNDED = "RequestsBounded"
"""Type of the condition of a Market that does not say what requests beyond a share mean."""

OF_NODE_POOLS = ("nodePools", "otherNodePools")
"""Fields that are computed apart from decisions, and kept until they are computed again."""


def market_status(
    market: Market,
    rules: MarketSpec,
    snapshot: Snapshot,
    plan: Plan,
    scores: PlanQuality,
    proportional: float,
    states: Mapping[str, ConditionState],
    waiting: WaitingWorkloads | None,
    ledger: LedgerReport | None,
    owed: Document | None,
    pools: NodePoolReports | None,
    gains: list[NodeGain],
    predictions: list[PredictionReport],
    before: Mapping[str, Any],
    now: str,
) -> Document:
    """Return the status of the Market, without ``leader`` and ``epoch``.

    Args:
        market: The Market that is used.
        rules: Rules of the plan: the Market's, or the last that could be used.
        snapshot: Input of the plan.
        plan: Plan that was decided.
        scores: PlanQuality of the plan.
        proportional: System progress that proportional sharing would give.
        states: States of its conditions, by type.
        waiting: Workloads that wait in Kueue; None if none do.
        ledger: Karma credits; None if there are none.
        owed: The account; None if there is no entitlement.
        pools: Signals of node pools; None to keep those of the status as last written.
        gains: What nodes brought that were added.
        predictions: How good predictions were that came true.
        before: Status as last written.
        now: Current time (RFC 3339).
    """
    made = MarketStatus(
        solver=_solver(plan, rules),
        scores=_scores(scores, proportional),
        size=_size(snapshot, plan),
        waiting=waiting,
        prices=[
            NodePrice(node=node.name, cores=thousandths(node.cores), price=figure(node.price))
            for node in sorted(_selling(plan), key=lambda node: node.name)[:MOST_NODES]
        ],
        node_pools=[] if pools is None else list(pools.pools),
        other_node_pools=None if pools is None else pools.others or None,
        node_gains=gains,
        predictions=predictions,
        memory_mechanism=rules.memory.mechanism if plan.memory_mechanism else None,
        ledger=ledger,
        conditions=conditions(states, before, now, market.metadata.generation),
    ).document()
    if owed is not None:
        made["account"] = owed  # 5 000 balances, which need no second validation
    if pools is None:
        made |= {field: before[field] for field in OF_NODE_POOLS if field in before}
    return made


def _selling(plan: Plan) -> list[NodeOutcome]:
    return [node for node in plan.nodes if node.cores > 0]


def _size(snapshot: Snapshot, plan: Plan) -> MarketSize:
    selling = _selling(plan)
    return MarketSize(
        entitlements=len(plan.users),
        jobs=len({(grant.namespace, grant.name) for grant in plan.grants}),
        pods=len(plan.grants),
        refused=len(plan.refused),
        nodes=len(selling),
        cores=figure(sum(node.cores for node in selling)),
        memory=str(sum(node.memory for node in snapshot.nodes)),
    )


def cleared(plan: Plan) -> ConditionState:
    """Return the state of ``Ready`` for a cleared market; the reason says if it converged."""
    if plan.converged:
        return holds("Cleared", f"{plan.mechanism} divides cores among {len(plan.users)} users")
    return holds(
        "Approximate",
        f"the solver ({plan.solver}) did not converge: conditions of the equilibrium are violated "
        f"by up to {plan.residual:.1e} (relative); its result is used until the next decision",
    )


def requests_unbounded() -> ConditionState:
    """Return the state of `REQUESTS_BOUNDED` of a Market that was made before it could say so."""
    return fails(
        Problem(
            "NotStated",
            "spec.cores.requests is not set, so pods keep all that they requested, also beyond "
            "their user's share, and others may have less than theirs; set it to WithinShare, or "
            "to Always to keep this",
        )
    )


def pods_share() -> ConditionState:
    """Return the state of `PODS_SHARE`, which tells who upgrades what has changed."""
    return holds(
        "ByWeight",
        "pods share the CPUs of a domain (a node, or one of its NUMA nodes if it has more than 16 "
        "CPUs) by weight of what they hold, and what a pod leaves idle others use; up to version "
        "0.1.0, whole cores of a pod were its own: for that, set spec.cores.isolated of the Market "
        "to true, or spec.isolated of a MarketJob",
    )


def account_dropped() -> ConditionState:
    """Return the state of ``Ready`` if the API server does not store the account."""
    return fails(
        Problem(
            "AccountDropped",
            "the API server has dropped status.account from what was written, since the definition "
            "of Markets is that of an earlier version: cores are divided, but what users owe each "
            "other stays as status.coreCredits of Entitlements has it; apply the definitions of "
            "this version: walras-operator crds --print | kubectl apply --server-side -f -",
        )
    )


def not_used(name: str) -> Problem:
    """Return the problem of a Market whose name is not the one that is used."""
    return Problem(
        "NotUsed",
        f"only the Market named {MARKET_NAME} is used, and not {name}; rename it, or delete it",
    )


def with_problem(
    status: Mapping[str, Any], problem: Problem, now: str, generation: int
) -> Document:
    """Return a status with a new problem in its conditions; the rest, such as credits, stays."""
    judged = conditions({"Ready": fails(problem)}, status, now, generation)
    return {**without_stamp(status), "conditions": [each.document() for each in judged]}


def without_stamp(status: Mapping[str, Any]) -> Document:
    """Return a status without the fields that the publisher adds."""
    return {key: value for key, value in status.items() if key not in STAMP}


def _solver(plan: Plan, rules: MarketSpec) -> SolverReport:
    return SolverReport(
        mechanism=rules.cores.mechanism,
        solver=plan.solver,
        iterations=plan.iterations,
        residual=figure(plan.residual) if math.isfinite(plan.residual) else None,
        converged=plan.converged,
    )


def _scores(scores: PlanQuality, rival: float) -> ScoreReport:
    envy = scores.envy_freeness
    return ScoreReport(
        system_progress=figure(scores.system_progress),
        held_progress=figure(scores.held_progress),
        proportional_progress=figure(rival),
        entitlement_error=figure(scores.entitlement_error),
        uniformity=figure(scores.uniformity),
        envy_freeness=None if envy is None else figure(envy),
    )
