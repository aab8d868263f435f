"""Pure: read the results of requested measurements.

A request is recorded in its profile's status and in the NodeAllocation of its node. One write
moves the result from the NodeAllocation to the profile and removes the request there, so a result
counts once, whenever an operator ends. A request without an answer expires `requests.GRACE` after
its lease, so a dead agent blocks nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_operator.measuring.co_runners import co_runner_of
from walras_operator.measuring.record import (
    EMPTY,
    checked,
    failed,
    online_of,
    shown,
    succeeded,
)
from walras_operator.measuring.reports import report_outcome
from walras_operator.measuring.times import is_to_come
from walras_operator.status.conditions import Problem

if TYPE_CHECKING:
    from collections.abc import Collection
    from decimal import Decimal

    from walras.resources.kinds import SpeedupProfile
    from walras.resources.statuses import OnlineRequest
    from walras.resources.terms import Name
    from walras_operator.measuring.record import ProfileRecord
    from walras_operator.measuring.reports import CountedProgress
    from walras_operator.world import Document, World


def outcomes(world: World, threshold: Decimal) -> dict[Name, Document]:
    """Return the statuses, without conditions, of profiles whose request has ended.

    Args:
        world: Contains profiles and reports of agents.
        threshold: Relative deviation from predicted progress above which a job counts as changed.
    """
    pods: frozenset[str] | None = None
    found: dict[Name, Document] = {}
    for profile in world.objects.profiles:
        if not is_asked(profile):
            continue
        record = online_of(profile.status)
        if record.request is None:
            continue
        if pods is None:
            pods = frozenset(pod.cgroup_uid for pod in world.objects.pods if pod.alive)
        came = _result(world, record.request, pods)
        if came is not None:
            key = profile.metadata.namespace, profile.metadata.name
            found[key] = _shown(world, record, record.request, came, threshold, profile)
    return found


def is_asked(profile: SpeedupProfile) -> bool:
    """Return whether a profile seems to have a request; a cheap test, for thousands of profiles."""
    online = (profile.status or {}).get("online")
    return isinstance(online, dict) and "request" in online


def _result(
    world: World, request: OnlineRequest, pods: Collection[str]
) -> CountedProgress | Problem | None:
    """Return the result of a request; None while it is running."""
    allocation = world.allocations.get(request.node)
    told = report_outcome(None if allocation is None else allocation.status, request, world.now)
    if told is not None:
        return told
    who = f"Pod {request.pod} of {request.node}"
    if request.pod_uid not in pods:
        return Problem("PodLeft", f"{who} ended before it was measured")
    if world.now > request.until or is_to_come(request.since, world.now):
        return Problem("NoAnswer", f"{who}: its node's agent has not answered; see its log")
    return None


def _shown(
    world: World,
    record: ProfileRecord,
    request: OnlineRequest,
    came: CountedProgress | Problem,
    threshold: Decimal,
    profile: SpeedupProfile,
) -> Document:
    namespace, now = profile.metadata.namespace, world.now
    try:
        if isinstance(came, Problem):
            return shown(failed(record, came, now))
        if request.purpose == "Speedup":
            return shown(succeeded(record, came.measurement))
        company = co_runner_of(world, request, namespace)
        return shown(checked(record, request, came, threshold, now, company))
    except (ValueError, ArithmeticError) as error:
        name = f"SpeedupProfile {namespace}/{profile.metadata.name}"
        problem = Problem("BadRecord", f"{name}: status.online could not be used ({error})")
        return shown(failed(EMPTY, problem, now))
