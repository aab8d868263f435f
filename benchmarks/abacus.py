"""Compare the Abacus auction with the paper's Algorithm 2, in Python.

Both go from arrays to shares, for populations as in section 7.1.1: 4 resources, budgets
U[50, 200], weights U[.5, 2]. Both stop when no sub-budget moves by more than a tolerance, relative
to its budget. A small step is not a small error: at alpha 0.9, each step of Algorithm 2 leaves nine
tenths of the error. For linear utilities, its tolerance is therefore finer, for shares as exact as
ours. The peer is the bare loop; ours also checks its input and proves that no job can gain more
than the tolerance.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness import Case, one_thread, run

one_thread()  # before NumPy is imported

import numpy as np  # noqa: E402
from scipy.optimize import nnls  # noqa: E402

from walras.mechanisms.abacus.auction import Auction, AuctionOutcome, run_auction  # noqa: E402
from walras.mechanisms.abacus.estimation import fit_non_negative  # noqa: E402
from walras_studies.abacus.pool_auction import run_pool_auction  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TOLERANCE = 1e-3

FINER_STEPS = {0.5: 10, 0.9: 150}
"""Divisors of the tolerance, by alpha, that make the peer's shares as exact as ours."""


def power(bid: float, alpha: float) -> float:
    """Return a bid's weight in eq. 1."""
    return float(np.sqrt(bid)) if alpha == 0.5 else bid**alpha


def algorithm_2(
    budgets: Floats, weights: Floats, alpha: float, tolerance: float, *, logarithmic: bool
) -> Floats:
    """Return shares by Algorithms 1 and 2, with the corrected sum and running column sums."""
    jobs, resources = weights.shape
    bids = np.empty((jobs, resources))
    powers = np.empty((jobs, resources))
    for i in range(jobs):
        bids[i] = budgets[i] / resources
        powers[i] = power(bids[i, 0], alpha)
    values = np.empty(resources)
    totals = np.zeros(resources)
    for _ in range(1000):
        for j in range(resources):
            totals[j] = powers[:, j].sum()
        largest = 0.0
        for i in range(jobs):
            total = 0.0
            for j in range(resources):
                share = powers[i, j] / totals[j]
                values[j] = weights[i, j] * (1.0 - share) * (1.0 if logarithmic else share)
                total += values[j]
            for j in range(resources):
                bid = budgets[i] * values[j] / total
                largest = max(largest, abs(bid - bids[i, j]) / budgets[i])
                bids[i, j] = bid
                totals[j] -= powers[i, j]
                powers[i, j] = power(bid, alpha)
                totals[j] += powers[i, j]
        if largest <= tolerance:
            break
    return powers / totals


def auction(
    budgets: Floats, weights: Floats, alpha: float, tolerance: float, *, logarithmic: bool
) -> AuctionOutcome:
    """Solve an auction that is given as arrays, input checks included."""
    given = Auction(budgets, weights, logarithmic=logarithmic, alpha=alpha)
    result = run_auction(given, tolerance=tolerance)
    if not result.converged:
        raise RuntimeError(f"change {result.change}, gain {result.gain}")
    return result


def cases() -> Iterator[Case]:
    """Yield all cases."""
    sizes = (
        (32, 0.5, 1e-3, 0.1),
        (128, 0.5, 1e-3, 0.1),
        (128, 0.5, 1e-9, 0.5),
        (128, 0.9, 1e-3, 1.0),
        (100_000, 0.5, 1e-3, 50.0),
    )
    for jobs, alpha, tolerance, target in sizes:
        random = np.random.default_rng(jobs)
        market = random.uniform(50, 200, jobs), random.uniform(0.5, 2, (jobs, 4)), alpha
        for logarithmic in (False, True):
            utility, finer = ("log", 1) if logarithmic else ("linear", FINER_STEPS[alpha])
            name = f"{jobs:,} {utility}, alpha {alpha:g}, to {tolerance:g}"
            ours = partial(auction, *market, tolerance, logarithmic=logarithmic)
            if jobs > 128:
                yield Case(name, target, ours)
                continue
            peer = partial(algorithm_2, *market, tolerance / finer, logarithmic=logarithmic)
            yield Case(name, target, ours, "Algorithm 2, Python", peer)
    random = np.random.default_rng(5)
    many = Auction(random.uniform(50, 200, 200), random.uniform(0.5, 2, (200, 4)))
    yield Case(
        "200 jobs x 4 with minima, linear",
        50,
        partial(run_pool_auction, many, np.full(200, 0.02), tolerance=TOLERANCE),
    )
    shares = random.random((50, 4))
    measured = shares @ [1, 2, 0, 3] + 0.1 * random.standard_normal(50)
    yield Case(
        "weights of a utility from 50 runs",
        1,
        partial(fit_non_negative, shares, measured),
        "scipy nnls",
        partial(nnls, shares, measured),
        warm_peer=True,
    )


if __name__ == "__main__":
    run("Abacus: auctions", cases())
