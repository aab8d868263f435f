"""Chooses (pure): what has come of the measurements that were asked for.

A request stands in its profile's status and in the NodeAllocation of its node. Its outcome is taken
from the latter into the former, and by the same write the request is gone from the former: it is
taken once, whichever of the two writes an operator lived to make. One that nobody answers ends
`requests.GRACE` after its lease, so that an agent that dies strands nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_operator.measuring.companies import company_of
from walras_operator.measuring.record import (
    EMPTY,
    checked,
    failed,
    online_of,
    shown,
    succeeded,
)
from walras_operator.measuring.reports import heard
from walras_operator.measuring.times import is_to_come
from walras_operator.status.conditions import Problem

if TYPE_CHECKING:
    from collections.abc import Collection
    from decimal import Decimal

    from walras.resources.kinds import SpeedupProfile
    from walras.resources.statuses import OnlineRequest
    from walras.resources.terms import Name
    from walras_operator.measuring.record import Record
    from walras_operator.measuring.reports import Counted
    from walras_operator.world import Document, World


def outcomes(world: World, threshold: Decimal) -> dict[Name, Document]:
    """Return the statuses (but for conditions) of profiles whose request has come to an end.

    Args:
        world: has profiles, and what agents report.
        threshold: departure of progress from the predicted one, above which it is too large.
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
        came = _came(world, record.request, pods)
        if came is not None:
            key = profile.metadata.namespace, profile.metadata.name
            found[key] = _shown(world, record, record.request, came, threshold, profile)
    return found


def is_asked(profile: SpeedupProfile) -> bool:
    """Whether a profile seems to have a request; a quick look, for there may be thousands."""
    online = (profile.status or {}).get("online")
    return isinstance(online, dict) and "request" in online


def _came(world: World, request: OnlineRequest, pods: Collection[str]) -> Counted | Problem | None:
    """Return what came of a request; None while it goes on."""
    allocation = world.allocations.get(request.node)
    told = heard(None if allocation is None else allocation.status, request, world.now)
    if told is not None:
        return told
    who = f"Pod {request.pod} of {request.node}"
    if request.pod_uid not in pods:
        return Problem("PodLeft", f"{who} has ended before it was measured")
    if world.now > request.until or is_to_come(request.since, world.now):
        return Problem("NoAnswer", f"{who}: its node's agent has not answered; see its log")
    return None


def _shown(
    world: World,
    record: Record,
    request: OnlineRequest,
    came: Counted | Problem,
    threshold: Decimal,
    profile: SpeedupProfile,
) -> Document:
    namespace, now = profile.metadata.namespace, world.now
    try:
        if isinstance(came, Problem):
            return shown(failed(record, came, now))
        if request.purpose == "Speedup":
            return shown(succeeded(record, came.measurement))
        company = company_of(world, request, namespace)
        return shown(checked(record, request, came, threshold, now, company))
    except (ValueError, ArithmeticError) as error:
        name = f"SpeedupProfile {namespace}/{profile.metadata.name}"
        problem = Problem("BadRecord", f"{name}: status.online could not be used ({error})")
        return shown(failed(EMPTY, problem, now))
