"""Prediction of all disutilities from a few that are measured (Cooper, section IV-A).

The paper fills the matrix by collaborative filtering, which the studies keep for comparison. On
sparse matrices that is worse than the plain mean of each column. The model here, without free
parameters or random numbers, is that of contention itself: co-runner y exerts a pressure p_y, to
which agent x is sensitive by s_x, from a level a_x of its own,

    loss[x, y] = a_x + s_x p_y + (two more such products) + noise.

Every unknown has a normal prior: s_x about 1 (all agents alike: the column means), the rest about
0. The priors' variances are learned with the unknowns by variational Bayes (Lim and Teh, KDD Cup
2007): given the other side's means and covariances, each vector's posterior is a small ridge
regression. Products that the data do not support shrink to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.numerics.kernel import kernel
from walras.numerics.segments import group

if TYPE_CHECKING:
    from walras.numerics.arrays import Floats, FloatTable, Indices, Integers


MAX_PASSES = 60

TOLERANCE = 1e-3

# Priors, where measurements have mean 0 and variance 1. An agent is (a, s, s', s''), a co-runner
# (1, p, p', p''), whose first entry is known. The variance of s' and s'' sets their unit, and is
# not learned.
AGENT_MEAN = np.array([0.0, 1.0, 0.0, 0.0])

AGENT_VARIANCE = np.array([0.3, 0.15, 1.0, 1.0])

CORUNNER_MEAN = np.array([1.0, 0.0, 0.0, 0.0])

CORUNNER_VARIANCE = np.array([1e-24, 0.5, 0.03, 0.03])

PRIOR_NOISE = 0.1

PRIOR_WEIGHT = 10.0
"""Number of measurements, agents or co-runners that the priors weigh as much as."""

WIDTH = 4

DIAGONAL = (np.arange(WIDTH), np.arange(WIDTH))

HALF = np.triu_indices(WIDTH)

MOMENTS = WIDTH * (WIDTH + 1) // 2
"""Entries of a symmetric matrix's upper half; ``WHOLE`` has the index of each entry in it."""

WHOLE = np.empty((WIDTH, WIDTH), np.intp)

WHOLE[HALF] = WHOLE.T[HALF] = np.arange(MOMENTS)


class Posterior(NamedTuple):
    """Means of one side's vectors, shape (WIDTH, vectors), and of their products with themselves.

    The products have the shape (WIDTH, WIDTH, vectors).
    """

    mean: Floats
    second_moment: Floats


class PressureFit(NamedTuple):
    """Posteriors of (a, s, s', s'') of agents and of (1, p, p', p'') of co-runners.

    Attributes:
        noise: Variance that the products leave unexplained, its prior included.
        converged: Whether the noise changed by less than `TOLERANCE`, relatively, in the last pass.
    """

    agents: Posterior
    corunners: Posterior
    noise: float
    passes: int
    converged: bool


def fit_pressures(known: Integers, shape: tuple[int, ...], values: Floats) -> PressureFit:
    """Update each side's posterior by the other's, and their priors, until the noise settles.

    Args:
        known: Flat indices of the measured cells, ascending, shape (cells,).
        shape: Numbers of agents and of co-runners.
        values: Measured losses, scaled to mean 0 and variance 1, shape (cells,).
    """
    agents, corunners = _by_side(known, shape, values)
    agent_variance, corunner_variance = AGENT_VARIANCE.copy(), CORUNNER_VARIANCE.copy()
    noise = PRIOR_NOISE
    cells, squares = len(values), float((values**2).sum())
    agent_posterior = _initial_posterior(shape[0])
    passes, converged = 0, False
    while not converged and passes < MAX_PASSES:
        passes += 1
        corunner_posterior, _ = _update(
            corunners, agent_posterior, CORUNNER_MEAN, corunner_variance, noise
        )
        agent_posterior, error = _update(
            agents, corunner_posterior, AGENT_MEAN, agent_variance, noise
        )
        before = noise
        noise = (max(squares + error, 0.0) + PRIOR_WEIGHT * PRIOR_NOISE) / (cells + PRIOR_WEIGHT)
        converged = abs(noise - before) < TOLERANCE * before
        corunner_variance[1:] = _likeliest_variance(
            corunner_posterior, CORUNNER_MEAN, CORUNNER_VARIANCE
        )[1:]
        agent_variance[:2] = _likeliest_variance(agent_posterior, AGENT_MEAN, AGENT_VARIANCE)[:2]
    return PressureFit(agent_posterior, corunner_posterior, noise, passes, converged)


