"""Prediction of all disutilities of a matrix from the few that are measured (section IV-A).

The Market predicts by the same model (`walras.mechanisms.cooper.beliefs`), and adds what it knows
of programs before anything is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.cooper.prediction import WIDTH, fit_pressures
from walras.mechanisms.cooper.preference import check_measured
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, FloatTable


@dataclass(frozen=True)
class Prediction:
    """A full matrix of disutilities.

    Attributes:
        disutility: Disutilities, shape (agents, co-runners), all finite, read-only: measured
            entries unchanged, the others at most 1 and not below both 0 and the least that was
            measured.
        noise: Standard deviation that the model leaves unexplained, in units of disutility.
        converged: Whether the noise changed by less than a thousandth in the last pass.
    """

    disutility: Floats
    noise: float
    iterations: int
    converged: bool


def predict(measured: ArrayLike) -> Prediction:
    """Predict the disutilities that were not measured.

    An agent without measurements gets an average agent's disutility beside every co-runner; a
    co-runner without any costs every agent its own level. The same matrix gives the same result to
    the bit, on any number of threads.

    Args:
        measured: 1 - throughput together / throughput alone, shape (agents, co-runners); NaN where
            not measured.

    Raises:
        DisutilityError: See ``check_measured``.
    """
    matrix = check_measured(measured)
    if matrix.size == 0:
        return Prediction(read_only(matrix), 0.0, 0, converged=True)
    known = np.flatnonzero(~np.isnan(matrix))
    values = matrix.ravel()[known]
    centre, lowest = values.mean(), min(values.min(), 0.0)
    scale = values.std() or 1.0
    learned = fit_pressures(known, matrix.shape, (values - centre) / scale)
    agents, corunners = learned.agents.mean, learned.corunners.mean * scale
    filled = _fill(read_only(matrix), agents, corunners, centre, lowest)
    noise = float(scale * np.sqrt(learned.noise))
    return Prediction(read_only(filled), noise, learned.passes, learned.converged)


@kernel
def _fill(
    measured: FloatTable, agents: FloatTable, corunners: FloatTable, centre: float, lowest: float
) -> FloatTable:
    """Return the measured values, and the model's within bounds where nothing is measured."""
    filled = np.empty((measured.shape[0], measured.shape[1]))
    for x in range(measured.shape[0]):
        for y in range(measured.shape[1]):
            guess = centre
            for i in range(WIDTH):
                guess += agents[i, x] * corunners[i, y]
            bounded = min(max(guess, lowest), 1.0)
            filled[x, y] = bounded if np.isnan(measured[x, y]) else measured[x, y]
    return filled
