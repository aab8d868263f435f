"""`walras profile` as users meet it: real programs and signals, what is said and left behind."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from another_user import NOBODY, another_user
from cgroup_folders import cgroups_named
from waiting import PATIENCE, eventually
from walras.speedup.diagnosis import FindingCode
from walras_api.kinds import SpeedupProfile
from walras_api.parse import parse_resource
from walras_cli.main import main

pytestmark = pytest.mark.system

PROFILE = ["-m", "walras_cli", "profile"]

needs_two_cpus = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs to run on"
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def walras(*arguments: str, user: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *PROFILE, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd="/",
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return the only error message of a run, which is the last line of its output."""
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("walras: ")]
    assert len(lines) == 1, done.stderr
    assert done.stderr.endswith(lines[0] + "\n")
    return lines[0]


def traces(seconds: str, folder: Path) -> list[str]:
    """Return the processes, cgroups and temporary folders left by a run of `sleep SECONDS`."""
    wanted, left = f"sleep\0{seconds}\0".encode(), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes() == wanted:
                left.append(entry.name)
        except OSError:
            continue
    return left + [str(path) for path in folder.glob("walras-*")]


# A program that fails unless it and a child of its are held to as many CPUs as it was told.
CHECKS_ITS_CPUS = """
import os, sys, time
time.sleep(0.02)
held = len(os.sched_getaffinity(0)) == int(sys.argv[1]) == int(os.environ["OMP_NUM_THREADS"])
child = os.fork()
if child == 0:
    os._exit(0 if len(os.sched_getaffinity(0)) == int(sys.argv[1]) else 5)
_, status = os.wait()
sys.exit(0 if held and status == 0 else 4)
"""


@needs_two_cpus
@pytest.mark.parametrize(
    ("user", "pin", "said"),
    [
        pytest.param(None, "cgroup", "cgroup", marks=needs_root),
        pytest.param(None, "affinity", "CPU affinity"),
        pytest.param(NOBODY, "auto", "CPU affinity", marks=another_user),
    ],
)
def test_runs_are_held_to_as_many_cpus_as_cores(user: int | None, pin: str, said: str) -> None:
    command = (sys.executable, "-c", CHECKS_ITS_CPUS, "{threads}")
    done = walras("--repeat", "2", "--pin", pin, "--no-plot", "--", *command, user=user)
    assert done.returncode == 0, done.stderr
    assert re.search(f"Runs are pinned to their cores by .*{said}", done.stderr)
    assert "Measured times" in done.stdout


@needs_two_cpus
@another_user
def test_cgroup_demanded_by_an_ordinary_user_is_refused_with_the_way_out() -> None:
    done = walras("--pin", "cgroup", "--", "true", user=NOBODY)
    assert done.returncode == 1
    assert "run as root, or use CPU affinity" in error_of(done)


@needs_two_cpus
def test_yaml_is_a_document_alone_on_standard_output() -> None:
    done = walras("--repeat", "2", "-o", "yaml", "--namespace", "lab", "--", "sleep", "0.05")
    assert done.returncode == 0, done.stderr
    document = yaml.safe_load(done.stdout)
    assert document["metadata"] == {"name": "sleep", "namespace": "lab"}
    assert [entry["cores"] for entry in document["spec"]["measurements"]] == [1, 2]
    assert all(len(entry["seconds"]) == 2 for entry in document["spec"]["measurements"])
    codes = {finding["code"] for finding in document["status"]["findings"]}
    assert "OneCoreCount" in codes
    assert done.stderr.count("run 2: ") == 2


@needs_two_cpus
def test_json_with_a_plot_keeps_the_plot_off_standard_output() -> None:
    done = walras("--repeat", "1", "-o", "json", "--plot", "--", "sleep", "0.02")
    assert json.loads(done.stdout)["kind"] == "SpeedupProfile"
    assert "Speedup over one core" in done.stderr


@needs_two_cpus
def test_sample_of_the_data_is_what_the_command_gets(tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    data.write_text("".join(f"{number}\n" for number in range(200)))
    check = 'test "$(wc -l < "$1")" -eq "$2"'
    command = ("sh", "-c", check, "check", "{data}", "{percent}")
    sizes = ("--repeat", "1", "--sizes", "10%,50%", "--data", str(data))
    wrong = walras(*sizes, "--", *command)
    assert wrong.returncode == 1, "10 % of 200 lines are 20, not 10"
    data.write_text("".join(f"{number}\n" for number in range(100)))
    right = walras(*sizes, "--no-plot", "--", *command)
    assert right.returncode == 0, right.stderr
    assert "Time in seconds" in right.stdout


WAITS = """
import sys, time
cores, size = int(sys.argv[1]), float(sys.argv[2])
time.sleep(size * (0.2 + 0.8 / cores))
"""
"""Its time is known, but for what the machine adds: 80 % of it is parallel."""


@needs_two_cpus
def test_times_of_a_program_that_waits_are_never_less_than_its_own() -> None:
    command = (sys.executable, "-c", WAITS, "{threads}", "{fraction}")
    sizes = ("--sizes", "10%,20%,40%", "--repeat", "1")
    done = walras("-o", "json", *sizes, "--no-plot", "--", *command)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    measured = {
        (each["cores"], float(each["dataSize"].rstrip("%")) / 100): float(each["seconds"][0])
        for each in document["spec"]["measurements"]
    }
    assert {cores for cores, _ in measured} == {1, 2}
    assert sorted({size for _, size in measured}) == pytest.approx([0.1, 0.2, 0.4])
    for (cores, size), seconds in measured.items():
        assert seconds >= size * (0.2 + 0.8 / cores)
    profile = parse_resource(document)
    assert isinstance(profile, SpeedupProfile)
    noisy = FindingCode.TOO_NOISY in {each.code for each in profile.findings}
    assert noisy or "parallelFraction" in document["status"]


@needs_two_cpus
@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (
            ("sh", "-c", "echo one >&2; echo 'no such\tinput' >&2; exit 3"),
            r"2 cores: the command failed \(exit code 3\): one \| no such\?input",
        ),
        (("sh", "-c", "kill -SEGV $$"), r"2 cores: the command failed \(killed by SIGSEGV\)"),
        (("sleep", "30"), r"2 cores: still running after 0\.2 s: raise --timeout"),
    ],
)
def test_failing_command_ends_the_campaign_in_one_line(
    command: tuple[str, ...], complaint: str
) -> None:
    done = walras("--timeout", "0.2", "--", *command)
    assert done.returncode == 1
    assert re.search(complaint, error_of(done))
    assert done.stdout == ""


