"""Pure choice: when to answer to changes that come in bunches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Bunch:
    """Changes that one answer is for.

    Attributes:
        first: When the first came.
        last: When the last came.
    """

    first: float
    last: float


@dataclass(slots=True)
class Debounce:
    """Waits for the end of a bunch of changes, and not for ever; longer for what does not press.

    Attributes:
        quiet: Seconds since the last change.
        longest: Seconds since the first change.
        pause: Seconds besides that are left to others where no change presses.
    """

    quiet: float = 0.2
    longest: float = 1.0
    pause: float = 0.0
    _pressing: Bunch | None = None
    _other: Bunch | None = None

    def note(self, now: float, *, presses: bool = True) -> None:
        """Something has changed."""
        bunch = self._pressing if presses else self._other
        if bunch is not None:
            bunch.last = now
        elif presses:
            self._pressing = Bunch(now, now)
        else:
            self._other = Bunch(now, now)

    def due(self) -> float | None:
        """When to answer; None if nothing has changed."""
        pressing = self.pressing()
        if self._other is None:
            return pressing
        other = self._end(self._other) + self.pause
        return other if pressing is None else min(pressing, other)

    def pressing(self) -> float | None:
        """When to answer to what presses; None if nothing does."""
        return None if self._pressing is None else self._end(self._pressing)

    def answered(self) -> None:
        """What comes from now on is another bunch."""
        self._pressing = self._other = None

    def _end(self, bunch: Bunch) -> float:
        return min(bunch.last + self.quiet, bunch.first + self.longest)
