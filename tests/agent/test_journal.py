"""The journal is on disk before it is relied upon, and whole wherever its writer is killed."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pytest

from model_kernel import ModelKernel
from walras_agent.cpuset import CpuSet
from walras_agent.journal import Journal, JournalError, Original
from walras_agent.tree import CgroupError, CgroupFile, Controller

BOOT = "6f1c2d3e-0000-4000-8000-000000000001"
WRITTEN = "1"


@pytest.fixture
def boot_id(tmp_path: Path) -> Path:
    path = tmp_path / "boot_id"
    path.write_text(f"{BOOT}\n")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "journal.json"


@pytest.fixture
def reopen(path: Path, boot_id: Path) -> Callable[[], Journal]:
    return lambda: Journal.open(path, boot_id)


def original(
    group: str, text: str, identity: int = 1, file: str = "cpuset.cpus", name: Controller = "cpuset"
) -> Original:
    return Original(CgroupFile(name, group, file), identity, text, (WRITTEN,))


@dataclass
class Before:
    """Cgroups with some files only, with the content that they have before the agent writes."""

    files: tuple[Original, ...]
    version: Literal[1, 2] = 2

    def read(self, setting: CgroupFile) -> str:
        (text,) = (each.text for each in self.files if each.setting == setting)
        return text

    def write(self, setting: CgroupFile, value: str) -> None:
        raise CgroupError(setting, errno.EACCES, value)

    def identity(self, group: str) -> int | None:
        (identity,) = {each.identity for each in self.files if each.setting.group == group}
        return identity

    def children(self, group: str) -> tuple[str, ...]:
        return (group,)[:0]


def record(journal: Journal, *files: Original) -> None:
    """Announce one write to each of these files."""
    journal.record([(each.setting, WRITTEN) for each in files], Before(files))


A, B = original("/a", "0-3"), original("/b", "2", identity=7)
QUOTA = original("/a", "max 100000", file="cpu.max", name="cpu")


def test_what_is_recorded_is_there_after_a_restart(reopen: Callable[[], Journal]) -> None:
    record(reopen(), A, QUOTA)
    record(reopen(), B)

    assert reopen().originals == {each.setting: each for each in (A, B, QUOTA)}


def test_the_first_text_stays(reopen: Callable[[], Journal]) -> None:
    record(reopen(), A)
    journal = reopen()
    record(journal, A._replace(text=WRITTEN), B)

    assert journal.originals == reopen().originals == {A.setting: A, B.setting: B}


def test_a_group_made_again_has_an_original_of_its_own(reopen: Callable[[], Journal]) -> None:
    record(reopen(), A)
    again = A._replace(text=WRITTEN, identity=99)
    record(reopen(), again)

    assert reopen().originals == {A.setting: again}


def test_values_of_weights_are_not_written_and_any_weight_is_the_agents_after_a_restart(
    path: Path, reopen: Callable[[], Journal]
) -> None:
    weight = original("/a", "39", file="cpu.weight", name="cpu")
    journal = reopen()
    record(journal, weight)
    saved = path.stat().st_ino  # it is replaced as a whole
    for now, then in (("39", "2"), ("2", "3"), ("3", "4")):
        journal.record([(weight.setting, then)], Before((weight._replace(text=now),)))
        journal.made(weight.setting, then)
    assert path.stat().st_ino == saved
    (kept,) = reopen().originals.values()
    assert kept.text == "39"
    assert not kept.is_foreign("17", 2)


def test_values_of_weights_that_an_earlier_version_wrote_are_dropped_at_once(
    path: Path, reopen: Callable[[], Journal]
) -> None:
    """They would be outdated, and an earlier version that comes back would believe them."""
    weight = original("/a", "39", file="cpu.weight", name="cpu")
    record(reopen(), weight, A)
    document = json.loads(path.read_text())
    for entry in document["originals"]:
        entry["written"] = [WRITTEN]
    path.write_text(json.dumps(document))
    record(reopen(), A)
    written = {
        each["file"]: each.get("written") for each in json.loads(path.read_text())["originals"]
    }
    assert written == {"cpu.weight": None, "cpuset.cpus": [WRITTEN]}


def test_nothing_is_written_where_nothing_is_new(path: Path, reopen: Callable[[], Journal]) -> None:
    journal = reopen()
    record(journal)
    journal.forget([A.setting])
    assert not path.exists()

    record(journal, A)
    before = path.stat()
    record(journal, A)
    record(journal, A._replace(text=WRITTEN))
    journal.forget([B.setting])
    assert path.stat() == before


@pytest.fixture
def kernel() -> ModelKernel:
    kernel = ModelKernel(2, cpus=4)
    kernel.make("/a", tasks=1)
    return kernel


def recorded(journal: Journal, kernel: ModelKernel, *values: str) -> None:
    """Record values in the journal and then write them to a file, as the agent does."""
    journal.record([(QUOTA.setting, each) for each in values], kernel)
    for value in values:
        kernel.write(QUOTA.setting, value)


def test_what_the_agent_writes_does_not_become_the_original(
    reopen: Callable[[], Journal], kernel: ModelKernel
) -> None:
    for values in (["10000 100000"], ["max 100000", "20000 100000"], ["30000 100000"]):
        recorded(reopen(), kernel, *values)
        reopen().adopt_foreign([QUOTA.setting], kernel)
        assert reopen().originals[QUOTA.setting].text == QUOTA.text


@pytest.mark.parametrize("how", ["looked at", "written again"])
def test_what_others_write_becomes_the_original(
    reopen: Callable[[], Journal], kernel: ModelKernel, how: str
) -> None:
    recorded(reopen(), kernel, "10000 100000")
    kernel.set_by_others(QUOTA.setting, "50000 100000")
    if how == "looked at":
        reopen().adopt_foreign([QUOTA.setting], kernel)
    else:
        recorded(reopen(), kernel, "10000 100000")
    assert reopen().originals[QUOTA.setting].text == "50000 100000"


def test_a_write_that_was_announced_and_not_made_is_no_bodys(
    reopen: Callable[[], Journal], kernel: ModelKernel
) -> None:
    recorded(reopen(), kernel, "10000 100000")
    reopen().record([(QUOTA.setting, "20000 100000")], kernel)
    reopen().adopt_foreign([QUOTA.setting], kernel)
    assert reopen().originals[QUOTA.setting].text == QUOTA.text


def test_a_journal_without_what_was_written_keeps_its_originals(
    path: Path, reopen: Callable[[], Journal], kernel: ModelKernel
) -> None:
    """An upgrade finds such a journal, and files as the agent before it left them."""
    identity = kernel.identity("/a")
    assert identity is not None
    known = {**QUOTA.setting._asdict(), "identity": identity, "text": QUOTA.text}
    path.write_text(json.dumps({"format": 1, "boot": BOOT, "originals": [known]}))
    kernel.set_by_others(QUOTA.setting, "10000 100000")
    recorded(reopen(), kernel, "20000 100000")
    assert reopen().originals[QUOTA.setting].text == QUOTA.text


@pytest.mark.parametrize(
    ("file", "version", "shown", "value", "foreign"),
    [
        ("cpuset.cpus", 2, "0-1", "0,1", False),
        ("cpuset.cpus", 2, "0", "0-1", True),
        ("cpuset.cpus", 1, "0", "0-1", False),  # CPU 1 went offline
        ("cpuset.cpus", 1, "1", "0-1", True),
        ("cpuset.cpus", 1, "0-2", "0-1", True),
        ("memory.max", 2, "4096", "5000", False),  # whole pages
        ("memory.max", 2, "max", "5000", True),
        ("memory.limit_in_bytes", 1, "9223372036854771712", "-1", False),
        ("memory.oom_control", 1, "oom_kill_disable 1\nunder_oom 0", "1", False),
        ("memory.oom_control", 1, "oom_kill_disable 0\nunder_oom 0", "1", True),
        ("cpu.max", 2, "max 100000", "max", False),
        ("cpu.weight", 2, "7", "8", True),
    ],
)
def test_texts_are_compared_as_the_kernel_shows_them(
    file: str, version: Literal[1, 2], shown: str, value: str, foreign: bool
) -> None:
    (name,) = (known for known in get_args(Controller) if file.startswith(f"{known}."))
    known = original("/a", "2-3" if name == "cpuset" else "12345678", file=file, name=name)
    offlined = CpuSet([1])
    assert known._replace(written=(value,)).is_foreign(shown, version, offlined) is foreign
    assert not known._replace(written=None).is_foreign(shown, version)


def test_originals_of_another_boot_are_void(boot_id: Path, reopen: Callable[[], Journal]) -> None:
    record(reopen(), A)
    boot_id.write_text("6f1c2d3e-0000-4000-8000-000000000002\n")

    journal = reopen()
    assert journal.originals == {}
    record(journal, B)
    assert reopen().originals == {B.setting: B}


def entry(**changes: object) -> dict[str, object]:
    return {**A.setting._asdict(), "identity": 1, "text": "0-3", **changes}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "damaged", id="empty"),
        pytest.param(b'{"format": 1, "bo', "damaged", id="cut off"),
        pytest.param(b"\xff\xfe", "damaged", id="no text"),
        pytest.param(b"[]", "damaged", id="a list"),
        pytest.param(b"{}", "damaged", id="no format"),
        pytest.param(b'{"format": 1, "originals": []}', "damaged", id="no boot"),
        pytest.param(
            b'{"format": 2, "entries": {}}', "format 2, but this agent reads format 1", id="newer"
        ),
        *(
            pytest.param(
                json.dumps({"format": 1, "boot": BOOT, "originals": [wrong]}).encode(),
                "damaged",
                id=f"an original {why}",
            )
            for why, wrong in {
                "that is a number": 1,
                "of no controller": entry(controller="pids"),
                "with an identity in words": entry(identity="one"),
                "with a number for its text": entry(text=3),
                "with a number for what was written": entry(written=3),
                "without a text": {key: entry()[key] for key in entry() if key != "text"},
            }.items()
        ),
    ],
)
def test_what_is_no_journal_is_told_and_left_as_it_is(
    path: Path, reopen: Callable[[], Journal], content: bytes, says: str
) -> None:
    path.write_bytes(content)

    with pytest.raises(JournalError, match=f"^{path}: .*{says}") as raised:
        reopen()

    assert "\n" not in str(raised.value)
    assert path.read_bytes() == content


def test_a_journal_that_cannot_be_read_is_not_taken_for_a_new_one(
    path: Path, reopen: Callable[[], Journal]
) -> None:
    path.mkdir()
    with pytest.raises(JournalError, match=f"^{path}: Is a directory"):
        reopen()


def test_without_a_boot_id_there_is_no_journal(path: Path, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="mount the host's /proc"):
        Journal.open(path, tmp_path / "missing")


def test_a_missing_folder_is_told_before_anything_is_relied_upon(
    path: Path, reopen: Callable[[], Journal]
) -> None:
    path.parent.rmdir()
    journal = reopen()

    with pytest.raises(JournalError, match="cannot be written: No such file or directory; "):
        record(journal, A)
    assert journal.originals == {}


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_takes_nothing_leaves_all_as_it_was(
    path: Path,
    reopen: Callable[[], Journal],
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
    number: int,
) -> None:
    journal = reopen()
    record(journal, A)

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(*((os, "fsync", fail) if failing == "fsync" else (Path, "replace", fail)))
        with pytest.raises(JournalError, match=os.strerror(number)):
            record(journal, B)
        with pytest.raises(JournalError, match=os.strerror(number)):
            journal.forget([A.setting])
        assert journal.originals == reopen().originals == {A.setting: A}
        assert list(path.parent.iterdir()) == [path]

    record(journal, B)
    assert reopen().originals == {A.setting: A, B.setting: B}


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_told_and_the_journal_stays(tmp_path: Path, boot_id: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], check=True)
    try:
        journal = Journal.open(disk / "journal.json", boot_id)
        record(journal, A)
        many = [original(f"/{number}", "0-3") for number in range(1000)]
        with pytest.raises(JournalError, match="No space left on device; "):
            record(journal, *many)
        assert Journal.open(disk / "journal.json", boot_id).originals == {A.setting: A}

        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with pytest.raises(JournalError, match="Read-only file system; "):
            record(journal, B)
        assert journal.originals == {A.setting: A}
    finally:
        subprocess.run(["umount", disk], check=True)


def test_it_is_on_disk_before_it_takes_the_name(
    path: Path, reopen: Callable[[], Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of the machine keeps what was synced, so the order is what can be tested."""
    calls: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note_fsync(descriptor: int) -> None:
        calls.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def note_replace(source: Path, target: Path) -> Path:
        calls.append(f"{source.name} -> {target.name}")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    record(reopen(), A)

    beside = f".{path.name}.new"
    assert calls == [f"sync {beside}", f"{beside} -> {path.name}", "sync state"]


