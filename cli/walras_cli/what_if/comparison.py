"""Pure, except that it prints what cannot be cleared: situations to plans, side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from walras.analysis.node_pools import node_pools
from walras.analysis.plan_quality import PlanQuality, evaluate_plan
from walras.analysis.sensitivity import sensitivity
from walras.clearing import clear
from walras.division.auctions import PricingError
from walras.market.snapshot import ColocationRule, CoreMechanism, MemoryMechanism, title
from walras.mechanisms.karma.ledger import KarmaError
from walras.outcome.reasons import explain_shortfall
from walras_api.assembly import policy_of, pool_prices_of
from walras_cli.patience import patience
from walras_cli.what_if.held import as_enforced, bystanders, isolated_jobs, machines_of
from walras_cli.what_if.plain_division import plain_division
from walras_operator.decide.pool_averages import PoolAverages
from walras_service.failures import BadInput
from walras_service.untrusted import printable
from walras_view.documents import number, plain
from walras_view.explain.pools import explain_pools

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from walras.analysis.sensitivity import FractionSensitivity
    from walras.market.plan import Plan
    from walras.market.snapshot import Policy
    from walras_api.kinds import MarketSpec
    from walras_cli.what_if.changes import ChangedCluster
    from walras_cli.what_if.held import Bystander
    from walras_cli.what_if.situation import Situation
    from walras_view.explain.pools import PoolExplanation
    from walras_view.plain import PlainDivision


NEAR = 0.01
"""Part by which what a pod has may differ from its request, and be called that."""

MOST_NAMED = 8
"""Pods outside the market that notes name; scripts get all."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """A plan and what it is worth.

    Attributes:
        plan: The plan.
        scores: How good it is.
        bystanders: Pods outside the market that have less beside it than on plain Kubernetes.
    """

    plan: Plan
    scores: PlanQuality
    bystanders: tuple[Bystander, ...] = ()


@dataclass(frozen=True, slots=True)
class MechanismOptions:
    """Mechanisms chosen on the command line; None where the Market's rules apply.

    Attributes:
        cores: Mechanisms for cores to compare, or ``all``; empty for the Market's.
        memory: Mechanism for memory, in place of the Market's.
        colocation: Policy of colocation, in place of the Market's.
        sensitivity: Whether to show how cores move if parallel fractions are over-estimated.
        node_pools: Whether to show what one more node of each pool would bring.
    """

    cores: tuple[CoreMechanism | Literal["all"], ...] = ()
    memory: MemoryMechanism | None = None
    colocation: ColocationRule | None = None
    sensitivity: bool = False
    node_pools: bool = False

    def policies(self, rules: MarketSpec) -> list[Policy]:
        """Return the rules of a Market with each mechanism that was asked for."""
        policy = policy_of(rules)
        policy = replace(
            policy,
            memory=self.memory or policy.memory,
            colocation=self.colocation or policy.colocation,
        )
        wanted: list[CoreMechanism] = []
        for each in self.cores or (policy.cores,):
            wanted += _all_but_first(policy.cores) if each == "all" else [each]
        return [replace(policy, cores=mechanism) for mechanism in dict.fromkeys(wanted)]


def _all_but_first(first: CoreMechanism) -> list[CoreMechanism]:
    """Return all mechanisms, the Market's own first."""
    mechanisms: tuple[CoreMechanism, ...] = get_args(CoreMechanism)
    return [first, *(each for each in mechanisms if each != first)]


def clear_by(situation: Situation, policies: Sequence[Policy], *, anew: bool) -> list[Cleared]:
    """Clear a market by each policy; where one of several cannot, say so and go on.

    Args:
        situation: Market to clear.
        policies: Policies to clear the market by.
        anew: Whether nobody holds any cores yet. Mechanisms are compared like that, since cores
            that stay where they are while too little is gained would make all of them alike.

    Raises:
        BadInput: it can be cleared by none of them.
    """
    cleared = []
    snapshot = replace(situation.snapshot, held={}) if anew else situation.snapshot
    for policy in policies:
        try:
            with patience(f"clearing the market by {policy.cores}"):
                plan = clear(snapshot, policy)
            machines = machines_of(plan, situation.objects)
            plan = as_enforced(plan, snapshot, machines, isolated_jobs(situation.objects))
        except KarmaError as error:
            raise BadInput(f"spec.memory.sliceSize: {error}; larger slices are fewer") from error
        except PricingError as error:
            problem = f"mechanism {policy.cores}: {error}"
            if len(policies) == 1:
                raise BadInput(problem) from error
            click.echo(f"walras: {printable(problem)}", err=True)
            continue
        lose = bystanders(plan, situation.objects, machines, situation.use)
        cleared.append(Cleared(plan, evaluate_plan(snapshot, plan), lose))
    return cleared


