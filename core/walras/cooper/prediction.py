"""Predicts all disutilities from a few that are measured (Cooper, section IV-A).

The paper fills the matrix by collaborative filtering, which ``walras.cooper.filtering`` does. On
sparse matrices that loses to the plain mean of each column. The default here never should: it
starts from the column means and departs from them only as far as the measurements bear out.

The model is that of contention itself: co-runner y exerts a pressure p_y, to which agent x is
sensitive by s_x, from a level a_x of its own,

    d[x, y] = a_x + s_x p_y + (two more such products) + noise.

Every unknown has a normal prior: a_x about the mean of what is measured, s_x about 1 (all agents
alike: the column means), the rest about 0. Their widths are learned with the unknowns by
variational Bayes (Lim and Teh, KDD Cup 2007): given the other side's means and covariances each
vector's posterior is a small ridge regression. Products that the data do not bear out shrink to
nothing, so there is no rank or penalty to choose, and nothing random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._jit import kernel
from walras._segments import group, read_only
from walras.cooper.preference import check_measured

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

PRODUCTS = 3
WIDTH = 1 + PRODUCTS
SQUARE = WIDTH**2
DIAGONAL = (np.arange(WIDTH), np.arange(WIDTH))
MAX_PASSES = 60
TOLERANCE = 1e-3

# What is believed before anything is measured, in units of the measurements' variance. An agent
# is (a, s, s', s''), a co-runner (1, p, p', p''): its first entry is known. The spread of s' and
# s'' is a unit of its own, and is not learned.
ALIKE = np.array([0.0, 1.0, 0.0, 0.0])
ALIKE_VARIANCE = np.array([0.3, 0.15, 1.0, 1.0])
HARMLESS = np.array([1.0, 0.0, 0.0, 0.0])
HARMLESS_VARIANCE = np.array([1e-24, 0.5, 0.03, 0.03])
NOISE = 0.1
BELIEF = 10.0
"""How many measurements, agents or co-runners these beliefs weigh as much as."""


@dataclass(frozen=True)
class Prediction:
    """A full matrix of disutilities.

    Attributes:
        disutility: shape (agents, co-runners), all finite, read-only; measured entries as they
            were, the others at most 1 and not below both 0 and the least that was measured.
        noise: standard deviation, in units of disutility, that the model leaves unexplained.
        iterations: passes over the measurements.
        converged: whether the noise moved by less than a thousandth of itself at the last pass.
    """

    disutility: Floats
    noise: float
    iterations: int
    converged: bool


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


class _Belief(NamedTuple):
    """What is believed of the vectors of unknowns of one side.

    Attributes:
        mean: shape (WIDTH, vectors).
        second: shape (WIDTH, WIDTH, vectors); the mean of each vector's product with itself.
    """

    mean: Floats
    second: Floats


def predict(measured: ArrayLike) -> Prediction:
    """Predict the disutilities that were not measured.

    An agent without measurements is predicted to feel every co-runner as an average agent does, a
    co-runner without any to cost every agent its own level. The same matrix gives the same
    result to the bit, on any number of threads.

    Args:
        measured: shape (agents, co-runners), 1 - throughput together / throughput alone; NaN where
            not measured.

    Raises:
        DisutilityError: see ``check_measured``.
    """
    matrix = check_measured(measured)
    if matrix.size == 0:
        return Prediction(read_only(matrix), 0.0, 0, converged=True)
    known = np.flatnonzero(~np.isnan(matrix))
    values = matrix.ravel()[known]
    centre, lowest = values.mean(), min(values.min(), 0.0)
    scale = values.std() or 1.0
    learned = _learn(*_sides(known, matrix.shape, (values - centre) / scale))
    pressure = np.ascontiguousarray(learned.corunners.mean.T) * scale
    agents = np.ascontiguousarray(learned.agents.mean.T)
    filled = _fill(read_only(matrix), agents, pressure, centre, lowest)
    noise = float(scale * np.sqrt(learned.noise))
    return Prediction(read_only(filled), noise, learned.passes, learned.converged)


class _Learned(NamedTuple):
    agents: _Belief
    corunners: _Belief
    noise: float
    passes: int
    converged: bool


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


def _learn(agents: _Side, corunners: _Side) -> _Learned:
    """Answer one side's beliefs with the other's, and fit the priors' variances to both."""
    alike, harmless, noise = ALIKE_VARIANCE.copy(), HARMLESS_VARIANCE.copy(), NOISE
    cells, squares = len(agents.value), float((agents.value**2).sum())
    ours = _start(len(agents.start) - 1)
    passes, converged = 0, False
    while not converged and passes < MAX_PASSES:
        passes += 1
        theirs, _ = _answer(corunners, ours, HARMLESS, harmless, noise)
        ours, error = _answer(agents, theirs, ALIKE, alike, noise)
        before, noise = noise, (max(squares + error, 0.0) + BELIEF * NOISE) / (cells + BELIEF)
        converged = abs(noise - before) < TOLERANCE * before
        harmless[1:] = _variance(theirs, HARMLESS, HARMLESS_VARIANCE)[1:]
        alike[:2] = _variance(ours, ALIKE, ALIKE_VARIANCE)[:2]
    return _Learned(ours, theirs, noise, passes, converged)


def _start(agents: int) -> _Belief:
    """Start with agents alike, and unlike in the further products so that these can grow.

    Weyl's sequences are without pattern, and the same in every run.
    """
    mean = np.repeat(ALIKE[:, None], agents, axis=1)
    mean[2:] = 2 * (np.arange(1, agents + 1) * np.sqrt([[2.0], [3.0]]) % 1) - 1
    return _Belief(mean, mean[:, None] * mean)


def _answer(
    side: _Side, other: _Belief, prior: Floats, variance: Floats, noise: float
) -> tuple[_Belief, float]:
    """Return what to believe of one side given the other, and expected squares less value**2."""
    table = np.concatenate([other.second.reshape(SQUARE, -1), other.mean]).T
    sums = _gather(*side, np.ascontiguousarray(table)).T
    seen, told = sums[:SQUARE].reshape(WIDTH, WIDTH, -1), sums[SQUARE:]
    precision = seen / noise
    precision[DIAGONAL] += 1 / variance[:, None]
    covariance = _inverse(precision)
    mean = (covariance * (told / noise + (prior / variance)[:, None])).sum(axis=1)
    second = covariance + mean[:, None] * mean
    return _Belief(mean, second), float((second * seen).sum() - 2 * (mean * told).sum())


def _variance(side: _Belief, centre: Floats, prior: Floats) -> Floats:
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
    sums = np.zeros((len(start) - 1, SQUARE + WIDTH))
    for v in range(len(sums)):
        for cell in range(start[v], start[v + 1]):
            row, times = other[cell], value[cell]
            for i in range(SQUARE):
                sums[v, i] += table[row, i]
            for i in range(SQUARE, SQUARE + WIDTH):
                sums[v, i] += times * table[row, i]
    return sums


@kernel
def _fill(
    measured: Floats, agents: Floats, corunners: Floats, centre: float, lowest: float
) -> Floats:
    """Put what the model says, within bounds, where nothing is measured."""
    filled = measured.copy()
    for x in range(len(measured)):
        for y in range(measured.shape[1]):
            if np.isnan(filled[x, y]):
                guess = centre
                for i in range(WIDTH):
                    guess += agents[x, i] * corunners[y, i]
                filled[x, y] = min(max(guess, lowest), 1.0)
    return filled
