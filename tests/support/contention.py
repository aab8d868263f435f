"""Penalties of colocation that replace those of the Cooper paper, which are not public.

The paper prints only the bandwidths of Table I. Each function draws the disutilities of n agents
beside each other, shape (n, n), by one model of contention:

- *additive*: a level of the agent plus the pressure of its co-runner, which all feel alike;
- *product*: the sensitivity of the agent times the pressure of its co-runner, the usual first model
  of contention, as in Bubble-Up; *noisy* is the same with variance between runs;
- *two resources*: the sum of such products for bandwidth and for cache;
- *cache*: footprints that fit together cost little, others their excess times the sensitivity;
- *saturating*: bandwidths of Table I, with stalls that set in as a processor's bandwidth saturates,
  and a sensitivity that grows with an agent's own demand;
- *opposed*, which is no model of contention: a third of the agents prefer the co-runners that the
  others avoid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras_studies.cooper.worlds import BANDWIDTH, JOBS

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def additive(draw: Generator, n: int) -> Floats:
    """Draw a level of each agent plus a pressure of each co-runner."""
    return draw.uniform(0, 0.3, (n, 1)) + draw.uniform(0, 0.4, n)


def product(draw: Generator, n: int) -> Floats:
    """Draw a sensitivity of each agent times a pressure of each co-runner."""
    return np.outer(draw.uniform(0.1, 1, n), draw.uniform(0.02, 0.5, n))


def noisy(draw: Generator, n: int) -> Floats:
    """Draw products with noise for the variance between runs."""
    return product(draw, n) + draw.normal(0, 0.03, (n, n))


def two_resources(draw: Generator, n: int) -> Floats:
    """Draw sums of two products, with little noise."""
    both = draw.uniform(0, 0.6, (n, 2)) @ draw.uniform(0, 0.5, (2, n))
    return np.asarray(both + draw.normal(0, 0.01, (n, n)))


def cache(draw: Generator, n: int) -> Floats:
    """Draw losses by the part of two footprints that does not fit, with little noise."""
    footprint, sensitive = draw.uniform(0.05, 1, n), draw.uniform(0.1, 0.6, n)
    together = footprint[:, None] + footprint
    excess = np.maximum(0, together - 0.8) / together
    loss = sensitive[:, None] * (1.5 * excess + 0.2 * footprint)
    return np.asarray(loss + draw.normal(0, 0.01, (n, n)))


def saturating(draw: Generator, n: int) -> Floats:
    """Draw stalls as the bandwidth of both together saturates; 20 agents have Table I's jobs."""
    demand = BANDWIDTH if n == JOBS else draw.choice(BANDWIDTH, n)
    sensitive = (0.05 + 0.95 * demand / (demand + 6)) * draw.uniform(0.6, 1.4, n)
    saturated = 1 / (1 + np.exp((30 - demand[:, None] - demand) / 5))
    loss = sensitive[:, None] * (0.25 * saturated + 0.004 * demand)
    return np.asarray(loss + draw.normal(0, 0.008, (n, n)))


def opposed(draw: Generator, n: int) -> Floats:
    """Draw one preference, of which a third of the agents have the opposite."""
    taste = np.where(np.arange(n) % 3 == 0, -1.0, 1.0)
    loss = 0.4 + np.outer(taste, draw.uniform(-0.3, 0.3, n))
    return np.asarray(loss + draw.normal(0, 0.02, (n, n)))


def sample(draw: Generator, truth: Floats, density: float) -> Floats:
    """Return a random part of the entries, at least one of them; the others are NaN."""
    kept = draw.permutation(truth.size)[: max(1, round(density * truth.size))]
    measured = np.full(truth.size, np.nan)
    measured[kept] = truth.ravel()[kept]
    return measured.reshape(truth.shape)


def column_means(measured: Floats) -> Floats:
    """Replace each NaN by the mean of its column, or of all entries if the column has none."""
    known = ~np.isnan(measured)
    count = known.sum(axis=0)
    total = np.where(known, measured, 0).sum(axis=0)
    mean = np.where(count, total / np.maximum(count, 1), np.nanmean(measured))
    return np.where(known, measured, mean)
