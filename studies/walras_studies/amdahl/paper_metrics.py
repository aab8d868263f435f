"""Errors of an allocation of cores, as the Amdahl paper defines them (VI-D and VI-E)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.numerics.arrays import Floats


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
