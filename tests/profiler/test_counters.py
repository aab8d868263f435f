"""`perf stat`: its output is read, and the real program is tried where it is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from walras_profiler.counters import (
    EVENTS,
    Counters,
    NoCounters,
    open_counters,
    parse_counts,
    read_counts,
)

needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")


def test_counts_are_read_and_what_was_not_counted_is_left_out() -> None:
    text = (
        "# started on Sat Nov 21 08:00:00 2026\n"
        "\n"
        "123456789,,instructions:u,1000,100.00,1.2,insn per cycle\n"
        "<not supported>,,cycles,0,100.00,,\n"
        "<not counted>,,branches,0,0.00,,\n"
        "42,,cache-misses,1000,100.00,,\n"
        "0.61,msec,task-clock,610729,100.00,0.493,CPUs utilized\n"
    )
    assert parse_counts(text) == {"instructions": 123456789, "cache-misses": 42}


def test_missing_output_has_no_counts(tmp_path: Path) -> None:
    assert read_counts(tmp_path / "gone") == {}


@needs_perf
def test_real_perf_counts_an_event_that_needs_no_hardware(tmp_path: Path) -> None:
    counters = open_counters(("page-faults",))
    if isinstance(counters, NoCounters):
        pytest.skip(f"perf counts nothing here: {counters.reason}")
    output = tmp_path / "counts"
    done = subprocess.run(counters.wrap(("sh", "-c", "exit 3"), output), check=False)
    assert done.returncode == 3, "the exit code is the command's own"
    assert read_counts(output)["page-faults"] > 10


@needs_perf
def test_events_that_do_not_count_are_dropped_and_the_rest_kept() -> None:
    counters = open_counters(("page-faults", *EVENTS))
    if isinstance(counters, NoCounters):
        pytest.skip(f"perf counts nothing here: {counters.reason}")
    assert "page-faults" in counters.events
    hardware = open_counters(EVENTS)
    counted = hardware.events if isinstance(hardware, Counters) else ()
    assert set(counters.events) == {"page-faults", *counted}


@needs_perf
def test_machine_without_hardware_counters_says_so() -> None:
    hardware = open_counters(EVENTS)
    if isinstance(hardware, Counters):
        pytest.skip("this machine has hardware counters")
    assert "hardware counters" in hardware.reason or "perf_event_paranoid" in hardware.reason


def test_machine_without_perf_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert open_counters() == NoCounters("perf is not installed")
