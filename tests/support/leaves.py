"""What a test leaves in its process, where the tests after it find it.

It makes others fail, in orders that nobody has tried yet: a child that is forked with a signal
handler of an earlier test survives its SIGTERM. What must outlive a test is a fixture of wider
scope: it is made before `leaves_nothing` looks, and ended after that has looked again.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    Traces = dict[str, frozenset[Any]]

EXCEPTIONS: dict[str, str] = {}
"""Tests that may leave something, each with the reason: at most ten."""

PATIENCE = 5.0
"""Seconds after which what is ending has ended, on the busiest machine."""

RESTORED = ("signal handlers", "variables", "working folder")
"""Of these, nothing may be gone either; the others may be a wider fixture's that ended.

Nothing else is asked of tests of `make verify`: beside them, watchers of wider scope open and close
files and connections all the time.
"""

_SOON = 0.2
"""Seconds after which it is worth its time to look for objects that only refer to each other."""

_POOLED = ("AnyIO worker thread",)
"""Threads that a running event loop keeps for later, and ends when it ends."""

_CACHED = "/mpl-data/fonts/"
"""Part of the paths of fonts, which Matplotlib keeps open for later plots."""

_SIGNALS = sorted(signal.valid_signals() - {signal.SIGALRM})
"""All but the one by which pytest-timeout ends a test, whose handler it takes back by itself."""

_TEST_NOW = "PYTEST_CURRENT_TEST"


@pytest.fixture(autouse=True)
def leaves_nothing(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> Iterator[None]:
    """Fail a test that leaves its process other than it found it."""
    folder = tmp_path_factory.getbasetemp()
    before = _traces(folder)
    if request.node.get_closest_marker("verify"):
        before = {kind: before[kind] for kind in RESTORED}
    yield
    left = _differences(before, _traces(folder))
    if left:
        # What fixtures returned and logged errors refer to goes with the test.
        request.node.funcargs.clear()
        for phase in ("setup", "call", "teardown"):
            caplog.get_records(phase).clear()
        left = _left_at_last(before, folder)
    if left and request.node.nodeid.partition("[")[0] not in EXCEPTIONS:
        pytest.fail("the test left\n  " + "\n  ".join(left), pytrace=False)


def _left_at_last(before: Traces, folder: Path) -> list[str]:
    """Return what there is still after all that is ending has ended."""
    began, looked = time.monotonic(), 0.0
    while left := _differences(before, _traces(folder)):
        threading.Event().wait(0.01)  # unlike sleeping, this is not refused in unit tests
        waited = time.monotonic() - began
        if waited > PATIENCE:
            break
        if waited > looked + _SOON:
            gc.collect()
            looked = waited
    return left


def _differences(before: Traces, after: Traces) -> list[str]:
    new = {kind: after[kind] - before[kind] for kind in before}
    gone = {kind: before[kind] - after[kind] for kind in RESTORED}
    return [
        f"{sign} {kind}: {each}"
        for sign, found in (("+", new), ("-", gone))
        for kind, some in found.items()
        for each in sorted(map(str, some))
    ]


def _traces(folder: Path) -> Traces:
    """Return all that outlives a test; of mounts those in a folder, since others mount, too."""
    return {
        "signal handlers": frozenset((each, signal.getsignal(each)) for each in _SIGNALS),
        "variables": frozenset(each for each in os.environ.items() if each[0] != _TEST_NOW),
        "working folder": frozenset({os.getcwd()}),  # noqa: PTH109 - a Path takes ten times as long
        "threads": frozenset(each for each in threading.enumerate() if each.name not in _POOLED),
        "children": frozenset(_children()),
        "open files": frozenset(_open_files()),
        "mounts": frozenset(_mounts(f" {folder}/")),
    }


def _children() -> Iterator[str]:
    for task in os.scandir("/proc/self/task"):
        with suppress(OSError):  # it has ended
            yield from Path(task.path, "children").read_text("ascii").split()


def _open_files() -> Iterator[tuple[str, str]]:
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as above
        with suppress(OSError):  # it was that of the folder
            path = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115 - as above
            if _CACHED not in path:
                yield number, path


def _mounts(prefix: str) -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
        if prefix in line:
            yield line.split()[4]
