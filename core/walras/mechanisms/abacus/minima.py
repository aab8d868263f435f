"""Auctions of users with several jobs, whose minimum utilities their own money pays for.

Section 6 of the paper keeps jobs out of the auction whose bids would cost others their minimums.
Nobody can check a minimum, and one that is too high leaves its owner more at the same price (see
`walras_studies.abacus.pool_auction`). Here, a minimum moves money among the jobs of its own user,
and nothing else: what others have follows from their own money, as if the user had given its jobs
other budgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.abacus.auction import Auction, AuctionOutcome, run_auction
from walras.numerics.segments import group
from walras.numerics.water_filling import water_fill

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walras.numerics.arrays import Bools, Floats, Integers

NO_MINIMUM = -1e9
"""Minimum of jobs that demand none: a utility that every job has."""

SLACK = 1e-6
"""Tolerance of minimums, as a part of the sum of the job's weights: solvers are not exact."""

MOST_FOR_MINIMA = 0.99
"""Part of a user's money that minimums can take; the rest is for its jobs that have none."""

PATIENCE = 4
"""Rounds in which a user's minimums need more than its money before the last of them is dropped."""

MOST_ROUNDS = 200
"""Rounds after which minimums that are not met are dropped."""

SETTLED = 1e-6
"""Change of a job's money, as a part of its user's, at which needs have settled."""

LARGEST_GROWTH = 1e3
"""Largest factor between the money that a job has and what it is taken to need."""


class OutcomeWithMinima(NamedTuple):
    """Outcome of auctions with minimums, for n jobs in the order of the auctions.

    Attributes:
        budgets: Money of each job after what minimums moved, shape (n,).
        auctions: Outcome of each auction with these budgets.
        promised: Whether each job has a minimum, and it is met, shape (n,).
    """

    budgets: Floats
    auctions: Sequence[AuctionOutcome]
    promised: Bools


def run_auctions_with_minima(
    auctions: Sequence[Auction], owner: Integers, minima: Floats, margin: Floats
) -> OutcomeWithMinima:
    """Divide users' money among their jobs so that as many minimums as it pays for are met.

    A user's jobs divide its money in proportion to their budgets, but those with a minimum have at
    least what they need. Where it does not pay for all of a user's minimums, those of the jobs with
    the smallest budgets do not count. What a job needs depends on the bids of others, so that needs
    and bids are adjusted in turn.

    Args:
        auctions: Auctions of n jobs together, whose budgets add up to the money of their users.
        owner: Number of each job's user, shape (n,).
        minima: Least utility that each job needs, in the units of its weights, shape (n,);
            `NO_MINIMUM` for none.
        margin: Utility that jobs aim at beyond their minimum, shape (n,).
    """
    asked = _of_all(auctions, lambda each: each.budgets)
    reach = _of_all(auctions, lambda each: each.utilities(each.limits))
    least = minima - SLACK * _of_all(auctions, lambda each: each.weights.sum(axis=1))
    counts = (minima > NO_MINIMUM) & (reach >= least)
    outcome = OutcomeWithMinima(asked, [run_auction(each) for each in auctions], counts)
    if not counts.any():
        return outcome
    needs_of = _Needs(auctions, owner, np.minimum(minima + margin, reach), asked)
    for rounds_left in reversed(range(MOST_ROUNDS)):
        budgets, hopeless = needs_of.divide(outcome)
        moves = np.abs(budgets - outcome.budgets) > SETTLED * needs_of.money[owner]
        missed = outcome.promised & (_utilities(outcome) < least)
        if not moves.any() and not missed.any():
            break
        dropped = missed if not rounds_left else _last(asked, owner, outcome.promised & hopeless)
        if not moves.any():
            dropped = _last(asked, owner, outcome.promised & np.isin(owner, owner[missed]))
        outcome = outcome._replace(promised=outcome.promised & ~dropped)
        outcome = _run_again(auctions, np.where(moves, budgets, outcome.budgets), outcome)
    return outcome


