"""Counts hardware events of a run by `perf stat`, where machine and kernel permit it.

Virtual machines often have no counters, and ordinary users often may not read them: the profile
then uses wall time alone, and reports that once.

perf is attached to a process that another one starts and waits for. As the parent of a command it
would not report that a signal ended it (perf 6.1 then exits with 0), and sometimes lose the exit
code of a command that ends at once.
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

_TIMEOUT_SECONDS = 10
_VALUE, _EVENT = 0, 2  # fields of a line of `perf stat -x,` (perf-stat(1), CSV FORMAT)


@dataclass(frozen=True, slots=True)
class AttachedPerf:
    """A running `perf stat` that counts for a process and its descendants."""

    _perf: subprocess.Popen[str]

    def detach(self) -> str:
        """Stop counting, and return the output of perf for `parse_counts`."""
        with contextlib.suppress(ProcessLookupError):
            self._perf.send_signal(signal.SIGINT)  # perf prints its counts and ends
        try:
            return self._perf.communicate(timeout=_TIMEOUT_SECONDS)[1]
        except subprocess.TimeoutExpired:
            self._perf.kill()
            return self._perf.communicate()[1]


@dataclass(frozen=True, slots=True)
class Counters:
    """A `perf stat` that works on this machine."""

    program: str
    events: tuple[str, ...]

    def attach(self, pid: int) -> AttachedPerf:
        """Start to count; nothing is counted for a process that perf may not attach to.

        Raises:
            OSError: perf cannot be started.
        """
        commands, to_perf = os.pipe()
        from_perf, answers = os.pipe()
        try:
            # Opened disabled (-D -1): the answer to "enable" then confirms that all events count.
            control = ("-D", "-1", "--control", f"fd:{commands},{answers}")
            selected = ("-e", ",".join(self.events), "-p", str(pid))
            perf = subprocess.Popen(
                (self.program, "stat", "-x,", *control, *selected),
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
            select.select([from_perf], [], [], _TIMEOUT_SECONDS)
        finally:
            for descriptor in (commands, to_perf, from_perf, answers):
                if descriptor >= 0:
                    os.close(descriptor)
        return AttachedPerf(perf)


@dataclass(frozen=True, slots=True)
class NoCounters:
    """No events can be counted here."""

    reason: str


def open_counters(events: tuple[str, ...] = EVENTS) -> Counters | NoCounters:
    """Try `perf stat` on this process, and return the events that it can count."""
    program = shutil.which("perf")
    if program is None:
        return NoCounters("perf is not installed")
    try:
        output = Counters(program, events).attach(os.getpid()).detach()
    except OSError as error:
        return NoCounters(f"perf does not run: {error}")
    counts = parse_counts(output)
    counted = tuple(event for event in events if event in counts)
    return Counters(program, counted) if counted else NoCounters(_reason(output))


def parse_counts(text: str) -> dict[str, int]:
    """Return the count of each event in the output of `perf stat -x,`, without uncounted events.

    A modifier that perf adds to an event (``instructions:u``) is dropped.
    """
    counts = {}
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) > _EVENT and fields[_VALUE].isdigit():
            counts[fields[_EVENT].partition(":")[0]] = int(fields[_VALUE])
    return counts


def _reason(output: str) -> str:
    if "<not supported>" in output:
        return "the machine exposes no hardware counters, as is common for virtual machines"
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    if os.geteuid() and paranoid.exists():
        return f"the kernel forbids it (perf_event_paranoid is {paranoid.read_text().strip()})"
    last = output.strip().rpartition("\n")[2]
    return f"perf stat counted nothing ({last or 'without giving a reason'})"
