"""Facts: reads the progress counters of pods with deadlines from time to time, in a thread.

A job's counter may be slow to answer, and the agent's loop does not wait for it: `readings` returns
the last values at once. A counter that cannot be read keeps its last value, beside the problem.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walras_agent.profiling.counters import CounterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from walras_agent.profiling.counters import Counter
    from walras_agent.profiling.request import FileSource, HttpSource

_log = logging.getLogger(__name__)

PERIOD_SECONDS = 30.0
"""Seconds between two readings of a counter."""


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
    """Reads counters in a thread, which runs while there are any.

    Args:
        open_counter: Opens a counter; may raise `CounterError`.
        clock: Returns the time in seconds since 1970.
        period: Seconds between two readings.
    """

    def __init__(
        self,
        open_counter: Callable[[WatchedCounter], Counter],
        clock: Callable[[], float] = time.time,
        period: float = PERIOD_SECONDS,
    ) -> None:
        self._open, self._clock, self._period = open_counter, clock, period
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
            for each in wanted:
                self._read(each, counters)
            self._changed.wait(self._period)
        for counter in counters.values():
            counter.close()

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
