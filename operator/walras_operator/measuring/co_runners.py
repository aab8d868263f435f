"""Pure: derive penalties between programs from progress checks that are made anyway.

No pod is throttled or moved for it. A check compares a pod's progress with what its profile
predicts on its cores, so checks on other core counts, and of other pods, are comparable. If a pod
was alone on its node in some checks and beside one other pod in others, the penalty is the
difference (Cooper, section III-B). Pods outside the market are not considered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from walras.resources.speedup_profile import MOST_CO_RUNNERS, CoRunnerProgress, MeasuredPenalty
from walras_operator.conditions import listed
from walras_operator.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.resources.speedup_profile import OnlineRequest
    from walras_operator.world import World

MEAN_LENGTH = 8
"""Approximate number of checks in a running mean, so that it follows programs that change."""


class CoRunner(NamedTuple):
    """Namespace and name of a co-runner's profile; both empty for a pod that is alone."""

    namespace: str = ""
    profile: str = ""


ALONE = CoRunner()


def find_co_runner(world: World, request: OnlineRequest, namespace: str) -> CoRunner | None:
    """Return the co-runner of a pod on its node; None if there are several.

    Args:
        world: Contains the grants of all jobs' pods.
        request: Request that names the pod.
        namespace: Namespace of the pod.
    """
    others = [
        CoRunner(job.metadata.namespace, job.profile_name)
        for job in world.objects.jobs
        for pod in listed(job.status or {}, "pods")
        if pod.get("node") == request.node
        and (job.metadata.namespace, pod.get("name")) != (namespace, request.pod)
    ]
    return None if len(others) > 1 else (*others, ALONE)[0]


def relative_departure(
    observations: Sequence[CoRunnerProgress], co_runner: CoRunner | None, departure: float
) -> float:
    """Return the relative deviation of a check from what was expected beside a co-runner.

    Interference is no change of the program. Beside one co-runner, a program is expected to
    progress as in earlier checks beside it, and in the first such check at most as fast as
    predicted. Alone, or beside several, it is expected to progress as predicted.

    Args:
        observations: Observations so far.
        co_runner: Co-runner of the pod; None for several.
        departure: Relative deviation of measured from predicted progress.
    """
    if co_runner is None or co_runner == ALONE:
        return departure
    before = next((float(each.ratio) for each in observations if _beside(each) == co_runner), 0.0)
    return (1 + departure) / before - 1 if before > 0 else max(departure, 0.0)


def with_observation(
    observations: Sequence[CoRunnerProgress], co_runner: CoRunner, ratio: float, now: str
) -> list[CoRunnerProgress]:
    """Return observations with one more, which comes last; the oldest other one makes room.

    Args:
        observations: Observations so far.
        co_runner: Co-runner of the pod.
        ratio: Measured progress divided by predicted progress.
        now: Current time (RFC 3339).
    """
    mine = [each for each in observations if _beside(each) == co_runner]
    others = [each for each in observations if _beside(each) != co_runner]
    checks, mean = (mine[0].looks, float(mine[0].ratio)) if mine else (0, 0.0)
    latest = CoRunnerProgress(
        profile=co_runner.profile or None,
        namespace=co_runner.namespace or None,
        ratio=figure(mean + (ratio - mean) / min(checks + 1, MEAN_LENGTH)),
        looks=checks + 1,
        finished=now,
    )
    alone = [each for each in others if _beside(each) == ALONE]
    rest = [each for each in others if _beside(each) != ALONE]
    return [*alone, *rest[-(MOST_CO_RUNNERS - 2) :], latest]


def penalties_of(observations: Sequence[CoRunnerProgress], source: str) -> list[MeasuredPenalty]:
    """Return the penalties beside co-runners; empty without an observation of the program alone.

    Args:
        observations: Observations.
        source: Source of the progress counter.
    """
    alone = next((float(each.ratio) for each in observations if _beside(each) == ALONE), 0.0)
    if alone <= 0:
        return []
    return [
        MeasuredPenalty.model_validate(
            {
                "profile": each.profile,
                "namespace": each.namespace,
                "penalty": figure(1 - float(each.ratio) / alone),
                "source": source,
                "looks": each.looks,
                "finished": each.finished,
            }
        )
        for each in observations
        if _beside(each) != ALONE
    ]


def _beside(each: CoRunnerProgress) -> CoRunner:
    return CoRunner(each.namespace or "", each.profile or "")
