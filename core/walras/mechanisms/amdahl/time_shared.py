"""The market of jobs that may hold less than a core, each sold in two pieces.

On part of a core a program runs for part of the time, so below one core its speedup is s(x) = x,
and from one core on Amdahl's law (eq. 1). That is concave: the first core gains 1, the cores after
it f and less. A job of parallel fraction f and work w is therefore worth as much as two jobs
together, its first core and its further cores, which gain

    w s(x) for x <= 1,   and beyond   w s(1 + y) - w = w' s'(y)
                         with         f' = 1 / (2 - f),   w' = w f / (2 - f),

where s' is again Amdahl's law. As the first core gains more than the others wherever they are
bought, no user buys the second piece before the first, and the market needs no other mathematics
than that of bounded jobs.

A straight piece would leave open who holds how much of it, as every division is as good. So the
first core is sold by Amdahl's law too, with a fraction of at least `FIRST_CORE`: half a core
counts as 0.505, which is the most that it is off, users with equal jobs hold equal parts, and what
is done by the hardware's speedup is at least `FIRST_CORE` of what the market takes it to be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.speedup.amdahls_law import FIRST_CORE

if TYPE_CHECKING:
    from walras.numerics.arrays import Floats, Integers


class Pieces(NamedTuple):
    """First and further cores of k jobs, as the jobs of a market with bounds.

    Attributes:
        market: Market whose jobs are the pieces: the first cores of all jobs, then further ones.
        further: Indices of the jobs that have further cores.
    """

    market: AmdahlMarket
    further: Integers

    def within(self, bound: Floats) -> Floats:
        """Return the part of each job's bound, shape (k,), that falls to its pieces."""
        further = np.maximum(bound[self.further] - 1.0, 0.0)
        return np.concatenate([np.minimum(bound, 1.0), further])

    def of_jobs(self, cores: Floats) -> Floats:
        """Return the sum over each job's pieces, shape (k,)."""
        jobs = len(cores) - len(self.further)
        total = cores[:jobs].copy()
        total[self.further] += cores[jobs:]
        return total


def pieces_of(market: AmdahlMarket, most: Floats) -> Pieces:
    """Return the pieces of jobs; jobs that can use at most one core have no further cores.

    Args:
        market: Users, servers and jobs.
        most: Most cores of each job, possibly infinite, shape (k,).
    """
    further = np.flatnonzero(most > 1.0)
    f, w = market.fraction[further], market.work[further]
    of_pieces = AmdahlMarket(
        market.budgets,
        market.capacities,
        np.concatenate([market.user, market.user[further]]),
        np.concatenate([market.server, market.server[further]]),
        np.concatenate([np.maximum(market.fraction, FIRST_CORE), 1.0 / (2.0 - f)]),
        np.concatenate([market.work, np.maximum(w * f / (2.0 - f), np.finfo(np.float64).tiny)]),
    )
    return Pieces(of_pieces, further)
