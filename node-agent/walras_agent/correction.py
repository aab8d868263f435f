"""Pure: corrects the weights of pods that share a domain by the CPU time that they used.

The kernel divides one CPU exactly by weights, and many CPUs only roughly: a thread runs on one CPU
at a time, and a group's weight is spread over the CPUs where its threads run. So every two seconds
each pod's use is compared with its goal, and its weight gets another factor. The goal divides what
all pods of the domain used: to users by what their pods bought, then to each user's pods, and never
more than a pod wants. So time that a pod leaves goes to the same user's pods first.

A pod that wants all that it bought is corrected towards its goal, against the others that do. One
that wants less, but waits nevertheless, such as a service in a burst, is behind what it bought: it
gets a boost. It costs others only time beyond their purchase as long as the pod makes pauses, and
it may stop to make any at any moment. So all factors are kept so mild that everybody would still
have four fifths of its purchase if all pods began to compute. What is then taken is a debt.

Waiting can be had on purpose: two threads that are pinned to one CPU wait half of their time,
whatever their weight. So a raise that use does not follow is taken back, and not tried again for a
while, twice as long after each failure.
"""

from __future__ import annotations

from itertools import groupby
from math import ceil, exp, log
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras_agent.cpuset import CpuSet

_TOLERANCE = 0.01  # of a purchase
_SLICES = 0.008  # seconds of a few of the kernel's time slices, by which any interval may be off
_WAITS = 0.02  # of the time, in which some thread waits of a pod that gets a boost
_ALWAYS = 0.9  # of the time, in which some thread waits of a pod that could use far more
_LOST = 0.97  # of its purchase, wanted at least by a pod that goes on to want all of it

_GAIN = 0.4
_STEP = 0.7  # largest logarithm of one correction
_MOST = 8.0  # largest factor of a pod that wants all that it bought; the least is its inverse
_BOOST = 3.0  # largest factor of one that does not
_RISE, _FALL = 1.5, 0.9  # factors by which boosts grow and end
_SAFE = 0.8  # of its purchase, which a pod would have at least if all began to compute at once
_OWED, _OWES = 0.5, 4.0  # seconds of its purchase that a pod is owed, and owes, at most
_REPAID = 8.0  # seconds in which a debt is made good

_FOLLOWED = 0.2  # of a raise, which use must follow
_JUDGED = 0.4  # logarithm of a raise after which it is judged
_PAUSES = 8, 64  # passes without another raise after one that failed: first, and at most


class Purchase(NamedTuple):
    """The CPU time that a pod bought, or that one without a grant requested.

    Attributes:
        cpus: Time in CPUs, such as 1.5.
        user: Whose pod it is; what one of a user's pods leaves goes to the others first.
        allowed: CPUs that it may run on.
    """

    cpus: float
    user: str
    allowed: CpuSet


class CpuRate(NamedTuple):
    """The CPU time of a pod in an interval.

    Attributes:
        seconds: Length of the interval.
        used: CPUs that it used on average.
        waited: Number of its threads that waited for a CPU on average, at most 1 where the kernel
            tells only whether any waited; None if unknown.
        threads: Number of its threads; None if unknown.
    """

    seconds: float
    used: float
    waited: float | None
    threads: int | None = None


class Trial(NamedTuple):
    """A raise of a pod's weight that is not judged yet.

    Attributes:
        factor: Factor before it.
        use: Part of the CPUs that the pod can use that it used then.
        waited: Part of the time in which it waited then.
    """

    factor: float
    use: float
    waited: float


class Correction(NamedTuple):
    """The state of one pod's weight.

    Attributes:
        factor: Factor of the weight that the purchase gives.
        wants_all: Whether the pod wanted all that it bought.
        debt: CPU seconds that it is owed; negative for more than its goal.
        trial: The raise on trial.
        failures: Raises that use did not follow since the last one that it did.
        pause: Passes until the next raise.
    """

    factor: float = 1.0
    wants_all: bool = True
    debt: float = 0.0
    trial: Trial | None = None
    failures: int = 0
    pause: int = 0

    @property
    def boosted(self) -> bool:
        """Whether the pod weighs more than it bought until it wants all of that."""
        return self.factor > 1 and not self.wants_all


UNCORRECTED = Correction()


class _Pod(NamedTuple):
    """A pod in one pass.

    Attributes:
        name: UID of the pod.
        bought: Its purchase in CPUs, as far as it can use so many and others leave the pods any.
        user: Whose pod it is.
        rate: Its CPU time.
        waited: Part of the time in which a thread waited.
        most: CPUs that it can use at once.
        before: State before the pass.
    """

    name: str
    bought: float
    user: str
    rate: CpuRate
    waited: float
    most: float
    before: Correction

    @property
    def wanted(self) -> float:
        """CPUs that it would have used had no thread waited, as far as that is known."""
        if self.waited > _ALWAYS:
            return self.most
        return min(self.most, self.rate.used + self.waited)

    @property
    def wants_all(self) -> bool:
        """Whether it wanted all that it bought."""
        least = self.bought * (_LOST if self.before.wants_all else 1 - _TOLERANCE)
        return self.wanted >= least

    def part(self, cpus: float) -> float:
        """Return a number of CPUs as the part of those that it can use, between 0 and 1."""
        can = max(1, ceil(self.wanted - 0.05))
        return min(max(cpus / can, 0.005), 0.97)


