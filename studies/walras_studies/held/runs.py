"""Cores that each policy gives to pods of a cluster over a month, and what users get of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from walras.analysis.cpu_time import BusyGroup, cpu_time
from walras.clearing import clear
from walras.market.snapshot import Policy
from walras.numerics.segments import group
from walras.speedup.amdahls_law import speedup_in_hardware
from walras_agent.weights import cpu_shares
from walras_cli.what_if.held import Machine, as_enforced
from walras_studies.amdahl.whole_cores import round_cores
from walras_studies.held.worlds import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras.market.plan import Plan
    from walras.market.snapshot import JobKey
    from walras_studies.held.worlds import ClusterMonth, Pod

WALRAS, KUBERNETES, QUOTAS, WHOLE = POLICIES = (
    "Walras",
    "Kubernetes",
    "static quotas",
    "whole cores",
)
"""Names of the policies."""

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


def live_through(world: ClusterMonth, hours: Sequence[float], number: int) -> list[MonthHeld]:
    """Divide a cluster in each of the hours by every policy."""
    held: Mapping[JobKey, float] = {}
    counts = {policy: _Count() for policy in POLICIES}
    machines = {f"node-{number}": Machine(cores) for number, cores in enumerate(world.cores)}
    for hour in hours:
        pods, snapshot = world.present(hour), world.snapshot(hour)
        if not pods:
            continue
        plan = clear(replace(snapshot, held=held), Policy(hysteresis=0.02))
        held = plan.holdings()
        entitled = {user.name: user.entitlement_utility for user in plan.users}
        divisions = {
            WALRAS: _as_held(pods, as_enforced(plan, snapshot, machines)),
            KUBERNETES: by_requests(world, pods),
            QUOTAS: by_static_quotas(world, pods),
            WHOLE: in_whole_cores(world, pods, plan),
        }
        for policy, cores in divisions.items():
            counts[policy].add(world, pods, cores, entitled)
    return [each.row(number, policy) for policy, each in counts.items()]


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
        speeds: defaultdict[int, list[float]] = defaultdict(list)
        for pod, has in zip(pods, cores, strict=True):
            speeds[pod.user].append(speedup_in_hardware(min(has, pod.threads), pod.fraction))
        utility = {user: float(np.mean(each)) for user, each in speeds.items()}
        self.speed.append(float(np.mean([each for own in speeds.values() for each in own])))
        shares = sum(world.shares[user] for user in utility)
        self.progress.append(sum(world.shares[u] * each for u, each in utility.items()) / shares)
        for user, each in utility.items():
            alone = entitled[name_of(user)]
            self.ratios.append(each / alone)
            self.short.append(each + THOUSANDTH < SHORT * alone)
        equal = _equal_parts(world, pods, shares)
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


def _as_held(pods: Sequence[Pod], plan: Plan) -> list[float]:
    held = {grant.pod: grant.held for grant in plan.grants}
    return [held[pod.name] for pod in pods]


def by_requests(world: ClusterMonth, pods: Sequence[Pod]) -> list[float]:
    """Return the cores of pods by the kernel's rules and the weights that kubelets give them."""
    found: dict[str, float] = {}
    for node, cores in enumerate(world.cores):
        here = [pod for pod in pods if pod.node == node]
        groups = [
            BusyGroup(range(cores), cpu_shares(round(1000 * pod.request)), pod.threads)
            for pod in here
        ]
        found |= zip((pod.name for pod in here), cpu_time(groups), strict=True)
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
