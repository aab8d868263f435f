"""Beliefs about penalties before they are measured, and their uncertainty (section IV-A).

A belief is a normal distribution of each loss. It is built in two steps:

1. A prior mean from memory bandwidths, with which the paper finds that penalties grow (VI-A):
   loss[x, y] = c0 + c1 v_y + c2 v_x v_y, where v = b / (b + median of all b), so that a claim to an
   enormous bandwidth hardly changes what is believed of others. The coefficients start from
   `PRIOR_COEFFICIENTS` and are fitted to the measured losses by ridge regression. Where no
   bandwidth is known, c0 alone is left: the mean of the measured losses, drawn towards
   `PRIOR_LOSS`.
2. What is left of the measured losses is explained by sensitivities of agents and pressures of
   co-runners, by the model of `walras.mechanisms.cooper.prediction`. It draws each of these towards
   the mean of all, the more the fewer measurements there are of it, and says how uncertain it is.

So an unmeasured pair of programs that were measured with others is believed to lose what the two
lose and cause there. Of other pairs, what their bandwidths suggest is believed, and without
bandwidths the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.cooper.prediction import WIDTH, fit_pressures
from walras.mechanisms.cooper.preference import DisutilityError, check_measured
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import FloatCube, Floats, FloatTable, Integers

PRIOR_LOSS = 0.05
"""Loss of throughput that is believed of any pair where nothing is known."""

PRIOR_COEFFICIENTS = np.array([0.02, 0.04, 0.04])
"""Prior means of c0, c1 and c2 where bandwidths are known: losses from 2 % to 10 %, and
`PRIOR_LOSS` where both programs have the median bandwidth."""

COEFFICIENT_DEVIATION = 0.03
"""Prior standard deviation of each coefficient."""

PRIOR_DEVIATION = 0.05
"""Standard deviation of losses about their prior mean, before any is measured."""

PRIOR_WEIGHT = 10.0
"""Number of measurements that `PRIOR_DEVIATION` weighs as much as."""


@dataclass(frozen=True)
class Beliefs:
    """Normal distributions of losses, read-only.

    Attributes:
        mean: Expected loss of agent x beside co-runner y, shape (agents, co-runners): measured
            losses unchanged, others at most 1 and not below both 0 and the least measured loss.
        deviation: Standard deviation of each loss; 0 for measured losses.
    """

    mean: Floats
    deviation: Floats


def believe(measured: ArrayLike, bandwidth: ArrayLike | None = None) -> Beliefs:
    """Return what is believed of all losses, also if none was measured.

    The same arrays give the same beliefs to the bit, on any number of threads.

    Args:
        measured: 1 - throughput together / throughput alone, shape (n, n); NaN where not measured.
        bandwidth: Memory bandwidth of each program alone, in any unit, shape (n,); NaN where it is
            not known, None if none is.

    Raises:
        DisutilityError: See ``check_measured``; or the bandwidths have another shape.
    """
    matrix = np.ascontiguousarray(measured, np.float64)
    if not np.isnan(matrix).all():
        matrix = check_measured(matrix)
    known = np.flatnonzero(~np.isnan(matrix))
    values = matrix.ravel()[known]
    pressure = _pressures(len(matrix), bandwidth)
    coefficients = _coefficients(pressure, known, values)
    left = values - _of_bandwidth(pressure, known, coefficients)
    square = ((left**2).sum() + PRIOR_WEIGHT * PRIOR_DEVIATION**2) / (len(left) + PRIOR_WEIGHT)
    scale = float(np.sqrt(square))
    fit = fit_pressures(known, matrix.shape, left / scale)
    mean, deviation = np.empty(matrix.shape), np.zeros(matrix.shape)
    _fill(
        matrix,
        pressure,
        coefficients,
        fit.agents.mean,
        fit.corunners.mean,
        fit.agents.second_moment,
        fit.corunners.second_moment,
        scale,
        fit.noise,
        float(values.min(initial=0.0)),
        mean,
        deviation,
    )
    return Beliefs(read_only(mean), read_only(deviation))


def _pressures(programs: int, bandwidth: ArrayLike | None) -> Floats:
    """Return v of each program, 1/2 for unknown bandwidths; zeros if all are unknown."""
    drawn = np.full(programs, np.nan) if bandwidth is None else np.asarray(bandwidth, np.float64)
    if drawn.shape != (programs,):
        raise DisutilityError(f"bandwidth has shape {drawn.shape}: {programs} entries are needed")
    known = np.isfinite(drawn) & (drawn >= 0)
    drawn = np.where(known, drawn, 0.0)
    positive = drawn[known & (drawn > 0)]
    if not len(positive):
        return np.zeros(programs)
    middle = float(np.median(positive))
    return np.asarray(np.where(known, drawn / (drawn + middle), 0.5), np.float64)


def _coefficients(pressure: Floats, known: Integers, values: Floats) -> Floats:
    """Return c0, c1 and c2 by ridge regression of measured losses; c1 = c2 = 0 if no v is known."""
    if pressure.any():
        start, width = PRIOR_COEFFICIENTS, 3
    else:
        start, width = np.array([PRIOR_LOSS, 0.0, 0.0]), 1
    columns = _features(pressure, known)[:width]
    left = values - _of_bandwidth(pressure, known, start)
    ridge = (PRIOR_DEVIATION / COEFFICIENT_DEVIATION) ** 2
    # Sums of NumPy, since those of BLAS depend on its number of threads.
    moments = np.array([[(one * other).sum() for other in columns] for one in columns])
    right = np.array([(one * left).sum() for one in columns])
    change = np.linalg.solve(moments + ridge * np.eye(width), right)
    return np.asarray(start + np.append(change, np.zeros(3 - width)), np.float64)


def _features(pressure: Floats, known: Integers) -> tuple[Floats, Floats, Floats]:
    """Return 1, v_y and v_x v_y of measured losses, each of shape (cells,)."""
    own, other = np.divmod(known, len(pressure)) if len(pressure) else (known, known)
    return np.ones(len(known)), pressure[other], pressure[own] * pressure[other]


def _of_bandwidth(pressure: Floats, known: Integers, coefficients: Floats) -> Floats:
    columns = _features(pressure, known)
    return np.asarray(
        sum(each * column for each, column in zip(coefficients.tolist(), columns, strict=True)),
        np.float64,
    )


@kernel
def _fill(
    measured: FloatTable,
    pressure: Floats,
    coefficients: Floats,
    agents: FloatTable,
    corunners: FloatTable,
    of_agents: FloatCube,
    of_corunners: FloatCube,
    scale: float,
    noise: float,
    least: float,
    mean: FloatTable,
    deviation: FloatTable,
) -> None:
    """Set means and deviations of all losses; those that were measured have no deviation.

    Args:
        measured: Measured losses, NaN elsewhere, read-only.
        pressure: v of each program.
        coefficients: c0, c1 and c2.
        agents: Means of agents' vectors.
        corunners: Means of co-runners' vectors.
        of_agents: Means of agents' vectors' products with themselves.
        of_corunners: Means of co-runners' vectors' products with themselves.
        scale: Unit of the vectors' products.
        noise: Variance that the vectors leave.
        least: Least loss.
        mean: Means, in the shape of ``measured``; written.
        deviation: Deviations, given as 0; written.
    """
    for x in range(measured.shape[0]):
        for y in range(measured.shape[1]):
            if not np.isnan(measured[x, y]):
                mean[x, y] = measured[x, y]
                continue
            product, square = 0.0, 0.0
            for i in range(WIDTH):
                product += agents[i, x] * corunners[i, y]
                for j in range(WIDTH):
                    square += of_agents[i, j, x] * of_corunners[i, j, y]
            guess = coefficients[0] + pressure[y] * (
                coefficients[1] + coefficients[2] * pressure[x]
            )
            mean[x, y] = min(max(guess + scale * product, least), 1.0)
            deviation[x, y] = scale * np.sqrt(max(square - product * product, 0.0) + noise)
