"""The auction for utilities that are known as functions: any sums of concave ones (section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from walras.abacus.auction import (
    PATIENCE,
    AuctionError,
    Outcome,
    checked_alpha,
    checked_budgets,
    contenders,
    divide,
    first_sub_budgets,
)
from walras.price_anticipating._checks import refuse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

SMALL_SHARE = 1e-9
"""A job whose marginal utility is 0 even here does not want the resource."""


class Utilities(Protocol):
    """What jobs think of shares: for each a sum of non-decreasing concave functions of them."""

    def value(self, job: int, shares: Floats) -> float:
        """Return the utility of a job's shares, shape (m,)."""

    def marginal(self, job: int, shares: Floats) -> Floats:
        """Return its derivative by each share, shape (m,), not negative; shares are positive."""


def run_concave_auction(
    budgets: ArrayLike,
    resources: int,
    utilities: Utilities,
    *,
    alpha: float = 0.5,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
) -> Outcome:
    """Run Algorithms 1 and 2 as they are printed, but for the erratum (see `run_auction`).

    Where moves do not become smaller for 20 rounds, jobs go half as far at a turn from then on.

    Args:
        budgets: shape (n,), positive.
        resources: how many there are (m).
        utilities: of the jobs.
        alpha: from 0 to 1.
        tolerance: on the largest change of any sub-budget in a round, relative to its budget, and
            on the largest possible gain.
        max_iterations: rounds after which to give up; the result then says so.

    Raises:
        AuctionError: a budget, alpha or a marginal utility is outside its range.
    """
    money = checked_budgets(budgets)
    alpha = checked_alpha(alpha)
    hopes = np.full(resources, SMALL_SHARE)
    wanted = np.array([_marginal(utilities, job, hopes) > 0 for job in range(len(money))])
    wanted = wanted.reshape(len(money), resources)
    bidders = contenders(wanted)
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
    shares = divide(powers, wanted)
    values = np.array([utilities.value(job, row) for job, row in enumerate(shares)])
    return Outcome(sub_budgets, shares, values, done, change, gains, tolerance)


def optimize_job(
    job: int, budget: float, bids: NDArray[np.bool_], powers: Floats, utilities: Utilities
) -> Floats:
    """Algorithm 2: return a job's sub-budgets, shape (m,), in proportion to v_ij.

    v_ij = (du_i/ds_ij) s_ij (1 - s_ij), and the sum that it is divided by is over the job's own
    resources, not over users as printed.

    Args:
        job: the job.
        budget: its budget.
        bids: shape (m,), whether it bids on each resource.
        powers: shape (n, m), all sub-budgets to the power of alpha.
        utilities: of the jobs.
    """
    v = _values(job, bids, powers, utilities)[0]
    total = v.sum()
    return np.asarray(budget * (v / total if total > 0 else bids / bids.sum()))


def _values(
    job: int, bids: NDArray[np.bool_], powers: Floats, utilities: Utilities
) -> tuple[Floats, Floats]:
    """Return v_ij and (du_i/ds_ij) s_ij, each of shape (m,), 0 where the job does not bid."""
    others = np.delete(powers, job, axis=0).sum(axis=0)
    totals = np.where(bids, powers[job] + others, 1.0)
    shares = np.where(bids, powers[job] / totals, 1.0)
    worth = np.where(bids, _marginal(utilities, job, shares) * shares, 0.0)
    return worth * (others / totals), worth


def _possible_gains(
    sub_budgets: Floats,
    powers: Floats,
    bidders: NDArray[np.bool_],
    utilities: Utilities,
    alpha: float,
) -> Floats:
    gains = np.zeros(len(powers))
    for job in np.flatnonzero(bidders.any(axis=1)).tolist():
        v, worth = _values(job, bidders[job], powers, utilities)
        margins = np.divide(v, sub_budgets[job], out=np.zeros(len(v)), where=sub_budgets[job] > 0)
        most = sub_budgets[job].sum() * margins.max() - v.sum()
        gains[job] = alpha * max(0.0, most) / worth.sum() if worth.any() else 0.0
    return gains


def _marginal(utilities: Utilities, job: int, shares: Floats) -> Floats:
    marginal = np.asarray(utilities.marginal(job, shares), dtype=np.float64)
    if marginal.shape != shares.shape:
        raise AuctionError(
            f"marginal utility of job {job} has shape {marginal.shape}: {shares.shape} is needed"
        )
    name = f"marginal utility of job {job}"
    refuse(name, marginal, ~np.isfinite(marginal), "is not a finite number", AuctionError)
    refuse(name, marginal, marginal < 0, "is negative", AuctionError)
    return marginal
