"""Pure: report what the deadlines of jobs take, and whether they are expected to be met.

The expected finish moves a little with every decision. What is reported stays until it has moved
visibly (`_steady`), and the condition ``OnTime`` becomes true again only once the deadline is met
with the error, so that no status is written, and no Event recorded, for a few seconds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.analysis.forecast import expected_speedup
from walras.market.snapshot import Job
from walras.outcome.deadline_reasons import way_out, why_not_reserved
from walras.speedup.work_left import MOST_WORK
from walras_api.market_job_status import MOST_UNDERWAY, DeadlineReport
from walras_operator.decide.allocations import MILLI
from walras_operator.decide.conditions import ConditionState, Problem, conditions_of, fails, holds
from walras_operator.decide.deadlines.predicted import predicted_before, predicted_now
from walras_operator.decide.deadlines.progress import PodHolding
from walras_operator.decide.enforcement import replaced
from walras_operator.decide.job_outcomes import DeadlineResult
from walras_operator.decide.numbers import figure, thousandths
from walras_operator.decide.runs.lifetimes import seconds_of
from walras_operator.decide.runs.tally import time_of
from walras_operator.decide.used_cores import used_cores

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.market.plan import DeadlineOutcome, Grant, Plan
    from walras_api.job_inputs import Name
    from walras_api.market_job_status import PredictedFinish
    from walras_operator.decide.allocations import Allocations
    from walras_operator.decide.deadlines.follow import FollowedJob, FollowedPod
    from walras_operator.decide.deadlines.progress import PodProgress
    from walras_operator.decide.enforcement import Enforcement
    from walras_operator.decide.world import World

VISIBLE_SECONDS = 60
"""Least seconds by which a reported finish moves."""

VISIBLE_PART = 0.05
"""Least part of the time left by which a reported finish moves."""

VISIBLE_WORK = 0.2
"""Least part by which a reported amount of work left moves."""

BEYOND_PART = 0.05
"""Least part of its cores that a pod must use beyond them for these to count."""

LATEST = 32_000_000_000
"""Latest time of a report, in seconds since 1970: the year 2984."""


class _Finish(NamedTuple):
    """Expected end of a job's last pod, and its range of one standard error, since 1970."""

    expected: int
    earliest: int
    latest: int


class _Running(NamedTuple):
    """A running pod after the decision.

    Attributes:
        pod: The pod with its work before the decision.
        progress: Its progress from the decision on.
        outcome: Outcome of its deadline; None if its work left is unknown.
        speed: Expected speedup on the cores that it is to have; 0 without a grant.
    """

    pod: FollowedPod
    progress: PodProgress
    outcome: DeadlineOutcome | None
    speed: float


def deadline_results(
    world: World,
    followed: Mapping[Name, FollowedJob],
    plan: Plan,
    allocations: Allocations,
    enforcement: Mapping[tuple[str, str], Enforcement],
) -> dict[Name, DeadlineResult]:
    """Return the results of all deadlines, by namespace and name of the job."""
    if not followed:
        return {}
    now = seconds_of(world.now) or 0
    grants = {(grant.namespace, grant.pod): grant for grant in plan.grants}
    outcomes = {(each.namespace, each.pod): each for each in plan.deadlines}
    held = {
        (node, each.uid): each.millicores
        for node in {grants[key].node for key in grants.keys() & _names(followed)}
        if node in allocations.desired
        for each in allocations.desired[node].grants
    }
    enforcement = {**replaced(allocations, world), **enforcement}
    used = used_cores(world)
    alive: frozenset[str] | None = None
    results = {}
    for key, job in followed.items():
        running = [
            _running(job, each, grants, outcomes, held, enforcement, now, used) for each in job.pods
        ]
        ended: Sequence[PodProgress] = ()
        if job.ended:
            if alive is None:
                alive = world.live_pods()
            ended = list(_ended(job.ended, world, alive))
        results[key] = _result(job, running, ended, now)
    return results


def _names(followed: Mapping[Name, FollowedJob]) -> set[Name]:
    return {
        (each.pod.metadata.namespace, each.pod.metadata.name)
        for job in followed.values()
        for each in job.pods
    }


def _running(
    job: FollowedJob,
    pod: FollowedPod,
    grants: Mapping[Name, Grant],
    outcomes: Mapping[Name, DeadlineOutcome],
    held: Mapping[tuple[str, str], int],
    enforcement: Mapping[tuple[str, str], Enforcement],
    now: int,
    used: Mapping[Name, float],
) -> _Running:
    name, uid = (pod.pod.metadata.namespace, pod.pod.metadata.name), pod.pod.metadata.uid
    grant, outcome = grants.get(name), outcomes.get(name)
    millicores = None if grant is None else held.get((grant.node, uid))
    if grant is None or millicores is None:
        return _Running(pod, replace(pod.progress.held(None, now), reserved=0.0), outcome, 0.0)
    speed = _speed(grant, millicores / MILLI, job.job.spec.max_cores)
    state = enforcement.get((grant.node, uid))
    holding = None
    if state and state.state == "Enforced":
        cores = _worked_on(millicores / MILLI, used.get(name))
        holding = PodHolding(millicores, _speed(grant, cores, job.job.spec.max_cores))
    former = pod.progress.holding
    if state and state.state == "Unreported" and former.millicores == millicores:
        holding = former  # the report is about grants of others
    progress = pod.progress.held(holding, now)
    reserved = 0.0 if outcome is None else outcome.reserved
    return _Running(pod, replace(progress, reserved=reserved), outcome, speed)


