"""Pure: how many objects are created and deleted in each namespace by one decision.

Users can have thousands of objects wanted that a quota or a policy of their namespace refuses. Each
is tried again after a pause that doubles, and one decision makes a limited number of requests in a
namespace, so that the other namespaces need not wait for them.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from walras_operator.decide.world import Reference

MOST_WRITES = 100
"""Objects of a namespace that one decision creates, changes or deletes."""

MOST_REFUSED = 8
"""Refusals in a namespace after which one decision tries no other object there."""

FIRST_PAUSE = 30.0
"""Seconds before an object that was refused is tried again; doubled each time."""

LONGEST_PAUSE = 600.0


class _Refusal(NamedTuple):
    again: float
    pause: float


class WriteBudget:
    """The requests that one decision may make in each namespace; safe for concurrent use.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._writes: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._refusals: dict[Reference, _Refusal] = {}

    def begin(self, wanted: Iterable[Reference]) -> None:
        """Begin a decision, and forget objects that it does not want to write."""
        with self._lock:
            self._writes.clear()
            self._refused.clear()
            known = self._refusals
            self._refusals = {each: known[each] for each in wanted if each in known}

    def take(self, object_: Reference) -> bool:
        """Return whether to write an object now; if not, a later decision does."""
        with self._lock:
            namespace, refusal = object_.namespace, self._refusals.get(object_)
            if refusal is not None and self._clock() < refusal.again:
                return False
            if self._writes[namespace] >= MOST_WRITES or self._refused[namespace] >= MOST_REFUSED:
                return False
            self._writes[namespace] += 1
            return True

    def ended(self, object_: Reference, *, refused: bool) -> None:
        """Note how a write ended."""
        with self._lock:
            before = self._refusals.pop(object_, None)
            if refused:
                pause = FIRST_PAUSE if before is None else min(2 * before.pause, LONGEST_PAUSE)
                self._refusals[object_] = _Refusal(self._clock() + pause, pause)
                self._refused[object_.namespace] += 1
