"""Pure: derive penalties between programs from measurements that are made anyway.

No pod is throttled or moved for it. Pods on the same socket share its last-level cache and its
memory bandwidth, and a socket is where a pair of pods is placed. A pod that was alone on its socket
in some checks, and beside one other pod of the market in others, has a penalty: what its progress
beside the other pod lacks of its progress alone (Cooper, section III-B). Pods outside the market
are not considered.

Both are compared on equal numbers of cores where that is possible: the measurement of a pod that is
alone samples many of them. Between these, progress alone is interpolated, and the error of that is
part of the penalty's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walras_api.speedup_profile_status import MOST_CO_RUNNERS, CoRunnerProgress, MeasuredPenalty
from walras_operator.decide.conditions import listed
from walras_operator.decide.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_operator.decide.world import World

MEAN_LENGTH = 8
"""Approximate number of checks in a running mean, so that it follows programs that change."""

MOST_ALONE = 32
"""Numbers of cores at which the progress of a program alone is kept: the latest."""

UNKNOWN_DEVIATION = 0.1
"""Deviation of a check that is assumed where a single sample shows none, and likewise the error of
comparing numbers of cores where the program alone was seen at one only."""

Source = Literal["instructions", "cpuTime", "file", "http"]


class CoRunner(NamedTuple):
    """Namespace and name of a co-runner's profile; both empty for a pod that is alone."""

    namespace: str = ""
    profile: str = ""


ALONE = CoRunner()


class Observation(NamedTuple):
    """One look at a pod's progress.

    Attributes:
        co_runner: The only other pod's program on the pod's socket, or `ALONE`.
        cores: Number of cores that the pod used.
        source: Progress counter.
        ratio: Measured progress divided by predicted progress.
        deviation: Standard deviation of the ratio; None if a single sample shows none.
        together: Whether the prediction is from a measurement of a pod that was not alone.
    """

    co_runner: CoRunner
    cores: int
    source: Source
    ratio: float
    deviation: float | None = None
    together: bool = False


class Company:
    """The pods of the market on the sockets of each pod.

    Args:
        world: Contains the grants of all jobs' pods, and the reports of agents.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    @cached_property
    def _pods(self) -> Mapping[str, Sequence[tuple[tuple[str, str], CoRunner]]]:
        """The jobs' pods by node: namespace and name, and program."""
        by_node: defaultdict[str, list[tuple[tuple[str, str], CoRunner]]] = defaultdict(list)
        for job in self._world.objects.jobs:
            namespace = job.metadata.namespace
            program = CoRunner(namespace, job.profile_name)
            for pod in listed(job.status or {}, "pods"):
                by_node[str(pod.get("node"))].append(((namespace, str(pod.get("name"))), program))
        return by_node

    @cached_property
    def _places(self) -> dict[str, Mapping[tuple[str, str], frozenset[int]]]:
        """The sockets of the pods on each node that was asked for."""
        return {}

    def of(self, namespace: str, pod: str, node: str) -> list[CoRunner]:
        """Return the programs of the other pods on a pod's sockets, one for each pod.

        A pod counts as on all sockets of its node if the agent does not report its sockets.
        """
        return [program for program, _ in self._neighbours((namespace, pod), node)]

    def co_runner(self, namespace: str, pod: str, node: str) -> CoRunner | None:
        """Return the co-runner of a pod on its socket; None if there are several, or only partly.

        A pod that spans several sockets of which it shares one loses less there than a pod that
        does not, so it shows no penalty.
        """
        company = self._neighbours((namespace, pod), node)
        if not company:
            return ALONE
        mine = self._sockets(node).get((namespace, pod))
        whole = all(
            each is None or len(each) == 1 for each in (mine, *(there for _, there in company))
        )
        return company[0][0] if len(company) == 1 and whole else None

    def _neighbours(
        self, me: tuple[str, str], node: str
    ) -> list[tuple[CoRunner, frozenset[int] | None]]:
        """Return the programs of other pods on a pod's sockets, with all the sockets of each."""
        sockets = self._sockets(node)
        mine = sockets.get(me)
        return [
            (program, sockets.get(pod))
            for pod, program in self._pods.get(node, ())
            if pod != me and not _apart(mine, sockets.get(pod))
        ]

    def _sockets(self, node: str) -> Mapping[tuple[str, str], frozenset[int]]:
        if node not in self._places:
            self._places[node] = _sockets(self._world, node)
        return self._places[node]


