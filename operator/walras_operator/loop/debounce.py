"""Pure: choose when to react to a burst of changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Burst:
    """Changes that lead to one decision.

    Attributes:
        first: Time of the first change.
        last: Time of the last change.
    """

    first: float
    last: float


@dataclass(slots=True)
class Debounce:
    """Waits until a burst of changes ends, but not forever, and longer if none is urgent.

    Attributes:
        quiet: Seconds to wait after the last change.
        longest: Most seconds to wait after the first change.
        pause: Additional seconds to wait if no change is urgent.
    """

    quiet: float = 0.2
    longest: float = 1.0
    pause: float = 0.0
    _urgent: Burst | None = None
    _other: Burst | None = None

    def note(self, now: float, *, urgent: bool = True) -> None:
        """Record a change."""
        burst = self._urgent if urgent else self._other
        if burst is not None:
            burst.last = now
        elif urgent:
            self._urgent = Burst(now, now)
        else:
            self._other = Burst(now, now)

    def due(self) -> float | None:
        """Return when to react; None if nothing has changed."""
        urgent_due = self.urgent_due()
        if self._other is None:
            return urgent_due
        other = self._end(self._other) + self.pause
        return other if urgent_due is None else min(urgent_due, other)

    def urgent_due(self) -> float | None:
        """Return when to react to urgent changes; None if there are none."""
        return None if self._urgent is None else self._end(self._urgent)

    def answered(self) -> None:
        """Start a new burst with the next change."""
        self._urgent = self._other = None

    def _end(self, burst: Burst) -> float:
        return min(burst.last + self.quiet, burst.first + self.longest)
