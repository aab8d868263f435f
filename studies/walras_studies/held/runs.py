"""Cores that each policy gives to pods of a cluster over a month, and what users get of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from walras.analysis.cpu_time import BusyGroup, cpu_time
from walras.clearing import clear
from walras.market.snapshot import Policy
from walras.numerics.segments import group
from walras.speedup.amdahls_law import speedup_in_hardware
from walras_agent.weights import cpu_shares
from walras_studies.amdahl.whole_cores import round_cores
from walras_studies.held.worlds import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.random import Generator

    from walras.market.plan import Plan
    from walras.market.snapshot import JobKey
    from walras_studies.held.worlds import ClusterMonth, Pod

WALRAS, KUBERNETES, SHARES, QUOTAS, WHOLE = POLICIES = (
    "Walras",
    "Kubernetes",
    "weights by shares",
    "static quotas",
    "whole cores",
)
"""Names of the policies."""

BUSY = (0.3, 0.5, 0.8, 1.0)
"""Parts of the time in which pods compute."""

MOMENTS = 4
"""Moments of each decision that are looked at for each of these parts but the last."""

SHORT = 0.99
"""Part of the utility that its share alone could give below which a user is short."""

STARVED = 0.1
"""Part of one core, or of its equal part of its user's share of its node if that is less, below
which a pod starves."""

THOUSANDTH = 0.001
"""Cores in which nodes are told what to give: a user of little may lack one."""


@dataclass(frozen=True, slots=True)
class MonthHeld:
    """A cluster's month under one policy.

    Attributes:
        number: Number of the cluster.
        policy: Policy that divides cores.
        progress: Share-weighted mean of the utilities of users with pods, over all hours.
        speed: Mean speed of all pods, over all hours, whoever they belong to.
        short: Part of the hours of users with pods in which these get less than 0.99 of what their
            share alone could give.
        worst: Least utility of any user in any hour, relative to what its share alone could give.
        starved: Part of the hours of pods in which they starve.
    """

    number: int
    policy: str
    progress: float
    speed: float
    short: float
    worst: float
    starved: float


@dataclass(frozen=True, slots=True)
class BusyMonth:
    """A cluster's month under one policy in which pods compute for a part of the time.

    Attributes:
        number: Number of the cluster.
        busy: Part of the time in which each pod computes, independent of others.
        policy: Policy that divides cores.
        progress: Share-weighted mean of the speeds of users with pods that compute, over moments.
    """

    number: int
    busy: float
    policy: str
    progress: float


def live_through(
    world: ClusterMonth, hours: Sequence[float], number: int, random: Generator
) -> tuple[list[MonthHeld], list[BusyMonth]]:
    """Divide a cluster in each of the hours by every policy.

    Args:
        world: The cluster.
        hours: Hours of the decisions.
        number: Number of the cluster.
        random: Draws which pods compute at a moment.
    """
    held: Mapping[JobKey, float] = {}
    counts = {policy: _Count() for policy in POLICIES}
    progress: defaultdict[tuple[float, str], list[float]] = defaultdict(list)
    for hour in hours:
        pods, snapshot = world.present(hour), world.snapshot(hour)
        if not pods:
            continue
        plan = clear(replace(snapshot, held=held), Policy(hysteresis=0.02))
        held = plan.holdings()
        entitled = {user.name: user.entitlement_utility for user in plan.users}
        policies = _policies(world, pods, plan)
        for policy, divide in policies.items():
            counts[policy].add(world, pods, divide(pods), entitled)
        for busy in BUSY:
            for _ in range(MOMENTS if busy < 1 else 1):
                computing = [pod for pod in pods if random.random() < busy]
                for policy, divide in policies.items() if computing else ():
                    speeds = _speeds(computing, divide(computing))
                    progress[busy, policy].append(_progress(world, speeds))
    return (
        [each.row(number, policy) for policy, each in counts.items()],
        [
            BusyMonth(number, busy, policy, float(np.mean(each)))
            for (busy, policy), each in progress.items()
        ],
    )


_Division = Callable[["Sequence[Pod]"], list[float]]
"""What a policy gives to those of a decision's pods that compute at a moment."""


def _policies(world: ClusterMonth, pods: Sequence[Pod], plan: Plan) -> Mapping[str, _Division]:
    by_weight = {
        WALRAS: by_grants(world, pods, plan),
        KUBERNETES: by_requests(world, pods),
        SHARES: by_shares(world, pods),
    }
    whatever_others_do = {
        QUOTAS: by_static_quotas(world, pods),
        WHOLE: in_whole_cores(world, pods, plan),
    }
    fixed = {
        policy: dict(zip((pod.name for pod in pods), cores, strict=True))
        for policy, cores in whatever_others_do.items()
    }
    return {policy: partial(divide, groups) for policy, groups in by_weight.items()} | {
        policy: partial(_have, cores) for policy, cores in fixed.items()
    }


def _have(cores: Mapping[str, float], pods: Sequence[Pod]) -> list[float]:
    return [cores[pod.name] for pod in pods]


def _speeds(pods: Sequence[Pod], cores: Sequence[float]) -> dict[int, list[float]]:
    """Return the speeds of pods by their user."""
    speeds: defaultdict[int, list[float]] = defaultdict(list)
    for pod, has in zip(pods, cores, strict=True):
        speeds[pod.user].append(speedup_in_hardware(min(has, pod.threads), pod.fraction))
    return speeds


