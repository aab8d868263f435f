"""Facts: reads the progress counters of pods with deadlines from time to time, in threads.

A job's counter may be slow to answer, and the agent's loop does not wait for it: `readings` returns
the last values at once. A counter that cannot be read keeps its last value, beside the problem.

Nor do the counters of others wait for it: several are read at a time, those that answered late the
last time are read after all others, and those of them for which a round has no time left are read
first among them in the next round.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walras_agent.profiling.counters import TIMEOUT_SECONDS, CounterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from walras_agent.profiling.counters import Counter
    from walras_agent.profiling.request import FileSource, HttpSource

_log = logging.getLogger(__name__)

PERIOD_SECONDS = 30.0
"""Seconds between two readings of a counter."""

READERS = 8
"""Most counters that are read at the same time."""

LATE_SECONDS = TIMEOUT_SECONDS / 2
"""Seconds after which an answer is late."""


@dataclass(frozen=True, slots=True)
class WatchedCounter:
    """A counter to read.

    Attributes:
        pod: UID of the pod.
        source: Location of the counter.
    """

    pod: str
    source: FileSource | HttpSource


@dataclass(frozen=True, slots=True)
class CounterValue:
    """The last reading of a counter.

    Attributes:
        value: Value of the counter; None before the first successful reading.
        at: Time of that reading, in seconds since 1970.
        problem: Why the counter cannot be read now; empty if it can.
    """

    value: float | None = None
    at: float = 0.0
    problem: str = ""


class WatchedCounters:
    """Reads counters in threads, which run while there are any.

    Args:
        open_counter: Opens a counter, in any thread; may raise `CounterError`.
        clock: Returns the time in seconds since 1970.
        period: Seconds between two readings.
        readers: Most counters that are read at the same time.
        monotonic: Returns the monotonic time in seconds.
    """

    def __init__(
        self,
        open_counter: Callable[[WatchedCounter], Counter],
        clock: Callable[[], float] = time.time,
        period: float = PERIOD_SECONDS,
        readers: int = READERS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open, self._clock, self._period = open_counter, clock, period
        self._readers, self._monotonic = readers, monotonic
        self._late: dict[WatchedCounter, float] = {}  # when they answered late
        self._wanted: tuple[WatchedCounter, ...] = ()
        self._values: dict[WatchedCounter, CounterValue] = {}
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def readings(self) -> Mapping[str, CounterValue]:
        """The last reading of each counter, by UID of the pod; those never tried are left out."""
        with self._lock:
            return {each.pod: self._values[each] for each in self._wanted if each in self._values}

    def watch(self, counters: Iterable[WatchedCounter]) -> None:
        """Read exactly these counters from now on, new ones at once."""
        wanted = tuple(counters)
        with self._lock:
            if wanted == self._wanted:
                return
            self._wanted = wanted
            self._values = {key: value for key, value in self._values.items() if key in wanted}
            self._changed.set()
            if wanted and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="counters", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        counters: dict[WatchedCounter, Counter] = {}
        while True:
            self._changed.clear()
            with self._lock:
                wanted = self._wanted
                if not wanted:
                    self._thread = None
                    break
            for gone in counters.keys() - set(wanted):
                counters.pop(gone).close()
            self._late = {each: at for each, at in self._late.items() if each in wanted}
            until = self._monotonic() + self._period
            self._read_all(wanted, counters, until)
            self._changed.wait(max(until - self._monotonic(), 0.0))
        for counter in counters.values():
            counter.close()

    def _read_all(
        self,
        wanted: Iterable[WatchedCounter],
        counters: dict[WatchedCounter, Counter],
        until: float,
    ) -> None:
        """Read all counters but late ones for which there is no time until the next round."""
        left = deque(sorted(dict.fromkeys(wanted), key=self._rank))
        others = [
            threading.Thread(target=self._read_some, args=(left, counters, until), daemon=True)
            for _ in range(min(self._readers, len(left)) - 1)
        ]
        started = []
        with suppress(RuntimeError):  # no more threads can be started
            for other in others:
                other.start()
                started.append(other)
        self._read_some(left, counters, until)
        for other in started:
            other.join()

    def _rank(self, each: WatchedCounter) -> tuple[bool, bool, float]:
        """Return the place of a counter in a round: answering ones, new ones, then late ones."""
        return (each in self._late, each not in self._values, self._late.get(each, 0.0))

    def _read_some(
        self, left: deque[WatchedCounter], counters: dict[WatchedCounter, Counter], until: float
    ) -> None:
        while True:
            try:
                each = left.popleft()
            except IndexError:
                return
            start = self._monotonic()
            if each in self._late and start >= until:
                continue
            self._read(each, counters)
            end = self._monotonic()
            if end - start >= LATE_SECONDS:
                self._late[each] = end
            else:
                self._late.pop(each, None)

    def _read(self, each: WatchedCounter, counters: dict[WatchedCounter, Counter]) -> None:
        before = self._values.get(each, CounterValue())
        try:
            if each not in counters:
                counters[each] = self._open(each)
            value = CounterValue(counters[each].read(), self._clock())
        except CounterError as error:
            value = replace(before, problem=str(error))
        except Exception as error:  # noqa: BLE001 - the thread must go on
            _log.error("counter of pod %s: %r", each.pod, error, exc_info=error)
            value = replace(before, problem="the agent cannot read it, see its log")
        with self._lock:
            if each in self._wanted:
                self._values[each] = value
