"""Pure: decide what to write, from everything that the operator knows at one moment.

A decision has six phases:

1. Validate: which objects take part, and what is wrong with the others.
2. Clear the market, by the rules of the Market, or by the last rules that could be used.
3. Allocate: turn the plan into NodeAllocation specs.
4. Measure: choose the pods whose speedup agents measure next. Finished measurements and runs of
   ended pods are read before phase 1. Also choose the MarketJobs of labelled workloads, and the
   Entitlements that follow quotas.
5. Report: compute the status of every object, and Events about what changed.
6. Place: bind waiting pods to the nodes of their pairs, or leave them to the scheduler.

Nodes need phases 1 to 4 only. Phases 5 and 6 therefore wait until somebody asks for the rest of the
decision (`Decision.rest`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from walras.analysis.plan_quality import evaluate_plan, proportional_progress
from walras.market.plan import Plan
from walras_api.contract import MARKET_NAME
from walras_api.kinds import Market, MarketSpec
from walras_operator.decide.allocations import (
    allocate,
    granted_on,
    with_counters,
    with_measurements,
    writes,
)
from walras_operator.decide.balances import Balances, balances_after
from walras_operator.decide.cleared_market import (
    Cleared,
    asked,
    candidates,
    clear_market,
    unusable,
)
from walras_operator.decide.colocating.placements import placements
from walras_operator.decide.conditions import ConditionState, Problem, fails
from walras_operator.decide.deadlines.deadline_report import deadline_results
from walras_operator.decide.deadlines.follow import counters, ended_pods
from walras_operator.decide.enforcement import enforced
from walras_operator.decide.entitling.entitlements import CONDITION, FollowedQuotas, follow_quotas
from walras_operator.decide.job_outcomes import JobOutcomes, pods_left_out
from walras_operator.decide.known_quotas import Waiting
from walras_operator.decide.last_decision import carried
from walras_operator.decide.learned_demand import demand_by_job, with_learned_demand
from walras_operator.decide.measuring.measure import (
    plan_measurements,
    with_results,
    without_measurements,
)
from walras_operator.decide.modes import paused_nodes
from walras_operator.decide.node_gains import with_gains
from walras_operator.decide.proven_time import with_proven_time
from walras_operator.decide.runs.run_record import RecordedEnds, record_ends, runs_by_job
from walras_operator.decide.status.entitlement import EntitlementOutcomes
from walras_operator.decide.status.market import (
    PODS_SHARE,
    REQUESTS_BOUNDED,
    account_dropped,
    cleared,
    market_status,
    pods_share,
    requests_unbounded,
    with_problem,
)
from walras_operator.decide.status.objects import (
    StatusUpdate,
    idle_job_statuses,
    invalid_statuses,
    participant_statuses,
    profile_statuses,
    status_changes,
    unused_market_statuses,
    with_operator_namespace,
)
from walras_operator.decide.status.predictions import prediction_reports
from walras_operator.decide.workload_jobs import workload_jobs
from walras_operator.decide.world import (
    ClearedMarket,
    Decision,
    NextWake,
    Reference,
    Writes,
    reference_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from walras_api.job_inputs import Name
    from walras_api.market_status import NodeGain
    from walras_api.status import WaitingWorkloads
    from walras_operator.decide.allocations import Allocations
    from walras_operator.decide.enforcement import Enforcement
    from walras_operator.decide.measuring.measure import MeasurementPlan
    from walras_operator.decide.validation import Validated
    from walras_operator.decide.world import AutomaticWrite, Carried, NodeWrite, World

COMPARISONS = 2_000_000
"""Most pairs of a user and a job for which a score includes envy-freeness; 0.1 s of work."""

NO_MARKET = Problem(
    "NoMarket", f"there is no Market named {MARKET_NAME}, so nothing is divided; create it"
)


class _Granted(NamedTuple):
    """What nodes are to do by a plan.

    Attributes:
        allocations: NodeAllocations, with the measurements that agents are to make.
        enforcement: Whether agents enforce the grants of pods.
        outcomes: Outcome of the decision for the pods of all jobs, apart from what follows from it.
        measuring: Measurements, with the records of profiles.
        automatic: MarketJobs of labelled workloads to write.
        followed: Entitlements that follow quotas to write.
    """

    allocations: Allocations
    enforcement: Mapping[tuple[str, str], Enforcement]
    outcomes: JobOutcomes
    measuring: MeasurementPlan
    automatic: tuple[AutomaticWrite, ...]
    followed: FollowedQuotas


def decide(world: World) -> Decision:
    """Decide what is to be written. Never raises because of the content of an object.

    The same world gives the same decision to the bit. Once a decision has been written, deciding
    again on the resulting world gives nothing to write and no Events.
    """
    world.kept.next()
    before = carried(world)
    market = world.market
    invalid = Reference("Market", MARKET_NAME) in world.broken
    if market is None and not invalid:
        return _release_all(world, before)
    problem = unusable(market)
    for rules in candidates(market, before, problem):
        known = with_learned_demand(with_results(with_proven_time(world, rules), rules))
        ended = record_ends(known, rules)
        outcome = clear_market(ended.world, before, rules, problem)
        if isinstance(outcome, Cleared):
            return _carry_out(world, ended, before, market, outcome)
        problem = problem or outcome
    return _keep_all(world, before, market, problem)


def _carry_out(
    world: World, ended: RecordedEnds, before: Carried, market: Market | None, clearing: Cleared
) -> Decision:
    """Return the decision that follows from a cleared market (phases 3 to 6)."""
    granted, balances = _granted(world, ended.world, clearing), balances_after(world, clearing)
    settlement = balances.settlement
    placed = placements(world, clearing.rules, clearing.plan, clearing.validated.modes)
    pools = world.node_pools
    gains = with_gains(balances.before, () if pools is None else pools.gains)

    def of_market() -> Iterator[StatusUpdate]:
        if market is not None:
            yield _market_update(world, market, clearing, granted, balances, gains)

    # What a node is to measure next may replace a report that only the profile's status keeps.
    of_profiles = profile_statuses(world, granted.measuring.profiles)
    first = Writes(
        nodes=writes(world, granted.allocations),
        profiles=granted.measuring.created,
        entitlements=granted.followed.writes,
        jobs=granted.automatic,
        settlement=settlement,
    )
    first += _statuses(world, chain(of_profiles, () if settlement is None else of_market()))

    def rest() -> Writes:
        statuses = _user_statuses(world, ended.world, clearing, granted, placed.kept_apart)
        if market is None:
            statuses = (_with_balances(each, balances) for each in statuses)
        told = _statuses(world, chain(statuses, of_market() if settlement is None else ()))
        return replace(told, placements=placed.sent)

    # Pods are not placed, and an invalid Market's status is not written, before the credits are.
    whole = settlement is not None and (market is None or bool(placed.sent))
    return Decision(
        carried=_carried_after(world, before, clearing),
        first=Writes() if whole else first,
        rest=(lambda: first + rest()) if whole else rest,
        wake=NextWake(clearing.quantum_ends(world.now), (*ended.pods, *ended_pods(world))),
        market=ClearedMarket(clearing.rules, clearing.snapshot, clearing.plan, gains),
        notes=_notes(world, clearing.validated),
    )


def _granted(world: World, known: World, clearing: Cleared) -> _Granted:
    """Return what nodes are to do by the plan (phases 3 and 4).

    Args:
        world: Everything that the operator knows.
        known: The same, with the results of measurements and the ends of pods.
        clearing: The cleared market.
    """
    selection = clearing.validated.assembled.selection
    granted = world.kept.of("", granted_on, clearing.plan.grants, selection, world.objects.pods)
    allocations = allocate(
        world, clearing.rules, granted, clearing.validated.modes, clearing.validated.frozen
    )
    allocations = with_counters(allocations, counters(clearing.followed))
    enforcement = enforced(allocations, world)
    outcomes = JobOutcomes.of(
        clearing.validated, clearing.plan, allocations.ungranted, enforcement, world.kept
    )
    measuring = plan_measurements(known, clearing.rules, outcomes)
    automatic = workload_jobs(world, clearing.rules)
    return _Granted(
        with_measurements(allocations, measuring.requests),
        enforcement,
        replace(
            outcomes,
            unmeasured=measuring.reasons,
            unplaceable=world.unplaceable,
            annotations=automatic.problems,
            pods_left_out=pods_left_out(world),
            deadlines=deadline_results(
                known, clearing.followed, clearing.plan, allocations, enforcement
            ),
        ),
        measuring,
        automatic.writes,
        follow_quotas(world),
    )


def _user_statuses(
    world: World, known: World, clearing: Cleared, granted: _Granted, kept_apart: frozenset[Name]
) -> Iterator[StatusUpdate]:
    """Yield the statuses of all Entitlements and MarketJobs, and of objects that take no part.

    Args:
        world: Everything that the operator knows.
        known: The same, with the results of measurements and the ends of pods.
        clearing: The cleared market.
        granted: What nodes are to do.
        kept_apart: Pods that wait because of pods beside which they may not run.
    """
    allocations, outcomes = granted.allocations, granted.outcomes
    outcomes = replace(
        outcomes,
        runs=runs_by_job(known, clearing.rules, clearing.snapshot, allocations, outcomes),
        demand=demand_by_job(known),
        kept_apart=kept_apart,
    )
    entitlements = EntitlementOutcomes.of(
        clearing.validated, clearing.plan, clearing.plan.account, world.quotas
    )
    yield from participant_statuses(world, outcomes, entitlements)
    yield from invalid_statuses(world)
    yield from unused_market_statuses(world)


def _carried_after(world: World, before: Carried, clearing: Cleared) -> Carried:
    """Return the state for the next decision."""
    plan = clearing.plan
    return replace(
        before,
        rules=clearing.rules,
        held=world.kept.of("", Plan.holdings, plan),
        quantum=0 if plan.quantum is None else plan.quantum.number,
        asked=world.kept.of("", asked, plan, clearing.rules.memory.slice_size),
        account=clearing.stored,
    )


def _market_update(
    world: World,
    market: Market,
    clearing: Cleared,
    granted: _Granted,
    balances: Balances,
    gains: list[NodeGain],
) -> StatusUpdate:
    """Return the new status of the Market that was cleared, beside the one last written."""
    after = market_status(
        market,
        clearing.rules,
        clearing.snapshot,
        clearing.plan,
        world.kept.of("", evaluate_plan, clearing.snapshot, clearing.plan, COMPARISONS),
        world.kept.of("", proportional_progress, clearing.snapshot, clearing.plan),
        _conditions(world, clearing, granted),
        _waiting(world),
        balances.ledger,
        balances.account,
        world.node_pools,
        gains,
        prediction_reports(
            world.objects.jobs, granted.outcomes.deadlines, granted.measuring.profiles, gains
        ),
        balances.before,
        world.now,
    )
    return StatusUpdate(reference_of(market), balances.before, after)


def _statuses(world: World, updates: Iterable[StatusUpdate]) -> Writes:
    """Return the statuses that are worth a write, and Events about them."""
    named = (with_operator_namespace(each, world) for each in updates)
    changed, events = status_changes(named, world.kept)
    return Writes(statuses=changed, events=events)


def _with_balances(update: StatusUpdate, balances: Balances) -> StatusUpdate:
    """Add the balances to the status of an invalid Market, whose earlier rules are in force."""
    if update.object != Reference("Market", MARKET_NAME):
        return update
    ledger = None if balances.ledger is None else balances.ledger.document()
    known = {"ledger": ledger, "account": balances.account}
    known = {field: each for field, each in known.items() if each is not None}
    return update._replace(after={**update.after, **known})


def _conditions(world: World, clearing: Cleared, granted: _Granted) -> dict[str, ConditionState]:
    """Return the states of the Market's conditions, by type."""
    followed = granted.followed.state
    return {
        "Ready": _readiness(world, clearing),
        **({} if followed is None else {CONDITION: followed}),
        **({} if clearing.rules.cores.isolated else {PODS_SHARE: pods_share()}),
        **({REQUESTS_BOUNDED: requests_unbounded()} if clearing.rules.cores.unbounded else {}),
    }


