"""Metrics of an allocation of cores to jobs, as the paper defines them (VI, Metrics).

The paper's speedups are Amdahl's for any number of cores, those in hardware below one core the part
of it that a job has (`walras.speedup.amdahls_law`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.numerics.arrays import Floats


def speedups(market: AmdahlMarket, cores: ArrayLike) -> Floats:
    """Return each job's speedup s(x) = x / (f + (1 - f) x) (eq. 1), shape (k,); 0 without cores.

    At f = 0 the speedup is 1 on any part of a core, however small.
    """
    x = np.asarray(cores, np.float64)
    f = market.fraction
    return np.divide(x, f + (1 - f) * x, out=np.zeros(market.jobs), where=x > 0)


def speedups_in_hardware(market: AmdahlMarket, cores: Floats) -> Floats:
    """Return each job's speedup in hardware, shape (k,): below one core, the part of it."""
    return np.where(cores >= 1, speedups(market, cores), cores)


def worth_of_jobs(market: AmdahlMarket) -> Floats:
    """Return the utility that each job's user gains per unit of its speedup, shape (k,)."""
    return np.asarray(market.work / market.sum_by_user(market.work)[market.user], np.float64)


def utilities_in_hardware(market: AmdahlMarket, cores: Floats) -> Floats:
    """Return each user's utility by speedups in hardware, shape (n,); 0 without jobs (eq. 4)."""
    return market.sum_by_user(worth_of_jobs(market) * speedups_in_hardware(market, cores))


def job_progress(market: AmdahlMarket, cores: ArrayLike) -> Floats:
    """Return the work that each job does per unit time, w s(x), shape (k,)."""
    return market.work * speedups(market, cores)


def user_progress(market: AmdahlMarket, cores: ArrayLike) -> Floats:
    """Return each user's utility (eq. 4), shape (n,): work done over work done at one core each.

    A user without jobs has utility 0.
    """
    done = market.sum_by_user(job_progress(market, cores))
    base = market.sum_by_user(market.work)
    return np.divide(done, base, out=np.zeros(len(base)), where=base > 0)


def system_progress(market: AmdahlMarket, cores: ArrayLike) -> float:
    """Return the budget-weighted mean of user progress (eq. 10)."""
    progress = user_progress(market, cores)
    return float(market.budgets @ progress / market.budgets.sum())


def bare_entitlement(market: AmdahlMarket) -> Floats:
    """Return each job's cores by entitlements alone, without trade, shape (k,) (V-C).

    A user is entitled to the share b / B of every server, used or not; its jobs on one server
    divide that share equally.
    """
    _, pair, together = np.unique(market.pair, return_inverse=True, return_counts=True)
    share = market.budgets[market.user] / market.budgets.sum()
    cores: Floats = share * market.capacities[market.server] / together[pair]
    return cores
