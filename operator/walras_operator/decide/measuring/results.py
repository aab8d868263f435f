"""Pure: read the results of requested measurements.

A request is recorded in its profile's status and in the NodeAllocation of its node. One write
moves the result from the NodeAllocation to the profile and removes the request there, so a result
counts once, whenever an operator ends. A request without an answer expires `requests.GRACE` after
its lease, so a dead agent blocks nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_operator.decide.conditions import Problem
from walras_operator.decide.measuring.agent_reports import report_outcome
from walras_operator.decide.measuring.co_runners import Company
from walras_operator.decide.measuring.measurement_record import (
    EMPTY,
    measured_status,
    read_record,
    with_check,
    with_failure,
    with_measurement,
)
from walras_operator.decide.measuring.requests import pod_and_node
from walras_operator.decide.measuring.times import is_in_future

if TYPE_CHECKING:
    from collections.abc import Collection
    from decimal import Decimal

    from walras_api.job_inputs import Name
    from walras_api.kinds import SpeedupProfile
    from walras_api.speedup_profile_status import OnlineRequest
    from walras_operator.decide.measuring.counted_progress import CountedProgress
    from walras_operator.decide.measuring.measurement_record import ProfileRecord
    from walras_operator.decide.world import Document, World


def results(world: World, threshold: Decimal) -> dict[Name, Document]:
    """Return the statuses, without conditions, of profiles whose request has ended.

    Args:
        world: Contains profiles and reports of agents.
        threshold: Relative deviation from predicted progress above which a job counts as changed.
    """
    pods: frozenset[str] | None = None
    company = Company(world)
    statuses: dict[Name, Document] = {}
    for profile in world.objects.profiles:
        if not has_request(profile):
            continue
        record = read_record(profile.status)
        if record.request is None:
            continue
        if pods is None:
            pods = world.live_pods()
        result = _result(world, record.request, pods)
        if result is not None:
            key = profile.metadata.namespace, profile.metadata.name
            statuses[key] = _status_with_result(
                world, record, record.request, result, threshold, profile, company
            )
    return statuses


def has_request(profile: SpeedupProfile) -> bool:
    """Return whether a profile seems to have a request; a cheap test, for thousands of profiles."""
    online = (profile.status or {}).get("online")
    return isinstance(online, dict) and "request" in online


def _result(
    world: World, request: OnlineRequest, pods: Collection[str]
) -> CountedProgress | Problem | None:
    """Return the result of a request; None while it is running."""
    allocation = world.allocations.get(request.node)
    reported = report_outcome(None if allocation is None else allocation.status, request, world.now)
    if reported is not None:
        return reported
    pod = pod_and_node(request)
    if request.pod_uid not in pods:
        return Problem("PodLeft", f"{pod} ended before it was measured")
    if world.now > request.until or is_in_future(request.since, world.now):
        return Problem("NoAnswer", f"{pod}: the node's agent has not answered; see its log")
    return None


def _status_with_result(
    world: World,
    record: ProfileRecord,
    request: OnlineRequest,
    result: CountedProgress | Problem,
    threshold: Decimal,
    profile: SpeedupProfile,
    company: Company,
) -> Document:
    namespace, now = profile.metadata.namespace, world.now
    pod = namespace, request.pod, request.node
    try:
        if isinstance(result, Problem):
            return measured_status(with_failure(record, result, now))
        if request.purpose == "Speedup":
            return measured_status(with_measurement(record, result.measurement, company.of(*pod)))
        co_runner = company.co_runner(*pod)
        return measured_status(with_check(record, request, result, threshold, now, co_runner))
    except (ValueError, ArithmeticError) as error:
        name = f"SpeedupProfile {namespace}/{profile.metadata.name}"
        problem = Problem(
            "BadRecord", f"{name}: status.online is reset because it is malformed ({error})"
        )
        return measured_status(with_failure(EMPTY, problem, now))
