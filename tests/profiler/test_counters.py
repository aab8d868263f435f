"""`perf stat`: its output is read, and the real program is tried where it is installed."""

import shutil
import subprocess

import pytest

from walras_profiler.counters import (
    EVENTS,
    Counters,
    NoCounters,
    open_counters,
    parse_counts,
)

pytestmark = pytest.mark.system

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


def working_counters(*events: str) -> Counters:
    counters = open_counters(events)
    if isinstance(counters, NoCounters):
        pytest.skip(f"perf counts nothing here: {counters.reason}")
    return counters


@needs_perf
def test_children_of_the_process_are_counted_too() -> None:
    counters = working_counters("page-faults")
    script = "read go; /bin/true; /bin/true"
    spawner = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE)
    attached = counters.attach(spawner.pid)
    spawner.communicate(b"go\n")
    counts = parse_counts(attached.detach())
    assert counts["page-faults"] > 60, "the loading of two programs takes dozens"


@needs_perf
def test_process_that_is_gone_is_not_counted() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert parse_counts(working_counters("page-faults").attach(ended.pid).detach()) == {}


@needs_perf
def test_events_that_do_not_count_are_dropped_and_the_rest_kept() -> None:
    counters = working_counters("page-faults", *EVENTS)
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
