"""Hardware counters of a run, by `perf stat` where the machine has it and the kernel lets it.

Virtual machines often have no counters to show, and ordinary users often may not read them: the
profile then goes by wall time alone, and says so once.

perf is attached to a process that somebody else starts and waits for. As the parent of a command
it would keep to itself that a signal ended it (perf 6.1 then exits with 0), and now and then the
exit code of a command that ends at once.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

EVENTS = ("instructions", "cycles", "cache-misses")

_PATIENCE_SECONDS = 10
_VALUE, _EVENT = 0, 2  # fields of a line of `perf stat -x,` (perf-stat(1), CSV FORMAT)


@dataclass(frozen=True, slots=True)
class Attached:
    """A `perf stat` that counts for a process and for all that it starts."""

    _perf: subprocess.Popen[str]

    def detach(self) -> str:
        """End the counting; returns what perf has to say, for `parse_counts`."""
        with contextlib.suppress(ProcessLookupError):
            self._perf.send_signal(signal.SIGINT)  # perf prints its counts and ends
        try:
            return self._perf.communicate(timeout=_PATIENCE_SECONDS)[1]
        except subprocess.TimeoutExpired:
            self._perf.kill()
            return self._perf.communicate()[1]


@dataclass(frozen=True, slots=True)
class Counters:
    """A working `perf stat`.

    Attributes:
        program: Path of perf.
        events: The events that count here.
    """

    program: str
    events: tuple[str, ...]

    def attach(self, pid: int) -> Attached:
        """Count from now on; a process that perf may not watch is not counted.

        Raises:
            OSError: perf cannot be started.
        """
        commands, to_perf = os.pipe()
        from_perf, answers = os.pipe()
        try:
            # Opened disabled (-D -1), so that the answer to "enable" says that all events count.
            control = ("-D", "-1", "--control", f"fd:{commands},{answers}")
            what = ("-e", ",".join(self.events), "-p", str(pid))
            perf = subprocess.Popen(
                (self.program, "stat", "-x,", *control, *what),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=(commands, answers),
                start_new_session=True,  # Ctrl-C at the terminal is not for perf
            )
            os.write(to_perf, b"enable\n")
            os.close(answers)
            answers = -1
            select.select([from_perf], [], [], _PATIENCE_SECONDS)
        finally:
            for descriptor in (commands, to_perf, from_perf, answers):
                if descriptor >= 0:
                    os.close(descriptor)
        return Attached(perf)


@dataclass(frozen=True, slots=True)
class NoCounters:
    """Why nothing is counted, in a few words."""

    reason: str


def open_counters(events: tuple[str, ...] = EVENTS) -> Counters | NoCounters:
    """Try `perf stat` on this very process and keep the events that give a count."""
    program = shutil.which("perf")
    if program is None:
        return NoCounters("perf is not installed")
    try:
        said = Counters(program, events).attach(os.getpid()).detach()
    except OSError as error:
        return NoCounters(f"perf does not run: {error}")
    counts = parse_counts(said)
    counted = tuple(event for event in events if event in counts)
    return Counters(program, counted) if counted else NoCounters(_reason(said))


def parse_counts(text: str) -> dict[str, int]:
    """Event to count, from `perf stat -x,`; leaves out events that were not counted.

    A modifier that perf adds to an event (``instructions:u``) is dropped.
    """
    counts = {}
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) > _EVENT and fields[_VALUE].isdigit():
            counts[fields[_EVENT].partition(":")[0]] = int(fields[_VALUE])
    return counts


def _reason(said: str) -> str:
    if "<not supported>" in said:
        return "the machine shows no hardware counters, as virtual machines often do"
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    if os.geteuid() and paranoid.exists():
        return f"the kernel forbids it (perf_event_paranoid is {paranoid.read_text().strip()})"
    last = said.strip().rpartition("\n")[2]
    return f"perf stat counted nothing ({last or 'and did not say why'})"
