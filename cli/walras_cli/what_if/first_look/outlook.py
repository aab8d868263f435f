"""Pure, but that it tells who waits: what users have, are guaranteed, and would have, as ranges.

How much cores speed jobs up is unknown in a cluster that has never measured it. So the market is
cleared under many assumptions, and what is told is what holds under all of them: parallel fractions
of 0.5, of 0.9 and of 0.99 for all, and every combination in which one of two users has 0.5 and the
other 0.99. A gain that is one under some of these and a loss under others is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, count, islice
from math import comb
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from walras_cli.patience import patience
from walras_cli.what_if.first_look.divisions import (
    Market,
    conserving_work,
    plain_kubernetes,
    shares_alone,
    wanted,
)
from walras_view.first_look import (
    NO_CHANGE,
    STARVING,
    Assumptions,
    CoresOfJob,
    CoresOfUser,
    JobOutlook,
    Loan,
    Range,
    StarvingPods,
    UserOutlook,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras.numerics.arrays import Bools, Floats, Integers
    from walras_cli.what_if.first_look.population import Population

KEPT = 0.99
"""Part of what a user's share of nodes alone would get done that the market guarantees."""

LEAST_FRACTION, USUAL_FRACTION, MOST_FRACTION = 0.5, 0.9, 0.99


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a cluster has today, and would have.

    Attributes:
        users: Outlook of each user, the largest change of cores first.
        jobs: Outlook of each job, likewise.
        loans: Loans that are there under all assumptions, the largest first.
        fractions: Assumptions on parallel fractions.
    """

    users: tuple[UserOutlook, ...]
    jobs: tuple[JobOutlook, ...]
    loans: tuple[Loan, ...]
    fractions: Assumptions


def outlook_of(population: Population) -> Outlook:
    """Clear the market of a population under all assumptions."""
    wants = wanted(population)
    fractions = list(assumptions(population))
    today, alone = plain_kubernetes(population, wants), shares_alone(population, wants)
    market = Market(population)
    bought, held = (np.empty((len(fractions), len(wants))) for _ in range(2))
    with patience("clearing the market") as tell:
        for number, each in enumerate(fractions):
            tell(f"assumption {number + 1} of {len(fractions)}")
            bought[number] = market.cores(each)
            held[number] = conserving_work(population, bought[number], wants)
    users = np.array([pod.user for pod in population.pods])
    jobs = np.array([pod.job for pod in population.pods])
    runs = _Runs(population, wants, np.array(fractions), today, alone, bought, held, users, jobs)
    known = {pod.job for pod in population.pods if pod.fraction is not None}
    return Outlook(
        tuple(sorted(map(runs.user, range(len(population.users))), key=_by_change)),
        tuple(sorted(map(runs.job, range(len(population.jobs))), key=_by_change)),
        runs.loans(),
        Assumptions(LEAST_FRACTION, MOST_FRACTION, len(fractions), len(known)),
    )


def _by_change(outlook: UserOutlook | JobOutlook) -> float:
    return -abs(outlook.cores.market.middle - outlook.cores.today)


def assumptions(population: Population) -> Iterator[Floats]:
    """Yield a parallel fraction for each pod, under one assumption after the other.

    Every user has another set of digits, all of one size, and under the assumption of a digit,
    those who have it gain little. So of any two users, each gains little where the other gains
    much, and no fewer digits would do (Sperner's theorem). Known fractions are kept.
    """
    pods = population.pods
    fractions = np.array([np.nan if pod.fraction is None else pod.fraction for pod in pods])
    user = np.array([pod.user for pod in pods])
    unknown = np.isnan(fractions)
    if not unknown.any():
        yield fractions
        return
    for each in (LEAST_FRACTION, USUAL_FRACTION, MOST_FRACTION):
        yield np.where(unknown, each, fractions)
    users = len(population.users)
    digits = next(each for each in count() if comb(each, each // 2) >= users)
    own = list(islice(combinations(range(digits), digits // 2), users))
    for digit in range(digits):
        low = np.array([digit in each for each in own])[user]
        yield np.where(unknown, np.where(low, LEAST_FRACTION, MOST_FRACTION), fractions)


class _Runs(NamedTuple):
    """Divisions of a population: today's, by shares alone, and the market's by assumption.

    Attributes:
        population: The population of k pods.
        wants: Most cores that each pod uses, shape (k,).
        fractions: Parallel fractions, shape (assumptions, k).
        today: Cores of pods on plain Kubernetes, shape (k,).
        alone: Cores of pods where users have their shares of nodes alone, shape (k,).
        bought: Cores that pods buy in the market, shape (assumptions, k).
        held: Cores of pods in the market, shape (assumptions, k).
        users: User of each pod, shape (k,).
        jobs: Job of each pod, shape (k,).
    """

    population: Population
    wants: Floats
    fractions: Floats
    today: Floats
    alone: Floats
    bought: Floats
    held: Floats
    users: Integers
    jobs: Integers

    def user(self, number: int) -> UserOutlook:
        mine = self.users == number
        return UserOutlook(
            name=self.population.users[number],
            part=self.population.shares[number] / sum(self.population.shares),
            pods=int(mine.sum()),
            cores=CoresOfUser(
                float(self.alone[mine].sum()),
                float(self.today[mine].sum()),
                _range(self.held[:, mine].sum(axis=1)),
            ),
            gain=self._gain(self.today, mine),
            keeps_guarantee=self._keeps_guarantee(mine),
            requests_beyond_shares=tuple(self._beyond_shares(number)),
            starving_pods=self._starving(mine),
        )

    def job(self, number: int) -> JobOutlook:
        mine = self.jobs == number
        pods = [self.population.pods[each] for each in np.flatnonzero(mine)]
        made = self.population.jobs[number]
        return JobOutlook(
            namespace=made.namespace,
            kind=made.kind,
            name=made.name,
            user=self.population.users[pods[0].user],
            pods=len(pods),
            requested=sum(pod.request for pod in pods),
            cores=CoresOfJob(
                float(self.today[mine].sum()),
                _range(self.bought[:, mine].sum(axis=1)),
                _range(self.held[:, mine].sum(axis=1)),
            ),
            gain=self._gain(self.today, mine),
            starving_pods=self._starving(mine),
        )

    def _gain(self, before: Floats, mine: Bools) -> Range | None:
        """Return the part by which pods' mean speedup in the market is above that before.

        None if it is above 0 under some assumptions and below 0 under others.
        """
        gain = _range(self._ratio(before, mine) - 1)
        return gain if gain.least >= -NO_CHANGE or gain.most <= NO_CHANGE else None

    def _ratio(self, before: Floats, mine: Bools) -> Floats:
        """Return pods' mean speedup in the market relative to that before, by assumption."""
        then, now = self._speed(self.held, mine), self._speed(before[None, :], mine)
        return np.divide(then, now, out=np.ones_like(then), where=now > 0)

    def _keeps_guarantee(self, mine: Bools) -> bool:
        """Return whether pods get done what their user's share of nodes alone would let them."""
        return bool((self._ratio(self.alone, mine) >= KEPT).all())

    def _beyond_shares(self, user: int) -> Iterator[Literal["its own pods", "others' pods"]]:
        """Yield whose requests exceed their user's share of one of a user's nodes."""
        share = np.array(self.population.shares) / sum(self.population.shares)
        room = np.array([node.cores for node in self.population.nodes])
        requested = np.zeros((len(room), len(share)))
        for pod in self.population.pods:
            requested[pod.node, pod.user] += pod.request
        beyond = requested > np.outer(room, share) * (1 + NO_CHANGE)
        mine = np.unique([pod.node for pod in self.population.pods if pod.user == user])
        if beyond[mine, user].any():
            yield "its own pods"
        if np.delete(beyond[mine], user, axis=1).any():
            yield "others' pods"

    def _speed(self, cores: Floats, mine: Bools) -> Floats:
        """Return the mean speedup of pods by assumption: Amdahl's, and below a core its part."""
        x, f = np.minimum(cores, self.wants)[:, mine], self.fractions[:, mine]
        x = np.broadcast_to(x, f.shape)
        return np.asarray(np.where(x < 1, x, x / (f + (1 - f) * x)).mean(axis=1))

    def _starving(self, mine: Bools) -> StarvingPods:
        least = np.minimum(STARVING, self.wants[mine]) * (1 - 1e-9)
        today = int((self.today[mine] < least).sum())
        return StarvingPods(today, int((self.held[:, mine] < least).sum(axis=1).max()))

    def loans(self) -> tuple[Loan, ...]:
        """Return what users have of what others' shares of nodes would let these use there."""
        nodes, users = len(self.population.nodes), len(self.population.users)
        place = np.array([pod.node * users + pod.user for pod in self.population.pods])
        mine = np.bincount(place, self.alone, nodes * users).reshape(nodes, users)
        least = np.full((users, users), np.inf)
        most = -least
        for held in self.held:
            cores = np.bincount(place, held, nodes * users).reshape(nodes, users)
            lent = mine - cores
            gives, takes = np.maximum(lent, 0), np.maximum(-lent, 0)
            # Users without pods on a node leave cores there, too, which nobody lends.
            moved = np.maximum(gives.sum(axis=1, keepdims=True), takes.sum(axis=1, keepdims=True))
            part = np.divide(gives, moved, out=np.zeros_like(gives), where=moved > 0)
            flow = part.T @ takes
            np.minimum(least, flow - flow.T, out=least)
            np.maximum(most, flow - flow.T, out=most)
        names = self.population.users
        loans = [
            Loan(names[a], names[b], Range(float(least[a, b]), float(most[a, b])))
            for a, b in zip(*np.nonzero(least > NO_CHANGE), strict=True)
        ]
        return tuple(
            sorted(loans, key=lambda each: (-each.cores.middle, each.lender, each.borrower))
        )


def _range(values: Floats) -> Range:
    return Range(float(values.min()), float(values.max()))
