"""The budgets of users, as far as they pay for cores that are reserved for deadlines."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from walras.division.deadlines.need import NEGLIGIBLE
from walras.division.deadlines.request import Answer, Part, Request
from walras.market.snapshot import identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras.market.plan import Plan
    from walras.market.snapshot import Job, JobKey, Policy, Snapshot


NEWCOMER = 0.95
"""Part of a user's budget that may be reserved when a deadline is accepted, since prices move."""

BISECTIONS = 30
"""Steps in the search for the part of a reservation that a budget pays for."""


class Budgets:
    """The cores that users can reserve, given the money that all spend in a plan.

    To hold R of the C cores of a node on which the other users spend M, a user must spend
    M R / (C - R): then the price is M / (C - R), and it buys R. This is more than R at the present
    price if it buys less than R now. The others are taken to spend as much as they do now; as some
    move to cheaper nodes, the real price is seldom higher.

    Minimums within a user's share of every node can always be paid for (V-C), whoever else
    reserves there.

    Mechanisms other than the Amdahl market know no minimums. Under them, cores are moved among a
    user's jobs on a node, so what the user buys there is the most that it can reserve.
    """

    def __init__(
        self, snapshot: Snapshot, policy: Policy, plan: Plan, standing: Iterable[Request]
    ) -> None:
        self._jobs = snapshot.jobs
        self._by_budget = policy.cores == "AmdahlBidding"
        self._money: defaultdict[str, defaultdict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        self._bought: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._minimums: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._size = {node.name: node.cores for node in snapshot.nodes}
        self._room = dict(self._size)
        self._has: dict[JobKey, float] = {}
        together: Counter[tuple[str, str]] = Counter()
        for grant in plan.grants:
            self._money[grant.node][grant.entitlement] += grant.spend
            self._bought[grant.entitlement, grant.node] += grant.bought
            together[grant.entitlement, grant.node] += 1
        self._budgets = {user.name: user.entitled for user in plan.users}
        self._all_budgets = sum(self._budgets.values())
        self._least_parts = {
            (user, node): policy.least_part * min(self._share(user) * self._size[node] / count, 1.0)
            for (user, node), count in together.items()
        }
        bought = {identity(grant): grant for grant in plan.grants}
        self._without: defaultdict[tuple[str, str], set[JobKey]] = defaultdict(set)
        for job in snapshot.jobs:
            if identity(job) not in bought:
                continue
            mine = bought[identity(job)]
            self._without[job.entitlement, job.node].add(identity(job))
            # A minimum that is not paid for does not count against others.
            paid = 1 < job.min_cores <= mine.bought + NEGLIGIBLE
            self._has[identity(job)] = max(mine.floor, job.min_cores if paid else 0.0)
            self._claim(job, self._has[identity(job)])
        for request in standing:
            for part in request.parts:
                self._claim(self._jobs[part.number], self._beyond(part))

    def _claim(self, job: Job, cores: float) -> None:
        """Count cores as a minimum of a job."""
        self._minimums[job.entitlement, job.node] += cores
        self._room[job.node] -= cores
        if cores:
            self._without[job.entitlement, job.node].discard(identity(job))

    def _share(self, user: str) -> float:
        """Return the part of the cluster that the user's budget is worth."""
        return self._budgets.get(user, 0.0) / (self._all_budgets or 1.0)

    def _least(self, user: str, node: str, wanted: Mapping[JobKey, float], part: float) -> float:
        """Return the cores that the user must have on a node to reserve a part of what it wants.

        Its jobs there without a minimum have their least parts.
        """
        more = sum(cores for key, cores in wanted.items() if key[-1] == node)
        small = self._without[user, node] - {key for key, cores in wanted.items() if cores}
        least = len(small) * self._least_parts.get((user, node), 0.0)
        return self._minimums[user, node] + part * more + least

    def _beyond(self, part: Part) -> float:
        """Return the cores to reserve beyond those that the pod has as its floor or minimum."""
        return max(part.cores - self._has.get(identity(self._jobs[part.number]), 0.0), 0.0)

    def reserve(self, request: Request) -> Answer:
        """Return whether the request can be paid for; if it can, count its cores as reserved."""
        wanted = {identity(self._jobs[p.number]): self._beyond(p) for p in request.parts}
        on_node: defaultdict[str, float] = defaultdict(float)
        for (*_, node), cores in wanted.items():
            on_node[node] += cores
        sure = self._by_budget and self._within_share(request.user, wanted)
        if not sure:
            if any(cores > self._room[node] + NEGLIGIBLE for node, cores in on_node.items()):
                return Answer("Crowded")
            payable = self._payable(request.user, wanted)
            if payable < 1:
                return Answer("Unaffordable", payable * sum(part.cores for part in request.parts))
        for part in request.parts:
            self._claim(self._jobs[part.number], self._beyond(part))
        for node in on_node:
            spent = self._cost(request.user, node, self._least(request.user, node, {}, 0.0))
            self._money[node][request.user] = max(self._money[node][request.user], spent)
        return Answer("Reserved", sure=sure)

    def _within_share(self, user: str, wanted: Mapping[JobKey, float]) -> bool:
        """Return whether all minimums of the user fit into its share of each of these nodes."""
        return all(
            self._least(user, node, wanted, 1.0)
            <= self._share(user) * self._size[node] + NEGLIGIBLE
            for *_, node in wanted
        )

    def _payable(self, user: str, wanted: Mapping[JobKey, float]) -> float:
        """Return the part of the wanted cores that the user can reserve, at most 1."""
        if self._affords(user, wanted, 1.0):
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._affords(user, wanted, middle) else (low, middle)
        return low

    def _affords(self, user: str, wanted: Mapping[JobKey, float], part: float) -> bool:
        nodes = {node for *_, node in wanted}
        if not self._by_budget:
            return all(
                self._least(user, node, wanted, part) <= self._bought[user, node] + NEGLIGIBLE
                for node in nodes
            )
        nodes |= {node for name, node in self._minimums if name == user}
        cost = sum(
            self._cost(user, node, self._least(user, node, wanted, part)) for node in sorted(nodes)
        )
        return cost <= NEWCOMER * self._budgets.get(user, 0.0)

    def _cost(self, user: str, node: str, cores: float) -> float:
        """Return what a user must spend on a node to hold some cores there."""
        others = sum(money for name, money in self._money[node].items() if name != user)
        left = self._size[node] - cores
        if not cores or others <= 0:
            return 0.0
        return others * cores / left if left > 0 else math.inf
