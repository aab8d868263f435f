"""Auctions among jobs that pay only if they get a minimum of utility (section 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from walras.abacus.auction import Auction, AuctionError, Outcome, run_auction
from walras.price_anticipating._checks import numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

SLACK = 1e-6
"""Part of the sum of its weights by which a job may miss its minimum: solvers are not exact."""


MOST_TRIALS = 200
"""Auctions that are held to fill a pool; the poorest, who were not tried then, stay outside."""


@dataclass(frozen=True)
class PoolOutcome:
    """Who runs with a promise, who runs on what is left over, and who pays.

    Attributes:
        prolific: shape (n,), whether the job is in the pool of those whose minima are met.
        standby: the jobs outside the pool, in the random order in which they are offered leftovers.
        shares: shape (n, m), of pool and leftovers.
        utilities: shape (n,), of what is useful of the shares.
        charges: shape (n,), what jobs pay: the budget where the minimum is met, else nothing.
        auction: the outcome of the auction in the pool, a row for each prolific job in their order.
    """

    prolific: NDArray[np.bool_]
    standby: NDArray[np.int64]
    shares: Floats
    utilities: Floats
    charges: Floats
    auction: Outcome


def run_pool_auction(
    auction: Auction,
    minima: ArrayLike,
    *,
    useful: ArrayLike = 1.0,
    seed: int = 0,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
) -> PoolOutcome:
    """Fill the prolific pool greedily, auction all resources in it, and hand out what is left.

    From the largest budget down, a job joins the pool if the auction in it then still gives every
    member its minimum. Many are let in at once where all of them can be, since a job that joins
    leaves the others no more than they had. A resource that nobody in the pool wants goes to the
    first job that wants it in a random order of the rest; the paper picks one at random whenever a
    unit is idle.

    **Errata.** Lemma 5 holds that a false budget never pays, but its proof leaves out that a lower
    one can bring a job into the pool, where a higher one would cost another member its minimum.
    Lemma 6 holds that a false minimum never pays, but a higher one keeps later jobs out of the
    pool, and so leaves its owner more. The tests show both.

    Args:
        auction: the jobs.
        minima: shape (n,), the utility that each job must have, in the units of its weights; one
            below all others for jobs that have no minimum.
        useful: shape (n, m) or one number, the share of each resource beyond which more is of no
            use to a job, whatever it is given.
        seed: of the random order.
        tolerance: of each auction; see `run_auction`.
        max_iterations: of each auction.

    Raises:
        AuctionError: ``minima`` or ``useful`` has the wrong shape, or an entry that is not finite.
    """
    shape = auction.weights.shape
    least = numbers("minima", minima, auction.budgets.shape, AuctionError)
    least = least - SLACK * auction.weights.sum(axis=1)
    most = numbers("useful", np.full(shape, 1.0) * np.asarray(useful), shape, AuctionError)

    def enter(outcome: Outcome, jobs: list[int]) -> Outcome | None:
        """Let more jobs in; None where that breaks a promise. ``jobs`` begin with the members."""
        start = np.zeros((len(jobs), shape[1]))
        start[: len(outcome.sub_budgets)] = outcome.sub_budgets
        among = _among(auction, jobs)
        result = run_auction(among, tolerance=tolerance, max_iterations=max_iterations, start=start)
        got = among.utilities(np.minimum(result.shares, most[jobs]))
        return result if result.converged and (got >= least[jobs]).all() else None

    within_reach = auction.utilities(np.minimum(most, 1.0)) >= least
    candidates = [int(job) for job in _richest_first(auction) if within_reach[job]]
    members, outcome = _in_order(*_admit(candidates, run_auction(_among(auction, [])), enter))
    shares = np.zeros(auction.weights.shape)
    shares[members] = outcome.shares
    prolific = np.zeros(len(least), np.bool_)
    prolific[members] = True
    standby = np.random.default_rng(seed).permutation(np.flatnonzero(~prolific))
    _hand_out_leftovers(auction, standby, shares)
    utilities = auction.utilities(np.minimum(shares, most))
    charges = np.where(utilities >= least, auction.budgets, 0.0)
    return PoolOutcome(prolific, standby, shares, utilities, charges, outcome)


def _richest_first(auction: Auction) -> list[int]:
    order: list[int] = np.argsort(-auction.budgets, kind="stable").tolist()
    return order


def _admit(
    candidates: list[int],
    outcome: Outcome,
    enter: Callable[[Outcome, list[int]], Outcome | None],
) -> tuple[list[int], Outcome]:
    """Let candidates in, the first ones first: as many at once as can be, or one less than that."""
    members: list[int] = []
    done, step, trials = 0, len(candidates), 0
    while done < len(candidates) and trials < MOST_TRIALS:
        trials += 1
        more = candidates[done : done + step]
        result = enter(outcome, [*members, *more])
        if result is not None:
            members, outcome = [*members, *more], result
            done, step = done + len(more), 2 * step
        elif len(more) > 1:
            step = len(more) // 2
        else:
            done += 1
    return members, outcome


def _in_order(members: list[int], outcome: Outcome) -> tuple[list[int], Outcome]:
    """Sort members, who are in the order of joining, and the rows of their outcome."""
    rank = np.argsort(members)
    rows = {
        name: getattr(outcome, name)[rank]
        for name in ("sub_budgets", "shares", "utilities", "gains")
    }
    return sorted(members), replace(outcome, **rows)


def _among(auction: Auction, jobs: list[int]) -> Auction:
    return Auction(
        auction.budgets[jobs],
        auction.weights[jobs],
        logarithmic=auction.logarithmic[jobs],
        alpha=auction.alpha,
    )


def _hand_out_leftovers(auction: Auction, standby: NDArray[np.int64], shares: Floats) -> None:
    for resource in np.flatnonzero(shares.sum(axis=0) == 0):
        takers = standby[auction.weights[standby, resource] > 0]
        if len(takers):
            shares[takers[0], resource] = 1
