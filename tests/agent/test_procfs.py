import os
import shutil
import subprocess
import threading
from pathlib import Path

from walras_agent import procfs


def test_this_process_is_read_as_the_system_calls_tell_it() -> None:
    own = procfs.read_process(os.getpid())

    assert own is not None
    assert (own.pid, own.parent) == (os.getpid(), os.getppid())
    assert (own.group, own.session) == (os.getpgrp(), os.getsid(0))
    assert own.alive
    used = sum(os.times()[:4])
    assert abs(own.ticks / procfs.TICKS_PER_SECOND - used) < 1


def test_a_command_s_name_may_look_like_the_fields_after_it(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z 1 (b"
    shutil.copy("/bin/sleep", odd)
    with subprocess.Popen([odd, "60"]) as process:
        try:
            read = procfs.read_process(process.pid)
        finally:
            process.kill()

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
    environment = {"WALRAS_RUN": "1-2-3/a.b"}
    with subprocess.Popen(["sleep", "60"], env=os.environ | environment) as process:
        try:
            assert procfs.has_variable(process.pid, b"WALRAS_RUN=1-2-3/a.b")
            assert not procfs.has_variable(process.pid, b"WALRAS_RUN=1-2-3/a")
        finally:
            process.kill()


def test_a_process_that_is_gone_has_nothing() -> None:
    process = subprocess.Popen(["true"])
    process.wait()

    assert procfs.read_process(process.pid) is None
    assert procfs.threads(process.pid) == ()
    assert not procfs.has_variable(process.pid, b"PATH=")
