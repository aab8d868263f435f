"""Pure: compute the statuses of all objects, choose those worth a write, and derive Events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walras_api.contract import MARKET_NAME
from walras_operator.decide.conditions import Problem, conditions, fails
from walras_operator.decide.runs.run_record import runs_without_grants
from walras_operator.decide.status.changes import events, in_turn, worth_writing
from walras_operator.decide.status.entitlement import EntitlementOutcomes, entitlement_status
from walras_operator.decide.status.job import job_status
from walras_operator.decide.status.market import not_used, with_problem
from walras_operator.decide.status.profile import profile_status
from walras_operator.decide.world import StatusWrite, reference_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from walras_api.kept import Kept
    from walras_api.kinds import SpeedupProfile
    from walras_operator.decide.job_outcomes import JobOutcomes
    from walras_operator.decide.world import Document, Event, Reference, World

OWN_KINDS = frozenset({"Entitlement", "MarketJob", "SpeedupProfile", "Market"})
"""Kinds whose status the operator writes."""

KEPT_WHEN_BROKEN = frozenset({"SpeedupProfile", "Market"})
"""Kinds whose status holds what cannot be recomputed: measurements and credits."""


OPERATOR_NAMESPACE = "operatorNamespace"
"""Field of the Market's status."""


class StatusUpdate(NamedTuple):
    """Status of an object as last written, and as it is to be.

    Attributes:
        turn: Whether it is the object's turn to have its memory and credits written.
    """

    object: Reference
    before: Mapping[str, Any]
    after: Document
    turn: bool = True


def participant_statuses(
    world: World, outcomes: JobOutcomes, entitlements: EntitlementOutcomes
) -> Iterator[StatusUpdate]:
    """Yield the statuses of all valid Entitlements and MarketJobs."""
    quantum, seconds = entitlements.quantum, outcomes.validated.objects.rules.memory.quantum_seconds
    users = {reference_of(each): each for each in world.objects.entitlements}
    turn = in_turn(list(users), quantum, seconds)
    for reference, entitlement in users.items():
        before = entitlement.status or {}
        after = entitlement_status(entitlement, entitlements, before, world.now)
        yield StatusUpdate(reference, before, after, reference in turn)
    jobs = {reference_of(each): each for each in world.objects.jobs}
    turn = in_turn(list(jobs), quantum, seconds)
    for reference, job in jobs.items():
        after = job_status(job, outcomes, world.now)
        yield StatusUpdate(reference, job.status or {}, after, reference in turn)


def profile_statuses(world: World, profiles: Iterable[SpeedupProfile]) -> Iterator[StatusUpdate]:
    """Yield the statuses of SpeedupProfiles.

    Args:
        world: Contains the profiles with their statuses as last written.
        profiles: Profiles with their new measurements.
    """
    written = {reference_of(each): each.status or {} for each in world.objects.profiles}
    for profile in profiles:
        reference = reference_of(profile)
        before = written.get(reference, {})
        yield StatusUpdate(reference, before, profile_status(profile, before, world.now))


def invalid_statuses(world: World) -> Iterator[StatusUpdate]:
    """Yield the statuses of invalid objects."""
    for reference, broken in world.broken.items():
        if reference.kind not in OWN_KINDS:
            continue
        before = broken.status or {}
        problem = Problem("Invalid", "; ".join(broken.problems) or "it cannot be understood")
        if reference.kind in KEPT_WHEN_BROKEN:
            after = with_problem(before, problem, world.now, broken.generation)
        else:
            states = conditions({"Ready": fails(problem)}, before, world.now, broken.generation)
            after = {"conditions": [each.document() for each in states]}
            if reference.kind == "MarketJob":
                after |= _lasting(before, world)
            elif "coreCredits" in before:
                after["coreCredits"] = before["coreCredits"]
        yield StatusUpdate(reference, before, after)


def unused_market_statuses(world: World) -> Iterator[StatusUpdate]:
    """Yield the statuses of Markets whose name is not the one that is used."""
    for market in world.markets:
        if market.metadata.name != MARKET_NAME:
            reference = reference_of(market)
            before = market.status or {}
            problem = not_used(market.metadata.name)
            after = with_problem(before, problem, world.now, market.metadata.generation)
            yield StatusUpdate(reference, before, after)


def idle_job_statuses(world: World, problem: Problem) -> Iterator[StatusUpdate]:
    """Yield the statuses of MarketJobs while there is no Market."""
    for job in world.objects.jobs:
        reference = reference_of(job)
        before = job.status or {}
        ready = {"Ready": fails(problem)}
        states = conditions(ready, before, world.now, job.metadata.generation)
        after = {"conditions": [each.document() for each in states]}
        yield StatusUpdate(reference, before, after | _lasting(before, world))


def _lasting(before: Mapping[str, Any], world: World) -> Document:
    """Return the part of a job's status that must survive, since it cannot be recomputed.

    These are its runs, the work that its pods have done before its deadline, and what was learned
    of its program.
    """
    runs = runs_without_grants(before, world.now)
    kept: Document = {"runs": runs} if runs else {}
    return kept | {name: before[name] for name in ("deadline", "demand") if name in before}


def with_operator_namespace(update: StatusUpdate, world: World) -> StatusUpdate:
    """Return an update of which that of the Market also says where the operator is.

    Readers trust Leases and history in that namespace only, because whoever may write a namespace
    can forge them in it. Nobody else may write the status of the Market.
    """
    namespace = world.namespace or update.before.get(OPERATOR_NAMESPACE)
    if (update.object.kind, update.object.name) != ("Market", MARKET_NAME) or not namespace:
        return update
    return update._replace(after={**update.after, OPERATOR_NAMESPACE: namespace})


def status_changes(
    statuses: Iterable[StatusUpdate], kept: Kept
) -> tuple[tuple[StatusWrite, ...], tuple[Event, ...]]:
    """Return the statuses worth a write, and Events about their changes, sorted by object."""
    writes: list[StatusWrite] = []
    told: list[Event] = []
    for update in sorted(statuses, key=lambda each: each.object):
        inputs = update.before, update.after, update.turn
        if kept.of(update.object.uid, worth_writing, *inputs):
            writes.append(StatusWrite(update.object, update.after))
            told += events(update.object, update.before, update.after)
    return tuple(writes), tuple(told)
