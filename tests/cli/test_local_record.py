"""Files of a local run: its record and its jobs' output, also in folders where others may write."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from walras_cli.local import record
from walras_cli.local.host import new_log
from walras_cli.local.record import Recording
from walras_profiler.launch import LaunchError

if TYPE_CHECKING:
    from pathlib import Path


POD = {"kind": "Pod", "metadata": {"name": "count-0"}}


class Told:
    """A view that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def event(self, _: float, text: str) -> None:
        self.events.append(text)

    def refresh(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def _one_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "documents_of_run", lambda _: [POD])


def recorded(file: Path) -> Told:
    """Record a run of a few seconds."""
    view, no_loop = Told(), None
    recording = Recording(view, no_loop, file)  # type: ignore[arg-type]
    for second in range(3):
        recording.refresh(float(second), {})
    recording.close()
    return view


def test_no_planted_link_is_followed(tmp_path: Path) -> None:
    victim, folder = tmp_path / "passwd", tmp_path / "shared"
    victim.write_text("root")
    folder.mkdir()
    file = folder / "run.json"
    for planted in (file, folder / f".run.json.{os.getpid()}"):
        planted.symlink_to(victim)
    assert recorded(file).events == []
    assert victim.read_text() == "root"
    assert not file.is_symlink()
    assert json.loads(file.read_text())["items"][0] == POD
    assert {each.name for each in folder.iterdir()} == {"run.json", f".run.json.{os.getpid()}"}


@pytest.mark.parametrize("place", ["file/run.json", "folder"])
def test_a_record_that_cannot_be_written_is_told_once_and_ends_nothing(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (told,) = recorded(tmp_path / place).events
    assert told.startswith(f"the record {tmp_path / place} cannot be written (")
    assert {each.name for each in tmp_path.iterdir()} == {"file", "folder"}


def test_the_output_of_a_job_follows_no_link(tmp_path: Path) -> None:
    victim, log = tmp_path / "passwd", tmp_path / "a.log"
    victim.write_text("root")
    log.symlink_to(victim)
    with pytest.raises(LaunchError, match=r"a\.log: it is a symbolic link"):
        new_log(log)
    assert victim.read_text() == "root"
    log.unlink()
    log.write_text("of the last run")
    new_log(log).close()
    assert log.read_text() == ""
    with pytest.raises(LaunchError, match="Is a directory"):
        new_log(tmp_path)
