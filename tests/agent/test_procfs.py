import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from walras_agent import procfs

pytestmark = pytest.mark.system


def test_this_process_is_read_as_the_system_calls_tell_it() -> None:
    own = procfs.read_process(os.getpid())

    assert own is not None
    assert (own.pid, own.parent) == (os.getpid(), os.getppid())
    assert (own.group, own.session) == (os.getpgrp(), os.getsid(0))
    assert own.alive
    used = sum(os.times()[:4])
    assert abs(own.ticks / procfs.TICKS_PER_SECOND - used) < 1


@contextmanager
def cat(program: str | Path = "cat", **variables: str) -> Iterator[int]:
    """Run cat, and yield its PID once it answers: Popen may return before exec has ended."""
    with subprocess.Popen(
        [program], env=os.environ | variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"ready\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.stdin.close()


def test_a_command_s_name_may_look_like_the_fields_after_it(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z 1 (b"
    shutil.copy("/bin/cat", odd)
    with cat(odd) as pid:
        read = procfs.read_process(pid)
        assert Path(f"/proc/{pid}/comm").read_text() == "a) Z 1 (b\n"

    assert read is not None
    assert read.parent == os.getpid()
    assert read.alive


def test_all_processes_include_this_one_once() -> None:
    assert [p.pid for p in procfs.processes()].count(os.getpid()) == 1


def test_threads_are_listed() -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        assert {os.getpid(), thread.native_id} <= set(procfs.threads(os.getpid()))
    finally:
        release.set()
        thread.join()


def test_a_variable_is_found_by_its_whole_assignment() -> None:
    with cat(WALRAS_RUN="1-2-3/a.b") as pid:
        assert procfs.has_variable(pid, b"WALRAS_RUN=1-2-3/a.b")
        assert not procfs.has_variable(pid, b"WALRAS_RUN=1-2-3/a")


def test_a_variable_is_found_in_the_midst_of_exec() -> None:
    # posix_spawn returns while the new program is being loaded, and has no environment yet; the
    # growing delay then meets the second exec as well.
    environment = os.environ | {"WALRAS_RUN": "1-2-3/a"}
    for delay in range(300):
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exec sleep 60"], environment)
        try:
            until = time.perf_counter_ns() + delay * 10_000
            while time.perf_counter_ns() < until:
                pass
            assert procfs.has_variable(pid, b"WALRAS_RUN=1-2-3/a")
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_a_process_with_an_empty_environment_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen(["env", "-i", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
        assert p.stdin is not None
        assert p.stdout is not None
        p.stdin.write(b"ready\n")
        p.stdin.flush()
        p.stdout.readline()
        monkeypatch.setattr("walras_agent.procfs.time.sleep", pytest.fail)
        assert not procfs.has_variable(p.pid, b"WALRAS_RUN=1-2-3/a")
        monkeypatch.undo()
        p.stdin.close()


def test_a_process_that_is_gone_has_nothing() -> None:
    process = subprocess.Popen(["true"])
    process.wait()

    assert procfs.read_process(process.pid) is None
    assert procfs.threads(process.pid) == ()
    assert not procfs.has_variable(process.pid, b"PATH=")
