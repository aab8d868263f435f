"""Chooses (pure): the statuses of all objects, which of them to write, and Events about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walras.resources.kinds import NAMESPACED
from walras_operator.changes import events, worth_writing
from walras_operator.conditions import Problem, conditions, fails
from walras_operator.entitlement_statuses import Ledger, entitlement_status
from walras_operator.job_statuses import job_status
from walras_operator.market_statuses import (
    USED,
    not_used,
    with_problem,
)
from walras_operator.profile_statuses import profile_status
from walras_operator.recording.runs import at_rest
from walras_operator.world import Reference, StatusWrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from walras.resources.kinds import AnyResource, SpeedupProfile
    from walras_operator.job_statuses import Outcomes
    from walras_operator.world import Document, Event, World

OWN_KINDS = frozenset({"Entitlement", "MarketJob", "SpeedupProfile", "Market"})
"""Kinds whose status the operator writes."""

KEPT_WHEN_BROKEN = frozenset({"SpeedupProfile", "Market"})
"""Kinds whose status holds what cannot be found anew: measurements, credits."""


class Told(NamedTuple):
    """What an object's status says, and is to say."""

    object: Reference
    before: Mapping[str, Any]
    after: Document


def reference_of(resource: AnyResource) -> Reference:
    """Return what names an object."""
    metadata = resource.metadata
    namespace = metadata.namespace if resource.kind in NAMESPACED else ""
    return Reference(resource.kind, metadata.name, namespace, metadata.uid)


def of_participants(world: World, outcomes: Outcomes, ledger: Ledger) -> Iterator[Told]:
    """Yield the statuses of everything that was decided about."""
    for entitlement in world.objects.entitlements:
        reference = reference_of(entitlement)
        before = entitlement.status or {}
        yield Told(reference, before, entitlement_status(entitlement, ledger, before, world.now))
    for job in world.objects.jobs:
        reference = reference_of(job)
        before = job.status or {}
        yield Told(reference, before, job_status(job, outcomes, before, world.now))


def of_profiles(world: World, profiles: Iterable[SpeedupProfile]) -> Iterator[Told]:
    """Yield the statuses of SpeedupProfiles.

    Args:
        world: has them as they were written last.
        profiles: as they are to be.
    """
    written = {reference_of(each): each.status or {} for each in world.objects.profiles}
    for profile in profiles:
        reference = reference_of(profile)
        before = written.get(reference, {})
        yield Told(reference, before, profile_status(profile, before, world.now))


def of_broken(world: World) -> Iterator[Told]:
    """Yield the statuses of objects that could not be understood."""
    for reference, broken in world.broken.items():
        if reference.kind not in OWN_KINDS:
            continue
        before = broken.status or {}
        problem = Problem("Invalid", "; ".join(broken.problems) or "it cannot be understood")
        if reference.kind in KEPT_WHEN_BROKEN:
            after = with_problem(before, problem, world.now, broken.generation)
        else:
            judged = conditions({"Ready": fails(problem)}, before, world.now, broken.generation)
            after = {"conditions": [each.document() for each in judged]}
            if reference.kind == "MarketJob":
                after |= _runs(before, world)
        yield Told(reference, before, after)


def of_idle_markets(world: World) -> Iterator[Told]:
    """Yield the statuses of Markets that nobody uses."""
    for market in world.markets:
        if market.metadata.name != USED:
            reference = reference_of(market)
            before = market.status or {}
            problem = not_used(market.metadata.name)
            after = with_problem(before, problem, world.now, market.metadata.generation)
            yield Told(reference, before, after)


def of_idle_jobs(world: World, problem: Problem) -> Iterator[Told]:
    """Yield the statuses of jobs while there is no market."""
    for job in world.objects.jobs:
        reference = reference_of(job)
        before = job.status or {}
        verdicts = {"Ready": fails(problem)}
        judged = conditions(verdicts, before, world.now, job.metadata.generation)
        after = {"conditions": [each.document() for each in judged]}
        yield Told(reference, before, after | _runs(before, world))


def _runs(before: Mapping[str, Any], world: World) -> Document:
    """Return what is kept of a job that takes no part: its runs, which cannot be found anew."""
    runs = at_rest(before, world.now)
    return {"runs": runs} if runs else {}


def changed(statuses: Iterable[Told]) -> tuple[tuple[StatusWrite, ...], tuple[Event, ...]]:
    """Return the statuses worth a write, and what there is to tell about them, by object."""
    writes: list[StatusWrite] = []
    news: list[Event] = []
    for told in sorted(statuses, key=lambda each: each.object):
        if worth_writing(told.before, told.after):
            writes.append(StatusWrite(told.object, told.after))
            news += events(told.object, told.before, told.after)
    return tuple(writes), tuple(news)
