"""Facts: counts the instructions that the processes of a cgroup execute.

It uses perf_event_open(2) on a cgroup, with a counter on each CPU (the kernel has no other way to
count for a cgroup; its descendants are included). A processor has few counters: if others use them
too, the kernel multiplexes them, and the counts are scaled to the whole time.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.profiling.counters import CounterError

if TYPE_CHECKING:
    from walras_agent.cpuset import CpuSet
    from walras_agent.profiling.request import Source

MAX_CPUS = 512
"""Each takes a descriptor, of which an agent may have no more than 1024 (RLIMIT_NOFILE)."""

_SYSCALLS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}

# include/uapi/linux/perf_event.h
_ATTRIBUTES = struct.Struct("IIQQQQQIIQ")  # struct perf_event_attr, of PERF_ATTR_SIZE_VER0
_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_OF_CGROUP = 4 | 8  # PERF_FLAG_PID_CGROUP, PERF_FLAG_FD_CLOEXEC
_VALUE = struct.Struct("QQQ")

_LIBC = ctypes.CDLL(None, use_errno=True)  # it has no wrapper for this system call

_WHY = {
    errno.ENOENT: "this machine exposes no such counter, as is common for virtual machines",
    errno.ENODEV: "this machine has no such counter",
    errno.EOPNOTSUPP: "this machine has no such counter",
    errno.EACCES: "the kernel forbids it; run the agent privileged or with CAP_PERFMON",
    errno.EPERM: "the kernel forbids it; run the agent privileged or with CAP_PERFMON",
}


class PerfEvent(NamedTuple):
    """Event to count: ``type``, ``config`` and flags of struct perf_event_attr."""

    type: int
    config: int
    flags: int = 0


# In user mode only (exclude_kernel, exclude_hv): what the kernel does for a program that waits is
# no progress.
INSTRUCTIONS = PerfEvent(type=0, config=1, flags=1 << 5 | 1 << 6)


class _Value(NamedTuple):
    counted: int
    enabled: int
    running: int


@dataclass(slots=True)
class Instructions:
    """Counter of the instructions of a cgroup in user mode.

    Attributes:
        source: Kind of the counter.
    """

    _counters: dict[int, _Value]
    _open: ExitStack
    _total: float = 0.0
    source: Source = field(default="instructions", init=False)

    @classmethod
    def open(cls, folder: str, cpus: CpuSet, event: PerfEvent = INSTRUCTIONS) -> Instructions:
        """Start to count.

        Args:
            folder: Path of the cgroup, in v1 below the mount of ``perf_event``.
            cpus: CPUs on which its processes may run during the measurement.
            event: Event to count.

        Raises:
            CounterError: This machine or the kernel does not let the event be counted.
        """
        if len(cpus) > MAX_CPUS:
            raise CounterError(
                f"instructions: {len(cpus)} CPUs, and at most {MAX_CPUS} can be counted on; "
                "name the job's own counter"
            )
        with ExitStack() as opened:
            try:
                group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    counters = [_perf_event_open(event, group, cpu, opened) for cpu in cpus]
                finally:
                    os.close(group)
            except FileNotFoundError as error:
                raise CounterError(
                    f"instructions: {_why(error) if error.filename is None else _missing(folder)}"
                ) from error
            except OSError as error:
                raise CounterError(f"instructions: {_why(error)}") from error
            return cls(dict.fromkeys(counters, _Value(0, 0, 0)), opened.pop_all())

    def read(self) -> float:
        """Return the progress so far, as `Counter.read` does."""
        for descriptor, before in self._counters.items():
            try:
                now = _Value(*_VALUE.unpack(os.read(descriptor, _VALUE.size)))
            except OSError as error:
                raise CounterError(f"instructions: {_why(error)}") from error
            self._counters[descriptor] = now
            self._total += _scaled(before, now)
        return self._total

    def close(self) -> None:
        """Close the descriptors of all CPUs."""
        self._open.close()
        self._counters.clear()


def _scaled(before: _Value, now: _Value) -> float:
    """Return the events between two readings, scaled from the counted time to all of it."""
    running = now.running - before.running
    if running == 0:
        return 0.0
    return (now.counted - before.counted) * (now.enabled - before.enabled) / running


def _perf_event_open(event: PerfEvent, group: int, cpu: int, opened: ExitStack) -> int:
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    attributes = _ATTRIBUTES.pack(
        event.type, _ATTRIBUTES.size, event.config, 0, 0, _TIMES, event.flags, 0, 0, 0
    )
    descriptor = _LIBC.syscall(
        ctypes.c_long(number), attributes, group, cpu, -1, ctypes.c_ulong(_OF_CGROUP)
    )
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    opened.callback(os.close, descriptor)
    return int(descriptor)


def _missing(folder: str) -> str:
    return f"{folder} is not there; mount the host's perf_event hierarchy beside the others"


def _why(error: OSError) -> str:
    return _WHY.get(error.errno or 0, os.strerror(error.errno or 0))