@dataclass(frozen=True, slots=True)
class Comparison:
    """Plans of a situation, with and without changes.

    Attributes:
        cleared: Plans, one for each mechanism.
        notes: Lines for people about objects that take no part, unknown figures, and deadlines.
        before: Plan of the first mechanism without the changes; None if there are no changes.
        shifts: Effects of over-estimated parallel fractions; empty unless requested.
        pools: Node pools under the first mechanism, with the changes; empty unless requested.
        plain: What plain Kubernetes would give the same pods; None if some are not known.
    """

    cleared: tuple[Cleared, ...]
    notes: tuple[str, ...]
    before: Cleared | None
    shifts: tuple[FractionSensitivity, ...] = ()
    pools: tuple[PoolExplanation, ...] = ()
    plain: PlainDivision | None = None

    @classmethod
    def of(cls, source: ChangedCluster, options: MechanismOptions) -> Comparison:
        """Clear the market, with and without the changes.

        Raises:
            BadInput: it cannot be cleared.
        """
        policies = options.policies(source.then.rules)
        anew = len(policies) > 1
        before = None
        if source.now is not None:
            first = options.policies(source.now.rules)[:1]
            before = clear_by(source.now, first, anew=anew)[0]
        cleared = clear_by(source.then, policies, anew=anew)
        shifts = sensitivity(source.then.snapshot, policies[0]) if options.sensitivity else ()
        pools = _pools(source.then, cleared[0].plan, policies) if options.node_pools else ()
        shown = cleared[0]
        notes = (
            *source.then.notes,
            *_deadlines(shown.plan),
            *_short(shown.plan),
            *_outside(shown.bystanders),
        )
        plain_ = plain_division(source.then, shown.plan)
        return cls(tuple(cleared), notes, before, shifts, pools, plain_)

    def document(self) -> dict[str, Any]:
        """Return the first plan, the others under ``alternatives``, and the notes."""
        first, *others = (_document_of(each) for each in self.cleared)
        return {
            **first,
            "notes": list(self.notes),
            **({"plain": plain(self.plain)} if self.plain else {}),
            **({"alternatives": others} if others else {}),
            **({"before": _document_of(self.before)} if self.before else {}),
            **({"sensitivity": [plain(each) for each in self.shifts]} if self.shifts else {}),
            **({"nodePools": [plain(each) for each in self.pools]} if self.pools else {}),
        }


def _pools(
    situation: Situation, plan: Plan, policies: Sequence[Policy]
) -> tuple[PoolExplanation, ...]:
    """Explain the node pools of a market under the mechanism of a plan, without any averages."""
    policy = next(each for each in policies if each.cores == plan.mechanism)
    prices = pool_prices_of(situation.rules)
    pools = node_pools(situation.snapshot, plan, policy, prices)
    reports = PoolAverages({}).after(pools, 0.0).reports()
    rules = situation.rules.node_pools.model_dump(mode="json", by_alias=True)
    return explain_pools(reports.pools, plan.mechanism, rules)


def _short(plan: Plan) -> Iterator[str]:
    """Yield who holds less than its entitlement gives because of what others requested."""
    for user in plan.users:
        if user.short_of:
            less = 1 - user.held_utility / user.entitlement_utility
            causes = "; ".join(explain_shortfall(user))
            yield (
                f"Entitlement {user.name}: gets {less:.1%} less done than with its share alone: "
                f"{causes}"
            )


def _outside(pods: Sequence[Bystander]) -> Iterator[str]:
    """Yield which pods outside the market have less beside it, and how much."""
    for each in pods[:MOST_NAMED]:
        kept = each.least < each.requested * (1 + NEAR)
        of_request = f"its request of {each.requested:.4g}" if kept else f"{each.least:.4g}"
        yield (
            f"Pod {each.namespace}/{each.name} on {each.node} is outside the market: while all "
            f"pods are busy, {each.plain:.4g} cores today, at least {of_request} with Walras"
            f"{_of_use(each)}"
        )
    if len(pods) > MOST_NAMED:
        yield f"{len(pods) - MOST_NAMED} more pods outside the market have less; -o json has them"


def _of_use(pod: Bystander) -> str:
    """Return what a pod would lose of what it uses, if that is known."""
    if pod.uses is None or pod.loses is None:
        return ""
    loses = f"up to {pod.loses:.4g}" if pod.loses > 0 else "nothing"
    return f"; of the {pod.uses:.4g} that it uses it would lose {loses}"


def _deadlines(plan: Plan) -> Iterator[str]:
    """Yield a line on each deadline: what it needs, and whether it would be accepted."""
    for each in plan.deadlines:
        name = title(each.namespace, each.name, each.pod)
        needs = "more cores than help it" if math.isinf(each.needed) else f"{each.needed:.1f} cores"
        payable = "" if each.payable is None else f", its budget pays for {each.payable:.1f}"
        yield (
            f"{name}: its deadline needs {needs} from now on, {each.reserved} are reserved "
            f"({each.state}{payable})"
        )


def _document_of(cleared: Cleared) -> dict[str, Any]:
    plan = cleared.plan
    result = {
        "mechanism": plan.mechanism,
        "solver": plan.solver,
        "iterations": plan.iterations,
        "residual": number(plan.residual),
        "converged": plan.converged,
        "scores": plain(cleared.scores),
        "jobs": [plain(grant) for grant in plan.grants],
        "users": [plain(user) for user in plan.users],
        "nodes": [plain(node) for node in plan.nodes],
        "refused": [plain(each) for each in plan.refused],
    }
    if cleared.bystanders:
        result["bystanders"] = [plain(each) for each in cleared.bystanders]
    if plan.bids:
        result["bids"] = [plain(bid) for bid in plan.bids]
    if plan.deadlines:
        result["deadlines"] = [plain(each) for each in plan.deadlines]
    if plan.pairings:
        result["pairings"] = [
            {"node": each.node, "jobs": list(each.jobs), "penalties": list(each.penalties)}
            for each in plan.pairings
        ]
    if plan.memory_mechanism:
        result["memory"] = {
            "mechanism": plan.memory_mechanism,
            "users": [plain(user) for user in plan.memory],
        }
    if plan.ledger is not None:
        result["ledger"] = plan.ledger.to_document()
    return result