def _sockets(world: World, node: str) -> Mapping[tuple[str, str], frozenset[int]]:
    """Return the sockets of pods on a node that its agent reports, by namespace and name."""
    allocation = world.allocations.get(node)
    if allocation is None:
        return {}
    reported = {each.get("podUID"): each for each in listed(allocation.status or {}, "pods")}
    return {
        (grant.namespace, grant.name): sockets
        for grant in allocation.spec.grants
        if (sockets := _socket_numbers(reported.get(grant.pod_uid, {})))
    }


def _socket_numbers(pod: Mapping[str, Any]) -> frozenset[int]:
    numbers: Any = pod.get("sockets")
    if not isinstance(numbers, list):
        return frozenset()
    return frozenset(number for number in numbers if type(number) is int)


def _apart(one: frozenset[int] | None, other: frozenset[int] | None) -> bool:
    """Return whether two pods are known to share no socket."""
    return one is not None and other is not None and one.isdisjoint(other)


def relative_departure(
    observations: Sequence[CoRunnerProgress], look: Observation, departure: float
) -> float:
    """Return the relative deviation of a check from what was expected beside a co-runner.

    Interference is no change of the program. Beside one co-runner, a program is expected to
    progress as in earlier checks beside it, and in the first such check at most as fast as
    predicted. Alone, it is expected to progress as predicted.

    Args:
        observations: Observations so far.
        look: The check.
        departure: Relative deviation of measured from predicted progress.
    """
    if look.co_runner == ALONE:
        return departure
    before = [
        each
        for each in observations
        if (_beside(each), each.source, each.together)
        == (look.co_runner, look.source, look.together)
    ]
    if not before:
        return max(departure, 0.0)
    nearest = min(before, key=lambda each: _distance(each.cores or 0, look.cores))
    return (1 + departure) / float(nearest.ratio) - 1 if float(nearest.ratio) > 0 else departure


def with_observation(
    observations: Sequence[CoRunnerProgress], look: Observation, now: str
) -> list[CoRunnerProgress]:
    """Return observations with one more, which comes last; the oldest other one makes room.

    Args:
        observations: Observations so far.
        look: The new one.
        now: Current time (RFC 3339).
    """
    key = look.co_runner, look.cores, look.source, look.together
    others = [each for each in observations if _key(each) != key and each.cores is not None]
    before = next((each for each in observations if _key(each) == key), None)
    alone = [each for each in others if _beside(each) == ALONE][-MOST_ALONE + 1 :]
    rest = [each for each in others if _beside(each) != ALONE]
    return [*alone, *rest[-(MOST_CO_RUNNERS - MOST_ALONE) :], _averaged(before, look, now)]


def _averaged(before: CoRunnerProgress | None, look: Observation, now: str) -> CoRunnerProgress:
    """Return the running mean and deviation of looks of one kind with one more."""
    looks, mean, variance = 0, 0.0, 0.0
    if before is not None:
        looks, mean = before.looks, float(before.ratio)
        variance = float(before.deviation or 0.0) ** 2
    mine = error_of(look)
    count = min(looks + 1, MEAN_LENGTH)
    new = mean + (look.ratio - mean) / count
    square = max((look.ratio - mean) * (look.ratio - new), 0.0) if looks else mine**2
    variance += (square - variance) / count
    return CoRunnerProgress(
        profile=look.co_runner.profile or None,
        namespace=look.co_runner.namespace or None,
        cores=look.cores,
        source=look.source,
        together=look.together,
        ratio=figure(new),
        deviation=figure(math.sqrt(variance)),
        looks=looks + 1,
        finished=now,
    )


def penalties_of(observations: Sequence[CoRunnerProgress]) -> list[MeasuredPenalty]:
    """Return the penalties beside co-runners; empty without an observation of the program alone.

    Of several numbers of cores at which a program ran beside another, the one with the smallest
    error of its penalty counts.
    """
    usable = [each for each in observations if each.cores is not None and not each.together]
    best: dict[tuple[CoRunner, str], MeasuredPenalty] = {}
    for observation in usable:
        alone = _seen_alone(usable, observation.source)
        if _beside(observation) == ALONE or not alone:
            continue
        penalty = _penalty(observation, alone)
        key = _beside(observation), penalty.source
        if key not in best or float(penalty.error or 0) < float(best[key].error or 0):
            best[key] = penalty
    return list(best.values())


