"""Facts: counters of a pod's progress; those that jobs keep themselves are in other modules."""

from __future__ import annotations

import math
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from walras_agent.tree import CgroupError, read_cpu_seconds

if TYPE_CHECKING:
    from walras_agent.profiling.request import Source
    from walras_agent.tree import Cgroups

TIMEOUT_SECONDS = 1.0
"""Longest time that a job's own counter may take to answer; the agent's loop waits for it."""


MAX_MESSAGE = 400
"""Most characters of a `CounterError`: a node's status has those of all pods."""


class CounterError(Exception):
    """A counter cannot be read; one line with its name, the cause and the way out.

    The message may quote what a job has sent, so it is cut to `MAX_MESSAGE` characters, and control
    characters are replaced.
    """

    def __init__(self, message: str) -> None:
        shown = message[:MAX_MESSAGE]
        super().__init__("".join(each if each.isprintable() else "?" for each in shown))


class Reading(NamedTuple):
    """Values of a pod's counters at one time.

    Attributes:
        progress: Progress of the pod so far, in any unit.
        memory_bytes: Bytes moved between caches and memory so far; None where not counted.
        at: Time of the reading, seconds, monotonic.
        took: Seconds that it took to read the progress: half of them is the error of ``at``.
    """

    progress: float
    memory_bytes: float | None
    at: float
    took: float = 0.0


class Counter(Protocol):
    """A counter that grows as a pod makes progress."""

    @property
    def source(self) -> Source:
        """Kind of the counter."""

    def read(self) -> float:
        """Return the progress so far, in any unit.

        Raises:
            CounterError: The counter cannot be read.
        """

    def close(self) -> None:
        """Release what the counter holds, such as descriptors."""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Counter of a pod's CPU time in seconds.

    For a program whose threads work or sleep, it grows by Amdahl's speedup each second. Time in
    which threads spin counts as work.
    """

    cgroups: Cgroups
    group: str
    source: Source = field(default="cpuTime", init=False)

    def read(self) -> float:
        """Return the progress so far, as `Counter.read` does."""
        try:
            return read_cpu_seconds(self.cgroups, self.group)
        except CgroupError as error:
            raise CounterError(f"CPU time: {error}") from error

    def close(self) -> None:
        """Do nothing: no resource is held between reads."""


@dataclass(slots=True)
class ThreadedCounter:
    """Counter that reads another one in a thread, with a timeout of `TIMEOUT_SECONDS`.

    A file of a container may be on a file system that never answers. The thread then stays blocked,
    no second one is started, and later reads fail at once until it has ended.
    """

    counter: Counter
    _late: Future[float] | None = None
    """Answer to a read that timed out."""

    @property
    def source(self) -> Source:
        """Kind of the wrapped counter."""
        return self.counter.source

    def read(self) -> float:
        """Return the progress so far, or raise `CounterError` after `TIMEOUT_SECONDS`."""
        answer, timeout = self._late, 0.0
        if answer is None or answer.done():  # a late answer is of the past
            answer, timeout = Future(), TIMEOUT_SECONDS
            threading.Thread(target=self._read, args=(answer,), daemon=True).start()
        try:
            progress = answer.result(timeout)
        except TimeoutError:
            self._late = answer
            raise CounterError(
                f"the job's own counter does not answer within {TIMEOUT_SECONDS:g} s; "
                "keep it where reads do not block"
            ) from None
        self._late = None
        return progress

    def close(self) -> None:
        """Close the wrapped counter."""
        self.counter.close()

    def _read(self, answer: Future[float]) -> None:
        try:
            answer.set_result(self.counter.read())
        except Exception as error:  # noqa: BLE001 - read() raises it
            answer.set_exception(error)


def parse_number(text: bytes, where: str) -> float:
    """Parse the first word of a text as a number.

    Raises:
        CounterError: The word is no finite number. The message does not quote the text, which may
            be confidential.
    """
    words = text.split(maxsplit=1)
    try:
        number = float(words[0]) if words else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise CounterError(f"{where} does not begin with a number; write it in plain digits")
    return number
