"""Start one command on given CPUs from its first instruction, and say what it used.

The child is a tiny launcher (`walras_profiler._launcher`) that waits until it has been moved
into its group and only then becomes the command: no instruction of the command runs elsewhere, no
time of the launcher's is counted, and no code runs between fork and exec in a parent with threads.
The profiler starts its short runs through this module, the local run its long-lived jobs.
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
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "JULIA_NUM_THREADS",
    "GOMAXPROCS",
)
"""How the common parallel run-times are told their number of threads."""

_LAUNCHER = Path(__file__).with_name("_launcher.py")
_KIB = 1024


class LaunchError(Exception):
    """A command could not be started; the message is one line that names it and says why."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments, never seen by a shell.

    Attributes:
        argv: Program and arguments; the program is looked up in the environment's PATH.
        environment: The whole environment of the command (see `job_environment`).
        cwd: Working directory; None is the caller's own.
        output: Open file for standard output; None discards it.
        errors: Open file for standard error; None discards it.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: Path | None = None
    output: IO[bytes] | None = None
    errors: IO[bytes] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an ended command used, without the launcher's share.

    Attributes:
        exit_code: As of the shell's ``$?``, but -N when signal N ended it (as in `subprocess`).
        seconds: Wall time from exec to exit.
        user_seconds: CPU time in user mode, with every child process that it waited for.
        system_seconds: CPU time in the kernel, likewise.
        peak_memory: Largest resident set of any one process, bytes. None when it was not above
            what the process held before exec: the kernel's figure (ru_maxrss, getrusage(2))
            spans exec, so a smaller peak cannot be seen.
    """

    exit_code: int
    seconds: float
    user_seconds: float
    system_seconds: float
    peak_memory: int | None


def job_environment(
    base: Mapping[str, str], marker: Mapping[str, str], threads: int
) -> dict[str, str]:
    """`base` with the job's marker, and with `threads` for run-times that the user left unset.

    Args:
        base: The environment to start from, as a rule `os.environ`.
        marker: What tells the job's processes from others: its group's `environment`.
        threads: Logical CPUs that the job is given.
    """
    return dict.fromkeys(THREAD_VARIABLES, str(threads)) | dict(base) | dict(marker)


@dataclass(slots=True)
class Process:
    """A started command. A thread of its own waits for it, so its times are exact.

    Attributes:
        pid: Process id; also the id of its session and process group.
    """

    pid: int
    _outcome: Outcome | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def poll(self) -> Outcome | None:
        """The outcome, or None while the command runs."""
        return self._outcome

    def wait(self, timeout: float | None = None) -> Outcome | None:
        """The outcome, or None when the command still runs after `timeout` seconds."""
        self._ended.wait(timeout)
        return self._outcome

    def _watch(self, child: subprocess.Popen[bytes], started: float, before: "_Usage") -> None:
        """Wait for the end (in a thread) and record what was used since exec."""
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except ChildProcessError:  # an interrupted launch has killed it and waited for it
            return
        seconds = time.monotonic() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        self._outcome = _outcome(child.returncode, seconds, usage, before)
        self._ended.set()


def launch(command: Command, admit: Callable[[int], None]) -> Process:
    """Start `command` once `admit` has put its process where it belongs.

    The process leads a session of its own: Ctrl-C at the terminal does not reach it, and it
    cannot stop to ask at the terminal. Standard input is empty. When the calling thread is the
    main thread, the kernel kills the process if this one dies; in other threads that would tie
    it to the thread's life instead, so it is left to the `Reaper`.

    Args:
        command: What to run.
        admit: Called with the process id before the command's first instruction.

    Returns:
        The running process.

    Raises:
        LaunchError: The command could not be executed.
        Exception: Whatever `admit` raises; the process has been killed then.
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
        raise LaunchError("SIGCHLD is ignored, so the kernel keeps no exit codes: restore it first")
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
) -> Process:
    """Let the waiting launcher go on, and see that it became the command."""
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
    process = Process(child.pid)
    threading.Thread(
        target=process._watch,
        args=(child, started, before),
        name=f"wait-{child.pid}",
        daemon=True,
    ).start()
    return process


@dataclass(frozen=True, slots=True)
class _Usage:
    """What the launcher had used when it got ready: seconds, seconds, bytes."""

    user: float
    system: float
    peak: int

    @classmethod
    def parse(cls, line: bytes) -> "_Usage | None":
        fields = line.split()
        if len(fields) != 3:
            return None
        return cls(float(fields[0]), float(fields[1]), int(fields[2]) * _KIB)


def _outcome(exit_code: int, seconds: float, usage: struct_rusage, before: _Usage) -> Outcome:
    peak = usage.ru_maxrss * _KIB
    return Outcome(
        exit_code=exit_code,
        seconds=seconds,
        user_seconds=max(0.0, usage.ru_utime - before.user),
        system_seconds=max(0.0, usage.ru_stime - before.system),
        peak_memory=peak if peak > before.peak else None,
    )
