"""Chooses (pure): what a world becomes, in nodes' plans, statuses and Events.

screen      what takes part, and what is wrong with the rest
clear       the market of that, by the rules of the Market or the last that could be used
allot       what every node is to hold
measure     what nodes are to find out about jobs; what they have found out is known from the start,
            and so is what pods that have ended leave to know
tell        statuses of everything, and what has happened
place       which pods that wait are sent to the nodes of their pairs, and which are let go

Nodes wait for the first four only, so a decision comes in two parts where credits allow it.
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
from walras_operator.recording.runs import Ended, followed, with_ended
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
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeVar

    from walras.plan import Plan
    from walras.snapshot import Snapshot
    from walras_operator.quanta import Turn
    from walras_operator.world import Carried, Event, StatusWrite, World

    _OfObject = TypeVar("_OfObject", StatusWrite, Event)

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
    whole, *others = parts(world)
    for part in others:
        whole = replace(
            part,
            nodes=whole.nodes + part.nodes,
            profiles=whole.profiles + part.profiles,
            statuses=_by_object(whole.statuses + part.statuses),
            events=_by_object(whole.events + part.events),
        )
    return whole


def parts(world: World) -> Iterator[Decision]:
    """Decide, and yield first what nodes are to hold, so that it can be written meanwhile.

    The parts write different objects and are all to be written, in this order; what they carry
    over is the same. A decision that settles a quantum is one part: its credits come first, and
    without them nothing is to be written.
    """
    before = carried(world)
    market = next((each for each in world.markets if each.metadata.name == USED), None)
    invalid = Reference("Market", USED) in world.broken
    if market is None and not invalid:
        yield _placing(world, _released(world, before))
        return
    problem = Problem("Invalid", "its rules cannot be understood") if market is None else None
    ended, found = Ended(world), None
    for rules in _candidates(market, before):
        ended = with_ended(with_outcomes(world, rules), rules)
        outcome = _clear(ended.world, before, rules, problem)
        if isinstance(outcome, _Cleared):
            found = outcome
            break
        problem = problem or outcome
    if found is None:
        yield _placing(world, _standing(world, before, market, problem))
    else:
        yield from _decided(world, ended, before, market, found)


def _placing(world: World, decision: Decision) -> Decision:
    """Add what becomes of pods that wait."""
    return replace(decision, placements=placements(world, decision.rules, decision.plan))


def _by_object(each: Iterable[_OfObject]) -> tuple[_OfObject, ...]:
    return tuple(sorted(each, key=lambda one: one.object))


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
    world: World, ended: Ended, before: Carried, market: Market | None, found: _Cleared
) -> Iterator[Decision]:
    known, rules, screened, plan = ended.world, found.rules, found.screened, found.plan
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
    status = _status_of_market(world, market)
    ledger = _ledger(found, status)
    settlement = _settlement(world, found, status, ledger)
    orders = Decision(
        nodes=writes(world, with_measurements(allotted, measuring.requests)),
        statuses=(),
        events=(),
        carried=replace(
            before,
            rules=rules,
            held=plan.holdings(),
            quantum=0 if plan.quantum is None else plan.quantum.number,
            asked=_asked(plan, rules),
        ),
        rules=rules,
        plan=plan,
        notes=_notes(world, screened),
        profiles=measuring.made,
        settlement=settlement,
        until=_until(world, found),
        ended=ended.pods,
    )
    # What a node is to measure next may replace a report that only the profile's status keeps.
    statuses = list(of_profiles(world, measuring.profiles))
    if settlement is None:
        yield _telling(orders, statuses)
        orders, statuses = replace(orders, nodes=(), profiles=()), []
    runs = followed(known, rules, found.snapshot, allotted, outcomes)
    outcomes = replace(outcomes, runs=runs)
    statuses += [
        *of_participants(world, outcomes, Ledger.of(screened, plan)),
        *of_broken(world),
        *of_idle_markets(world),
    ]
    if market is not None:
        scores = score(found.snapshot, plan, COMPARISONS)
        verdict = cleared(plan) if found.problem is None else _superseded(found.problem)
        after = market_status(
            market, rules, found.snapshot, plan, scores, verdict, ledger, status, world.now
        )
        statuses.append(Told(reference_of(market), status, after))
    elif plan.quantum is not None and ledger is not None:
        statuses = [_with_ledger(each, ledger) for each in statuses]
    yield _placing(world, _telling(orders, statuses))


def _telling(decision: Decision, statuses: Iterable[Told]) -> Decision:
    """Add what is to be said of objects, where it is worth a write."""
    writes, events = changed(statuses)
    return replace(decision, statuses=writes, events=events)


def _status_of_market(world: World, market: Market | None) -> Mapping[str, Any]:
    """Return the status of the Market as it was written last, be the Market understood or not."""
    kept = world.broken[Reference("Market", USED)] if market is None else market
    return kept.status or {}


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


def _with_ledger(told: Told, ledger: LedgerReport) -> Told:
    """Add Karma's credits to the status of a Market whose last good rules are in force."""
    if told.object != Reference("Market", USED):
        return told
    return told._replace(after={**told.after, "ledger": ledger.document()})


def _settlement(
    world: World, found: _Cleared, before: Mapping[str, Any], ledger: LedgerReport | None
) -> Settlement | None:
    """Return the quantum that is settled if the Market's credits are to be others."""
    if found.plan.quantum is None or ledger is None or ledger.document() == before.get("ledger"):
        return None
    return Settlement(Reference("Market", USED), world.version, record_of(found.plan.quantum))


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