WRITER = """
import sys
from pathlib import Path
from walras_agent.journal import Journal
from walras_agent.tree import CgroupFile

class Cgroups:
    version = 2

    def read(self, setting):
        return f"step {step}"

    def identity(self, group):
        return step + 1

journal = Journal.open(Path(sys.argv[1]), Path(sys.argv[2]))
settings = [CgroupFile("cpu", f"/group{number}", "cpu.weight") for number in range(200)]
for step in range(int(sys.argv[3]), 1_000_000):
    print(step, flush=True)
    if step % 2:
        journal.forget(settings)
    else:
        journal.record([(setting, "1") for setting in settings], Cgroups())
"""


@pytest.mark.system
def test_killed_at_any_moment_it_is_as_before_or_as_after(path: Path, boot_id: Path) -> None:
    """The writer says which step it begins: all of the one before is on disk, and none of later."""
    moments = random.Random(4)
    begin, before = 0, ""
    for kill in range(25):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(boot_id), str(begin)],
            stdout=subprocess.PIPE,
        ) as writer:
            assert writer.stdout is not None
            # In the first step, or a later one.
            steps = b"".join(writer.stdout.readline() for _ in range(1 + kill % 3))
            time.sleep(moments.uniform(0, 0.02))
            writer.send_signal(signal.SIGKILL)
            last = int((steps + writer.stdout.read()).split()[-1])

        originals = Journal.open(path, boot_id).originals.values()
        found = {each.text for each in originals} or {""}
        if last > begin:
            before = f"step {last - 1}" if last % 2 else ""
        after = "" if last % 2 else f"step {last}"
        assert found in ({before}, {after}), last
        assert len(originals) == (200 if found != {""} else 0)
        assert {each.name for each in path.parent.iterdir()} <= {path.name, f".{path.name}.new"}
        begin, (before,) = last + 2 - last % 2, found
    assert begin > 50, "it was killed in the first step each time"


def test_a_file_that_may_have_been_replaced_is_written_again(
    reopen: Callable[[], Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder could not be synchronized: the new file is there, or the old one."""
    journal = reopen()
    record(journal, A)
    synchronize = os.fsync

    def fails_on_folders(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        synchronize(descriptor)

    monkeypatch.setattr(os, "fsync", fails_on_folders)
    with pytest.raises(JournalError, match="Input/output error"):
        record(journal, B)
    monkeypatch.undo()
    assert set(journal.originals) == {A.setting}
    record(journal, A)
    assert reopen().originals == journal.originals
