"""The auction: jobs with budgets and utilities in, shares of every resource out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras._segments import read_only
from walras.abacus._turns import column_sums, possible_gains, sweep
from walras.price_anticipating._checks import numbers, refuse, refuse_idle

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

LEAST_START = 1e-6
"""Part of its money that a job starts with at least on each resource that it bids on."""

PATIENCE = 20
"""Rounds after which jobs whose moves have not become smaller are taken to go in circles."""


class AuctionError(ValueError):
    """An auction whose numbers make no sense; the message names array, entry and what is needed."""


@dataclass(frozen=True)
class Auction:
    """Jobs that want shares of resources, and how the auction weighs their money.

    A job's utility is sum_j w_j s_j, for resources that can stand in for each other, or
    sum_j w_j log s_j, for jobs that need some of every resource with a weight (section 3).

    Attributes:
        budgets: shape (n,), positive.
        weights: shape (n, m), not negative, and some of each job's positive.
        logarithmic: shape (n,), whether a job's utility is in the logarithms of its shares; one
            value for all is fine.
        alpha: from 0, all jobs share a resource alike, to 1, they share by sub-budgets (eq. 1).

    Raises:
        AuctionError: an array has the wrong shape, or an entry outside its range.
    """

    budgets: Floats
    weights: Floats
    logarithmic: NDArray[np.bool_]
    alpha: float

    def __init__(
        self,
        budgets: ArrayLike,
        weights: ArrayLike,
        *,
        logarithmic: ArrayLike = False,
        alpha: float = 0.5,
    ) -> None:
        money = checked_budgets(budgets)
        worth = numbers("weights", weights, (len(money), None), AuctionError)
        refuse("weights", worth, worth < 0, "is negative", AuctionError)
        refuse_idle(worth, "job", AuctionError)
        forms = np.array(logarithmic)
        if forms.dtype != np.bool_ or forms.shape not in {(), money.shape}:
            raise AuctionError(f"logarithmic must be one truth value, or {len(money)}, one a job")
        if forms.shape == ():
            forms = np.full(len(money), forms)
        forms.flags.writeable = False
        object.__setattr__(self, "budgets", money)
        object.__setattr__(self, "weights", worth)
        object.__setattr__(self, "logarithmic", forms)
        object.__setattr__(self, "alpha", checked_alpha(alpha))

    def utilities(self, shares: Floats) -> Floats:
        """Return each job's utility, shape (n,), minus infinity without a share that it needs."""
        value = shares
        if self.logarithmic.any():
            value = np.array(shares)
            needed = self.logarithmic[:, None] & (self.weights > 0)
            with np.errstate(divide="ignore"):
                np.log(shares, out=value, where=needed)
        return np.asarray(np.einsum("ij,ij->i", self.weights, value))


@dataclass(frozen=True)
class Outcome:
    """What an auction came to.

    Attributes:
        sub_budgets: shape (n, m), what each job spends on each resource; each row adds up to the
            budget, but for jobs whom nobody contends with: what one job alone wants is free.
        shares: shape (n, m); those of a resource add up to 1, or to 0 where nobody wants it.
        utilities: shape (n,).
        iterations: rounds in which every job had a turn.
        change: the largest change of any sub-budget in the last round, relative to its budget.
        gains: shape (n,), proven bounds on what a job could still gain by dividing its budget in
            another way while the others do not, relative to sum_j (du/ds_j) s_j: for a linear
            utility by which part it could grow.
        tolerance: what was asked for.
    """

    sub_budgets: Floats
    shares: Floats
    utilities: Floats
    iterations: int
    change: float
    gains: Floats
    tolerance: float

    @property
    def converged(self) -> bool:
        """Whether no sub-budget moves, and no job could gain, by more than the tolerance."""
        return self.change <= self.tolerance and self.gain <= self.tolerance

    @property
    def gain(self) -> float:
        """The largest of ``gains``: 0 at an equilibrium (Lemma 3)."""
        return float(self.gains.max(initial=0.0))


