"""Only the process that was meant is killed, though its PID has another owner since.

The PID really changes hands: the kernel is told from which number on to look for a free one.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from walras_agent import procfs
from walras_agent.local.killing import kill_if
from walras_profiler import _reaper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Kill = Callable[[int, Callable[[], bool]], None]

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
TRIES = 1000

pytestmark = pytest.mark.system


def can_choose_pids() -> bool:
    """Whether the kernel lets this process say which PID comes next."""
    try:
        LAST_PID.write_text(LAST_PID.read_text())
    except OSError:
        return False
    return True


def agent_s(pid: int, is_meant: Callable[[], bool]) -> None:
    kill_if(pid, is_meant)


def reaper_s(pid: int, is_meant: Callable[[], bool]) -> None:
    _reaper.kill_if(pid, lambda _: is_meant())


BOTH = pytest.mark.parametrize("kill", [agent_s, reaper_s])


class Sleepers:
    """Children that wait for a signal."""

    def __init__(self) -> None:
        self.living: set[int] = set()

    def start(self) -> int:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        self.living.add(pid)
        return pid

    def end(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.reap(pid)

    def reap(self, pid: int) -> int:
        self.living.discard(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def was_spared(self, pid: int) -> bool:
        """End a child by another signal, and say whether that was the one that ended it."""
        os.kill(pid, signal.SIGTERM)
        return self.reap(pid) == -signal.SIGTERM

    def take_over(self, pid: int) -> None:
        """End a child, and start one with the same PID."""
        self.end(pid)
        for _ in range(TRIES):  # others fork, too
            LAST_PID.write_text(str(pid - 1))
            if (got := self.start()) == pid:
                return
            self.end(got)
        pytest.fail(f"PID {pid} is not given again")


@pytest.fixture
def sleepers() -> Iterator[Sleepers]:
    made = Sleepers()
    yield made
    for pid in list(made.living):
        made.end(pid)


@pytest.mark.skipif(not can_choose_pids(), reason="needs a kernel that lets it choose PIDs")
@BOTH
def test_whoever_gets_the_pid_while_it_is_looked_at_lives(kill: Kill, sleepers: Sleepers) -> None:
    pid = sleepers.start()

    def looked_at() -> bool:
        sleepers.take_over(pid)
        return True

    kill(pid, looked_at)

    assert sleepers.was_spared(pid)


@pytest.mark.skipif(not can_choose_pids(), reason="needs a kernel that lets it choose PIDs")
def test_a_process_is_told_from_another_with_its_pid_by_when_it_started(
    sleepers: Sleepers,
) -> None:
    pid = sleepers.start()
    was = procfs.read_process(pid)
    assert was is not None
    assert procfs.is_current(was)
    while (now := procfs.read_process(pid)) is not None and now.start == was.start:
        sleepers.take_over(pid)

    assert not procfs.is_current(was)


@BOTH
def test_what_is_meant_is_killed_and_the_rest_is_not(kill: Kill, sleepers: Sleepers) -> None:
    meant, other = sleepers.start(), sleepers.start()

    kill(other, lambda: False)
    kill(meant, lambda: True)

    assert sleepers.reap(meant) == -signal.SIGKILL
    assert sleepers.was_spared(other)
    kill(meant, lambda: True)  # has ended: nothing to do


@BOTH
def test_without_pidfds_it_is_killed_by_its_pid(
    kill: Kill, sleepers: Sleepers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    pid = sleepers.start()

    kill(pid, lambda: True)

    assert sleepers.reap(pid) == -signal.SIGKILL


def test_a_process_is_in_its_cgroup_and_those_above_and_in_no_other() -> None:
    (line, *_) = Path("/proc/self/cgroup").read_text().splitlines()
    group = line.split(":", 2)[2].rstrip("/")
    own = os.getpid()

    assert procfs.is_in_cgroup(own, group)
    assert procfs.is_in_cgroup(own, group.rpartition("/")[0])
    assert not procfs.is_in_cgroup(own, f"{group}/none")
    assert not procfs.is_in_cgroup(own, group[:-1] or "/walras-none")


def test_the_reaper_finds_whoever_is_in_a_group_of_that_name() -> None:
    groups = [line.split("/") for line in Path("/proc/self/cgroup").read_text().splitlines()]

    assert all(_reaper.is_in_cgroup(os.getpid(), name) for parts in groups for name in parts)
    assert not _reaper.is_in_cgroup(os.getpid(), "walras-none")
    assert not _reaper.is_in_cgroup(2**22 + 1, "walras-none")  # more than there can be
