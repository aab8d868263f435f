"""A container's file is read, and nothing else however the container sets its links."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from waiting import eventually
from walras_agent.profiling.container_file import read_inside
from walras_agent.profiling.counters import CounterError, ThreadedCounter, parse_number

if TYPE_CHECKING:
    from walras_agent.profiling.request import Source


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A container's root, beside which lies what it must not reach."""
    (tmp_path / "secret").write_text("666")
    inside = tmp_path / "root"
    (inside / "var/run").mkdir(parents=True)
    (inside / "var/progress").write_text("41 steps of 100\n")
    return inside


def held() -> int:
    """How many descriptors are open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def read(root: Path, path: str) -> bytes:
    descriptor = os.open(root, os.O_PATH)
    before = held()
    try:
        return read_inside(descriptor, path)
    finally:
        assert held() <= before  # what earlier tests left behind may be closed meanwhile
        os.close(descriptor)


@pytest.mark.parametrize(
    "path",
    ["/var/progress", "var//./run/../progress", "/../../var/progress", "/var/run/../progress"],
)
def test_file_is_found_by_its_path_from_the_root(root: Path, path: str) -> None:
    assert read(root, path) == b"41 steps of 100\n"


@pytest.mark.parametrize(
    ("link", "target"),
    [
        pytest.param("link", "var/progress", id="relative"),
        pytest.param("link", "/var/progress", id="absolute, from the container's root"),
        pytest.param("var/run/link", "/var/progress", id="absolute, further down"),
        pytest.param("var/run/link", "../progress", id="up"),
        pytest.param("var/run/link", "../../../../../var/progress", id="up beyond the root"),
    ],
)
def test_links_are_followed_inside(root: Path, link: str, target: str) -> None:
    (root / link).symlink_to(target)
    assert read(root, link) == b"41 steps of 100\n"


@pytest.mark.parametrize("target", ["../secret", "{outside}/secret", "var/../../secret"])
def test_no_link_leads_out(root: Path, target: str) -> None:
    (root / "link").symlink_to(target.format(outside=root.parent))
    with pytest.raises(FileNotFoundError):
        read(root, "/link")


@pytest.mark.parametrize("path", ["root/secret", "cwd/secret", "fd/{number}"])
def test_magic_links_of_proc_are_taken_for_their_text(root: Path, path: str) -> None:
    """proc(5): such links jump to what they stand for, wherever it is."""
    with (root.parent / "secret").open() as secret, pytest.raises(FileNotFoundError):
        read(Path("/proc/self"), path.format(number=secret.fileno()))


def test_links_that_lead_in_a_circle_end(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    with pytest.raises(OSError, match="Too many levels"):
        read(root, "/one")


def test_path_without_end_ends(root: Path) -> None:
    deep = root
    for _ in range(70):
        deep = deep / "d"
        deep.mkdir()
    with pytest.raises(OSError, match="Too many levels"):
        read(root, str(deep.relative_to(root)))


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_only_plain_files_are_opened(root: Path, kind: str) -> None:
    """Opening a pipe that nobody writes to would wait, opening a device may do anything."""
    path = root / "odd"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        root, path = Path("/"), Path("/dev/null")
    with pytest.raises(OSError, match="regular file"):
        read(root, str(path.relative_to(root)))


def test_only_the_beginning_of_a_large_file_is_read(root: Path) -> None:
    with (root / "large").open("wb") as file:
        file.write(b"7 ")
        file.truncate(1 << 40)
    assert len(read(root, "large")) == 4096
    assert parse_number(read(root, "large").replace(b"\0", b""), "large") == 7


@pytest.mark.parametrize("text", [b"", b"  \n", b"soon", b"nan", b"\xff\xfe"])
def test_what_is_no_number_is_not_told_to_others(text: bytes) -> None:
    with pytest.raises(CounterError, match="plain digits") as caught:
        parse_number(text, "it")
    assert "soon" not in str(caught.value)


class Hanging:
    """A file on a file system whose server does not answer."""

    source: Source = "file"

    def __init__(self) -> None:
        self.answer, self.reads = threading.Event(), 0

    def read(self) -> float:
        self.reads += 1
        self.answer.wait()
        return 5.0

    def close(self) -> None:
        self.answer.set()


@pytest.mark.system
def test_file_system_that_hangs_holds_up_one_thread_only() -> None:
    hanging = Hanging()
    counter = ThreadedCounter(hanging)
    for _ in range(2):
        with pytest.raises(CounterError, match="does not answer"):
            counter.read()
    assert hanging.reads == 1
    hanging.answer.set()

    def answers() -> bool:
        try:
            return counter.read() == 5.0
        except CounterError:
            return False

    assert eventually(answers)
    counter.close()


def test_thread_that_has_answered_but_not_ended_does_not_hold_up_the_next_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next read may come before the last one's thread has ended, on a busy machine."""
    ended = threading.Event()

    class Lingering(threading.Thread):
        def run(self) -> None:
            super().run()
            ended.wait()

    monkeypatch.setattr(threading, "Thread", Lingering)
    hanging = Hanging()
    hanging.answer.set()
    counter = ThreadedCounter(hanging)
    assert [counter.read(), counter.read()] == [5.0, 5.0]
    ended.set()
