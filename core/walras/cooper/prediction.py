"""Predicts all disutilities from a few that are measured (Cooper, section IV-A).

The paper fills the matrix by collaborative filtering, which ``walras.cooper.filtering`` does. On
sparse matrices that loses to the plain mean of each column. The default here starts from the
column means and departs from them only as far as the measurements bear out: see
``walras.cooper._pressure`` for the model, in which nothing is left to choose and nothing random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras._segments import read_only
from walras.cooper._pressure import WIDTH, learn
from walras.cooper.preference import check_measured

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


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
    learned = learn(known, matrix.shape, (values - centre) / scale)
    agents, corunners = learned.agents.mean, learned.corunners.mean * scale
    filled = _fill(read_only(matrix), agents, corunners, centre, lowest)
    noise = float(scale * np.sqrt(learned.noise))
    return Prediction(read_only(filled), noise, learned.passes, learned.converged)


@kernel
def _fill(
    measured: Floats, agents: Floats, corunners: Floats, centre: float, lowest: float
) -> Floats:
    """Put what the model says, within bounds, where nothing is measured."""
    filled = np.empty(measured.shape)
    for x in range(measured.shape[0]):
        for y in range(measured.shape[1]):
            guess = centre
            for i in range(WIDTH):
                guess += agents[i, x] * corunners[i, y]
            bounded = min(max(guess, lowest), 1.0)
            filled[x, y] = bounded if np.isnan(measured[x, y]) else measured[x, y]
    return filled
