"""Facts: how far a pod has got, as something countable; what can be counted is in other modules."""

from __future__ import annotations

import math
import queue
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from walras_agent.profiling.request import Source
    from walras_agent.tree import Cgroups

PATIENCE_SECONDS = 1.0
"""So long a job's own counter may take to answer; the agent's loop waits for it."""


class CounterError(Exception):
    """A counter cannot be read; one line: which, what is wrong, the way out."""


class Reading(NamedTuple):
    """What was read at one moment.

    Attributes:
        progress: Of the pod, in any unit.
        memory_bytes: Between caches and memory so far; None where that is not counted.
        at: Seconds, monotonic.
    """

    progress: float
    memory_bytes: float | None
    at: float


class Counter(Protocol):
    """Something that grows as a pod gets on."""

    @property
    def source(self) -> Source:
        """What is counted."""

    def read(self) -> float:
        """Return how far it has got.

        Raises:
            CounterError: It cannot be read.
        """

    def close(self) -> None:
        """Give back what it holds."""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """The CPU time of a pod, seconds.

    For a program whose threads work or sleep, it grows by Amdahl's speedup each second; time in
    which threads wait in a loop looks like work.
    """

    cgroups: Cgroups
    group: str
    source: Source = field(default="cpuTime", init=False)

    def read(self) -> float:
        """See `Counter`."""
        try:
            if self.cgroups.version == 1:
                used = self.cgroups.read(Setting("cpuacct", self.group, "cpuacct.usage"))
                return int(used) / 1e9
            lines = self.cgroups.read(Setting("cpu", self.group, "cpu.stat")).splitlines()
        except CgroupError as error:
            raise CounterError(f"CPU time: {error}") from error
        return next(int(line.split()[1]) for line in lines if line.startswith("usage_usec ")) / 1e6

    def close(self) -> None:
        """See `Counter`."""


@dataclass(slots=True)
class InThread:
    """Reads another counter in a thread, and waits for it no longer than `PATIENCE_SECONDS`.

    A file of a container may be on a file system that never answers. The thread then stays, and
    no other is started beside it.
    """

    counter: Counter
    _thread: threading.Thread | None = None

    @property
    def source(self) -> Source:
        """See `Counter`."""
        return self.counter.source

    def read(self) -> float:
        """See `Counter`."""
        answers: queue.SimpleQueue[float | CounterError] = queue.SimpleQueue()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._read, args=(answers,), daemon=True)
            self._thread.start()
        try:
            answer = answers.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            raise CounterError(
                f"the job's own counter does not answer within {PATIENCE_SECONDS:g} s; "
                "keep it where reading never waits"
            ) from None
        if isinstance(answer, CounterError):
            raise answer
        return answer

    def close(self) -> None:
        """See `Counter`."""
        self.counter.close()

    def _read(self, answers: queue.SimpleQueue[float | CounterError]) -> None:
        try:
            answers.put(self.counter.read())
        except CounterError as error:
            answers.put(error)


def parse_number(text: bytes, where: str) -> float:
    """The first word of a text, as a number.

    Raises:
        CounterError: It is none. The text is not quoted: it need not be meant for whoever reads
            the message.
    """
    words = text.split(maxsplit=1)
    try:
        number = float(words[0]) if words else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise CounterError(f"{where} does not begin with a number; write it in plain digits")
    return number
