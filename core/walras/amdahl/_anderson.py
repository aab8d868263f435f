"""Anderson acceleration of a map that need not contract: setbacks shorten its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.amdahl._alternation import DEPTH, LEAP, SETBACK

if TYPE_CHECKING:
    from walras._arrays import Floats

STALL = 40
"""Passes without a smaller residual after which the acceleration restarts, too."""

LEAST_DAMPING = 0.05
"""Smallest factor of a plain step."""

STEADY = 1e-6
"""Relative difference of two successive changes below which the stride doubles."""


class Anderson:
    """State of the acceleration: past points, their changes by the map, and step lengths."""

    def __init__(self) -> None:
        self.points: list[Floats] = []
        self.changes: list[Floats] = []
        self.smallest = np.inf
        self.stalled = 0
        self.damping = 1.0
        self.stride = 1.0

    def next_point(self, point: Floats, change: Floats, largest: float) -> Floats:
        """Return the next point after ``point``, which the map moves by ``change``."""
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
        if steady or largest >= LEAP:  # their differences are uninformative
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
