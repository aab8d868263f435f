"""Starting commands for real: nothing is faked, every test runs programs on this machine."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from waiting import PATIENCE
from walras_profiler.launch import (
    Command,
    LaunchedProcess,
    LaunchError,
    ProcessResult,
    job_environment,
    launch,
)

pytestmark = pytest.mark.system

MEBIBYTE = 1 << 20


def nowhere(pid: int) -> None:
    """Admit a process to no group at all."""


def command(*argv: str, **overrides: object) -> Command:
    values: dict[str, object] = {"environment": dict(os.environ)} | overrides
    return Command(argv, **values)  # type: ignore[arg-type]


def python(code: str, **overrides: object) -> Command:
    return command(sys.executable, "-c", code, **overrides)


def finish(process: LaunchedProcess) -> ProcessResult:
    outcome = process.wait(PATIENCE)
    assert outcome is not None, "the command did not end"
    return outcome


def output_of(started: Command, path: Path, admit: Callable[[int], None] = nowhere) -> str:
    with path.open("wb") as file:
        held = Command(started.argv, started.environment, started.cwd, output=file)
        assert finish(launch(held, admit)).exit_code == 0
    return path.read_text()


@pytest.mark.parametrize(
    ("argv", "exit_code"),
    [(("true",), 0), (("sh", "-c", "exit 3"), 3), (("sh", "-c", "kill -9 $$"), -signal.SIGKILL)],
)
def test_exit_code_is_the_commands_own(argv: tuple[str, ...], exit_code: int) -> None:
    assert finish(launch(command(*argv), nowhere)).exit_code == exit_code


def test_wall_time_counts_the_command_and_not_its_launcher() -> None:
    quick = min(finish(launch(command("true"), nowhere)).seconds for _ in range(5))
    slow = finish(launch(command("sleep", "0.3"), nowhere)).seconds
    assert quick < 0.015, "a launcher's start-up takes longer than this"
    assert 0.3 <= slow < 0.4


def test_cpu_time_counts_children_and_leaves_out_the_launcher() -> None:
    # A process keeps its clock over exec, so this one counts from where the command begins.
    spin = "import time\nbegun = time.process_time()\nwhile time.process_time() < begun + 0.3: pass"
    own = finish(launch(python(spin), nowhere))
    child = finish(launch(command("sh", "-c", f"{sys.executable} -c '{spin}'; true"), nowhere))
    idle = finish(launch(command("true"), nowhere))
    for spun in (own, child):  # and the interpreter's own start
        assert 0.29 < spun.user_seconds + spun.system_seconds < 0.45
    assert idle.user_seconds + idle.system_seconds < 0.01


def test_peak_memory_is_the_commands_own_or_unknown() -> None:
    # What this process holds must not be reported; what the command holds must be larger.
    ballast = bytearray(b"x") * (100 * MEBIBYTE)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 + 100
    small = finish(launch(command("true"), nowhere))
    large = finish(launch(python(f"len(bytearray(b'x') * ({held} << 20))"), nowhere))
    assert len(ballast) > 0
    assert small.peak_memory is None
    assert large.peak_memory is not None
    assert held * MEBIBYTE <= large.peak_memory < (held + 50) * MEBIBYTE


def test_command_runs_on_its_cpus_from_its_first_instruction(tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    report = python("import os; print(sorted(os.sched_getaffinity(0)))")
    held = output_of(report, tmp_path / "out", lambda pid: os.sched_setaffinity(pid, {last}))
    assert held == f"[{last}]\n"


def test_command_sees_exactly_the_environment_given(tmp_path: Path) -> None:
    given = {"PATH": os.environ["PATH"], "A": "1=2", "B": "two\nlines"}
    shown = output_of(command("env", "-0", environment=given), tmp_path / "out")
    assert dict(entry.split("=", 1) for entry in shown.split("\0") if entry) == given


def test_command_has_empty_input_its_own_session_and_default_signals(tmp_path: Path) -> None:
    report = "import os, sys; print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()))"
    assert output_of(python(report), tmp_path / "out") == "True ''\n"
    shown = output_of(command("grep", "SigIgn", "/proc/self/status"), tmp_path / "mask")
    ignored = {bit + 1 for bit in range(64) if int(shown.split()[1], 16) >> bit & 1}
    # What this process was itself told to ignore, as by nohup, is passed on; what Python ignores of
    # its own is not. And not even Python can touch the signals that the C library keeps to itself.
    told = {n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN}
    assert ignored & set(signal.valid_signals()) == told - {signal.SIGPIPE, signal.SIGXFSZ}


def test_command_inherits_no_descriptor_of_the_parent(tmp_path: Path) -> None:
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        shown = output_of(command("ls", "/proc/self/fd"), tmp_path / "out")
    finally:
        os.close(descriptor)
    assert shown.split() == ["0", "1", "2", "3"]  # 3 is ls reading the folder


def test_command_starts_in_its_working_directory(tmp_path: Path) -> None:
    assert output_of(command("pwd", cwd=tmp_path), tmp_path / "out") == f"{tmp_path}\n"


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("no-such-command-here",), "cannot run 'no-such-command-here': No such file or directory"),
        (("/dev/null",), "cannot run '/dev/null': Permission denied"),
        (("a\0b",), "cannot start 'a\\x00b': embedded null byte"),
    ],
)
def test_what_cannot_run_is_one_line_and_leaves_no_process(
    argv: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(LaunchError) as failure:
        # A folder in PATH that this user may not enter would say so instead.
        launch(command(*argv, environment={"PATH": "/usr/bin:/bin"}), nowhere)
    assert str(failure.value) == reason
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_missing_working_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"cannot start 'true': .*gone"):
        launch(command("true", cwd=tmp_path / "gone"), nowhere)


def test_failing_admission_kills_the_waiting_process() -> None:
    admitted = []

    def refuse(pid: int) -> None:
        admitted.append(pid)
        raise OSError("no such group")

    with pytest.raises(OSError, match="no such group"):
        launch(command("sleep", "60"), refuse)
    assert not Path(f"/proc/{admitted[0]}").exists()


def test_launcher_that_dies_while_waiting_is_an_error_not_a_hang() -> None:
    def murder(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    with pytest.raises(LaunchError, match="its launcher was killed"):
        launch(command("true"), murder)


def test_works_from_many_threads_at_once_and_outlives_them() -> None:
    processes: list[LaunchedProcess] = []

    def start() -> None:
        processes.append(launch(command("sleep", "0.2"), nowhere))

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [finish(process).exit_code for process in processes] == [0] * 6


def test_wait_gives_up_after_its_timeout_and_poll_does_not_wait() -> None:
    process = launch(command("sleep", "60"), nowhere)
    assert process.poll() is None
    assert process.wait(0.01) is None
    os.killpg(process.pid, signal.SIGTERM)
    assert finish(process).exit_code == -signal.SIGTERM
    assert process.poll() is not None


def test_command_dies_with_a_killed_parent(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "from walras_profiler.launch import Command, launch\n"
        "process = launch(Command(('sleep', '60'), dict(os.environ)), lambda pid: None)\n"
        "print(process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}/cmdline").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


def test_thread_counts_are_defaults_that_the_user_can_override() -> None:
    user, marker = {"OMP_NUM_THREADS": "7", "HOME": "/h"}, {"WALRAS_RUN": "run/job"}
    environment = job_environment(user, marker, threads=3)
    assert environment["OMP_NUM_THREADS"] == "7"
    assert environment["RAYON_NUM_THREADS"] == "3"
    assert environment["HOME"] == "/h"
    assert environment["WALRAS_RUN"] == "run/job"
    assert "NUMBA_NUM_THREADS" not in environment, "a bound, not a number of threads"