@needs_two_cpus
@pytest.mark.parametrize(
    ("number", "exit_code"),
    [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, -signal.SIGTERM)],
)
def test_interrupted_campaign_leaves_nothing_behind(
    number: signal.Signals, exit_code: int, tmp_path: Path
) -> None:
    seconds = f"7{os.getpid()}{number.value}"
    # The command's children leave its session and its parent.
    script = f"setsid sleep {seconds} & setsid sleep {seconds} & sleep {seconds}"
    arguments = [sys.executable, *PROFILE, "--", "sh", "-c", script]
    with subprocess.Popen(
        arguments,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ) | {"TMPDIR": str(tmp_path)},
        start_new_session=True,
    ) as running:
        assert eventually(lambda: len(traces(seconds, tmp_path)) == 4), "the run did not get going"
        os.killpg(running.pid, number)  # as a terminal does, which the run itself must not get
        _, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == exit_code
    assert eventually(lambda: traces(seconds, tmp_path) == [])
    assert eventually(lambda: not cgroups_named(f"walras-{running.pid}-*"))
    if number == signal.SIGINT:
        assert said.endswith("walras: interrupted; all runs were stopped and cleaned up\n")


def test_machine_with_one_core_says_that_nothing_can_be_measured() -> None:
    held = min(os.sched_getaffinity(0))
    done = subprocess.run(
        ["taskset", "-c", str(held), sys.executable, *PROFILE, "--", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "only one core is usable here" in error_of(done)


BAD_INPUTS = {
    "no command": ([], "no command to profile: write it after --"),
    "unknown command": (["--", "no-such-tool"], "no-such-tool: command not found in PATH"),
    "not executable": (["--", "/dev/null"], "/dev/null: not an executable file"),
    "missing script": (["--", "./no-such-script"], "./no-such-script: no such program"),
    "cores not numbers": (["--cores", "1,two", "--", "true"], "--cores '1,two'"),
    "cores empty": (["--cores", "", "--", "true"], "write core counts as 1,2,4"),
    "no cores": (["--cores", "0,1", "--", "true"], "give 1 and at least one more"),
    "without one core": (["--cores", "2", "--", "true"], "speedup is relative to one core"),
    "only one core": (["--cores", "1", "--", "true"], "give 1 and at least one more"),
    "too many cores": (["--cores", "1,100000", "--", "true"], "100000 cores requested"),
    "sizes malformed": (["--sizes", "ten", "--", "true"], "data size 'ten'"),
    "sizes mixed": (["--sizes", "10%,5", "--", "true"], "give all as shares"),
    "sizes unused": (["--sizes", "10%", "--", "true"], "every size would run the same"),
    "data missing": (["--data", "/no/such", "--", "cat", "{data}"], "/no/such: no such file"),
    "data unused": (["--data", "/etc", "--", "true"], "write {data} in the command"),
    "data unnamed": (["--", "cat", "{data}"], "name the file or folder with --data"),
    "data binary": (
        ["--data", sys.executable, "--", "cat", "{data}"],
        "a binary file has no lines",
    ),
    "bad name": (["--name", "No Good", "--", "true"], "--name 'No Good'"),
    "bad namespace": (["--namespace", "a.b", "--", "true"], "--namespace 'a.b'"),
    "network of a command": (["--network", "host", "--", "true"], "only for containers"),
    "pin of a container": (["--image", "x", "--pin", "auto", "--", "true"], "leave it out"),
    "sizes of no command": (["--image", "x", "--sizes", "10%"], "no command to profile"),
}


@needs_two_cpus
@pytest.mark.parametrize(("arguments", "complaint"), BAD_INPUTS.values(), ids=BAD_INPUTS)
def test_bad_input_is_refused_in_one_line_before_anything_runs(
    arguments: list[str], complaint: str
) -> None:
    done = CliRunner().invoke(main, ["profile", *arguments])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("walras: ")
    assert complaint in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("arguments", [["--repeat", "0"], ["--timeout", "0"], ["--no-such-option"]])
def test_malformed_options_are_usage_errors(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, ["profile", *arguments, "--", "true"]).exit_code == 2


def test_options_after_the_command_are_the_commands_own() -> None:
    done = CliRunner().invoke(main, ["profile", "no-such-tool", "--cores", "9"])
    assert "no-such-tool: command not found" in done.stderr


def test_help_teaches_by_examples() -> None:
    text = CliRunner().invoke(main, ["profile", "--help"]).stdout
    assert "walras profile -- sort --parallel={threads} big.txt" in text
    assert "Exit codes: 0 success" in text
