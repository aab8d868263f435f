"""Metrics of an allocation of cores to jobs, as the paper defines them (VI, Metrics)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from walras.amdahl.market import AmdahlMarket

    Floats = NDArray[np.float64]


def speedups(market: AmdahlMarket, cores: ArrayLike) -> Floats:
    """Return each job's speedup s(x) = x / (f + (1 - f) x) (eq. 1), shape (k,); 0 without cores.

    At f = 0 the speedup is 1 on any part of a core, however small.
    """
    x = np.asarray(cores, np.float64)
    f = market.fraction
    return np.divide(x, f + (1 - f) * x, out=np.zeros(market.jobs), where=x > 0)


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
    key = market.user * len(market.capacities) + market.server
    _, pair, together = np.unique(key, return_inverse=True, return_counts=True)
    share = market.budgets[market.user] / market.budgets.sum()
    cores: Floats = share * market.capacities[market.server] / together[pair]
    return cores


def entitled_cores(market: AmdahlMarket) -> Floats:
    """Return the cores across the cluster that each user's entitlement is worth, shape (n,)."""
    cores: Floats = market.budgets / market.budgets.sum() * market.capacities.sum()
    return cores


def entitlement_error(market: AmdahlMarket, cores: ArrayLike) -> float:
    """Return the mean absolute percentage error of users' cores against entitled ones (VI-D).

    A fraction: 0.1 is ten percent.
    """
    held = market.sum_by_user(np.asarray(cores, np.float64))
    entitled = entitled_cores(market)
    return float(np.mean(np.abs(held - entitled) / entitled))


def mean_absolute_error(cores: ArrayLike, reference: ArrayLike) -> float:
    """Return the mean over jobs of |cores - reference|, in cores (VI-E)."""
    difference = np.asarray(cores, np.float64) - np.asarray(reference, np.float64)
    return float(np.mean(np.abs(difference))) if difference.size else 0.0