def _worked_on(held: float, used: float | None) -> float:
    """Return the cores that a pod works on: those that it holds, or more that others leave idle."""
    return used if used is not None and used > held * (1 + BEYOND_PART) else held


def _speed(grant: Grant, cores: float, most: float | None) -> float:
    job = Job("", "", "", grant.node, grant.fraction, max_cores=most)
    return expected_speedup(job, cores)


def _ended(
    pods: Iterable[PodProgress], world: World, alive: frozenset[str]
) -> Iterable[PodProgress]:
    """Yield the pods that succeeded, and those whose end is not known yet."""
    for pod in pods:
        if pod.finished is not None:
            yield pod
        elif pod.uid not in world.ends:
            yield pod.held(None, seconds_of(world.now) or 0) if pod.uid in alive else pod
        else:
            lifetime = world.ends[pod.uid]
            if lifetime is not None:
                done = pod.held(None, lifetime.finished)
                yield replace(
                    done, finished=lifetime.finished, reserved=0.0, parts=(), counted=None
                )


def _result(
    job: FollowedJob,
    running: Sequence[_Running],
    ended: Sequence[PodProgress],
    now: int,
) -> DeadlineResult:
    status = job.job.status or {}
    before = status.get("deadline")
    before = before if isinstance(before, dict) else {}
    finish = _finish(running, now)
    finished = None
    if not running and ended and all(each.finished is not None for each in ended):
        finished = max(each.finished or 0 for each in ended)
    was_late = conditions_of(status).get("OnTime", {}).get("status") == "False"
    condition = (
        _ended_condition(job, finished)
        if finished is not None
        else _condition(job, running, finish, now, was_late=was_late)
    )
    measured = [each for each in running if each.pod.left is not None]
    complete = bool(measured) and len(measured) == len(running)
    needed = sum(each.outcome.needed for each in running if each.outcome)
    payable = [each.outcome.payable for each in running if each.outcome]
    shown = _steady(before, finish, now)
    # The newest pods; those that run come first.
    entries = [each.progress for each in running]
    entries += sorted(ended, key=lambda each: -(each.finished or LATEST))
    report = DeadlineReport(
        time=time_of(min(job.time, LATEST)),
        accepted=_accepted(running) if complete else None,
        needed_cores=figure(needed) if complete and needed < math.inf else None,
        reserved_cores=thousandths(sum(each.progress.reserved for each in running))
        if running
        else None,
        payable_cores=figure(payable[0]) if payable and payable[0] is not None else None,
        work_left=_shown_work(before, measured) if complete else None,
        work_left_error=figure(math.hypot(*(e.pod.left.error for e in measured if e.pod.left)))
        if complete
        else None,
        expected_finish=None if shown is None else time_of(shown.expected),
        earliest_finish=None if shown is None else time_of(shown.earliest),
        latest_finish=None if shown is None else time_of(shown.latest),
        widened=figure(job.widened),
        predicted=_predicted(before, running, finish, now),
        finished=None if finished is None else time_of(finished),
        met=None if finished is None else finished <= job.time,
    ).document()
    pods = [each.document() for each in entries[:MOST_UNDERWAY]]
    return DeadlineResult({**report, "pods": pods}, condition)


def _predicted(
    before: Mapping[str, Any], running: Sequence[_Running], finish: _Finish | None, now: int
) -> PredictedFinish | None:
    """Return the prediction to be compared with the end: the first one after half of the work."""
    predicted = predicted_before(before)
    if predicted is not None or finish is None or finish.expected <= now:
        return predicted
    done = sum(each.progress.work_at(now) for each in running)
    if not 0 < sum(each.pod.left.seconds for each in running if each.pod.left) <= done:
        return None
    return predicted_now(now, finish.expected, (finish.latest - finish.earliest) / 2)


def _accepted(running: Sequence[_Running]) -> bool:
    states = {each.outcome.state for each in running if each.outcome}
    return bool(states) and states <= {"Reserved", "OnTime"}


def _finish(running: Sequence[_Running], now: int) -> _Finish | None:
    """Return the expected end of the last pod; None if it is not known for all of them."""
    ends = []
    for each in running:
        left = each.pod.left
        if left is None or (each.speed <= 0 and left.seconds > 0):
            return None
        spans = (left.seconds, left.seconds - left.error, left.seconds + left.error)
        ends.append(
            _Finish(*(min(now + math.ceil(max(s, 0) / (each.speed or 1)), LATEST) for s in spans))
        )
    if not ends:
        return None
    return _Finish(*(max(each[k] for each in ends) for k in range(3)))


