"""Auctions of jobs that pay only if they get a minimum utility, their SLO (section 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.abacus.auction import (
    ENOUGH,
    Auction,
    AuctionError,
    AuctionOutcome,
    run_auction,
)
from walras.numerics.checks import check_finite, check_kind, check_positive, check_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Bools, Floats, Integers

SLACK = 1e-6
"""Tolerance of minimums, as a part of the sum of the job's weights: solvers are not exact."""


MAX_TRIALS = 200
"""Most auctions that are held to fill a pool; poorer jobs that were not tried then stay outside."""


@dataclass(frozen=True)
class PoolOutcome:
    """Jobs in the prolific pool, jobs on standby, and what they get and pay.

    Attributes:
        prolific: Whether each job is in the prolific pool, which gets its minimums, shape (n,).
        standby: Jobs outside the pool, in the random order in which they are offered leftovers.
        shares: Shares of each job, in the pool or of leftovers, shape (n, m).
        utilities: Utility of each job, shape (n,).
        charges: Payment of each job, shape (n,): its budget where its minimum is met, else 0.
        auction: Outcome of the auction in the pool, a row per prolific job in their order.
    """

    prolific: Bools
    standby: Integers
    shares: Floats
    utilities: Floats
    charges: Floats
    auction: AuctionOutcome


def run_pool_auction(
    auction: Auction,
    minima: ArrayLike,
    *,
    seed: int = 0,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
) -> PoolOutcome:
    """Fill the prolific pool greedily, auction all resources in it, and hand out what is left.

    From the largest budget down, a job joins the pool if the auction in it then still gives every
    member its minimum. Many are admitted at once where all of them fit, since a job that joins
    leaves the others no more than they had. What members cannot use or do not want of a resource
    goes to the rest in a random order, as much as each can use; the paper picks one at random
    whenever a unit is idle.

    **Errata.** Lemma 5 holds that a false budget never pays, but its proof leaves out that a lower
    one can bring a job into the pool, where a higher one would cost another member its minimum.
    Lemma 6 holds that a false minimum never pays, but a higher one keeps later jobs out of the
    pool, and so leaves its owner more. The tests show both.

    Args:
        auction: Jobs, resources and exponent.
        minima: Least utility that each job needs, in the units of its weights, shape (n,); below
            any possible utility for jobs without a minimum.
        seed: Seed of the random order.
        tolerance: Tolerance of each auction; see `run_auction`.
        max_iterations: Most rounds of each auction.

    Raises:
        TypeError: The auction is none.
        AuctionError: ``minima`` has the wrong shape, or an entry that is not finite; or another
            number is outside its range.
    """
    check_kind("auction", auction, Auction)
    check_whole("seed", seed, 0, AuctionError)
    check_positive("tolerance", tolerance, AuctionError)
    check_whole("max_iterations", max_iterations, 1, AuctionError)
    least = check_finite("minima", minima, auction.budgets.shape, AuctionError)
    least = least - SLACK * auction.weights.sum(axis=1)

    def admit(outcome: AuctionOutcome, jobs: list[int]) -> AuctionOutcome | None:
        """Return the auction of ``jobs``, members first; None if one misses its minimum."""
        start = np.zeros((len(jobs), auction.weights.shape[1]))
        start[: len(outcome.sub_budgets)] = outcome.sub_budgets
        subauction = _subauction(auction, jobs)
        result = run_auction(
            subauction, tolerance=tolerance, max_iterations=max_iterations, start=start
        )
        kept = (result.utilities >= least[jobs]).all()
        return result if result.converged and kept else None

    within_reach = auction.utilities(auction.limits) >= least
    richest_first = np.argsort(-auction.budgets, kind="stable").tolist()
    candidates = [job for job in richest_first if within_reach[job]]
    members, outcome = _in_job_order(
        *_fill_pool(candidates, run_auction(_subauction(auction, [])), admit)
    )
    shares = np.zeros(auction.weights.shape)
    shares[members] = outcome.shares
    prolific = np.zeros(len(least), np.bool_)
    prolific[members] = True
    standby = np.random.default_rng(seed).permutation(np.flatnonzero(~prolific))
    _hand_out_leftovers(auction, standby, shares)
    utilities = auction.utilities(shares)
    charges = np.where(utilities >= least, auction.budgets, 0.0)
    return PoolOutcome(prolific, standby, shares, utilities, charges, outcome)


def _fill_pool(
    candidates: list[int],
    outcome: AuctionOutcome,
    admit: Callable[[AuctionOutcome, list[int]], AuctionOutcome | None],
) -> tuple[list[int], AuctionOutcome]:
    """Admit candidates in their order, as many at once as fit; return members and their auction."""
    members: list[int] = []
    done, step, trials = 0, len(candidates), 0
    while done < len(candidates) and trials < MAX_TRIALS:
        trials += 1
        newcomers = candidates[done : done + step]
        result = admit(outcome, [*members, *newcomers])
        if result is not None:
            members, outcome = [*members, *newcomers], result
            done, step = done + len(newcomers), 2 * step
        elif len(newcomers) > 1:
            step = len(newcomers) // 2
        else:
            done += 1
    return members, outcome


def _in_job_order(members: list[int], outcome: AuctionOutcome) -> tuple[list[int], AuctionOutcome]:
    """Sort members, who are in the order of joining, and the rows of their outcome, by job."""
    rank = np.argsort(members)
    rows = {
        name: getattr(outcome, name)[rank]
        for name in ("sub_budgets", "shares", "utilities", "gains")
    }
    return sorted(members), replace(outcome, **rows)


def _subauction(auction: Auction, jobs: list[int]) -> Auction:
    """Return the auction of some of the ``jobs``."""
    return Auction(
        auction.budgets[jobs],
        auction.weights[jobs],
        logarithmic=auction.logarithmic[jobs],
        alpha=auction.alpha,
        limits=auction.limits[jobs],
    )


def _hand_out_leftovers(auction: Auction, standby: Integers, shares: Floats) -> None:
    """Give what is left of resources to the jobs on ``standby`` in turn, up to their limits."""
    left = 1 - shares.sum(axis=0)
    left[left < ENOUGH] = 0
    for job in standby.tolist():
        taken = np.where(auction.weights[job] > 0, np.minimum(auction.limits[job], left), 0.0)
        shares[job] += taken
        left -= taken
