"""Pure choice: when to try again what failed, or was undone by others.

Two writers of one file can undo each other for ever (koordinator 1214), and a refusal that was
permanent has been tried eight times a second (koordinator 3217). So the wait doubles.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Waits, each by a key.

    Attributes:
        first: Seconds after the first time.
        longest: Seconds that no wait exceeds.
    """

    first: float
    longest: float
    _waits: dict[str, tuple[float, float]] = field(default_factory=dict)  # how long, until when

    def failed(self, key: str, now: float) -> float:
        """Note that it went wrong; returns the seconds to wait."""
        before, until = self._waits.get(key, (0.0, 0.0))
        # Long after the last wait has ended, it is a new story.
        calm = now > until + self.longest
        wait = self.first if calm or not before else min(2 * before, self.longest)
        self._waits[key] = (wait, now + wait)
        return wait

    def waiting(self, now: float) -> frozenset[str]:
        """The keys that are not to be tried now."""
        return frozenset(key for key, (_, until) in self._waits.items() if now < until)

    def keep(self, keys: frozenset[str]) -> None:
        """Forget all others: they are gone."""
        for key in self._waits.keys() - keys:
            del self._waits[key]
