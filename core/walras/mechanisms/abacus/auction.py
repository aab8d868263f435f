"""The Abacus auction: from jobs' budgets and utilities to shares of every resource.

Kernels let jobs divide their budgets among the resources in turn. A job's sub-budgets b_j are best
(Lemma 2) where its margins v_j / b_j are equal, with v_j = (du/ds_j) s_j (1 - s_j). Algorithm 2
moves them to b'_j ~ v_j. Near the best ones, the logarithm of a margin falls with that of b at the
rate k = 1 - alpha + 2 alpha s for linear utilities and 1 + alpha s for logarithmic ones, so that
Algorithm 2 leaves the part |1 - k| of an error, while with r_j = v_j / (b_j m),
m = sum_j v_j / sum_j b_j the mean margin,

    b'_j ~ b_j r_j**(1 / k_j)

leaves its square where the k_j are alike, as for jobs with small shares: Newton's method on
logarithms. For k of at least 1/2, r**(1 / k) is replaced by r (r + c) / (c r + 1), c = 2 k - 1,
which agrees with it to the third order around 1, has no poles, and costs neither a logarithm nor
another division. Linear utilities at alpha = 1, where k vanishes with s and sub-budgets
of 0 can be best, are those of the proportional-share market.

Jobs with limits on their shares take other turns: see `walras.mechanisms.abacus._limited`. Those of
all others are here, beside the derivation above, which no other module needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.abacus._limited import (
    limited_gains,
    limited_sweep,
    shares_within_limits,
    trim,
)
from walras.mechanisms.abacus._turns import LARGEST_POWER, LEAST_BID, column_sums, others_total
from walras.mechanisms.price_anticipating._response import respond
from walras.numerics.checks import (
    check_finite,
    check_kind,
    check_positive,
    check_whole,
    is_number,
    numbers,
    refuse,
    refuse_zero_rows,
)
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Bools, Floats, FloatTable

LEAST_START = 1e-6
"""Smallest initial sub-budget on a contested resource, as a part of the budget."""

PATIENCE = 20
"""Rounds without smaller moves after which jobs are taken to cycle, and move half as far.

Only at alpha above 0.5: below, moves become smaller (Theorem 1), if slowly where the limits of two
jobs add up to just more than a resource."""


ENOUGH = 1e-9
"""Share by which limits may add up to more than a resource while it counts as enough for all."""

LARGEST_FACTOR = 1e18
"""Largest growth of a sub-budget in a turn: from the smallest bid to the whole budget."""


class AuctionError(ValueError):
    """Invalid numbers of an auction; the message names the array, the entry and what is needed."""


@dataclass(frozen=True)
class Auction:
    """Jobs that want shares of resources, and the exponent of their bids.

    A job's utility is sum_j w_j s_j, for resources that can substitute each other, or
    sum_j w_j log s_j, for jobs that need some of every resource with a weight (section 3). Shares
    above a job's limit are worth no more than the limit, min(s_j, c_j), which is among the concave
    functions that the paper allows.

    Attributes:
        budgets: Budget of each job, positive, shape (n,).
        weights: Weight of each resource in each job's utility, not negative, shape (n, m); every
            job needs a positive one.
        logarithmic: Whether each job's utility is in the logarithms of its shares, shape (n,); one
            value applies to all jobs.
        alpha: Fairness exponent of bids (eq. 1): from 0, equal shares for all bidders, to 1, shares
            in proportion to sub-budgets.
        limits: Largest share of each resource that each job can use, from 0 to 1, shape (n, m); one
            number applies to all.

    Raises:
        AuctionError: An array has the wrong shape, or an entry is outside its range.
    """

    budgets: Floats
    weights: Floats
    logarithmic: Bools
    alpha: float
    limits: Floats

    def __init__(
        self,
        budgets: ArrayLike,
        weights: ArrayLike,
        *,
        logarithmic: ArrayLike = False,
        alpha: float = 0.5,
        limits: ArrayLike = 1.0,
    ) -> None:
        money = checked_budgets(budgets)
        weight_rows = check_finite("weights", weights, (len(money), None), AuctionError)
        refuse("weights", weight_rows, weight_rows < 0, "is negative", AuctionError)
        refuse_zero_rows(weight_rows, "job", AuctionError)
        forms = np.array(logarithmic)
        if forms.dtype != np.bool_ or forms.shape not in {(), money.shape}:
            raise AuctionError(f"logarithmic must be one truth value, or {len(money)}, one per job")
        if forms.shape == ():
            forms = np.full(len(money), forms)
        forms.flags.writeable = False
        object.__setattr__(self, "budgets", money)
        object.__setattr__(self, "weights", weight_rows)
        object.__setattr__(self, "logarithmic", forms)
        object.__setattr__(self, "alpha", checked_alpha(alpha))
        object.__setattr__(self, "limits", _checked_limits(limits, weight_rows.shape))

    @cached_property
    def limited(self) -> bool:
        """Whether any job cannot use all of some resource."""
        return bool((self.limits < 1).any())

    def utilities(self, shares: Floats) -> Floats:
        """Return each job's utility of ``shares``, shape (n,); -inf where a needed share is 0."""
        used = np.minimum(shares, self.limits) if self.limited else shares
        value = used
        if self.logarithmic.any():
            value = np.array(used)
            needed = self.logarithmic[:, None] & (self.weights > 0)
            with np.errstate(divide="ignore"):
                np.log(used, out=value, where=needed)
        return np.asarray(np.einsum("ij,ij->i", self.weights, value))