def correct(
    purchases: Mapping[str, Purchase],
    rates: Mapping[str, CpuRate],
    idle: Mapping[int, float],
    before: Mapping[str, Correction],
) -> dict[str, Correction]:
    """Return the corrections after an interval, by pod.

    Args:
        purchases: What pods bought, by UID.
        rates: CPU time of pods in the interval; a pod that is not in it keeps its correction.
        idle: Part of the interval in which each CPU was idle, by number.
        before: Corrections before the interval.
    """
    after = {pod: before.get(pod, UNCORRECTED) for pod in purchases}
    seen = {pod: bought for pod, bought in purchases.items() if pod in rates}
    for domain, names in beside_each_other({pod: each.allowed for pod, each in seen.items()}):
        pods = list(_pods(domain, {name: seen[name] for name in names}, rates, idle, after))
        after |= _corrected(pods, len(domain))
    return after


def beside_each_other(allowed: Mapping[str, CpuSet]) -> list[tuple[CpuSet, list[str]]]:
    """Return the sets of pods that share CPUs, also by way of others, and these CPUs."""
    by_cpus: dict[CpuSet, list[str]] = {}  # most pods of a domain may use all of it
    for pod in sorted(allowed):
        by_cpus.setdefault(allowed[pod], []).append(pod)
    groups: list[tuple[CpuSet, list[str]]] = []
    for cpus, pods in by_cpus.items():
        beside = [each for each in groups if each[0] & cpus]
        groups = [each for each in groups if not each[0] & cpus]
        everywhere, together = cpus, pods
        for others, names in beside:
            everywhere |= others
            together = names + together
        groups.append((everywhere, together))
    return groups


def _pods(
    domain: CpuSet,
    purchases: Mapping[str, Purchase],
    rates: Mapping[str, CpuRate],
    idle: Mapping[int, float],
    before: Mapping[str, Correction],
) -> Iterator[_Pod]:
    """Yield the pods of a domain, whose purchases bear alike what programs outside took of it."""
    used = sum(rates[name].used for name in purchases)
    there = used + sum(idle.get(cpu, 0.0) for cpu in domain)
    bought = sum(each.cpus for each in purchases.values())
    scale = min(1.0, there / max(bought, len(domain))) if bought else 1.0
    for name, each in purchases.items():
        rate, cpus = rates[name], len(each.allowed)
        most = float(min(cpus, cpus if rate.threads is None else max(rate.threads, 1)))
        due = min(each.cpus * scale, most)
        waited = min(rate.waited or 0.0, 1.0)
        yield _Pod(name, due, each.user, rate, waited, most, before[name])


def _corrected(pods: list[_Pod], cpus: int) -> dict[str, Correction]:
    """Return the corrections of the pods of a domain of some CPUs."""
    waiting = {pod.name: _boosted(pod) for pod in pods if not pod.wants_all}
    balanced = _balanced([pod for pod in pods if pod.wants_all], _goals(pods))
    return _bounded(pods, waiting | balanced, cpus)


def _bounded(pods: list[_Pod], after: Mapping[str, Correction], cpus: int) -> dict[str, Correction]:
    """Return milder corrections, by which nobody is harmed if all pods begin to compute.

    A factor that helps a pod after its pauses is too much once it makes none. Pods with too few
    threads to take more than they bought keep theirs.
    """
    factors = {name: each.factor for name, each in after.items()}
    few = {pod.name for pod in pods if pod.most <= ceil(pod.bought)}

    def milder(power: float) -> dict[str, float]:
        return {name: each if name in few else each**power for name, each in factors.items()}

    def is_safe(factors: Mapping[str, float]) -> bool:
        weights = {pod.name: pod.bought * factors[pod.name] for pod in pods}
        had = fill(cpus, weights, {pod.name: pod.most for pod in pods})
        return all(had[pod.name] >= _SAFE * pod.bought for pod in pods)

    if not is_safe(factors):
        low, high = 0.0, 1.0
        for _ in range(6):
            middle = (low + high) / 2
            low, high = (middle, high) if is_safe(milder(middle)) else (low, middle)
        factors = milder(low)
    return {name: each._replace(factor=factors[name]) for name, each in after.items()}


