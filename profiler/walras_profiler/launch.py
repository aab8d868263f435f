"""Starts a command on given CPUs from its first instruction, and measures what it uses.

The child is a small launcher (`walras_profiler._launcher`) that waits until it has been moved
into its cgroup and only then executes the command: no instruction of the command runs elsewhere, no
time of the launcher is counted, and no code runs between fork and exec in a parent with threads.
The profiler starts its short runs by this module, the local run its long-lived jobs.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from resource import struct_rusage
from typing import IO

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "JULIA_NUM_THREADS",
    "GOMAXPROCS",
)
"""Environment variables that set the number of threads of common parallel run-times.

Numba's is left out: it is a bound, and ends programs that ask for more. Numba has as many threads
as the CPUs on which the program starts.
"""

_LAUNCHER = Path(__file__).with_name("_launcher.py")
_KIB = 1024


class LaunchError(Exception):
    """A command could not be started; the message is one line with its name and the cause."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments, executed without a shell.

    Attributes:
        argv: Program and arguments; the program is searched in the PATH of `environment`.
        environment: Complete environment of the command (see `job_environment`).
        cwd: Working directory; None for the caller's own.
        output: Open file for standard output; None to discard it.
        errors: Open file for standard error; None to discard it.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: Path | None = None
    output: IO[bytes] | None = None
    errors: IO[bytes] | None = None


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """Exit code of a command and the resources it used, without the launcher's.

    Attributes:
        exit_code: Exit code, or -N if signal N ended the command (as in `subprocess`).
        seconds: Wall time from exec to exit.
        user_seconds: CPU time in user mode, including children that it waited for.
        system_seconds: CPU time in the kernel, including children that it waited for.
        peak_memory: Largest resident set of any one process, in bytes. None if it was not above
            that of the launcher: the kernel's value (ru_maxrss, getrusage(2)) spans exec, so a
            smaller peak cannot be seen.
    """

    exit_code: int
    seconds: float
    user_seconds: float
    system_seconds: float
    peak_memory: int | None


def job_environment(
    base: Mapping[str, str], marker: Mapping[str, str], threads: int
) -> dict[str, str]:
    """Return `base` with the job's marker, and with thread counts that the user has not set.

    Args:
        base: Environment to start from, usually `os.environ`.
        marker: Variables that identify the job's processes: `environment` of its placement.
        threads: Logical CPUs of the job.
    """
    return dict.fromkeys(THREAD_VARIABLES, str(threads)) | dict(base) | dict(marker)


@dataclass(slots=True)
class LaunchedProcess:
    """A started command; a thread of its own waits for it, so that its times are exact.

    Attributes:
        pid: Process ID, which is also the ID of its session and process group.
    """

    pid: int
    _result: ProcessResult | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def poll(self) -> ProcessResult | None:
        """Return the result; None while the command runs."""
        return self._result

    def wait(self, timeout: float | None = None) -> ProcessResult | None:
        """Return the result; None if the command still runs after `timeout` seconds."""
        self._ended.wait(timeout)
        return self._result

    def _watch(self, child: subprocess.Popen[bytes], started: float, before: "_Usage") -> None:
        """Wait for the end, in a thread, and record the resources used since exec."""
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except ChildProcessError:  # an interrupted launch has killed it and waited for it
            return
        seconds = time.monotonic() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        self._result = _result(child.returncode, seconds, usage, before)
        self._ended.set()


def launch(command: Command, admit: Callable[[int], None]) -> LaunchedProcess:
    """Start `command` after `admit` has placed its process.

    The process leads a session of its own: Ctrl-C at the terminal does not reach it, and it
    cannot read from the terminal. Standard input is empty. When the calling thread is the
    main thread, the kernel kills the process if this one dies; in other threads that would happen
    at the end of the thread instead, so the `Reaper` must do it.

    Args:
        command: Command to start.
        admit: Called with the process ID before the command's first instruction.

    Returns:
        The running process.

    Raises:
        LaunchError: The command could not be executed.
        Exception: An error of `admit`; the process has then been killed.
    """
    gate_read, gate_write = os.pipe()
    status_read, status_write = os.pipe()
    with (
        os.fdopen(gate_write, "wb", buffering=0) as gate,
        os.fdopen(status_read, "rb", buffering=0) as status,
    ):
        try:
            child = _spawn(command, gate_read, status_write)
        finally:
            os.close(gate_read)
            os.close(status_write)
        try:
            return _release(command, child, admit, gate, status)
        except BaseException:
            child.kill()
            child.wait()
            raise


def _spawn(command: Command, gate: int, status: int) -> subprocess.Popen[bytes]:
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        raise LaunchError(
            "SIGCHLD is ignored, so the kernel keeps no exit codes: restore its handler first"
        )
    on_main_thread = threading.current_thread() is threading.main_thread()
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(gate), str(status)]
    try:
        return subprocess.Popen(
            [*launcher, str(os.getpid()), "1" if on_main_thread else "0", *command.argv],
            env=command.environment,
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=command.output or subprocess.DEVNULL,
            stderr=command.errors or subprocess.DEVNULL,
            pass_fds=(gate, status),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL character in an argument
        raise LaunchError(f"cannot start {command.argv[0]!r}: {error}") from error


def _release(
    command: Command,
    child: subprocess.Popen[bytes],
    admit: Callable[[int], None],
    gate: IO[bytes],
    status: IO[bytes],
) -> LaunchedProcess:
    """Let the waiting launcher execute the command, and check that it did."""
    before = _Usage.parse(status.readline())
    if before is None:
        raise LaunchError(f"cannot start {command.argv[0]!r}: its launcher was killed")
    admit(child.pid)
    started = time.monotonic()
    try:
        gate.write(b".")
    except BrokenPipeError as error:
        raise LaunchError(f"cannot start {command.argv[0]!r}: its launcher was killed") from error
    if failure := status.read():
        reason = os.strerror(int(failure))
        raise LaunchError(f"cannot run {command.argv[0]!r}: {reason}")
    process = LaunchedProcess(child.pid)
    threading.Thread(
        target=process._watch, args=(child, started, before), name=f"wait-{child.pid}", daemon=True
    ).start()
    return process


@dataclass(frozen=True, slots=True)
class _Usage:
    """CPU seconds, in user mode and in the kernel, and peak bytes of the launcher when ready."""

    user: float
    system: float
    peak: int

    @classmethod
    def parse(cls, line: bytes) -> "_Usage | None":
        fields = line.split()
        if len(fields) != 3:
            return None
        return cls(float(fields[0]), float(fields[1]), int(fields[2]) * _KIB)


def _result(exit_code: int, seconds: float, usage: struct_rusage, before: _Usage) -> ProcessResult:
    peak = usage.ru_maxrss * _KIB
    return ProcessResult(
        exit_code=exit_code,
        seconds=seconds,
        user_seconds=max(0.0, usage.ru_utime - before.user),
        system_seconds=max(0.0, usage.ru_stime - before.system),
        peak_memory=peak if peak > before.peak else None,
    )
