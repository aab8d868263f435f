"""The agent is told of changes by the kernel's inotify, on plain files and on real cgroups."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from walras_agent.daemon.inotify import ChangeWaiter, WatchedPods
from walras_agent.kubepods import Layout
from walras_agent.tree import CONTROLLERS, CgroupTree

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.system

AT_ONCE = 0.0
LONG = 60.0
"""Seconds for which nobody waits here: what is waited for has happened already, or happens."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "groups"
    made.mkdir()
    return made


SIGNALLED = """
import signal, threading, time
from types import SimpleNamespace
from walras_agent.daemon.agent import stop_on_signals
from walras_agent.daemon.inotify import ChangeWaiter

def signal_this_thread():
    time.sleep(0.5)  # until the main thread waits
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

with ChangeWaiter() as waiter:
    agent = SimpleNamespace(waiter=waiter, stop=waiter.wake)
    with stop_on_signals(agent):
        threading.Thread(target=signal_this_thread).start()
        assert waiter.wait(3600)
"""


def test_a_signal_to_another_thread_ends_a_wait() -> None:
    """The kernel chooses the thread, and Python's handlers run in the main thread only."""
    subprocess.run([sys.executable, "-c", SIGNALLED], check=True, timeout=LONG)


def test_nothing_happens_where_nothing_changes(folder: Path) -> None:
    with ChangeWaiter() as waiter:
        waiter.watch([str(folder)])
        assert not waiter.wait(0.01)


def test_group_that_comes_or_goes_is_told(folder: Path) -> None:
    with ChangeWaiter() as waiter:
        waiter.watch([str(folder)])
        (folder / "pod1").mkdir()
        assert waiter.wait(LONG)
        (folder / "pod1").rmdir()
        assert waiter.wait(LONG)
        assert not waiter.wait(0.01)


@pytest.mark.parametrize(
    "name",
    ["cpuset.cpus", "cpu.max", "cpu.cfs_quota_us", "memory.high", "cgroup.subtree_control"],
)
def test_write_to_what_the_agent_holds_is_told(folder: Path, name: str) -> None:
    (folder / name).write_text("0-3")
    with ChangeWaiter() as waiter:
        waiter.watch([str(folder)])
        (folder / name).write_text("0-7")
        assert waiter.wait(LONG)


def test_own_writes_can_be_forgotten_and_those_of_others_are_not(folder: Path) -> None:
    own, others = folder / "cpu.weight", folder / "cpu.max"
    with ChangeWaiter() as waiter:
        for file in (own, others):
            file.write_text("1")
        waiter.watch([str(folder)])
        own.write_text("2")
        waiter.forget([own])
        assert not waiter.wait(0.05)
        own.write_text("3")
        others.write_text("3")
        waiter.forget([own])
        assert waiter.wait(LONG)
        assert not waiter.wait(0.05)
        own.write_text("4")
        assert waiter.wait(LONG)


@pytest.mark.parametrize("name", ["memory.events", "cgroup.procs"])
def test_what_changes_all_the_time_is_left_out(folder: Path, name: str) -> None:
    (folder / name).write_text("1")
    with ChangeWaiter() as waiter:
        waiter.watch([str(folder)])
        (folder / name).write_text("2")
        assert not waiter.wait(0.05)


def test_folder_is_followed_no_more(folder: Path) -> None:
    with ChangeWaiter() as waiter:
        waiter.watch([str(folder)])
        waiter.watch([])
        (folder / "pod1").mkdir()
        assert not waiter.wait(0.05)


def test_folder_that_was_removed_and_made_again_is_followed_again(folder: Path) -> None:
    with ChangeWaiter() as waiter:
        waiter.watch([str(folder)])
        folder.rmdir()
        waiter.wait(0.05)
        folder.mkdir()
        waiter.watch([str(folder)])
        (folder / "pod1").mkdir()
        assert waiter.wait(LONG)


def test_folder_that_is_not_there_is_passed_over(folder: Path) -> None:
    with ChangeWaiter() as waiter:
        waiter.watch([str(folder / "gone"), str(folder)])
        (folder / "pod1").mkdir()
        assert waiter.wait(LONG)


