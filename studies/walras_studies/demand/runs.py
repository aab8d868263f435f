"""Ten minutes of clusters in which the market learns how many cores programs can use."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.analysis.cpu_time import BusyGroup
from walras.clearing import clear
from walras.market.demand import Demand, Seen, bound_of, learn
from walras.market.snapshot import Policy
from walras.speedup.amdahls_law import speedup_in_hardware
from walras_agent.correction import CpuRate
from walras_agent.cpu_demand import begin, looked
from walras_studies.held.runs import SHORT, by_grants, divide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_studies.demand.worlds import World
    from walras_studies.held.worlds import Pod

LOOK = 10
"""Seconds between two looks of an agent at its pods."""

MINUTES = (0, 1, 2, 5, 10)
"""Minutes after the start that are reported."""

KUBERNETES, KNOWN, LEARNED = "Kubernetes", "known", "learned"
"""Who divides the cores: equal weights, or the market with thread counts known, or learned."""

ASSUMED = (0.6, 0.7, 0.8, 0.9, 0.95)
"""Parallel fractions to assume of programs without a profile."""

ALL, HALF = 1, 2
"""Whether nothing is known of all programs, or of every second one."""

_EXACT = 1e-6  # CPUs by which a model's sums may be off


@dataclass(frozen=True, slots=True)
class Moment:
    """A cluster at a moment.

    Attributes:
        number: Number of the cluster.
        policy: Who divides the cores.
        minute: Minutes since the start.
        progress: Mean of the utilities of users by shares.
        below: Part of the users with less than 0.99 of what they had if each divided its share of
            each node equally among its pods.
        wrong: Part of the pods whose bound is a tenth below what they can use, or a tenth above
            although they run on all their threads; 0 if all counts are known.
    """

    number: int
    policy: str
    minute: int
    progress: float
    below: float
    wrong: float = 0.0


@dataclass(frozen=True, slots=True)
class Attack:
    """What a user gains that has agents see what is not so.

    Attributes:
        number: Number of the cluster.
        way: What its pods do.
        gain: Relative gain of its utility over being honest, after the last minute.
        harm: Relative loss of the user that loses most.
    """

    number: int
    way: str
    gain: float
    harm: float


@dataclass(frozen=True, slots=True)
class Assumption:
    """A cluster in which a parallel fraction is assumed of programs, and numbers of threads known.

    Attributes:
        number: Number of the cluster.
        every: `ALL` or `HALF`.
        fraction: The assumed parallel fraction.
        loss: Part of the progress that is lost because fractions are not known.
        below: Part of the users as in `Moment`.
    """

    number: int
    every: int
    fraction: float
    loss: float
    below: float


IDLE, BURSTS = "idle threads", "bursts"
"""Ways to deceive: to have a thousand threads that do nothing, or to run for a moment, whenever one
is looked at, on all CPUs of the node."""


class _Course(NamedTuple):
    """Cores of pods at each of `MINUTES`, and their bounds."""

    cores: list[list[float]]
    bounds: list[dict[str, float]]


def play(world: World, number: int) -> tuple[list[Moment], list[Attack]]:
    """Play a cluster under every policy, and with a user that deceives.

    Args:
        world: The cluster.
        number: Its number.
    """
    pods = world.cluster.pods
    equal = divide(
        {pod.name: BusyGroup(range(world.cluster.cores[pod.node]), 1, pod.threads) for pod in pods},
        pods,
    )
    true = {pod.name: float(pod.threads) for pod in pods}
    known = _divided(world, true)
    learned = _learned(world)
    alone = _utilities(pods, _equal_parts(world))

    def moment(policy: str, minute: int, cores: Sequence[float], wrong: float = 0.0) -> Moment:
        now = _utilities(pods, cores)
        progress = np.average(now, weights=world.cluster.shares)
        below = float(np.mean(np.array(now) < SHORT * np.array(alone)))
        return Moment(number, policy, minute, float(progress), below, wrong)

    moments = [moment(KUBERNETES, 0, equal), moment(KNOWN, 0, known)]
    for minute, cores, bounds in zip(MINUTES, *learned, strict=True):
        wrong = float(np.mean([*map(_is_wrong, pods, cores, map(bounds.get, true))]))
        moments.append(moment(LEARNED, minute, cores, wrong))
    honest = _utilities(pods, learned.cores[-1])
    attacks = []
    for way in (IDLE, BURSTS):
        outcome = _utilities(pods, _learned(world, way).cores[-1])
        change = np.array(outcome) / np.array(honest) - 1
        attacks.append(
            Attack(number, way, float(change[0]), float(-min(change[1:].min(), 0.0)) + 0.0)
        )
    return moments, attacks


def assume(world: World, number: int) -> list[Assumption]:
    """Clear a cluster with each of the fractions `ASSUMED` in place of those that are true."""
    pods, shares = world.cluster.pods, world.cluster.shares
    true = {pod.name: float(pod.threads) for pod in pods}
    known = np.average(_utilities(pods, _divided(world, true)), weights=shares)
    alone = np.array(_utilities(pods, _equal_parts(world)))
    found = []
    for every, fraction in product((ALL, HALF), ASSUMED):
        now = np.array(_utilities(pods, _divided(world.assuming(fraction, every), true)))
        loss = 1 - np.average(now, weights=shares) / known
        below = np.mean(now < SHORT * alone)
        found.append(Assumption(number, every, fraction, float(loss), float(below)))
    return found


def _is_wrong(pod: Pod, has: float, bound: float | None) -> bool:
    """Whether a pod that has some cores is known to need more than it can use, or less."""
    most, waits = bound or math.inf, has < pod.threads - _EXACT
    return most < 0.9 * pod.threads or (most > 1.1 * pod.threads and not waits)


def _learned(world: World, deceit: str = "") -> _Course:
    """Return the course of a cluster whose market learns what programs can use.

    Args:
        world: The cluster.
        deceit: What the pods of the first user do so that agents see what is not so.
    """
    pods = world.cluster.pods
    states = {pod.name: begin(0.0) for pod in pods}
    demands = {pod.name: Demand() for pod in pods}
    bounds: dict[str, float] = {}
    cores = _divided(world, bounds)
    course = _Course([], [])
    for now in range(0, 60 * MINUTES[-1] + 1, LOOK):
        if now % 60 == 0 and now // 60 in MINUTES:
            course.cores.append(cores)
            course.bounds.append(bounds)
        for pod, has in zip(pods, cores, strict=True):
            rate = _rate(pod, has, world, deceit if pod.user == 0 else "")
            states[pod.name] = looked(states[pod.name], rate, now)
            seen = states[pod.name].shown
            each = Seen(seen.at_once, float(seen.threads or math.inf), seen.free, seen.wanted)
            demands[pod.name] = learn(demands[pod.name], [each], now)
        found = {name: bound_of(each, now).cpus for name, each in demands.items()}
        found = {name: each for name, each in found.items() if math.isfinite(each)}
        if found != bounds:
            bounds = found
            cores = _divided(world, bounds)
    return course


def _rate(pod: Pod, has: float, world: World, deceit: str) -> CpuRate:
    """Return what an agent sees of a pod: of its waiting, only whether any thread does."""
    lacks = max(pod.threads - has, 0.0)
    waited = min(lacks, 1.0) if lacks > _EXACT else 0.0
    threads = world.threads[pod.name]
    if deceit == BURSTS:
        cpus = world.cluster.cores[pod.node]
        return CpuRate(LOOK, float(cpus), 0.0, cpus)
    return CpuRate(LOOK, has, waited, threads + 1000 if deceit == IDLE else threads)


def _divided(world: World, most: Mapping[str, float]) -> list[float]:
    """Return the cores of pods that the kernel divides by what the market grants them."""
    pods = world.cluster.pods
    plan = clear(world.snapshot(most), Policy(hysteresis=0.0))
    return divide(by_grants(world.cluster, pods, plan), pods)


def _equal_parts(world: World) -> list[float]:
    """Return each pod's equal part of its user's share of its node."""
    pods, shares = world.cluster.pods, world.cluster.shares
    together: defaultdict[tuple[int, int], int] = defaultdict(int)
    for pod in pods:
        together[pod.user, pod.node] += 1
    return [
        world.cluster.cores[pod.node]
        * shares[pod.user]
        / sum(shares)
        / together[pod.user, pod.node]
        for pod in pods
    ]


def _utilities(pods: Sequence[Pod], cores: Sequence[float]) -> list[float]:
    """Return the mean speed of each user's pods."""
    speeds: defaultdict[int, list[float]] = defaultdict(list)
    for pod, has in zip(pods, cores, strict=True):
        speeds[pod.user].append(speedup_in_hardware(min(has, pod.threads), pod.fraction))
    return [float(np.mean(speeds[user])) for user in sorted(speeds)]
