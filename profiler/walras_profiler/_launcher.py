"""Child process that waits until it is placed on the right CPUs, then executes the user's command.

`walras_profiler.launch` starts this file by path in an isolated interpreter (``python -I -S``),
so it may use the standard library only. The protocol between the two:

1. this process writes its own CPU time and peak memory so far to the status pipe ("ready");
2. the parent moves it into its group, starts the clock and writes one byte to the gate pipe;
3. this process execs the command. The status pipe closes by itself when that succeeds;
   when it fails, the errno is written to it.
"""

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1  # prctl(2)
EXEC_FAILED = 127  # a shell's exit code when it cannot run a command


def main(arguments: list[str]) -> int:
    """Wait at the gate, then execute ``arguments[4:]``; return only if that failed.

    The first four arguments are the gate's and the status pipe's file descriptors, the parent's
    process id, and "1" when this process is to die with the parent's thread.
    """
    gate, status, parent = (int(argument) for argument in arguments[:3])
    for descriptor in (gate, status):
        os.set_inheritable(descriptor, False)
    if arguments[3] == "1":
        die_with_parent()
    command, environment = arguments[4:], original_environment()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    os.write(status, b"%f %f %d\n" % (usage.ru_utime, usage.ru_stime, usage.ru_maxrss))
    # End of file: the parent has died, and no process would wait for the command or stop it.
    if not os.read(gate, 1) or os.getppid() != parent:
        return EXEC_FAILED
    restore_signals()
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 (no shell is the point)
    except OSError as error:
        os.write(status, b"%d\n" % (error.errno or 0))
    return EXEC_FAILED


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when the thread that started this process ends (prctl(2))."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def original_environment() -> dict[bytes, bytes]:
    """Return the environment that this process was started with.

    `os.environ` differs from it: in the C locale the interpreter adds LC_CTYPE (PEP 538).
    """
    entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)


def restore_signals() -> None:
    """Undo the interpreter's ignoring of SIGPIPE and SIGXFSZ, which exec would pass on."""
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