def _steady(before: Mapping[str, Any], finish: _Finish | None, now: int) -> _Finish | None:
    """Return the finish to report: the one that was reported, until it has moved visibly."""
    if finish is None:
        return None
    names = ("expectedFinish", "earliestFinish", "latestFinish")
    times = [seconds_of(before.get(name)) for name in names]
    former = _Finish(*(each or 0 for each in times))
    tolerance = max(VISIBLE_SECONDS, VISIBLE_PART * (finish.expected - now))
    moved = max(abs(a - b) for a, b in zip(former, finish, strict=True))
    return former if None not in times and moved <= tolerance else finish


def _shown_work(before: Mapping[str, Any], running: Sequence[_Running]) -> str:
    """Return the work left to report: what was reported, until it has changed visibly."""
    work = sum(each.pod.left.seconds for each in running if each.pod.left)
    former = before.get("workLeft")
    try:
        shown = float(former) if isinstance(former, str) else math.nan
    except ValueError:
        shown = math.nan
    if isinstance(former, str) and abs(work - shown) <= max(VISIBLE_SECONDS, VISIBLE_WORK * shown):
        return former
    return figure(work)


def _ended_condition(job: FollowedJob, finished: int) -> ConditionState:
    span = duration(abs(job.time - finished))
    when = time_of(finished)
    if finished <= job.time:
        return holds("Met", f"ended at {when}, {span} before its deadline")
    return fails(
        Problem(
            "Missed",
            f"ended at {when}, {span} after its deadline; allow more time for the next run, or "
            f"raise the shares of Entitlement {job.job.spec.entitlement}",
        )
    )


def _condition(
    job: FollowedJob,
    running: Sequence[_Running],
    finish: _Finish | None,
    now: int,
    *,
    was_late: bool,
) -> ConditionState:
    outcomes = [each.outcome for each in running if each.outcome]
    if not running:
        return ConditionState("Unknown", "NoPods", "no pod of it runs")
    if finish is None or len(outcomes) < len(running):
        return ConditionState("Unknown", "WorkUnknown", _missing(job, running))
    reserved = sum(each.reserved for each in outcomes)
    needed = sum(each.needed for each in outcomes)
    when = f"it is expected to finish at {time_of(finish.expected)} {_error(finish)}"
    takes = f"it needs {_cores(needed)} from now on"
    all_reserved = all(each.state == "Reserved" or not each.needed for each in outcomes)
    if all_reserved and finish.expected <= job.time + (0 if was_late else VISIBLE_SECONDS):
        return holds("Reserved", f"{takes} and {reserved:.4g} are reserved; {when}")
    why = why_not_reserved(outcomes)
    enough = finish.latest if was_late else finish.expected
    if enough <= job.time:
        nothing = "" if _accepted(running) else f"; nothing is reserved: {why}"
        return holds("OnTime", f"{takes}; {when} on the cores that it has{nothing}")
    if now >= job.time:
        passed = f"its deadline passed {duration(now - job.time)} ago"
        return fails(Problem("Late", f"{passed}; {when}; move spec.deadline, or stop the job"))
    late = duration(max(finish.expected - job.time, 0))
    return fails(
        Problem(
            "Late",
            f"{takes}; {why}; it is expected to finish {late} late "
            f"{_error(finish)}; {way_out(outcomes)}",
        )
    )


def _cores(needed: float) -> str:
    if needed == math.inf:
        return "more cores than help it"
    return f"{needed:.1f} cores"


def _error(finish: _Finish) -> str:
    return f"(±{duration((finish.latest - finish.earliest) // 2)})"


def _missing(job: FollowedJob, running: Sequence[_Running]) -> str:
    """Return why the work left, or the time that it takes, is not known, and the way out."""
    progress = job.job.spec.progress
    problems = [each.pod.problem for each in running if each.pod.left is None and each.pod.problem]
    unknown = [each for each in running if each.pod.left is None]
    if not unknown:
        return "some of its pods have no cores yet, so its end is not known; see Ready"
    if progress is None or progress.total is None:
        field = "spec.progress with its total" if progress is None else "spec.progress.total"
        return (
            f"the work that it has left is not known: give {field}, the value of its counter when "
            f"all is done, or a SpeedupProfile with run times for all of its data"
        )
    if problems:
        return f"the work that it has left is not known: {problems[0]}"
    name = unknown[0].pod.pod.metadata.name
    return (
        f"the work that it has left is not known until the counter of Pod {name} has moved in some "
        f"readings, which are made every 30 seconds once its grant is enforced"
    )


def duration(seconds: float) -> str:
    """Return a span of time as text, in its two largest units, such as 2 h 5 min."""
    minutes = round(min(seconds, MOST_WORK) / 60)
    if minutes < 1:
        return "less than a minute"
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
