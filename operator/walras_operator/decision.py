"""Chooses (pure): what a world becomes, in nodes' plans, statuses and Events.

screen      what takes part, and what is wrong with the rest
clear       the market of that, by the rules of the Market or the last that could be used
allot       what every node is to hold
measure     what nodes are to find out about jobs; what they have found out is known from the start
tell        statuses of everything, and what has happened
place       which pods that wait are sent to the nodes of their pairs, and which are let go
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.clearing import clear
from walras.karma.ledger import KarmaError
from walras.karma.record import record_of
from walras.resources.assembly import policy_of
from walras.resources.kinds import Market, MarketSpec
from walras.resources.statuses import LedgerReport
from walras.scores import score
from walras_operator.allotment import allot, with_measurements, writes
from walras_operator.colocating.placements import placements
from walras_operator.conditions import Problem, Verdict, fails
from walras_operator.enforcement import enforced
from walras_operator.entitlement_statuses import Ledger
from walras_operator.job_statuses import Outcomes
from walras_operator.market_statuses import USED, cleared, market_status, with_problem
from walras_operator.measuring.measure import measure, with_outcomes, withdraw
from walras_operator.quanta import end_of, ledger_report, turn_of
from walras_operator.recall import account, carried
from walras_operator.screening import Screened, screen
from walras_operator.statuses import (
    Told,
    changed,
    of_broken,
    of_idle_jobs,
    of_idle_markets,
    of_participants,
    of_profiles,
    reference_of,
)
from walras_operator.world import Decision, Reference, Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras.plan import Plan
    from walras.snapshot import Snapshot
    from walras_operator.quanta import Turn
    from walras_operator.world import Carried, World

COMPARISONS = 2_000_000
"""Users times jobs up to which a plan's score compares everybody with everybody, a tenth of a
second of work."""

NO_MARKET = Problem(
    "NoMarket", f"there is no Market named {USED}, so nothing is divided; create it"
)


class _Cleared(NamedTuple):
    """A market that could be cleared.

    Attributes:
        rules: that it was cleared by.
        screened: what took part under these rules.
        snapshot: that was decided on.
        plan: what was decided.
        turn: the quantum of Karma that it belongs to.
        problem: why newer rules could not be used; None if they are these.
    """

    rules: MarketSpec
    screened: Screened
    snapshot: Snapshot
    plan: Plan
    turn: Turn
    problem: Problem | None


def decide(world: World) -> Decision:
    """Decide what is to be written. Never raises for what users or administrators write.

    The same world gives the same decision to the bit, and the world that it leads to gives one
    with nothing to write and nothing to tell.
    """
    decision = _decide(world)
    return replace(decision, placements=placements(world, decision.rules, decision.plan))


def _decide(world: World) -> Decision:
    before = carried(world)
    market = next((each for each in world.markets if each.metadata.name == USED), None)
    invalid = Reference("Market", USED) in world.broken
    if market is None and not invalid:
        return _released(world, before)
    problem = Problem("Invalid", "its rules cannot be understood") if market is None else None
    known, found = world, None
    for rules in _candidates(market, before):
        known = with_outcomes(world, rules)
        outcome = _clear(known, before, rules, problem)
        if isinstance(outcome, _Cleared):
            found = outcome
            break
        problem = problem or outcome
    if found is None:
        return _standing(world, before, market, problem)
    return _decided(world, known, before, market, found)


def _candidates(market: Market | None, before: Carried) -> Iterable[MarketSpec]:
    """Yield rules to decide by: the Market's, and the last that could be used."""
    if market is not None:
        yield market.spec
    if before.rules is not None and (market is None or before.rules != market.spec):
        yield before.rules


def _clear(
    world: World, before: Carried, rules: MarketSpec, problem: Problem | None
) -> _Cleared | Problem:
    kept = account(world)
    if isinstance(kept, Problem):
        return kept
    screened, turn = screen(world, rules), turn_of(kept, before, rules, world.now)
    snapshot = replace(
        screened.assembled.snapshot,
        held=before.held,
        ledger=turn.ledger,
        asked=turn.asked,
        matching=world.matching,
    )
    try:
        plan = clear(snapshot, policy_of(rules))
    except KarmaError as error:
        return Problem(
            "CannotClear",
            f"spec.memory.sliceSize: memory cannot be divided in slices this small ({error}); "
            f"make it larger",
        )
    except ValueError as error:
        return Problem("CannotClear", f"spec: mechanism {rules.cores.mechanism}: {error}")
    return _Cleared(rules, screened, snapshot, plan, turn, problem)


