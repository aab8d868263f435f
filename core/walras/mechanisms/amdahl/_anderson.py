"""Anderson acceleration of a fixed-point map of log prices, which both alternations use.

The next point is the plain step of the map less the combination of past moves that would cancel
most of the present change, by least squares over the last `DEPTH` steps. Products of steps are kept
from pass to pass, so that a pass costs one product with each step, not with each pair.

The loops around it are Python over kernels: as one kernel each would save 4 microseconds per pass,
and delay the first decision on a machine by compiling the responses twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.numerics.kernel import exp, kernel, log

if TYPE_CHECKING:
    from walras.numerics.arrays import Floats, FloatTable

DEPTH = 6
"""Steps in the window of Anderson acceleration; deeper windows saved no passes."""

SETBACK = 10.0
"""Growth of the residual over its smallest so far at which the acceleration restarts."""

LEAP = 2.0
"""Furthest that a log price is extrapolated beyond the plain step, where that is not damped."""


class Anderson:
    """A point, its change by the map, and the past steps that led to it.

    Attributes:
        log_price: Log prices, shape (m,).
        change: Change of them by the map, shape (m,).
        last_change: Change in the previous pass, shape (m,).
        stride: Factor of each plain step, shape (m,). A price with a factor above 1 moves by its
            plain step alone, and by no more than `LEAP`.
    """

    def __init__(self, log_price: Floats) -> None:
        servers = len(log_price)
        self.log_price = log_price.copy()
        self.change, self.last_change, self._last_price = np.zeros((3, servers))
        self.stride = np.ones(servers)
        self._turns, self._moves = np.empty((2, DEPTH, servers))
        self._gram, self._matrix = np.empty((2, DEPTH, DEPTH))
        self._projection, self._weights = np.empty((2, DEPTH))
        self._steps = -1

    def compare(self, answer: Floats, longest: float) -> float:
        """Set ``change`` to the way to ``answer``, square roots of prices; return the largest.

        Args:
            answer: Square roots of the prices that the map answers with, shape (m,).
            longest: Length to which changes are cut.
        """
        return _compare(self.log_price, answer, longest, self.change)

    @property
    def started(self) -> bool:
        """Whether any step since the last restart is known."""
        return self._steps >= 0

    def restart(self) -> None:
        """Forget all past steps."""
        self._steps = -1

    def move(self, root: Floats, damping: float = 1.0) -> None:
        """Move to the next point, and set ``root`` to the square roots of its prices.

        Args:
            root: Square roots of prices, shape (m,); written.
            damping: Part of the map's change that a plain step takes.
        """
        self._steps += 1
        size = min(self._steps, DEPTH)
        point = self.log_price, self.change, self._last_price, self.last_change
        if size > 0:
            slot = (self._steps - 1) % DEPTH
            products = self._gram, self._projection
            _remember(*point, self._turns, self._moves, *products, damping, slot, size)
            _mix(*products, self._matrix, self._weights, size)
        _move(*point, self._moves, self._weights, size, damping, self.stride, root)


@kernel
def _compare(log_price: Floats, answer: Floats, longest: float, change: Floats) -> float:
    """Set ``change`` to the answer's changes of log prices; return the largest."""
    largest = 0.0
    for j in range(len(change)):
        change[j] = min(max(2.0 * log(answer[j]) - log_price[j], -longest), longest)
        largest = max(largest, abs(change[j]))
    return largest


@kernel
def _remember(
    log_price: Floats,
    change: Floats,
    last_price: Floats,
    last_change: Floats,
    turns: FloatTable,
    moves: FloatTable,
    gram: FloatTable,
    projection: Floats,
    damping: float,
    slot: int,
    size: int,
) -> None:
    """Store the last step in ``slot``, and its products with the ``size`` stored steps."""
    m = len(change)
    for j in range(m):
        turn = change[j] - last_change[j]
        turns[slot, j] = turn
        moves[slot, j] = log_price[j] - last_price[j] + damping * turn
    for i in range(size):
        dot = 0.0
        against = 0.0
        for j in range(m):
            dot += turns[i, j] * turns[slot, j]
            against += turns[i, j] * change[j]
        gram[i, slot] = dot
        gram[slot, i] = dot
        projection[i] = against


@kernel
def _mix(
    gram: FloatTable, projection: Floats, matrix: FloatTable, weights: Floats, size: int
) -> None:
    """Set the least-squares ``weights`` of Anderson acceleration, slightly regularised."""
    trace = 0.0
    for i in range(size):
        weights[i] = 0.0
        trace += gram[i, i]
    if trace == 0.0:
        return
    for i in range(size):
        weights[i] = projection[i]
        for j in range(size):
            matrix[i, j] = gram[i, j]
        matrix[i, i] += 1e-14 * trace
    for i in range(size):  # elimination; the matrix is symmetric and positive definite
        for j in range(i + 1, size):
            factor = matrix[j, i] / matrix[i, i]
            for k in range(i, size):
                matrix[j, k] -= factor * matrix[i, k]
            weights[j] -= factor * weights[i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            weights[i] -= matrix[i, k] * weights[k]
        weights[i] /= matrix[i, i]


@kernel
def _move(
    log_price: Floats,
    change: Floats,
    last_price: Floats,
    last_change: Floats,
    moves: FloatTable,
    weights: Floats,
    size: int,
    damping: float,
    stride: Floats,
    root: Floats,
) -> None:
    """Move to the next point, less the ``size`` stored moves times their weights."""
    m = len(root)
    reach = LEAP * damping
    for j in range(m):
        last_price[j] = log_price[j]
        last_change[j] = change[j]
        step = damping * stride[j]
        plain = change[j] if step == 1.0 else min(max(step * change[j], -LEAP), LEAP)
        root[j] = log_price[j] + plain
        log_price[j] = root[j]
    for i in range(size):
        weight = weights[i]
        for j in range(m):
            log_price[j] -= weight * moves[i, j] * (stride[j] == 1.0)
    for j in range(m):
        log_price[j] = min(max(log_price[j], root[j] - reach), root[j] + reach)
        root[j] = exp(0.5 * log_price[j])