def _progress(world: ClusterMonth, speeds: Mapping[int, Sequence[float]]) -> float:
    """Return the mean of users' mean speeds by their shares."""
    shares = sum(world.shares[user] for user in speeds)
    return sum(world.shares[user] * float(np.mean(each)) for user, each in speeds.items()) / shares


@dataclass(slots=True)
class _Count:
    """Sums over the hours of a month."""

    progress: list[float] = field(default_factory=list)
    speed: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    short: list[bool] = field(default_factory=list)
    starved: list[bool] = field(default_factory=list)

    def add(
        self,
        world: ClusterMonth,
        pods: Sequence[Pod],
        cores: Sequence[float],
        entitled: Mapping[str, float],
    ) -> None:
        """Add an hour in which pods have some cores."""
        speeds = _speeds(pods, cores)
        utility = {user: float(np.mean(each)) for user, each in speeds.items()}
        self.speed.append(float(np.mean([each for own in speeds.values() for each in own])))
        self.progress.append(_progress(world, speeds))
        for user, each in utility.items():
            alone = entitled[name_of(user)]
            self.ratios.append(each / alone)
            self.short.append(each + THOUSANDTH < SHORT * alone)
        equal = _equal_parts(world, pods, sum(world.shares[user] for user in utility))
        self.starved += [
            has < STARVED * min(part, 1.0) for has, part in zip(cores, equal, strict=True)
        ]

    def row(self, number: int, policy: str) -> MonthHeld:
        return MonthHeld(
            number,
            policy,
            float(np.mean(self.progress)),
            float(np.mean(self.speed)),
            float(np.mean(self.short)),
            min(self.ratios),
            float(np.mean(self.starved)),
        )


def _equal_parts(world: ClusterMonth, pods: Sequence[Pod], shares: int) -> list[float]:
    """Return each pod's equal part of its user's share of its node.

    Args:
        world: Users and nodes.
        pods: Pods that are present.
        shares: Shares that divide the cluster.
    """
    together: defaultdict[tuple[int, int], int] = defaultdict(int)
    for pod in pods:
        together[pod.user, pod.node] += 1
    return [
        world.shares[pod.user] / shares * world.cores[pod.node] / together[pod.user, pod.node]
        for pod in pods
    ]


def by_grants(world: ClusterMonth, pods: Sequence[Pod], plan: Plan) -> dict[str, BusyGroup]:
    """Return weights by what pods were granted, on all CPUs of their nodes."""
    held = {grant.pod: grant.held for grant in plan.grants}
    return {
        pod.name: BusyGroup(
            range(world.cores[pod.node]), max(round(1000 * held[pod.name]), 1), pod.threads
        )
        for pod in pods
    }


def by_requests(world: ClusterMonth, pods: Sequence[Pod]) -> dict[str, BusyGroup]:
    """Return the weights that kubelets give to pods, on all CPUs of their nodes."""
    return {
        pod.name: BusyGroup(
            range(world.cores[pod.node]), cpu_shares(round(1000 * pod.request)), pod.threads
        )
        for pod in pods
    }


def by_shares(world: ClusterMonth, pods: Sequence[Pod]) -> dict[str, BusyGroup]:
    """Return weights by which a user's pods on a node divide its shares equally."""
    together = Counter((pod.user, pod.node) for pod in pods)
    return {
        pod.name: BusyGroup(
            range(world.cores[pod.node]),
            round(1000 * world.shares[pod.user] / together[pod.user, pod.node]),
            pod.threads,
        )
        for pod in pods
    }


def divide(groups: Mapping[str, BusyGroup], pods: Sequence[Pod]) -> list[float]:
    """Return the cores of pods that compute, by the kernel's rules; nobody else has any."""
    found: dict[str, float] = {}
    for node in {pod.node for pod in pods}:
        here = [pod.name for pod in pods if pod.node == node]
        found |= zip(here, cpu_time([groups[name] for name in here]), strict=True)
    return [found[pod.name] for pod in pods]


def by_static_quotas(world: ClusterMonth, pods: Sequence[Pod]) -> list[float]:
    """Return the cores of pods that divide their user's share of their node equally."""
    return _equal_parts(world, pods, sum(world.shares))


def in_whole_cores(world: ClusterMonth, pods: Sequence[Pod], plan: Plan) -> list[float]:
    """Return the cores that users buy in a plan, rounded to whole ones and to pools."""
    bought = {grant.pod: grant.bought for grant in plan.grants}
    found: dict[str, float] = {}
    for node, cores in enumerate(world.cores):
        here = [pod for pod in pods if pod.node == node]
        large = [pod for pod in here if bought[pod.name] >= 1]
        small = {pod.name: bought[pod.name] for pod in here if bought[pod.name] < 1}
        quotas = [bought[pod.name] for pod in large] + [sum(small.values())] * bool(small)
        most = [pod.threads for pod in large] + [max(len(small), 1)] * bool(small)
        whole = round_cores(
            np.array(quotas, np.float64),
            [cores],
            group(np.zeros(len(quotas), np.int64), 1),
            minimum=np.ones(len(quotas), np.int64),
            maximum=most,
        ).tolist()
        found |= {pod.name: own for pod, own in zip(large, whole, strict=False)}
        together = sum(small.values())
        found |= {name: whole[-1] * part / together for name, part in small.items()}
    return [found[pod.name] for pod in pods]
