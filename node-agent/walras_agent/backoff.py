"""Pure: exponential backoff for writes that failed or that others overwrote.

Two writers of one file can undo each other for ever (koordinator 1214), and a permanent failure has
been retried eight times a second (koordinator 3217).
"""

from __future__ import annotations

from dataclasses import dataclass, field

BACKING_OFF = "waits before the next write: the last one failed, or others overwrote it"
"""The state of a group that is not written for now, after its name."""


@dataclass(slots=True)
class Backoff:
    """Waiting times by key, doubled with every failure.

    Attributes:
        first: Seconds to wait after the first failure.
        longest: Longest wait in seconds.
    """

    first: float
    longest: float
    _waits: dict[str, tuple[float, float]] = field(default_factory=dict)  # duration, end

    def failed(self, key: str, now: float) -> float:
        """Note a failure, and return the seconds to wait before the next try."""
        before, until = self._waits.get(key, (0.0, 0.0))
        # A failure long after the last wait is not its continuation.
        expired = now > until + self.longest
        wait = self.first if expired or not before else min(2 * before, self.longest)
        self._waits[key] = (wait, now + wait)
        return wait

    def waiting(self, now: float) -> frozenset[str]:
        """Return the keys that must not be tried yet."""
        return frozenset(key for key, (_, until) in self._waits.items() if now < until)

    def keep(self, keys: frozenset[str]) -> None:
        """Forget all other keys."""
        for key in self._waits.keys() - keys:
            del self._waits[key]