class _Needs:
    """What minimums need of the money of their users, estimated anew in every round.

    A job that gains lowers the bids of its user's other jobs, beside it too, so that estimates can
    swing to and fro. Where one does, the job takes half the step from then on.
    """

    def __init__(
        self, auctions: Sequence[Auction], owner: Integers, aim: Floats, asked: Floats
    ) -> None:
        self._auctions = auctions
        self._owner, self._aim, self._asked = owner, aim, asked
        self.money = np.asarray(np.bincount(owner, asked), np.float64)
        self._groups = group(owner, len(self.money))
        self._step, self._rise = np.ones(len(owner)), np.zeros(len(owner))
        self._rounds_above = np.zeros(len(self.money), np.int64)

    def divide(self, outcome: OutcomeWithMinima) -> tuple[Floats, Bools]:
        """Return money by what jobs with promises need, and whose users cannot pay, shape (n,)."""
        rise = np.log(_growth(self._auctions, self._aim, outcome))
        self._step[rise * self._rise < 0] /= 2
        self._rise = rise
        needs = np.where(outcome.promised, outcome.budgets * np.exp(rise * self._step), 0.0)
        together, most = np.bincount(self._owner, needs), MOST_FOR_MINIMA * self.money
        above = together > most
        self._rounds_above = np.where(above, self._rounds_above + 1, 0)
        hopeless = self._rounds_above >= PATIENCE
        self._rounds_above[hopeless] = 0
        cut = np.divide(most, together, out=np.ones(len(most)), where=above)
        least = needs * cut[self._owner]
        unlimited = np.full(len(least), np.inf)
        budgets = water_fill(self._asked, least, unlimited, self.money, self._groups)
        return budgets, np.asarray(hopeless[self._owner], np.bool_)


def _last(asked: Floats, owner: Integers, jobs: Bools) -> Bools:
    """Return of each user's ``jobs`` the one with the smallest budget."""
    last = np.zeros(len(owner), np.bool_)
    chosen = np.flatnonzero(jobs)
    ranked = chosen[np.lexsort((-asked[chosen], owner[chosen]))]
    ends = np.flatnonzero(np.diff(owner[ranked], append=-1))
    last[ranked[ends]] = True
    return last


def _of_all(auctions: Sequence[Auction], of_jobs: Callable[[Auction], Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *map(of_jobs, auctions)])


def _utilities(outcome: OutcomeWithMinima) -> Floats:
    return np.concatenate([each.utilities for each in outcome.auctions])


def _run_again(
    auctions: Sequence[Auction], budgets: Floats, outcome: OutcomeWithMinima
) -> OutcomeWithMinima:
    """Run those auctions again in which budgets have changed."""
    outcomes, end = [], 0
    for auction, before in zip(auctions, outcome.auctions, strict=True):
        start, end = end, end + len(auction.budgets)
        now = budgets[start:end]
        if (now == outcome.budgets[start:end]).all():
            outcomes.append(before)
            continue
        changed = Auction(
            now,
            auction.weights,
            logarithmic=auction.logarithmic,
            alpha=auction.alpha,
            limits=auction.limits,
        )
        outcomes.append(run_auction(changed, start=before.sub_budgets))
    return outcome._replace(budgets=budgets, auctions=outcomes)


def _growth(auctions: Sequence[Auction], aim: Floats, outcome: OutcomeWithMinima) -> Floats:
    """Return by what factor of their money jobs reach their aim while others keep their bids.

    Exact for one resource, where the odds s / (1 - s) of a share grow as money**alpha. 1 for jobs
    without a promise; shape (n,).
    """
    whole = _of_all(auctions, lambda each: each.weights.sum(axis=1))
    log = np.concatenate([each.logarithmic for each in auctions])
    alpha = _of_all(auctions, lambda each: np.full(len(each.budgets), max(each.alpha, 0.1)))

    def odds(utilities: Floats) -> Floats:
        part = np.where(outcome.promised, utilities, 0.0) / whole
        share = np.where(log, np.exp(np.minimum(part, 0.0)), part).clip(1e-12, 1 - 1e-12)
        return np.asarray(share / (1 - share))

    growth = (odds(aim) / odds(_utilities(outcome))) ** (1 / alpha)
    return np.asarray(growth.clip(1 / LARGEST_GROWTH, LARGEST_GROWTH))
