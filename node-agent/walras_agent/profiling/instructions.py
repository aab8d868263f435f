"""Facts: the instructions that the processes of a group execute, counted by the processor.

By perf_event_open(2) on a cgroup, with one counter on each CPU (the kernel has no other way to
count for a group; groups inside it count too). A processor has few counters: when others use them
as well the kernel lets them take turns, and what was counted is scaled to the whole time.
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

MOST_CPUS = 512
"""One descriptor each; an agent usually may have 1024 (RLIMIT_NOFILE)."""

_SYSCALLS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}

# include/uapi/linux/perf_event.h
_ATTRIBUTES = struct.Struct("IIQQQQQIIQ")  # struct perf_event_attr, of PERF_ATTR_SIZE_VER0
_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_OF_CGROUP = 4 | 8  # PERF_FLAG_PID_CGROUP, PERF_FLAG_FD_CLOEXEC
_VALUE = struct.Struct("QQQ")

_LIBC = ctypes.CDLL(None, use_errno=True)  # has no function of its own for this call

_WHY = {
    errno.ENOENT: "this machine shows no such counter, as virtual machines often do",
    errno.ENODEV: "this machine has no such counter",
    errno.EOPNOTSUPP: "this machine has no such counter",
    errno.EACCES: "the kernel forbids it; run the agent privileged or with CAP_PERFMON",
    errno.EPERM: "the kernel forbids it; run the agent privileged or with CAP_PERFMON",
}


class Event(NamedTuple):
    """What is to be counted, as ``type``, ``config`` and flags of struct perf_event_attr."""

    type: int
    config: int
    flags: int = 0


# In user mode, without hypervisor (exclude_kernel, exclude_hv): what the kernel does for a program
# that waits is no progress.
INSTRUCTIONS = Event(type=0, config=1, flags=1 << 5 | 1 << 6)


class _Value(NamedTuple):
    counted: int
    enabled: int
    running: int


@dataclass(slots=True)
class Instructions:
    """An open counter for a group.

    Attributes:
        source: What is counted.
    """

    _counters: dict[int, _Value]
    _open: ExitStack
    _total: float = 0.0
    source: Source = field(default="instructions", init=False)

    @classmethod
    def open(cls, folder: str, cpus: CpuSet, event: Event = INSTRUCTIONS) -> Instructions:
        """Count from now on.

        Args:
            folder: Of the group: in v1 below the mount of ``perf_event``.
            cpus: Those on which its processes may run meanwhile.
            event: What is counted.

        Raises:
            CounterError: It cannot be counted here.
        """
        if len(cpus) > MOST_CPUS:
            raise CounterError(
                f"instructions: {len(cpus)} CPUs need more open files than {MOST_CPUS}; "
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
        """See `Counter`."""
        for descriptor, before in self._counters.items():
            try:
                now = _Value(*_VALUE.unpack(os.read(descriptor, _VALUE.size)))
            except OSError as error:
                raise CounterError(f"instructions: {_why(error)}") from error
            self._counters[descriptor] = now
            self._total += _scaled(before, now)
        return self._total

    def close(self) -> None:
        """See `Counter`."""
        self._open.close()
        self._counters.clear()


def _scaled(before: _Value, now: _Value) -> float:
    """What happened between two readings, as far as the part that was counted tells."""
    running = now.running - before.running
    if running == 0:
        return 0.0
    return (now.counted - before.counted) * (now.enabled - before.enabled) / running


def _perf_event_open(event: Event, group: int, cpu: int, opened: ExitStack) -> int:
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
