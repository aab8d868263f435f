"""A test that leaves something in its process fails and says what (tests/support/leaves.py)."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import leaves

LEAVING = {
    "signal handlers": "signal.signal(signal.SIGTERM, print)",
    "variables": "os.environ['LEFT'] = 'behind'",
    "working folder": "os.chdir('/')",
    "threads": "threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "children": "wide.children.append(subprocess.Popen('cat', stdin=subprocess.PIPE))",
    "open files": "wide.files.append(open('/dev/null'))",
    "mounts": "subprocess.run(['mount', '--bind', wide.disk, wide.disk], check=True)",
}
HARMLESS = {
    "a variable that is set back": "monkeypatch.setenv('LEFT', 'for now')",
    "a thread that is ending": "threading.Thread(target=time.sleep, args=(0.05,)).start()",
    "a file that nobody has": "warnings.simplefilter('ignore'); a = [open('/dev/null')]; a += [a]",
    "a file of a wider fixture": "assert not wide.files[0].closed",
}
MODULE = """
import os, signal, subprocess, threading, time, warnings
from types import SimpleNamespace
import pytest

@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    disk = tmp_path_factory.mktemp("disk")
    with open("/dev/null") as file:
        made = SimpleNamespace(children=[], files=[file], disk=disk)
        yield made
    subprocess.run(["umount", disk], stderr=subprocess.DEVNULL)
    for child in made.children:
        child.kill()
"""
TEST = """
def test_{number}(wide, monkeypatch):
    {code}
"""


@pytest.mark.system
def test_what_is_left_is_named_and_what_ends_is_not(tmp_path: Path) -> None:
    written = LEAVING | HARMLESS
    if os.geteuid():
        del written["mounts"]
    tests = (TEST.format(number=at, code=code) for at, code in enumerate(written.values()))
    (tmp_path / "test_made.py").write_text("".join([MODULE, *tests]))
    (tmp_path / "conftest.py").write_text(
        "import leaves\nfrom leaves import leaves_nothing\nleaves.PATIENCE = 0.5\n"
    )
    report = tmp_path / "report.xml"
    command = ("-m", "pytest", "-c", "/dev/null", "-p", "no:randomly", f"--junitxml={report}")
    done = subprocess.run(
        [sys.executable, *command, f"--basetemp={tmp_path / 'made'}", tmp_path],
        env=os.environ | {"PYTHONPATH": str(Path(leaves.__file__).parent)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314 - ours
    told = {what: case.findtext("error") or "" for what, case in zip(written, cases, strict=True)}
    for what, text in told.items():
        assert (f"+ {what}: " in text) == (what in LEAVING), done.stdout
        assert (text == "") == (what in HARMLESS), done.stdout


def test_few_tests_may_leave_something_and_each_has_a_reason() -> None:
    assert len(leaves.EXCEPTIONS) <= 10
    assert all(leaves.EXCEPTIONS.values())
