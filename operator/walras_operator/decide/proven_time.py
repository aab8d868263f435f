"""Pure: leave out time of which nobody knows whether it has passed.

What pods hold is summed over time. If the last decision, or the last renewal of the Lease by the
leader before, is much longer ago than operators ever wait, then a clock was set forward, or nobody
has led meanwhile. Such a step counts as `LONGEST_STEP`, as it does for what entitlements owe each
other: periods that were underway begin later by the rest of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from walras_operator.decide.conditions import listed
from walras_operator.decide.credits.account import longest_step
from walras_operator.decide.runs.lifetimes import seconds_of
from walras_operator.decide.runs.tally import time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_api.kinds import MarketJob, MarketSpec
    from walras_operator.decide.world import Document, World

_OF_COUNTER = frozenset({"counter", "countedAt", "countedWork", "parts"})
"""Fields of a pod's progress that relate its counter to its work; they are measured anew."""


def with_proven_time(world: World, rules: MarketSpec) -> World:
    """Return the world with jobs whose pods hold nothing for time that is not known to be real."""
    led, now = seconds_of(world.led_until), seconds_of(world.now)
    if led is None or now is None:
        return world
    unproven = int(now - led - longest_step(rules))
    if unproven <= 0:
        return world
    jobs = [_later(job, led, unproven) for job in world.objects.jobs]
    return replace(world, objects=replace(world.objects, jobs=jobs))


def _later(job: MarketJob, led: int, seconds: int) -> MarketJob:
    """Return a job with periods that begin later, unless none is underway."""
    status = dict(job.status or {})
    for field, entries in (("runs", "underway"), ("deadline", "pods")):
        part = status.get(field)
        if isinstance(part, dict) and listed(part, entries):
            later = [_entry(each, led, seconds) for each in listed(part, entries)]
            status[field] = {**part, entries: later}
    return job if status == (job.status or {}) else job.model_copy(update={"status": status})


def _entry(entry: Mapping[str, Any], led: int, seconds: int) -> Document:
    since = seconds_of(entry.get("heldSince"))
    if since is None or since > led:
        return dict(entry)
    kept = {field: value for field, value in entry.items() if field not in _OF_COUNTER}
    return {**kept, "heldSince": time_of(since + seconds)}