def _boosted(pod: _Pod) -> Correction:
    """Return the correction of a pod that wants less than it bought."""
    before = pod.before._replace(wants_all=False, debt=0.0)
    if pod.before.wants_all:
        before = before._replace(factor=min(max(before.factor, 1.0), _BOOST), trial=None)
    waits = pod.waited > _WAITS
    factor = min(_BOOST, before.factor * _RISE) if waits else max(1.0, before.factor * _FALL)
    return _changed(pod, before, factor)


def _goals(pods: list[_Pod]) -> dict[str, float]:
    """Return the CPUs that each pod should have had of those that all of them used."""
    wants = {pod.name: pod.wanted if pod.wants_all else pod.rate.used for pod in pods}
    by_user = [
        (user, list(theirs))
        for user, theirs in groupby(sorted(pods, key=lambda pod: pod.user), lambda pod: pod.user)
    ]
    users = fill(
        sum(pod.rate.used for pod in pods),
        {user: sum(pod.bought for pod in theirs) for user, theirs in by_user},
        {user: sum(wants[pod.name] for pod in theirs) for user, theirs in by_user},
    )
    goals: dict[str, float] = {}
    for user, theirs in by_user:
        goals |= fill(users[user], {pod.name: pod.bought for pod in theirs}, wants)
    return goals


def fill(there: float, parts: Mapping[str, float], most: Mapping[str, float]) -> dict[str, float]:
    """Divide an amount in proportion to parts, but give nobody more than its most."""
    given: dict[str, float] = {}
    left = dict(parts)
    while left:
        level = max(there, 0.0) / (sum(left.values()) or 1.0)
        served = [name for name, part in left.items() if most[name] <= level * part]
        if not served:
            return given | {name: level * part for name, part in left.items()}
        for name in served:
            given[name] = most[name]
            there -= most[name]
            del left[name]
    return given


def _balanced(full: list[_Pod], goals: Mapping[str, float]) -> dict[str, Correction]:
    """Return the corrections of pods that want all that they bought, against each other."""
    after, off = {}, {}
    for pod in full:
        error = goals[pod.name] - pod.rate.used
        owed = pod.before.debt + error * pod.rate.seconds
        factor = pod.before.factor
        if not pod.before.wants_all:  # it turned: the boost ends, and what it took is owed
            factor, owed = 1.0, min(0.0, (pod.bought - pod.rate.used) * pod.rate.seconds)
        debt = max(-_OWES * pod.bought, min(_OWED * pod.bought, owed))
        trial = pod.before.trial if pod.before.wants_all else None
        after[pod.name] = pod.before._replace(factor=factor, wants_all=True, debt=debt, trial=trial)
        tolerance = max(_TOLERANCE * pod.bought, _SLICES / pod.rate.seconds)
        off[pod.name] = (error + debt / _REPAID, tolerance)
    if len(full) < 2 or all(abs(error) <= within for error, within in off.values()):
        return after
    for pod in full:
        error, within = off[pod.name]
        if abs(error) > within / 2:
            now, then = pod.part(pod.rate.used), pod.part(pod.rate.used + error)
            step = max(-_STEP, min(_STEP, _GAIN * (_logit(then) - _logit(now))))
            after[pod.name] = _changed(pod, after[pod.name], after[pod.name].factor * exp(step))
    bought = sum(pod.bought for pod in full)
    weight = sum(pod.bought * after[pod.name].factor for pod in full)
    for name, each in after.items():
        factor = each.factor * bought / weight
        after[name] = each._replace(factor=max(1 / _MOST, min(_MOST, factor)))
    return after


def _changed(pod: _Pod, before: Correction, factor: float) -> Correction:
    """Return the correction with another factor, unless that is a raise and the last one failed.

    Raises are on trial until they are large enough to be judged. If the pod then uses no more than
    before them, and waits as much, they are taken back.
    """
    paused = max(before.pause - 1, 0)
    if factor <= before.factor:
        return before._replace(factor=factor, trial=None, pause=paused)
    if before.pause:
        return before._replace(pause=paused)
    now = Trial(before.factor, pod.part(pod.rate.used), pod.waited)
    trial, failures = before.trial or now, before.failures
    if (asked := log(before.factor / trial.factor)) > _JUDGED:
        followed = _logit(now.use) - _logit(trial.use) >= _FOLLOWED * asked
        if not followed and now.waited > (1 - _FOLLOWED) * trial.waited:
            first, most = _PAUSES
            return before._replace(
                factor=trial.factor,
                trial=None,
                failures=failures + 1,
                pause=min(first << failures, most),
            )
        trial, failures = now, 0
    return before._replace(factor=factor, trial=trial, failures=failures)


def _logit(part: float) -> float:
    return log(part / (1 - part))


def compete(rates: Mapping[str, CpuRate]) -> bool:
    """Whether a pod waits for CPU time, or may, so that corrections are due."""
    return any(rate.waited is None or rate.waited > _TOLERANCE for rate in rates.values())
