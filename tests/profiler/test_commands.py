"""The runner of commands, used as the local run uses it: from Python, many runs, own folders."""

import io
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from waiting import eventually
from walras.speedup.sizes import WHOLE
from walras_agent.cpuset import CpuSet
from walras_agent.topology import Topology
from walras_profiler.campaign import MeasurementError, Trial
from walras_profiler.command_runner import (
    CommandRunner,
    choose_cpus,
    command_runner,
    describe_failure,
    keep_tail,
    last_lines,
)
from walras_profiler.template import Template

pytestmark = pytest.mark.system

ONE = Trial(1, WHOLE, 1)
SOFTWARE = ("page-faults",)  # counted by the kernel itself, so on every machine

needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")


@pytest.fixture
def topology() -> Topology:
    return Topology.read()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for temporary folders during the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def run(runner: CommandRunner) -> float:
    return runner.run(ONE).seconds


def test_command_runs_in_the_folder_and_environment_given(
    topology: Topology, scratch: Path
) -> None:
    home = scratch / "home"
    home.mkdir()
    check = Template(("sh", "-c", 'test "$PWD" = "$1" && test "$COLOUR" = red', "sh", str(home)))
    environment = {"PATH": os.environ["PATH"], "COLOUR": "red"}
    with command_runner(
        check, topology, prefer="affinity", environment=environment, cwd=home
    ) as runner:
        assert run(runner) > 0


def test_many_runs_leave_nothing_in_the_temporary_folder(topology: Topology, scratch: Path) -> None:
    with command_runner(Template(("true",)), topology, prefer="affinity") as runner:
        assert [run(runner) > 0 for _ in range(5)] == [True] * 5
        assert [path.name[:7] for path in scratch.iterdir()] == ["walras-"]
    assert list(scratch.iterdir()) == []


def test_children_left_running_are_ended_with_their_run(topology: Topology, scratch: Path) -> None:
    told = scratch / "pid"
    script = Template(("sh", "-c", f"setsid sleep 60 & echo $! > {told}"))
    with command_runner(script, topology, prefer="affinity") as runner:
        run(runner)
        status = Path(f"/proc/{told.read_text().strip()}/status")
        # Killed it is by now; that it has died may take the kernel a moment more.
        assert eventually(lambda: not status.exists() or "State:\tZ" in status.read_text())


def test_own_cpu_time_is_not_mistaken_for_others(topology: Topology, scratch: Path) -> None:
    spin = "import time\nwhile time.process_time() < 0.8: pass"
    with command_runner(
        Template((sys.executable, "-c", spin)), topology, prefer="affinity"
    ) as runner:
        made = runner.run(ONE)
    assert made.others is not None
    # Of one CPU's time: what is not the run's own, and not waiting either.
    own = ((made.user_seconds or 0) + (made.system_seconds or 0)) / made.seconds
    assert made.others <= 1.2 - own


@needs_perf
def test_counted_run_that_fails_is_no_measurement(topology: Topology, scratch: Path) -> None:
    for script, ended in (("exit 3", "exit code 3"), ("kill -KILL $$", "killed by SIGKILL")):
        with (
            command_runner(
                Template(("sh", "-c", script)), topology, prefer="affinity", events=SOFTWARE
            ) as runner,
            pytest.raises(MeasurementError, match=ended),
        ):
            run(runner)


@needs_perf
def test_counted_run_shows_its_counts(topology: Topology, scratch: Path) -> None:
    with command_runner(
        Template(("sh", "-c", "/bin/true")), topology, prefer="affinity", events=SOFTWARE
    ) as runner:
        if runner.notes:
            pytest.skip(runner.notes[0])
        assert runner.run(ONE).counters["page-faults"] > 100


def test_cores_are_those_the_market_would_assign(topology: Topology) -> None:
    machine = topology.cores()
    assert choose_cpus(topology, 1) in machine
    assert choose_cpus(topology, len(machine)) == topology.cpuset
    with pytest.raises(MeasurementError):
        choose_cpus(topology, len(machine) + 1)
    assert choose_cpus(Topology(topology.cpus[:1]), 1) == CpuSet([topology.cpus[0].id])


@pytest.mark.parametrize(
    ("exit_code", "errors", "line"),
    [
        (2, b"", "the command failed (exit code 2)"),
        (-signal.SIGKILL, b"", "the command failed (killed by SIGKILL)"),
        (-40, b"", "the command failed (killed by signal 40)"),
        (1, b"a\nb\n\nc\nd\n", "the command failed (exit code 1): b | c | d"),
        (1, b"x" * 5000, "the command failed (exit code 1): " + "x" * 2000),
    ],
)
def test_failure_is_described_in_one_line(exit_code: int, errors: bytes, line: str) -> None:
    assert describe_failure(exit_code, io.BytesIO(errors)) == line


def test_what_a_terminal_would_obey_is_not_passed_on() -> None:
    assert last_lines(b"\x1b[31mred\x07 \xff") == "?[31mred? \ufffd"


def test_of_endless_output_only_the_end_is_kept(tmp_path: Path) -> None:
    with (tmp_path / "errors").open("a+b") as stream:
        for line in (b"begin\n", b"x" * (20 << 20), b"\nnearly done\n"):
            os.write(stream.fileno(), line)
        keep_tail(stream)
        assert os.fstat(stream.fileno()).st_size < 1 << 20
        os.write(stream.fileno(), b"out of luck\n")  # the program goes on
        keep_tail(stream)
        told = describe_failure(3, stream)
    assert told.endswith("| nearly done | out of luck")
    assert "begin" not in told