class _Side(NamedTuple):
    """Measurements grouped by agent or by co-runner.

    Attributes:
        start: First cell of each agent or co-runner, and the number of cells, shape (vectors + 1,).
        other: Co-runner or agent of each cell, whichever does not group it, shape (cells,).
        value: Measured loss of each cell, scaled, shape (cells,).
    """

    start: Integers
    other: Indices
    value: Floats


def _by_side(known: Integers, shape: tuple[int, ...], values: Floats) -> tuple[_Side, _Side]:
    """Return the measurements, whose flat indices are ascending, by agent and by co-runner."""
    agents, corunners = shape
    start = np.searchsorted(known, corunners * np.arange(agents + 1)).astype(np.int64)
    agent = np.repeat(np.arange(agents), np.diff(start))
    corunner = known - corunners * agent
    cells = group(corunner, corunners)
    return (
        _Side(start, corunner.astype(np.uint32), values),
        _Side(cells.start, agent[cells.order].astype(np.uint32), values[cells.order]),
    )


def _initial_posterior(agents: int) -> Posterior:
    """Return a start with agents alike, but different further products, so that these can grow.

    Weyl's sequences have no pattern, and are the same in every run.
    """
    mean = np.repeat(AGENT_MEAN[:, None], agents, axis=1)
    mean[2:] = 2 * (np.arange(1, agents + 1) * np.sqrt([[2.0], [3.0]]) % 1) - 1
    return Posterior(mean, mean[:, None] * mean)


def _update(
    side: _Side, other: Posterior, prior: Floats, variance: Floats, noise: float
) -> tuple[Posterior, float]:
    """Return one side's posterior given the other's, and the expected square error - value**2."""
    table = np.concatenate([other.second_moment[HALF], other.mean]).T
    sums = _sum_by_vector(*side, np.ascontiguousarray(table)).T
    weighted_moment, weighted_mean = sums[WHOLE], sums[MOMENTS:]
    precision = weighted_moment / noise
    precision[DIAGONAL] += 1 / variance[:, None]
    covariance = _inverses(precision)
    mean = (covariance * (weighted_mean / noise + (prior / variance)[:, None])).sum(axis=1)
    second_moment = covariance + mean[:, None] * mean
    return Posterior(mean, second_moment), float(
        (second_moment * weighted_moment).sum() - 2 * (mean * weighted_mean).sum()
    )


def _likeliest_variance(side: Posterior, centre: Floats, prior: Floats) -> Floats:
    """Return the most likely variances of a side's unknowns about their centre, shape (WIDTH,)."""
    squares = side.second_moment[DIAGONAL].sum(axis=1) - 2 * side.mean.sum(axis=1) * centre
    vectors = side.mean.shape[1]
    return np.asarray(
        (squares + vectors * centre**2 + PRIOR_WEIGHT * prior) / (vectors + PRIOR_WEIGHT)
    )


def _inverses(matrices: Floats) -> Floats:
    """Return inverses of positive definite matrices, shape (WIDTH, WIDTH, any), by Gauss-Jordan."""
    inverse = matrices.copy()
    for k in range(len(inverse)):
        pivot = 1 / inverse[k, k]
        inverse[k, k] = 1.0
        inverse[k] *= pivot
        for i in range(len(inverse)):
            if i != k:
                factor = inverse[i, k].copy()
                inverse[i, k] = 0.0
                inverse[i] -= factor * inverse[k]
    return inverse


@kernel
def _sum_by_vector(start: Integers, other: Indices, value: Floats, table: FloatTable) -> FloatTable:
    """Sum the rows of ``table`` that each vector meets, the last WIDTH entries times the values."""
    sums = np.zeros((len(start) - 1, MOMENTS + WIDTH))
    for v in range(len(sums)):
        for cell in range(start[v], start[v + 1]):
            row, times = other[cell], value[cell]
            for i in range(MOMENTS):
                sums[v, i] += table[row, i]
            for i in range(MOMENTS, MOMENTS + WIDTH):
                sums[v, i] += times * table[row, i]
    return sums
