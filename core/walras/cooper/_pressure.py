"""Learns sensitivities and pressures from a few measured losses.

The model is that of contention itself: co-runner y exerts a pressure p_y, to which agent x is
sensitive by s_x, from a level a_x of its own,

    loss[x, y] = a_x + s_x p_y + (two more such products) + noise.

Every unknown has a normal prior: s_x about 1 (all agents alike: the column means), the rest about
0. The priors' variances are learned with the unknowns by variational Bayes, as Lim and Teh have it
(KDD Cup 2007): given the other side's means and covariances, each vector's posterior is a small
ridge regression. Products that the data do not bear out shrink to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._jit import kernel
from walras._segments import group

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MAX_PASSES = 60
TOLERANCE = 1e-3

# What is believed before anything is measured, where measurements have mean 0 and variance 1. An
# agent is (a, s, s', s''), a co-runner (1, p, p', p''): its first entry is known. The spread of s'
# and s'' is a unit of its own, and is not learned.
ALIKE = np.array([0.0, 1.0, 0.0, 0.0])
ALIKE_VARIANCE = np.array([0.3, 0.15, 1.0, 1.0])
HARMLESS = np.array([1.0, 0.0, 0.0, 0.0])
HARMLESS_VARIANCE = np.array([1e-24, 0.5, 0.03, 0.03])
NOISE = 0.1
BELIEF = 10.0
"""How many measurements, agents or co-runners these beliefs weigh as much as."""

WIDTH = len(ALIKE)
DIAGONAL = (np.arange(WIDTH), np.arange(WIDTH))
HALF = np.triu_indices(WIDTH)
MOMENTS = len(HALF[0])
"""How many numbers a symmetric matrix is: its upper half. ``WHOLE`` says where each entry is."""
WHOLE = np.empty((WIDTH, WIDTH), np.intp)
WHOLE[HALF] = WHOLE.T[HALF] = np.arange(MOMENTS)


class Belief(NamedTuple):
    """What is believed of the vectors of unknowns of one side.

    Attributes:
        mean: shape (WIDTH, vectors).
        second: shape (WIDTH, WIDTH, vectors); the mean of each vector's product with itself.
    """

    mean: Floats
    second: Floats


class Learned(NamedTuple):
    """What the measurements say.

    Attributes:
        agents: of (a, s, s', s'').
        corunners: of (1, p, p', p'').
        noise: variance that the products leave unexplained, what was believed of it included.
        passes: over the measurements.
        converged: whether the noise moved by less than TOLERANCE of itself at the last pass.
    """

    agents: Belief
    corunners: Belief
    noise: float
    passes: int
    converged: bool


def learn(known: NDArray[np.int64], shape: tuple[int, ...], values: Floats) -> Learned:
    """Answer one side's beliefs with the other's, and fit the priors' variances to both.

    Args:
        known: shape (cells,); which cells are measured, flat indices in order.
        shape: how many agents and how many co-runners there are.
        values: shape (cells,); what was measured, scaled to mean 0 and variance 1.
    """
    agents, corunners = _sides(known, shape, values)
    alike, harmless, noise = ALIKE_VARIANCE.copy(), HARMLESS_VARIANCE.copy(), NOISE
    cells, squares = len(values), float((values**2).sum())
    ours = _start(shape[0])
    passes, converged = 0, False
    while not converged and passes < MAX_PASSES:
        passes += 1
        theirs, _ = _answer(corunners, ours, HARMLESS, harmless, noise)
        ours, error = _answer(agents, theirs, ALIKE, alike, noise)
        before, noise = noise, (max(squares + error, 0.0) + BELIEF * NOISE) / (cells + BELIEF)
        converged = abs(noise - before) < TOLERANCE * before
        harmless[1:] = _variance(theirs, HARMLESS, HARMLESS_VARIANCE)[1:]
        alike[:2] = _variance(ours, ALIKE, ALIKE_VARIANCE)[:2]
    return Learned(ours, theirs, noise, passes, converged)


class _Side(NamedTuple):
    """The measurements, side by side for each agent or for each co-runner.

    Attributes:
        start: shape (vectors + 1,); agent or co-runner v has cells ``start[v]:start[v + 1]``.
        other: shape (cells,); who of the other side each cell is about.
        value: shape (cells,); what is measured there, scaled.
    """

    start: NDArray[np.int64]
    other: NDArray[np.uint32]
    value: Floats


def _sides(known: NDArray[np.int64], shape: tuple[int, ...], values: Floats) -> tuple[_Side, _Side]:
    """Sort the measurements, whose flat indices come row by row, by agent and by co-runner."""
    agents, corunners = shape
    start = np.searchsorted(known, corunners * np.arange(agents + 1)).astype(np.int64)
    agent = np.repeat(np.arange(agents), np.diff(start))
    corunner = known - corunners * agent
    cells = group(corunner, corunners)
    return (
        _Side(start, corunner.astype(np.uint32), values),
        _Side(cells.start, agent[cells.order].astype(np.uint32), values[cells.order]),
    )


def _start(agents: int) -> Belief:
    """Start with agents alike, and unlike in the further products so that these can grow.

    Weyl's sequences are without pattern, and the same in every run.
    """
    mean = np.repeat(ALIKE[:, None], agents, axis=1)
    mean[2:] = 2 * (np.arange(1, agents + 1) * np.sqrt([[2.0], [3.0]]) % 1) - 1
    return Belief(mean, mean[:, None] * mean)


def _answer(
    side: _Side, other: Belief, prior: Floats, variance: Floats, noise: float
) -> tuple[Belief, float]:
    """Return what to believe of one side given the other, and expected squares less value**2."""
    table = np.concatenate([other.second[HALF], other.mean]).T
    sums = _gather(*side, np.ascontiguousarray(table)).T
    seen, told = sums[WHOLE], sums[MOMENTS:]
    precision = seen / noise
    precision[DIAGONAL] += 1 / variance[:, None]
    covariance = _inverse(precision)
    mean = (covariance * (told / noise + (prior / variance)[:, None])).sum(axis=1)
    second = covariance + mean[:, None] * mean
    return Belief(mean, second), float((second * seen).sum() - 2 * (mean * told).sum())


def _variance(side: Belief, centre: Floats, prior: Floats) -> Floats:
    """Return the variances of a side's unknowns about their centre that are most likely."""
    squares = side.second[DIAGONAL].sum(axis=1) - 2 * side.mean.sum(axis=1) * centre
    vectors = side.mean.shape[1]
    return np.asarray((squares + vectors * centre**2 + BELIEF * prior) / (vectors + BELIEF))


def _inverse(matrices: Floats) -> Floats:
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
def _gather(
    start: NDArray[np.int64], other: NDArray[np.uint32], value: Floats, table: Floats
) -> Floats:
    """Add up the rows of ``table`` that each vector meets, the last WIDTH entries times values."""
    sums = np.zeros((len(start) - 1, MOMENTS + WIDTH))
    for v in range(len(sums)):
        for cell in range(start[v], start[v + 1]):
            row, times = other[cell], value[cell]
            for i in range(MOMENTS):
                sums[v, i] += table[row, i]
            for i in range(MOMENTS, MOMENTS + WIDTH):
                sums[v, i] += times * table[row, i]
    return sums