@dataclass(frozen=True)
class AuctionOutcome:
    """Sub-budgets and shares at the end of an auction.

    Attributes:
        sub_budgets: Spending of each job on each resource, shape (n, m). Each row adds up to the
            budget, except for jobs that get all they can use for less: what is enough for all who
            want it, or wanted by one job alone, is free.
        shares: Share of each job in each resource, shape (n, m); add up to 1, or to the limits of
            the jobs that want it if these are less.
        utilities: Utility of each job, shape (n,).
        iterations: Rounds in which every job had a turn.
        change: Largest change of any sub-budget in the last round, relative to its budget.
        gains: Proven bound on what each job could still gain by dividing its budget otherwise while
            the others do not, relative to sum_j (du/ds_j) s_j, shape (n,). For a linear utility,
            that is relative to the utility.
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
        """Largest of ``gains``: 0 at an equilibrium (Lemma 3)."""
        return float(self.gains.max(initial=0.0))


def run_auction(
    auction: Auction,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    start: ArrayLike | None = None,
) -> AuctionOutcome:
    """Let jobs divide their budgets in turn until no sub-budget moves (Algorithm 1).

    Round-robin over the jobs from even sub-budgets, as in the paper, but each turn goes most
    of the way to the job's best sub-budgets where Algorithm 2 goes part of it (see above); the
    fixed points are the same. The paper proves that Algorithm 2 converges for alpha <= 0.5.
    Where moves do not become smaller for 20 rounds at a larger one, jobs move half as far from then
    on.

    A job never bids more on a resource than what brings it to its limit there, and spends what this
    saves on other resources, or keeps it. So the others get what it cannot use, by their bids. Its
    utility min(s, c) of a share s stays concave in its sub-budgets, so that Lemmas 1 to 3 hold.

    The paper leaves three cases open. A resource of which there is enough for all who want it goes
    to them for free, up to their limits: to a job that alone wants it, all of it; one that no job
    wants goes to none. At alpha = 0, where a bid of 0 counts as much as any
    other, the jobs that want a resource share it equally, which is the limit of small alphas. And
    no bid sticks at 0: jobs always bid at least 1e-18 of their budget on what they want.

    **Erratum:** Algorithm 2, line 3 sums over users k = 1..n, and so does eq. (A.1). Lemma 2 needs
    the sum over the job's own resources k = 1..m, or its sub-budgets do not add up to its budget.

    Args:
        auction: Jobs, resources and exponent.
        tolerance: Largest change of any sub-budget in a round, relative to its budget, and largest
            possible gain.
        max_iterations: Rounds after which to give up; ``converged`` of the result is False then.
        start: Sub-budgets to start from, in any unit, shape (n, m), as those of the last auction
            when a job came or went; even ones if not given.

    Returns:
        Sub-budgets and shares, with proven bounds on what any job could still gain.

    Raises:
        TypeError: The auction is none.
        AuctionError: The sub-budgets to start from cannot be used, the tolerance is not positive
            and finite, or there is no round.
    """
    check_kind("auction", auction, Auction)
    check_positive("tolerance", tolerance, AuctionError)
    check_whole("max_iterations", max_iterations, 1, AuctionError)
    wanted = auction.weights > 0
    if auction.limited:
        wanted &= auction.limits > 0
    bidders = contested_bids(wanted, auction.limits if auction.limited else 1.0)
    weights = auction.weights if bidders.all() else read_only(auction.weights * bidders)
    sub_budgets = first_sub_budgets(auction.budgets, bidders, start)
    powers = np.sqrt(sub_budgets) if auction.alpha == 0.5 else sub_budgets**auction.alpha
    powers[~bidders] = 0
    turns = _limited_turns if auction.limited else _unlimited_turns
    gains = np.full(len(weights), np.inf)
    change, least, step, done = np.inf, np.inf, 1.0, 0
    while done < max_iterations and (change > tolerance or gains.max(initial=0.0) > tolerance):
        change, gains_now = turns(auction, weights, sub_budgets, powers, step)
        done += 1
        if auction.alpha > 0.5 and done % PATIENCE == 0:
            step, least = (step, change) if change < least else (step / 2, least)
        if change <= tolerance or done == max_iterations:
            gains = gains_now()
    if auction.limited:
        shares = np.where(bidders, 0.0, wanted * auction.limits)
        shares_within_limits(powers, auction.limits, shares)
    else:
        shares = divide_in_proportion(powers, wanted)
    utilities = auction.utilities(shares)
    return AuctionOutcome(sub_budgets, shares, utilities, done, change, gains, tolerance)


def _unlimited_turns(
    auction: Auction, weights: Floats, sub_budgets: Floats, powers: Floats, step: float
) -> tuple[float, Callable[[], Floats]]:
    """Let each job in turn move; return the largest change, and how to bound what is to gain."""
    log, alpha = auction.logarithmic, auction.alpha
    change = sweep(weights, log, auction.budgets, alpha, sub_budgets, powers, step)
    return change, lambda: possible_gains(weights, log, alpha, sub_budgets, powers)


def _limited_turns(
    auction: Auction, weights: Floats, sub_budgets: Floats, powers: Floats, step: float
) -> tuple[float, Callable[[], Floats]]:
    """Do the same where jobs have limits."""
    log, alpha, budgets, limits = (
        auction.logarithmic,
        auction.alpha,
        auction.budgets,
        auction.limits,
    )
    trim(alpha, limits, sub_budgets, powers)
    change = limited_sweep(weights, log, budgets, alpha, limits, sub_budgets, powers, step)
    return change, lambda: limited_gains(weights, log, budgets, alpha, limits, sub_budgets, powers)


def contested_bids(wanted: Bools, limits: ArrayLike = 1.0) -> Bools:
    """Return whether each job bids on each resource: not where there is enough for all.

    Args:
        wanted: Whether each job wants each resource, shape (n, m).
        limits: Largest share that it can use, shape (n, m) or one number.
    """
    return np.asarray(wanted & ((wanted * np.asarray(limits)).sum(axis=0) > 1 + ENOUGH))


def first_sub_budgets(budgets: Floats, bidders: Bools, start: ArrayLike | None) -> Floats:
    """Return budgets divided evenly, or as in ``start``, among contested resources."""
    parts = bidders * 1.0
    if start is not None:
        given = check_finite("start", start, bidders.shape, AuctionError)
        refuse("start", given, given < 0, "is negative", AuctionError)
        least = LEAST_START * (given * bidders).sum(axis=1, keepdims=True)
        parts *= np.where(least > 0, np.maximum(given, least), 1.0)
    sums = np.einsum("ij->i", parts)
    parts *= np.divide(budgets, sums, out=np.zeros(len(sums)), where=sums > 0)[:, None]
    return np.asarray(parts)


def divide_in_proportion(powers: Floats, wanted: Bools) -> Floats:
    """Return shares in proportion to ``powers`` (eq. 1), and 1 for a resource's only bidder."""
    totals = column_sums(powers)
    if (totals > 0).all():
        return np.asarray(powers / totals)
    alone = wanted & (wanted.sum(axis=0) == 1)
    return np.asarray(np.where(alone, 1.0, powers / np.where(totals > 0, totals, 1.0)))


