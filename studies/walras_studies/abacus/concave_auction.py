"""The auction for utilities given as functions: sums of concave functions of shares (section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from walras.mechanisms.abacus.auction import (
    PATIENCE,
    AuctionError,
    AuctionOutcome,
    checked_alpha,
    checked_budgets,
    contested_bids,
    divide_in_proportion,
    first_sub_budgets,
)
from walras.numerics.checks import refuse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Bools, Floats

SMALL_SHARE = 1e-9
"""Share at which a job's marginal utility is tested: if it is 0, the job does not want the
resource."""


class Utilities(Protocol):
    """Utilities of the jobs: sums of non-decreasing concave functions of each share."""

    def value(self, job: int, shares: Floats) -> float:
        """Return the utility of a job's ``shares``, shape (m,)."""

    def marginal(self, job: int, shares: Floats) -> Floats:
        """Return its derivatives by each share, not negative, shape (m,); shares are positive."""


def run_concave_auction(
    budgets: ArrayLike,
    resources: int,
    utilities: Utilities,
    *,
    alpha: float = 0.5,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
) -> AuctionOutcome:
    """Run Algorithms 1 and 2 as printed, but for the erratum (see `run_auction`).

    If moves of sub-budgets do not become smaller for 20 rounds, jobs move half as far from then on.

    Args:
        budgets: Budget of each job, positive, shape (n,).
        resources: Number of resources (m).
        utilities: Utilities of the jobs.
        alpha: Exponent of bids, from 0 to 1.
        tolerance: Largest change of any sub-budget in a round, relative to its budget, and largest
            possible gain.
        max_iterations: Rounds after which to give up; ``converged`` of the result is False then.

    Raises:
        AuctionError: A budget, alpha or a marginal utility is outside its range.
    """
    money = checked_budgets(budgets)
    alpha = checked_alpha(alpha)
    small_shares = np.full(resources, SMALL_SHARE)
    wanted = np.array([_marginal(utilities, job, small_shares) > 0 for job in range(len(money))])
    wanted = wanted.reshape(len(money), resources)
    bidders = contested_bids(wanted)
    sub_budgets = first_sub_budgets(money, bidders, None)
    powers = np.where(bidders, sub_budgets**alpha, 0.0)
    change, least, step, done = np.inf, np.inf, 1.0, 0
    gains = np.full(len(money), np.inf)
    while done < max_iterations and (change > tolerance or gains.max(initial=0.0) > tolerance):
        change = 0.0
        for job in np.flatnonzero(bidders.any(axis=1)).tolist():
            bids = bidders[job]
            aim = optimize_job(job, money[job], bids, powers, utilities)
            change = max(change, float(np.abs(aim - sub_budgets[job]).max()) / money[job])
            sub_budgets[job] += step * (aim - sub_budgets[job])
            powers[job, bids] = sub_budgets[job, bids] ** alpha
        done += 1
        if done % PATIENCE == 0:
            step, least = (step, change) if change < least else (step / 2, least)
        gains = _possible_gains(sub_budgets, powers, bidders, utilities, alpha)
    shares = divide_in_proportion(powers, wanted)
    values = np.array([utilities.value(job, row) for job, row in enumerate(shares)])
    return AuctionOutcome(sub_budgets, shares, values, done, change, gains, tolerance)


def optimize_job(
    job: int, budget: float, bids: Bools, powers: Floats, utilities: Utilities
) -> Floats:
    """Return a job's sub-budgets in proportion to v_ij, shape (m,) (Algorithm 2).

    v_ij = (du_i/ds_ij) s_ij (1 - s_ij), and the sum that it is divided by is over the job's own
    resources, not over users as printed.

    Args:
        job: Index of the job.
        budget: Budget of the job.
        bids: Whether it bids on each resource, shape (m,).
        powers: All sub-budgets to the power of alpha, shape (n, m).
        utilities: Utilities of the jobs.
    """
    v = _margins_and_slopes(job, bids, powers, utilities)[0]
    total = v.sum()
    return np.asarray(budget * (v / total if total > 0 else bids / bids.sum()))


def _margins_and_slopes(
    job: int, bids: Bools, powers: Floats, utilities: Utilities
) -> tuple[Floats, Floats]:
    """Return v_ij and (du_i/ds_ij) s_ij, each of shape (m,), 0 where the job does not bid."""
    others = np.delete(powers, job, axis=0).sum(axis=0)
    totals = np.where(bids, powers[job] + others, 1.0)
    shares = np.where(bids, powers[job] / totals, 1.0)
    slopes = np.where(bids, _marginal(utilities, job, shares) * shares, 0.0)
    return slopes * (others / totals), slopes


def _possible_gains(
    sub_budgets: Floats,
    powers: Floats,
    bidders: Bools,
    utilities: Utilities,
    alpha: float,
) -> Floats:
    """Return the bounds on gains, shape (n,), that `possible_gains` of the auction returns."""
    gains = np.zeros(len(powers))
    for job in np.flatnonzero(bidders.any(axis=1)).tolist():
        v, slopes = _margins_and_slopes(job, bidders[job], powers, utilities)
        margins = np.divide(v, sub_budgets[job], out=np.zeros(len(v)), where=sub_budgets[job] > 0)
        gain = sub_budgets[job].sum() * margins.max() - v.sum()
        gains[job] = alpha * max(0.0, gain) / slopes.sum() if slopes.any() else 0.0
    return gains


def _marginal(utilities: Utilities, job: int, shares: Floats) -> Floats:
    """Return a job's checked marginal utilities, shape (m,)."""
    marginal = np.asarray(utilities.marginal(job, shares), dtype=np.float64)
    if marginal.shape != shares.shape:
        raise AuctionError(
            f"marginal utility of job {job} has shape {marginal.shape}: {shares.shape} is needed"
        )
    name = f"marginal utility of job {job}"
    refuse(name, marginal, ~np.isfinite(marginal), "is not a finite number", AuctionError)
    refuse(name, marginal, marginal < 0, "is negative", AuctionError)
    return marginal
