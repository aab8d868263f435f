"""Files of a real kernel that are kept open say what a fresh look would say."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from walras_agent.open_file_tree import OpenFileTree, raise_file_limit
from walras_agent.tree import CgroupError, CgroupFile, CgroupTree, TreeError, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator


def find_tree() -> OpenFileTree | None:
    try:
        return OpenFileTree.at() if os.geteuid() == 0 else None
    except TreeError:
        return None


TREE = find_tree()
TOP = f"/walras-kept-{os.getpid()}"

pytestmark = pytest.mark.skipif(TREE is None, reason="needs root and cgroups with cpuset")


@pytest.fixture
def tree() -> Iterator[OpenFileTree]:
    made = OpenFileTree.at()
    if made.version == 2:
        (Path(made.mounts["cpuset"]) / "cgroup.subtree_control").write_text("+cpuset")
    yield made
    made.close()
    for folder in (folder_of(f"{TOP}/in"), folder_of(TOP)):
        if folder.exists():
            folder.rmdir()


def folder_of(group: str) -> Path:
    assert TREE is not None
    return Path(TREE.mounts["cpuset"] + group)


def setting(file: str = "cpuset.cpus", group: str = TOP) -> CgroupFile:
    return CgroupFile("cpuset", group, file)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_every_read_is_fresh(tree: OpenFileTree) -> None:
    folder_of(TOP).mkdir()
    assert tree.read(setting()) == ""
    for cpus in ("0", "0-1", "1"):
        CgroupTree.at().write(setting(), cpus)
        assert tree.read(setting()) == cpus
    before = descriptors()
    tree.read(setting())
    assert descriptors() == before


@pytest.mark.system
def test_a_list_longer_than_a_page_is_read_to_its_end() -> None:
    """The kernel lists memory maps, like processes of a group, in parts of less than a page."""
    program = "from mmap import mmap; kept = [mmap(-1, 1) for _ in range(200)]"
    command = [sys.executable, "-c", f"{program}; print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        maps = Path(f"/proc/{started.pid}/maps")
        descriptor = os.open(maps, os.O_RDONLY)
        try:
            assert read_text(descriptor) == maps.read_text().rstrip("\n")
            assert len(read_text(descriptor)) > 2 * os.sysconf("SC_PAGE_SIZE")
        finally:
            os.close(descriptor)
            started.communicate(b"\n")


def test_group_that_is_gone_is_gone(tree: OpenFileTree) -> None:
    folder_of(TOP).mkdir()
    tree.read(setting())
    folder_of(TOP).rmdir()
    with pytest.raises(CgroupError) as caught:
        tree.read(setting())
    assert caught.value.kind == "gone"


def test_group_made_anew_under_the_name_is_read_and_not_the_old_one(tree: OpenFileTree) -> None:
    folder_of(TOP).mkdir()
    tree.write(setting(), "1")
    assert tree.read(setting()) == "1"
    folder_of(TOP).rmdir()
    folder_of(TOP).mkdir()
    assert tree.read(setting()) == ""


def test_files_of_deleted_groups_are_closed_once_another_group_was_read(tree: OpenFileTree) -> None:
    now = [0.0]
    tree = replace(tree, clock=lambda: now[0])
    folder_of(TOP).mkdir()
    if tree.version == 2:
        (folder_of(TOP) / "cgroup.subtree_control").write_text("+cpuset")
    tree.read(setting())
    before = descriptors()
    for _ in range(3):
        folder_of(f"{TOP}/in").mkdir()
        tree.read(setting(group=f"{TOP}/in"))
        tree.read(setting("cpuset.mems", group=f"{TOP}/in"))
        now[0] += 10
        tree.read(setting())
        assert descriptors() == before + 2
        folder_of(f"{TOP}/in").rmdir()
        folder_of(TOP).joinpath("next").mkdir()
        tree.read(setting(group=f"{TOP}/next"))
        now[0] += 10
        tree.read(setting())
        assert descriptors() == before + 1
        folder_of(f"{TOP}/next").rmdir()


def test_no_more_files_are_kept_than_may_be() -> None:
    folder_of(TOP).mkdir()
    tree = replace(OpenFileTree.at(), most=2)
    before = descriptors()
    try:
        for file in ("cpuset.cpus", "cpuset.mems", "cgroup.procs") * 3:
            tree.read(setting(file))
            assert descriptors() <= before + 2
    finally:
        tree.close()
        folder_of(TOP).rmdir()
    assert descriptors() == before


class Counted(OpenFileTree):
    """Folders of a test in place of a kernel's cgroups.

    Attributes:
        looked: Groups of which it was asked whether they exist.
    """

    looked: ClassVar[list[str]] = []

    def identity(self, group: str) -> int | None:
        self.looked.append(group)
        return super().identity(group)


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Counted]:
    """Twenty groups of two files each, of which thirty may be kept open."""
    for number in range(20):
        (tmp_path / f"g{number}").mkdir()
        for file in ("cpuset.cpus", "cpuset.mems"):
            (tmp_path / f"g{number}/{file}").write_text(f"{number}\n")
    made = Counted(2, {"cpuset": str(tmp_path)}, most=30)
    made.looked.clear()
    yield made
    made.close()


def read_all(tree: OpenFileTree) -> None:
    for number in range(20):
        for file in ("cpuset.cpus", "cpuset.mems"):
            assert tree.read(setting(file, f"/g{number}")) == str(number)


def test_what_there_is_no_room_for_does_not_close_other_files(
    folders: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, opened = descriptors(), []
    read_all(folders)
    assert descriptors() == before + 30
    first = os.open

    def counting(path: str, flags: int) -> int:
        opened.append(path)
        return first(path, flags)

    monkeypatch.setattr(os, "open", counting)
    read_all(folders)
    monkeypatch.undo()
    assert len(opened) == 10
    assert descriptors() == before + 30


def test_groups_are_looked_for_once_however_many_are_new(folders: Counted, tmp_path: Path) -> None:
    now, before = [0.0], descriptors()
    tree = replace(folders, clock=lambda: now[0])
    read_all(tree)
    assert folders.looked == []
    for number in range(10):
        for file in ("cpuset.cpus", "cpuset.mems"):
            (tmp_path / f"g{number}/{file}").unlink()
        (tmp_path / f"g{number}").rmdir()
    now[0] += 10
    for number in range(10, 20):
        tree.read(setting(group=f"/g{number}"))
    assert sorted(folders.looked) == sorted(f"/g{number}" for number in range(15))
    assert descriptors() <= before + 20, "there is room for others again"
    tree.close()


def test_limit_of_open_files_is_raised_as_far_as_it_may_be() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
        raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_agent_that_runs_out_of_descriptors_goes_on(tree: OpenFileTree) -> None:
    """Perf on 200 groups and more used them all up (cadvisor 3300)."""
    folder_of(TOP).mkdir()
    tree.read(setting())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    fillers = []
    try:
        with contextlib.suppress(OSError):
            while True:
                fillers.append(os.open("/", os.O_RDONLY))
        with pytest.raises(OSError, match="Too many open files"):
            os.open("/", os.O_RDONLY)
        assert tree.read(setting("cpuset.mems")) == ""
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in fillers:
            os.close(each)


def test_file_that_is_not_there_is_refused_as_ever(tree: OpenFileTree) -> None:
    with pytest.raises(CgroupError, match="No such file"):
        tree.read(setting("cpuset.nothing"))