def _decided(
    world: World, known: World, before: Carried, market: Market | None, found: _Cleared
) -> Decision:
    rules, screened, plan = found.rules, found.screened, found.plan
    pods = {
        (pod.metadata.namespace, pod.metadata.name): pod
        for number in screened.assembled.selection.job
        for pod in (screened.objects.pods[number],)
    }
    held = ((grant, pods[grant.namespace, grant.pod]) for grant in plan.grants)
    allotted = allot(world, rules, held, rules.mode)
    held_by_agents = enforced(allotted, world.allocations)
    outcomes = Outcomes.of(screened, plan, allotted.without, held_by_agents)
    measuring = measure(known, rules, outcomes)
    outcomes = replace(outcomes, unmeasured=measuring.reasons, unplaceable=world.unplaceable)
    scores = score(found.snapshot, plan, COMPARISONS)
    statuses = [
        *of_participants(world, outcomes, Ledger.of(screened, plan)),
        *of_profiles(world, measuring.profiles),
        *of_broken(world),
        *of_idle_markets(world),
    ]
    if market is not None:
        reference = reference_of(market)
        status = market.status or {}
        verdict = cleared(plan) if found.problem is None else _superseded(found.problem)
        ledger = _ledger(found, status)
        after = market_status(
            market, rules, found.snapshot, plan, scores, verdict, ledger, status, world.now
        )
        statuses.append(Told(reference, status, after))
    else:
        statuses = [_with_ledger(each, found) for each in statuses]
    status_writes, events = changed(statuses)
    return Decision(
        nodes=writes(world, with_measurements(allotted, measuring.requests)),
        statuses=status_writes,
        events=events,
        carried=replace(
            before,
            rules=rules,
            held=plan.holdings(),
            quantum=0 if plan.quantum is None else plan.quantum.number,
            asked=_asked(plan, rules),
        ),
        rules=rules,
        plan=plan,
        scores=scores,
        notes=_notes(world, screened),
        profiles=measuring.made,
        settlement=_settlement(world, found, statuses),
        until=_until(world, found),
    )


def _ledger(found: _Cleared, before: Mapping[str, Any]) -> LedgerReport | None:
    """Return Karma's credits as the Market is to have them; if it divides nothing, as they are."""
    if found.plan.quantum is not None:
        return ledger_report(found.plan.quantum, found.turn.since)
    return LedgerReport.read(before["ledger"]) if "ledger" in before else None


def _asked(plan: Plan, rules: MarketSpec) -> dict[str, dict[str, int]]:
    """Return the bytes that entitlements have asked for in the present quantum."""
    demands = {} if plan.quantum is None else plan.quantum.demands()
    size = rules.memory.slice_size
    return {
        node: {name: slices * size for name, slices in of.items()} for node, of in demands.items()
    }


def _with_ledger(told: Told, found: _Cleared) -> Told:
    """Add Karma's credits to the status of a Market whose last good rules are in force."""
    if told.object != Reference("Market", USED) or found.plan.quantum is None:
        return told
    ledger = _ledger(found, told.before)
    kept = {} if ledger is None else {"ledger": ledger.document()}
    return told._replace(after={**told.after, **kept})


def _settlement(world: World, found: _Cleared, statuses: Iterable[Told]) -> Settlement | None:
    """Return the quantum that is settled if the Market's credits are to be others."""
    if found.plan.quantum is None:
        return None
    market = next(each for each in statuses if each.object == Reference("Market", USED))
    if market.after.get("ledger") == market.before.get("ledger"):
        return None
    return Settlement(market.object, world.version, record_of(found.plan.quantum))


def _until(world: World, found: _Cleared) -> str:
    """Return when memory is to be divided again."""
    if not found.plan.memory_mechanism:
        return ""
    since = world.now if found.plan.quantum is None else found.turn.since
    return end_of(since, found.rules.memory.quantum_seconds)


def _superseded(problem: Problem) -> Verdict:
    return fails(
        problem._replace(
            message=f"{problem.message}; the last rules that could be used are in force"
        )
    )


def _standing(
    world: World, before: Carried, market: Market | None, problem: Problem | None
) -> Decision:
    """Leave all as it is, since there are no rules to decide by."""
    profiles = of_profiles(world, world.objects.profiles)
    statuses = [*profiles, *of_broken(world), *of_idle_markets(world)]
    if market is not None and problem is not None:
        reference = reference_of(market)
        status = market.status or {}
        problem = problem._replace(message=f"{problem.message}; all nodes stay as they are")
        after = with_problem(status, problem, world.now, market.metadata.generation)
        statuses.append(Told(reference, status, after))
    status_writes, events = changed(statuses)
    return Decision((), status_writes, events, before)


def _released(world: World, before: Carried) -> Decision:
    """Have all nodes put back as they were, since there is no market."""
    allotted = allot(world, MarketSpec(), (), "observe")
    status_writes, events = changed(
        [
            *of_idle_jobs(world, NO_MARKET),
            *of_profiles(world, withdraw(world).profiles),
            *of_broken(world),
            *of_idle_markets(world),
        ]
    )
    allotted = with_measurements(allotted, {})
    orders = {node: each for node, each in allotted.orders.items() if node in allotted.present}
    return Decision(
        writes(world, allotted._replace(orders=orders)),
        status_writes,
        events,
        replace(before, rules=None, held={}),
    )


def _notes(world: World, screened: Screened) -> tuple[str, ...]:
    """Return a line on everything without a status of its own."""
    closed = (f"Node {name}: {why}; it sells nothing" for name, why in screened.closed.items())
    broken = (
        f"{reference.title}: {problem}"
        for reference, each in sorted(world.broken.items())
        if reference.kind not in {"Entitlement", "MarketJob", "SpeedupProfile", "Market"}
        for problem in each.problems
    )
    return (*closed, *broken, *screened.assembled.notes)