def run_auction(
    auction: Auction,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    start: ArrayLike | None = None,
) -> Outcome:
    """Let jobs divide their budgets in turn until none moves (Algorithm 1).

    Round-robin over the jobs from even sub-budgets, as the paper has it, but each turn goes most
    of the way to the job's best sub-budgets where Algorithm 2 goes part of it (see `_turns`); the
    fixed points are the same. The paper proves that Algorithm 2 comes to rest for alpha <= 0.5.
    Where moves do not become smaller for 20 rounds, jobs go half as far at a turn from then on.

    Three corners that the paper leaves open. A resource that one job alone wants is all that
    job's, and costs it nothing; nobody gets any of one that nobody wants. At alpha = 0, where a
    bid of 0 counts as much as any other, the jobs that want a resource share it alike, which is
    the limit of small alphas. And no bid sticks at 0: jobs always bid at least 1e-18 of their
    budget on what they want.

    **Erratum:** Algorithm 2, line 3 sums over users k = 1..n, and so does eq. (A.1). Lemma 2 needs
    the sum over the job's own resources k = 1..m, or its sub-budgets do not add up to its budget.

    Args:
        auction: the auction.
        tolerance: on the largest change of any sub-budget in a round, relative to its budget, and
            on the largest possible gain.
        max_iterations: rounds after which to give up; the result then says so.
        start: shape (n, m), sub-budgets to start from, in any unit: those of the last auction
            when a job came or went. Even ones if not given.

    Returns:
        Sub-budgets and shares, with a proof of what any job could still gain.
    """
    wanted = auction.weights > 0
    bidders = contenders(wanted)
    weights = auction.weights if bidders is wanted else read_only(auction.weights * bidders)
    sub_budgets = first_sub_budgets(auction.budgets, bidders, start)
    powers = np.sqrt(sub_budgets) if auction.alpha == 0.5 else sub_budgets**auction.alpha
    powers[~bidders] = 0
    gains = np.full(len(weights), np.inf)
    change, least, step, done = np.inf, np.inf, 1.0, 0
    while done < max_iterations and (change > tolerance or gains.max(initial=0.0) > tolerance):
        change = sweep(
            weights,
            auction.logarithmic,
            auction.budgets,
            auction.alpha,
            sub_budgets,
            powers,
            step,
        )
        done += 1
        if done % PATIENCE == 0:
            step, least = (step, change) if change < least else (step / 2, least)
        if change <= tolerance or done == max_iterations:
            gains = possible_gains(weights, auction.logarithmic, auction.alpha, sub_budgets, powers)
    shares = divide(powers, wanted)
    utilities = auction.utilities(shares)
    return Outcome(sub_budgets, shares, utilities, done, change, gains, tolerance)


def contenders(wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return who bids where: those who want a resource that others want too."""
    if len(wanted) > 1 and wanted.all():
        return wanted
    return np.asarray(wanted & (wanted.sum(axis=0) > 1))


def first_sub_budgets(
    budgets: Floats, bidders: NDArray[np.bool_], start: ArrayLike | None
) -> Floats:
    """Return budgets divided evenly, or as in ``start``, among the resources bid on."""
    parts = bidders * 1.0
    if start is not None:
        given = numbers("start", start, bidders.shape, AuctionError)
        refuse("start", given, given < 0, "is negative", AuctionError)
        least = LEAST_START * (given * bidders).sum(axis=1, keepdims=True)
        parts *= np.where(least > 0, np.maximum(given, least), 1.0)
    sums = np.einsum("ij->i", parts)
    parts *= np.divide(budgets, sums, out=np.zeros(len(sums)), where=sums > 0)[:, None]
    return np.asarray(parts)


def divide(powers: Floats, wanted: NDArray[np.bool_]) -> Floats:
    """Return shares in proportion to ``powers`` (eq. 1), all to who wants a resource alone."""
    totals = column_sums(powers)
    if (totals > 0).all():
        return np.asarray(powers / totals)
    alone = wanted & (wanted.sum(axis=0) == 1)
    return np.asarray(np.where(alone, 1.0, powers / np.where(totals > 0, totals, 1.0)))


def checked_budgets(budgets: ArrayLike) -> Floats:
    """Return budgets that are known to be positive.

    Raises:
        AuctionError: one is not.
    """
    money = numbers("budgets", budgets, (None,), AuctionError)
    refuse("budgets", money, ~(money > 0), "is not positive", AuctionError)
    return money


def checked_alpha(alpha: float) -> float:
    """Return an alpha that is known to be from 0 to 1.

    Raises:
        AuctionError: it is not.
    """
    if not 0 <= alpha <= 1:
        raise AuctionError(f"alpha = {alpha} is outside 0..1: utility is not concave there")
    return float(alpha)
