"""Hardware counters of a run, by `perf stat` where the machine has it and the kernel lets it.

Virtual machines often have no counters to show, and ordinary users often may not read them: the
profile then goes by wall time alone, and says so once.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

EVENTS = ("instructions", "cycles", "cache-misses")

_PROBE_SECONDS = 10
_VALUE, _EVENT = 0, 2  # fields of a line of `perf stat -x,` (perf-stat(1), CSV FORMAT)


@dataclass(frozen=True, slots=True)
class Counters:
    """A working `perf stat`.

    Attributes:
        program: Path of perf.
        events: The events that count here.
    """

    program: str
    events: tuple[str, ...]

    def wrap(self, argv: tuple[str, ...], output: Path) -> tuple[str, ...]:
        """The command line that runs `argv` and writes its counts to `output`."""
        events = ",".join(self.events)
        return (self.program, "stat", "-x,", "-e", events, "-o", str(output), "--", *argv)


@dataclass(frozen=True, slots=True)
class NoCounters:
    """Why nothing is counted, in a few words."""

    reason: str


def open_counters(events: tuple[str, ...] = EVENTS) -> Counters | NoCounters:
    """Try `perf stat` on a trifle and keep the events that give a count."""
    program = shutil.which("perf")
    if program is None:
        return NoCounters("perf is not installed")
    probe = Counters(program, events)
    argv = list(probe.wrap(("true",), Path("/dev/stderr")))
    try:
        trial = subprocess.run(
            argv, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return NoCounters(f"perf does not run: {error}")
    counted = tuple(event for event in events if event in parse_counts(trial.stderr))
    return Counters(program, counted) if counted else NoCounters(_reason(trial))


def read_counts(output: Path) -> dict[str, int]:
    """The counts that `Counters.wrap` had written; empty when perf was killed before."""
    return parse_counts(output.read_text()) if output.exists() else {}


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


def _reason(trial: subprocess.CompletedProcess[str]) -> str:
    if "<not supported>" in trial.stderr:
        return "the machine shows no hardware counters, as virtual machines often do"
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    if trial.returncode and os.geteuid() and paranoid.exists():
        return f"the kernel forbids it (perf_event_paranoid is {paranoid.read_text().strip()})"
    return f"perf stat counted nothing (exit code {trial.returncode})"
