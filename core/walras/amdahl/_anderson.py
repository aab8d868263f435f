"""Anderson acceleration of a map that need not contract: after a setback it takes smaller steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DEPTH = 6
"""Steps that Anderson acceleration looks back on."""

SETBACK = 10.0
"""Growth of the residual over its smallest so far at which the acceleration starts anew."""

STALL = 40
"""Passes without a smaller residual after which it does, too."""

LEAST_DAMPING = 0.05

STEADY = 1e-6
"""Relative difference of two successive changes below which the next goes twice as far."""

LEAP = 2.0
"""Furthest that a plain step goes, and that it is extrapolated beyond that."""


class Anderson:
    """The points and changes so far, and how boldly to go on."""

    def __init__(self) -> None:
        self.points: list[Floats] = []
        self.changes: list[Floats] = []
        self.smallest = np.inf
        self.stalled = 0
        self.damping = 1.0
        self.stride = 1.0

    def take(self, point: Floats, change: Floats, largest: float) -> Floats:
        """Return the next point after ``point``, from which the map moves by ``change``."""
        self.stalled += 1
        if largest < self.smallest:
            self.smallest, self.stalled = largest, 0
            self.damping = min(1.0, 1.1 * self.damping)
        elif largest > SETBACK * self.smallest or self.stalled > STALL:
            self.points, self.changes = [], []
            self.smallest, self.stalled = largest, 0
            self.damping = max(0.5 * self.damping, LEAST_DAMPING)
        steady = bool(self.changes) and bool(
            np.abs(change - self.changes[-1]).max() <= STEADY * largest
        )
        self.stride = 2 * self.stride if steady else 1.0
        if steady or largest >= LEAP:  # differences of these would say nothing
            self.points, self.changes = [], []
        self.points = [*self.points[-DEPTH:], point]
        self.changes = [*self.changes[-DEPTH:], change]
        plain = point + np.clip(self.stride * self.damping * change, -LEAP, LEAP)
        if len(self.points) == 1:
            return plain
        turns = np.diff(self.changes, axis=0)
        weights = np.linalg.lstsq(turns @ turns.T, turns @ change, rcond=1e-14)[0]
        moves = np.diff(self.points, axis=0) + self.damping * turns
        result: Floats = np.clip(plain - weights @ moves, plain - LEAP, plain + LEAP)
        return result
