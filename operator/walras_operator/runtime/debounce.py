"""Pure choice: when to answer to changes that come in bunches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Debounce:
    """Waits for the end of a bunch of changes, and not for ever.

    Attributes:
        quiet: Seconds since the last change.
        longest: Seconds since the first change.
    """

    quiet: float = 0.2
    longest: float = 1.0
    _first: float | None = None
    _last: float = 0.0

    def note(self, now: float) -> None:
        """Something has changed."""
        self._first = now if self._first is None else self._first
        self._last = now

    def due(self) -> float | None:
        """When to answer; None if nothing has changed."""
        if self._first is None:
            return None
        return min(self._last + self.quiet, self._first + self.longest)

    def answered(self) -> None:
        """What comes from now on is another bunch."""
        self._first = None
