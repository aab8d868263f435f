"""Execution time as a function of data size: a line, or a parabola if the line does not fit.

Source: "Amdahl's Law in the Datacenter Era", section IV-A (Figure 4): times on samples of the data
predict the time on all of it, linearly for most programs, quadratically for some.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

MIN_SIZES_FOR_QUADRATIC = 4
"""Fewest sizes for a parabola: three determine one, and only a fourth can reject the line."""

CRITICAL_F = (161.4, 18.51, 10.13, 7.709, 6.608, 5.987, 5.591, 5.318, 5.117, 4.965)
"""95 % quantiles of the F(1, n) distribution for n = 1 to 10; the last serves beyond."""

_ROUNDING = 1e-9
"""Share of the longest time below which residuals count as rounding errors."""


class Form(StrEnum):
    """The shape of a time model."""

    LINEAR = "Linear"
    QUADRATIC = "Quadratic"


@dataclass(frozen=True, slots=True)
class TimePoint:
    """A time measured at one data size.

    Attributes:
        size: Data size d, in whatever unit the caller uses throughout.
        seconds: Execution time, typically a median of repeats.
        weight: Its weight in the fit, typically the number of repeats.
    """

    size: float
    seconds: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class TimeModel:
    """T(d) = a + b d, or a + b d + c d².

    Attributes:
        coefficients: (a, b) or (a, b, c): seconds, seconds per size, seconds per size squared.
        residual: Weighted root mean square of what the model leaves unexplained, seconds.
    """

    form: Form
    coefficients: tuple[float, ...]
    residual: float

    def predict(self, size: float) -> float:
        """Return the execution time at `size`, seconds, never negative."""
        return max(0.0, sum(c * size**power for power, c in enumerate(self.coefficients)))


def fit_common_start(points: Mapping[int, Sequence[TimePoint]]) -> dict[int, TimeModel]:
    """Fit a line for each core count, all with the same start-up time: T_x(d) = a + b_x d.

    Loading and setting up usually take the same time on any number of cores. Sharing it makes the
    slopes, which decide how programs scale, far more certain than separate lines do. The fit is by
    weighted least squares on relative residuals, since noise grows with time; a and all b_x are at
    least 0.

    Args:
        points: One or more points by core count, at two or more different sizes for each.
    """
    counts = list(points)
    rows = [(x, point) for x in counts for point in points[x]]
    seconds = np.array([point.seconds for _, point in rows])
    weight = np.sqrt([point.weight for _, point in rows]) / seconds
    design = np.zeros((len(rows), 1 + len(counts)))
    design[:, 0] = 1
    for row, (x, point) in enumerate(rows):
        design[row, 1 + counts.index(x)] = point.size
    scale = np.abs(design).max(axis=0)
    scaled = design / scale * weight[:, None]
    solution, *_ = np.linalg.lstsq(scaled, seconds * weight, rcond=None)
    if solution[0] < 0:  # noise: fit without a start-up time
        solution, *_ = np.linalg.lstsq(scaled[:, 1:], seconds * weight, rcond=None)
        solution = np.concatenate([[0.0], solution])
    solution = np.maximum(solution, 0) / scale
    left = (seconds - design @ solution) * weight
    residual = float(np.sqrt(np.mean(left**2)) * np.mean(seconds))
    return {
        x: TimeModel(Form.LINEAR, (float(solution[0]), float(solution[1 + column])), residual)
        for column, x in enumerate(counts)
    }


def fit_time_model(points: Iterable[TimePoint]) -> TimeModel:
    """Fit a line by weighted least squares, or a parabola if that fits clearly better.

    A parabola needs at least four sizes, must bend upwards, and must pass the extra-sum-of-squares
    F test at 5 %. Time never falls as data grows: a negative slope is noise and is fitted as 0.

    Args:
        points: One or more points per size, at two or more different sizes.

    Raises:
        ValueError: There are fewer than two different sizes.
    """
    points = tuple(points)
    sizes = {point.size for point in points}
    if len(sizes) < 2:
        raise ValueError(f"a time model needs two data sizes or more, not {len(sizes)}")
    line = _fit_growing(points, Form.LINEAR)
    if len(sizes) < MIN_SIZES_FOR_QUADRATIC:
        return line
    parabola = _fit_growing(points, Form.QUADRATIC)
    return parabola if _clearly_better(parabola, line, points) else line


def _fit_growing(points: tuple[TimePoint, ...], form: Form) -> TimeModel:
    """Fit by least squares with b >= 0 and c >= 0 (the start-up time a is free).

    With at most two constrained coefficients the best fit is the best of the unconstrained
    fits over the subsets of terms whose growth comes out non-negative; the constant always does.
    """
    degree = 1 if form is Form.LINEAR else 2
    subsets = [[0, *range(first, degree + 1)] for first in range(1, degree + 2)]
    subsets += [[0, 1]] if degree == 2 else []
    models = (_fit_terms(points, form, terms, degree) for terms in subsets)
    growing = [model for model in models if min(model.coefficients[1:]) >= 0]
    return min(growing, key=lambda model: model.residual)


def _fit_terms(
    points: tuple[TimePoint, ...], form: Form, terms: list[int], degree: int
) -> TimeModel:
    """Fit the given powers of the size by weighted least squares; other coefficients are 0."""
    sizes = np.array([point.size for point in points])
    seconds = np.array([point.seconds for point in points])
    roots = np.sqrt([point.weight for point in points])
    scale = float(np.abs(sizes).max())  # keeps the powers comparable: absolute sizes reach 10^9
    design = np.column_stack([(sizes / scale) ** term for term in terms])
    solution, *_ = np.linalg.lstsq(design * roots[:, None], seconds * roots, rcond=None)
    coefficients = [0.0] * (degree + 1)
    for term, value in zip(terms, solution, strict=True):
        coefficients[term] = float(value) / scale**term
    left = (seconds - design @ solution) * roots
    return TimeModel(form, tuple(coefficients), float(np.sqrt(left @ left / (roots @ roots))))


def _clearly_better(parabola: TimeModel, line: TimeModel, points: tuple[TimePoint, ...]) -> bool:
    """Return whether one more coefficient passes the extra-sum-of-squares F test at 5 %."""
    rounding = _ROUNDING * max(point.seconds for point in points)
    if line.residual <= rounding or parabola.coefficients[2] <= 0:
        return False
    if parabola.residual <= rounding:
        return True
    freedom = len(points) - 3
    ratio = freedom * ((line.residual / parabola.residual) ** 2 - 1)
    return ratio > CRITICAL_F[min(freedom, len(CRITICAL_F)) - 1]