def _waiting(world: World) -> WaitingWorkloads | None:
    """Return what the Market says of the Workloads that wait in Kueue."""
    queues = {} if world.quotas is None else world.quotas.waiting
    return sum(queues.values(), Waiting()).report()


def _readiness(world: World, clearing: Cleared) -> ConditionState:
    problem = clearing.problem
    if problem is not None:
        why = f"{problem.message}; the last rules that could be used are in force"
        return fails(problem._replace(message=why))
    return account_dropped() if world.account_dropped else cleared(clearing.plan)


def _keep_all(
    world: World, before: Carried, market: Market | None, problem: Problem | None
) -> Decision:
    """Return a decision that leaves all nodes as they are, because no rules can be used."""
    profiles = profile_statuses(world, world.objects.profiles)
    statuses = [*profiles, *invalid_statuses(world), *unused_market_statuses(world)]
    if market is not None and problem is not None:
        reference = reference_of(market)
        status = market.status or {}
        problem = problem._replace(message=f"{problem.message}; all nodes stay as they are")
        after = with_problem(status, problem, world.now, market.metadata.generation)
        statuses.append(StatusUpdate(reference, status, after))
    return _uncleared(world, before, (), statuses)


def _release_all(world: World, before: Carried) -> Decision:
    """Return a decision that restores all nodes, because there is no Market."""
    allocations = allocate(world, MarketSpec(), {}, {}, paused_nodes(world, MarketSpec()))
    statuses = [
        *idle_job_statuses(world, NO_MARKET),
        *profile_statuses(world, without_measurements(world).profiles),
        *invalid_statuses(world),
        *unused_market_statuses(world),
    ]
    allocations = with_counters(with_measurements(allocations, {}), {})
    desired = {
        node: each for node, each in allocations.desired.items() if node in allocations.current
    }
    nodes = writes(world, allocations._replace(desired=desired))
    return _uncleared(world, replace(before, rules=None, held={}), nodes, statuses)


def _uncleared(
    world: World, after: Carried, nodes: tuple[NodeWrite, ...], statuses: Iterable[StatusUpdate]
) -> Decision:
    """Return a decision without a market; pods that have waited long are left to the scheduler."""
    first = replace(_statuses(world, statuses), nodes=nodes)
    return Decision(after, replace(first, placements=placements(world, None, None).sent), Writes)


def _notes(world: World, validated: Validated) -> tuple[str, ...]:
    """Return a line about each object that is wrong and has no status that could say so."""
    closed = (f"Node {name}: {why}; it sells nothing" for name, why in validated.closed.items())
    frozen = (f"Node {name}: {why}; its grants stay" for name, why in validated.frozen.items())
    broken = (
        f"{reference.title}: {problem}"
        for reference, each in sorted(world.broken.items())
        if reference.kind not in {"Entitlement", "MarketJob", "SpeedupProfile", "Market"}
        for problem in each.problems
    )
    return (*closed, *frozen, *broken, *validated.assembled.notes)