def predicted_penalty(
    observations: Sequence[CoRunnerProgress], look: Observation
) -> tuple[float, float, float] | None:
    """Return the penalty that was known beside a check's co-runner, its error, and the one found.

    The error includes that of the check. None if no penalty was known.

    Args:
        observations: Observations before the check.
        look: The check.
    """
    for each in penalties_of(observations):
        if (CoRunner(each.namespace, each.profile), each.source) == (look.co_runner, look.source):
            alone, error = _progress_alone(_seen_alone(observations, look.source), look.cores)
            beside = look.ratio / alone
            of_check = math.hypot(error_of(look), beside * error) / alone
            return float(each.penalty), math.hypot(float(each.error or 0), of_check), 1 - beside
    return None


def error_of(look: Observation) -> float:
    """Return the standard error of a check's ratio, also where a single sample shows none."""
    return UNKNOWN_DEVIATION if look.deviation is None else look.deviation


def _seen_alone(
    observations: Sequence[CoRunnerProgress], source: str | None
) -> list[CoRunnerProgress]:
    """Return the observations of the program alone that penalties can be compared with."""
    return [
        each
        for each in observations
        if each.cores is not None
        and not each.together
        and _beside(each) == ALONE
        and each.source == source
        and float(each.ratio) > 0
    ]


def _penalty(beside: CoRunnerProgress, alone: Sequence[CoRunnerProgress]) -> MeasuredPenalty:
    """Return a penalty and its error: 1 - beside / alone, at the same number of cores."""
    expected, error = _progress_alone(alone, beside.cores or 1)
    ratio = float(beside.ratio) / expected
    of_beside = error_of_mean(beside) / expected
    return MeasuredPenalty.model_validate(
        {
            "profile": beside.profile,
            "namespace": beside.namespace,
            "penalty": figure(1 - ratio),
            "error": figure(math.hypot(of_beside, ratio * error / expected)),
            "cores": beside.cores,
            "source": beside.source,
            "looks": beside.looks,
            "finished": beside.finished,
        }
    )


def _progress_alone(alone: Sequence[CoRunnerProgress], cores: int) -> tuple[float, float]:
    """Return the progress of a program alone on a number of cores, and its standard error.

    Between the nearest numbers of cores at which it was seen, it is interpolated, and the
    difference of these two is part of the error; beyond the last one, the range of all.
    """
    seen = sorted(alone, key=lambda each: each.cores or 0)
    ratios = {each.cores or 0: float(each.ratio) for each in seen}
    errors = {each.cores or 0: error_of_mean(each) for each in seen}
    if cores in ratios:
        return ratios[cores], errors[cores]
    below = [each for each in ratios if each < cores]
    above = [each for each in ratios if each > cores]
    if below and above:
        low, high = below[-1], above[0]
        part = math.log(cores / low) / math.log(high / low)
        between = (1 - part) * ratios[low] + part * ratios[high]
        bridged = abs(ratios[high] - ratios[low])
        return between, math.hypot(bridged, errors[low], errors[high])
    nearest = (below or above)[-1 if below else 0]
    spread = max(ratios.values()) - min(ratios.values())
    bridged = spread if len(ratios) > 1 else UNKNOWN_DEVIATION
    return ratios[nearest], math.hypot(bridged, errors[nearest])


def error_of_mean(each: CoRunnerProgress) -> float:
    """Return the standard error of a mean of checks."""
    return float(each.deviation or 0) / math.sqrt(min(max(each.looks, 1), MEAN_LENGTH))


def _distance(one: int, other: int) -> float:
    return abs(math.log(max(one, 1) / max(other, 1)))


def _key(each: CoRunnerProgress) -> tuple[CoRunner, int | None, str | None, bool]:
    return _beside(each), each.cores, each.source, each.together


def _beside(each: CoRunnerProgress) -> CoRunner:
    return CoRunner(each.namespace or "", each.profile or "")