def checked_budgets(budgets: ArrayLike) -> Floats:
    """Return budgets as an array of shape (n,), if all are positive.

    Raises:
        AuctionError: A budget is not positive.
    """
    money = check_finite("budgets", budgets, (None,), AuctionError)
    refuse("budgets", money, ~(money > 0), "is not positive", AuctionError)
    return money


def checked_alpha(alpha: float) -> float:
    """Return ``alpha`` if it is from 0 to 1.

    Raises:
        AuctionError: ``alpha`` is outside its range.
    """
    if not (is_number(alpha) and 0 <= alpha <= 1):
        raise AuctionError(f"alpha = {alpha!r} is outside 0..1: utility is not concave there")
    return float(alpha)


def _checked_limits(limits: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return limits as an array of this shape, if all are from 0 to 1."""
    given = numbers("limits", limits, AuctionError)
    if given.shape == () and given == 1:  # as in most auctions, so that it must cost nothing
        return np.broadcast_to(1.0, shape)
    every = np.full(shape, given) if given.shape == () else given
    checked = check_finite("limits", every, shape, AuctionError)
    refuse("limits", checked, (checked < 0) | (checked > 1), "is outside 0..1", AuctionError)
    return checked


@kernel
def sweep(  # noqa: C901 - one loop, since a call a job, for all its arrays, costs a third more
    weights: FloatTable,
    logarithmic: Bools,
    budgets: Floats,
    alpha: float,
    sub_budgets: FloatTable,
    powers: FloatTable,
    step: float,
) -> float:
    """Let each job in turn move its sub-budgets towards better ones.

    Args:
        weights: Weights of resources in each job's utility, shape (n, m); 0 where a job must not
            bid.
        logarithmic: Whether each job's utility is in the logarithms of shares, shape (n,).
        budgets: Budget of each job, shape (n,).
        alpha: Exponent of bids, from 0 to 1.
        sub_budgets: Sub-budgets, shape (n, m), 0 where a job does not bid; changed.
        powers: Sub-budgets to the power of alpha, shape (n, m), 0 where a job does not bid;
            changed.
        step: Part of the way to the better sub-budgets that jobs move.

    Returns:
        The largest change of a sub-budget that a job aimed at, relative to the job's budget.
    """
    jobs, resources = weights.shape
    totals = column_sums(powers)
    others = np.ones(resources)
    roots = np.empty(resources)
    aim = np.zeros(resources)
    slope = np.empty(resources)
    largest = 0.0
    for i in range(jobs):
        log = logarithmic[i]
        value = 0.0
        for j in range(resources):
            aim[j] = 0.0
            if weights[i, j] > 0.0:
                own = powers[i, j]
                other = totals[j] - own
                if other < own:
                    other = others_total(powers, i, j)
                part = 1.0 / (own + other)
                share = own * part
                k = 1.0 + alpha * share if log else 1.0 - alpha + 2.0 * alpha * share
                v = weights[i, j] * (other * part) * (1.0 if log else share)
                value += v
                others[j], slope[j], aim[j] = other, k, v
        if value == 0.0:
            continue
        mean = value / budgets[i]
        if alpha == 1.0 and not log:
            for j in range(resources):
                roots[j] = np.sqrt(weights[i, j])
            respond(roots, others, budgets[i], np.inf, aim)
        else:
            for j in range(resources):
                if weights[i, j] > 0.0:
                    aim[j] = newton_step(aim[j], sub_budgets[i, j] * mean, slope[j])
        spent = 0.0
        for j in range(resources):
            spent += aim[j]
        scale = budgets[i] / spent
        for j in range(resources):
            if weights[i, j] > 0.0:
                best = max(aim[j] * scale, LEAST_BID * budgets[i])
                largest = max(largest, abs(best - sub_budgets[i, j]) / budgets[i])
                b = (1.0 - step) * sub_budgets[i, j] + step * best
                sub_budgets[i, j] = b
                powers[i, j] = np.sqrt(b) if alpha == 0.5 else b**alpha
                totals[j] = others[j] + powers[i, j]
    return largest


@kernel
def newton_step(v: float, now: float, k: float) -> float:
    """Return now (v / now)**(1 / k), or an approximation that is as good near v = now."""
    c = 2.0 * k - 1.0
    if c >= 0.0:
        return v * (v + c * now) / (c * v + now)
    growth: float = (v / now) ** min(1.0 / k, LARGEST_POWER)
    return now * min(growth, LARGEST_FACTOR)


@kernel
def possible_gains(
    weights: FloatTable,
    logarithmic: Bools,
    alpha: float,
    sub_budgets: FloatTable,
    powers: FloatTable,
) -> Floats:
    """Return bounds on each job's gain by other sub-budgets, relative to sum_j (du/ds_j) s_j.

    Utility is concave in the sub-budgets (Lemma 1), so that no others add more to it than
    alpha (budget x largest margin - sum_j v_j).
    """
    jobs, resources = weights.shape
    totals = column_sums(powers)
    gains = np.zeros(jobs)
    for i in range(jobs):
        gradient_sum, value, spent, best = 0.0, 0.0, 0.0, 0.0
        for j in range(resources):
            if weights[i, j] > 0.0:
                others = totals[j] - powers[i, j]
                if others < powers[i, j]:
                    others = others_total(powers, i, j)
                part = 1.0 / (powers[i, j] + others)
                gradient = weights[i, j] * (1.0 if logarithmic[i] else powers[i, j] * part)
                gradient_sum += gradient
                value += gradient * (others * part)
                spent += sub_budgets[i, j]
                best = max(best, gradient * (others * part) / sub_budgets[i, j])
        if gradient_sum > 0.0:
            gains[i] = alpha * max(0.0, spent * best - value) / gradient_sum
    return gains
