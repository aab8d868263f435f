"""The programs of `benchmarks/held.py`, and the whole of it on an emulated machine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from emulated import in_a_guest

if TYPE_CHECKING:
    from collections.abc import Iterator

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

sys.path.insert(0, str(BENCHMARKS))
programs = import_module("holding.programs")
sys.path.pop(0)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiled = tmp_path_factory.mktemp("load") / "load"
    try:
        programs.compile_programs(BENCHMARKS / "holding" / "load.c", compiled)
    except programs.CompilerError as error:
        pytest.skip(str(error))
    return compiled


@pytest.fixture
def start(load: Path, tmp_path: Path) -> Iterator[Any]:
    started: list[Any] = []

    def start(*words: str) -> Any:
        started.append(programs.Program(load, words, tmp_path / f"figures-{len(started)}", ()))
        started[-1].begin()
        return started[-1]

    yield start
    for program in started:
        program.end()


def eventually(program: Any, answers: int = 0, blocks: int = 0) -> Any:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        progress = program.progress()
        if progress.answers >= answers and progress.blocks >= blocks:
            return progress
        time.sleep(0.05)
    raise AssertionError(f"only {progress} after a minute")


@pytest.mark.system
@pytest.mark.parametrize(
    "words",
    [
        ("compute", "3"),
        *(("phases", "2", "1000", "1000", meet) for meet in ("apart", "sleep", "spin")),
    ],
    ids=" ".join,
)
def test_a_program_tells_what_it_has_done_so_far(start: Any, words: tuple[str, ...]) -> None:
    program = start(*words)
    first = eventually(program, blocks=100)
    assert eventually(program, blocks=first.blocks + 100).answers == 0


@pytest.mark.system
def test_an_answer_takes_at_least_its_work_and_counts_from_when_it_was_due(start: Any) -> None:
    program = start("service", "1", "2000", "1000", "1000000", "0")  # twice what a thread can do
    begun = program.progress()
    took = program.latencies(begun, eventually(program, answers=100))
    assert took == sorted(took)
    assert took[0] >= 2000
    assert took[-1] >= 50 * 2000, "requests queue, whether the program keeps up or not"


def held(results: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "held.py"), "--results", str(results), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)


@pytest.mark.system
def test_without_a_compiler_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = held(tmp_path, "--machine", "6.1:2")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("no C compiler: install gcc")


@in_a_guest
def test_pods_have_roughly_what_they_bought_and_nothing_is_measured_twice(tmp_path: Path) -> None:
    """An emulated machine beside other work is off by much more than a real one."""
    options = ("--machine", "6.1:2", "--quick", "--gentle", "-o", "json")
    found = json.loads(held(tmp_path, *options).stdout)

    assert "2 emulated CPUs" in found["machine"]
    always, phases, service = found["rows"].values()
    assert always["this"]["error"] < 25
    for row in (always, phases, service):
        ours, plain = row["this"], row["plain weights"]
        # The agent takes much of so slow a CPU.
        assert ours["cpus"] + ours["agent"] / 100 > 0.75 * plain["cpus"]
        assert ours["steady"] > 0.75
        assert ours["work"] > 0
    assert 0 < service["this"]["p50"] <= service["this"]["p99"]

    again = held(tmp_path, *options)
    assert json.loads(again.stdout) == found
    assert again.stderr.splitlines()[0] == "0 of 6 to measure: 0 minutes"