def test_plan_that_is_written_or_replaced_is_told(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    with ChangeWaiter(plan) as waiter:
        plan.write_text("one")
        assert waiter.wait(LONG)
        beside = tmp_path / "new"
        beside.write_text("two")
        assert not waiter.wait(0.05), "a file beside it is none of its business"
        beside.replace(plan)
        assert waiter.wait(LONG)


def test_mounted_config_map_that_is_replaced_is_told(tmp_path: Path) -> None:
    """The kubelet replaces a link beside the file, never the file."""
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "plan.yaml").write_text(version)
    (tmp_path / "..data").symlink_to("1")
    plan = tmp_path / "plan.yaml"
    plan.symlink_to("..data/plan.yaml")
    with ChangeWaiter(plan) as waiter:
        (tmp_path / "..data_tmp").symlink_to("2")
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")
        assert waiter.wait(LONG)
        assert plan.read_text() == "2"


def test_call_from_another_thread_ends_a_wait() -> None:
    with ChangeWaiter() as waiter:
        caller = threading.Thread(target=waiter.wake)
        caller.start()
        assert waiter.wait(LONG)
        caller.join()
        assert not waiter.wait(0.01)
        waiter.wake()
        assert waiter.wait(LONG), "a call before the wait counts"


def test_no_more_watches_is_said_once(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with ChangeWaiter() as waiter:
        monkeypatch.setattr("asyncinotify.Inotify.add_watch", none_left)
        waiter.watch([str(folder)])
        waiter.watch([str(folder)])
    (said,) = [record.message for record in caplog.records]
    assert "No space left on device; raise fs.inotify.max_user_watches" in said


@pytest.mark.parametrize("limit", ["instances", "watches"])
def test_where_inotify_is_used_up_changes_are_looked_for(
    folder: Path, limit: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def used_up(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE if limit == "instances" else errno.ENOSPC, "no more")

    what = "Inotify" if limit == "instances" else "Inotify.add_watch"
    monkeypatch.setattr(f"walras_agent.daemon.inotify.{what}", used_up)
    monkeypatch.setattr("walras_agent.daemon.inotify._POLL_SECONDS", 0.01)
    with ChangeWaiter() as waiter:
        for _ in range(2):
            waiter.watch([str(folder)])
            assert waiter.wait(LONG), "the next look is due soon"
        assert not waiter.wait(0.005), "the time is up before"
        waiter.wake()
        assert waiter.wait(LONG)
    (record,) = caplog.records
    assert f"raise fs.inotify.max_user_{limit}" in record.message


POD = "/kubepods/burstable/pod1"


class StartingPod(CgroupTree):
    """Groups of v2 in which a container of a pod is made right after the pod's were listed."""

    def children(self, group: str) -> tuple[str, ...]:
        listed = super().children(group)
        if group == POD:
            Path(self.folder("cpuset", f"{POD}/c1/container")).mkdir(parents=True, exist_ok=True)
        return listed


@pytest.fixture
def waiter() -> Iterator[ChangeWaiter]:
    with ChangeWaiter() as waiter:
        yield waiter


@pytest.fixture
def pods(tmp_path: Path, waiter: ChangeWaiter) -> WatchedPods:
    (tmp_path / POD[1:]).mkdir(parents=True)
    tree = StartingPod(2, dict.fromkeys(CONTROLLERS, str(tmp_path)))
    return WatchedPods(Layout("cgroupfs"), tree, waiter)


def test_container_that_is_made_while_pods_are_listed_is_not_overlooked(pods: WatchedPods) -> None:
    (pod,) = pods.scan(pods.tree)
    assert pod.containers == (f"{POD}/c1",)


@pytest.mark.parametrize("group", [POD, f"{POD}/c1", f"{POD}/c1/container", "/kubepods/burstable"])
def test_write_in_any_group_that_has_limits_is_told(
    pods: WatchedPods, waiter: ChangeWaiter, tmp_path: Path, group: str
) -> None:
    pods.scan(pods.tree)
    assert not waiter.wait(0.01)
    (tmp_path / group[1:] / "cpu.max").write_text("max 100000")
    assert waiter.wait(LONG)


def test_group_of_all_pods_that_is_made_anew_is_told(
    pods: WatchedPods, waiter: ChangeWaiter, tmp_path: Path
) -> None:
    pods.scan(pods.tree)
    shutil.rmtree(tmp_path / "kubepods")
    assert waiter.wait(LONG)
    assert pods.scan(pods.tree) == ()
    assert not waiter.wait(0.01)
    (tmp_path / "kubepods").mkdir()
    assert waiter.wait(LONG)
