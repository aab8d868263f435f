"""`walras local run` on real processes: shares, pinning, changes, and ends of every kind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pytest
import yaml

from another_user import NOBODY, another_user
from cgroup_folders import cgroups_named
from command_line import processes_with, start, walras, walras_here
from page_fields import untold
from waiting import PATIENCE, eventually
from walras.speedup import diagnosis
from walras_agent.cpuset import CpuSet
from walras_api.job_inputs import ASSUMED_FRACTION

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.system

UNRELIABLE = {code.value for code in diagnosis.UNRELIABLE}

needs_two_cpus = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs to run on"
)

PROGRAM = '''
"""Hash on threads for some seconds of one core's work; write the CPUs that each thread may use."""
import hashlib, os, sys, time
from concurrent.futures import ThreadPoolExecutor

threads, fraction, seconds = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])

def work(part):
    ends = time.thread_time() + part
    while time.thread_time() < ends:
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 20000)
        os.write(1, (",".join(map(str, sorted(os.sched_getaffinity(0)))) + "\\n").encode())

whole = seconds * fraction
work(0.1 * whole)
with ThreadPoolExecutor(threads) as pool:
    list(pool.map(work, [0.9 * whole / (4 * threads)] * (4 * threads)))
'''


class Folder:
    """A folder with a program and the documents of a market."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.token = f"token-{os.getpid()}-{path.name}"
        (path / "work.py").write_text(PROGRAM)
        path.chmod(0o777)

    @property
    def file(self) -> str:
        return str(self.path / "market.yaml")

    def write(self, *documents: dict[str, Any]) -> None:
        new = self.path / "new.yaml"
        new.write_text(yaml.safe_dump_all(documents))
        new.rename(self.file)

    def job(self, name: str, user: str, seconds: float = 0.5, **spec: Any) -> dict[str, Any]:
        command = ["python3", "work.py", "{threads}", "{fraction}", str(seconds), self.token]
        return document("MarketJob", name, entitlement=user, command=command, **spec)

    def left(self) -> list[int]:
        return processes_with(self.token)


def document(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def user(name: str, shares: int) -> dict[str, Any]:
    return document("Entitlement", name, shares=shares, namespaces=["default"])


@pytest.fixture
def folder(public_path: Path) -> Folder:
    return Folder(public_path)


def run_json(folder: Folder, *options: str, as_user: int | None = None) -> dict[str, Any]:
    done = walras("local", "run", "-o", "json", *options, folder.file, user=as_user)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert folder.left() == []
    return result


def test_a_short_job_is_told_what_it_held_while_it_ran_and_no_more(folder: Folder) -> None:
    """However long it took to begin, and until its end was noticed."""
    folder.write(
        document("Market", "default", cores={"reservedCores": 0}),
        user("ada", 1),
        document(
            "MarketJob", "nap", entitlement="ada", command=["sleep", "0.05"], parallelFraction="0.9"
        ),
    )
    done = run_json(folder)
    assert done["jobs"][0]["held"] == pytest.approx(done["machine"]["cores"])
    for each in done["decisions"]:
        assert not untold([each.pop(part) for part in ("jobs", "users", "nodes")], "what-if.md")
    assert not untold(done, "local-run.md")


SPIN = """
import os, time
ends = time.monotonic() + 600
while time.monotonic() < ends and os.getppid() != 1:
    pass
"""


@contextmanager
def spinning() -> Iterator[None]:
    """Have every CPU of the machine be kept busy by a program that is none of the run's."""
    spinners = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for each in spinners:
            each.kill()
            each.wait()


def test_cpus_that_other_programs_take_are_counted_and_said(folder: Folder) -> None:
    folder.write(user("ada", 1), folder.job("render", "ada", 3, parallelFraction="0.9"))
    with spinning():
        done = walras("local", "run", "-o", "json", folder.file)
    result = json.loads(done.stdout)
    (job,) = result["jobs"]
    cpus, others = len(os.sched_getaffinity(0)), result["machine"]["others"]
    assert 0.3 * cpus < others < cpus - job["cpuSeconds"] / job["seconds"] + 0.2
    assert re.search(rf"other programs took \d+\.\d of the {cpus} CPUs for sale", done.stderr)


def test_the_report_says_first_that_other_programs_took_cpus(folder: Folder) -> None:
    folder.write(user("ada", 1), folder.job("render", "ada", 3, parallelFraction="0.9"))
    with spinning():
        done = walras("local", "run", "--record", str(folder.path / "run.json"), folder.file)
    said = " ".join(done.stdout.partition("Users")[0].split())
    assert re.search(r"While the jobs ran, other programs took \d+\.\d of the \d+ CPUs", said)
    record = (folder.path / "run.json").read_text()
    assert "every grant is enforced, but other programs took" in record


def two_own_cores() -> dict[str, object]:
    """Return the rules of a Market of two CPUs of this machine, which jobs have for themselves."""
    return {"reservedCores": len(os.sched_getaffinity(0)) - 2, "isolated": True}


@needs_two_cpus
@pytest.mark.parametrize("as_user", [None, pytest.param(NOBODY, marks=another_user)])
def test_two_users_get_a_core_each_and_their_threads_stay_on_it(
    folder: Folder, as_user: int | None
) -> None:
    folder.write(
        document("Market", "default", cores=two_own_cores()),
        user("ada", 1),
        user("bob", 1),
        # Long enough for both to run at once, however late the second one begins.
        folder.job("one", "ada", seconds=3, parallelFraction="0.9"),
        folder.job("two", "bob", seconds=3, parallelFraction="0.9"),
    )
    logs = folder.path / "logs"
    result = run_json(folder, "--logs", str(logs), as_user=as_user)
    assert result["machine"]["cores"] == 2
    expected = "cgroup" if as_user is None and os.geteuid() == 0 else "CPU affinity"
    assert expected in result["machine"]["placement"]
    assert [job["held"] for job in result["decisions"][0]["jobs"]] == [1, 1]
    assert result["notHeld"] == []
    first = (logs / "default.one.log").read_text().splitlines()[0]
    second = (logs / "default.two.log").read_text().splitlines()[0]
    assert len(CpuSet.parse(first)) == len(CpuSet.parse(second)) == 1
    assert first != second
    for outcome in result["users"]:
        # One core beside the other, and both while only this one runs, however long that is.
        assert 0.999 <= outcome["entitled"] <= 2.001
    for job in result["jobs"]:
        assert job["phase"] == "done"
        assert job["cpuSeconds"] > 0.4


@needs_two_cpus
def test_what_is_left_when_a_job_ends_goes_to_the_others(folder: Folder) -> None:
    folder.write(
        user("ada", 1),
        user("bob", 1),
        folder.job("short", "ada", 0.3, parallelFraction="0.9"),
        folder.job("long", "bob", 2.0, parallelFraction="0.9"),
    )
    result = run_json(folder, "--logs", str(folder.path / "logs"))
    machine = CpuSet.parse(result["machine"]["cpus"])
    seen = (folder.path / "logs/default.long.log").read_text().splitlines()
    assert CpuSet.parse(seen[-1]) == machine
    assert "default/short ended" in result["decisions"][1]["why"]
    (after,) = result["decisions"][1]["jobs"]
    assert after["held"] == result["machine"]["cores"]


def measured_alone(folder: Folder, seconds: float, *options: str) -> dict[str, Any]:
    """Run a job of unknown speedup, and compare with what proportional sharing gives it."""
    samples = {"samples": ["10%", "20%", "30%"]}
    folder.write(user("ada", 1), folder.job("one", "ada", seconds, data=samples))
    result = run_json(folder, "--compare", *options)
    (job,) = result["jobs"]
    assert used_if_reliable(job)
    assert isinstance(job, dict)
    return job


def used_if_reliable(job: dict[str, Any]) -> bool:
    """Return whether a measured job bids with its measurement, or says why it does not.

    Other tests keep the machine busy, so that either is right, but never a mixture.
    """
    if UNRELIABLE.isdisjoint(finding["code"] for finding in job["findings"]):
        return (job["source"], job["sourceReason"]) == ("measured", "")
    told = re.fullmatch("its measurement is unreliable: .+; .+", job["sourceReason"])
    figures = (job["fraction"], job["measuredSpeedup"], job["predictedSeconds"])
    return job["source"] == "assumed" and bool(told) and figures == (ASSUMED_FRACTION, None, None)


@pytest.mark.speed
@needs_two_cpus
def test_predictions_are_near_what_comes_to_pass(folder: Folder) -> None:
    job = measured_alone(folder, 3.0)
    assert job["source"] == "measured"
    assert job["proportionalSeconds"] == pytest.approx(job["predictedSeconds"])
    assert 0 < job["fraction"] <= 1
    assert 0.3 < job["measuredSpeedup"] / job["predictedSpeedup"] < 3
    assert 0.3 < job["predictedSeconds"] / job["seconds"] < 3
    assert 0.3 < job["proportionalMeasuredSeconds"] / job["seconds"] < 3


@needs_two_cpus
def test_speedups_are_measured_kept_and_used_again(folder: Folder) -> None:
    profiles = folder.path / "profiles.yaml"
    job = measured_alone(folder, 0.5, "--save-profiles", str(profiles))
    assert 0 <= job["fraction"] <= 1
    used = job["source"] == "measured"
    for figure in ("measuredSpeedup", "predictedSeconds") if used else ():
        assert job[figure] > 0
    for figure in ("predictedSpeedup", "seconds", "proportionalMeasuredSeconds"):
        assert job[figure] > 0

    done = walras("local", "run", folder.file, str(profiles))
    assert done.returncode == 0, done.stderr
    assert ("profiling default/one" not in done.stderr) is used
    assert f"{job['fraction']:.3f}" in done.stdout or not used
    assert "shared*" in done.stdout


def too_short(name: str, user: str) -> dict[str, Any]:
    """A job whose program ends at once, with any part of its data."""
    return document("MarketJob", name, entitlement=user, command=["true", "{fraction}"])


@needs_two_cpus
def test_a_program_too_short_to_measure_is_told_at_once_and_assumed(folder: Folder) -> None:
    profiles = folder.path / "profiles.yaml"
    folder.write(user("ada", 1), too_short("blink", "ada"))
    options = ("local", "run", "--save-profiles", str(profiles), folder.file)
    done = walras(*options, "-o", "json")
    assert done.returncode == 0, done.stderr
    (job,) = json.loads(done.stdout)["jobs"]
    assert "TooShort" in {finding["code"] for finding in job["findings"]}
    assert job["source"] == "assumed"
    assert used_if_reliable(job)
    for way in ("more data (spec.data)", "set spec.parallelFraction"):
        assert way in job["sourceReason"]

    lines = done.stderr.splitlines()
    told = [line for line in lines if line.startswith("default/blink: ")]
    assert len(told) == 2
    assert told[0].startswith(
        "default/blink: its measurement is not used and is made again on larger parts of its data, "
    )
    assert told[1] == (
        f"default/blink: a parallel fraction of 0.8 is assumed, because {job['sourceReason']}"
    )
    assert lines.index(told[1]) < next(i for i, line in enumerate(lines) if "cleared" in line)
    assert f"{profiles}: has no profile of default/blink" in done.stderr


def test_scripts_read_the_same_as_yaml(folder: Folder) -> None:
    one = document(
        "MarketJob", "nap", entitlement="ada", command=["sleep", "0.05"], parallelFraction="0.9"
    )
    folder.write(user("ada", 1), one)
    done = walras("local", "run", "-o", "yaml", folder.file)
    assert done.returncode == 0, done.stderr
    (job,) = yaml.safe_load(done.stdout)["jobs"]
    assert (job["phase"], job["source"], job["sourceReason"]) == ("done", "given", "")


@needs_two_cpus
@pytest.mark.parametrize("as_user", [None, pytest.param(NOBODY, marks=another_user)])
def test_an_isolated_job_has_whole_cores_of_its_own_and_a_part_of_a_shared_one(
    folder: Folder, as_user: int | None
) -> None:
    """Two thirds and a third of two cores: one core is the first user's, the other is shared."""
    folder.write(
        document("Market", "default", cores=two_own_cores()),
        user("ada", 2),
        user("bob", 1),
        folder.job("large", "ada", parallelFraction="0.97"),
        folder.job("small", "bob", parallelFraction="0.05"),
    )
    logs = folder.path / "logs"
    result = run_json(folder, "--logs", str(logs), as_user=as_user)
    assert [job["held"] for job in result["decisions"][0]["jobs"]] == [1.333, 0.667]
    assert [(job["ownCores"], job["sharedCores"]) for job in result["jobs"]] == [
        (1, 0.333),
        (0, 0.667),
    ]
    first, second = (
        CpuSet.parse((logs / f"default.{name}.log").read_text().splitlines()[0])
        for name in ("large", "small")
    )
    assert (len(first), len(second)) == (2, 1)
    assert second <= first
    # Nice values divide the shared core only roughly, which the user is told.
    by_cgroup = "cgroup" in result["machine"]["placement"]
    assert ([] if by_cgroup else ["default/large, default/small"]) == [
        each.partition(":")[0] for each in result["notHeld"]
    ]


def test_a_run_held_to_one_cpu_sells_one_core_and_assumes_speedups(folder: Folder) -> None:
    cpu = min(os.sched_getaffinity(0))
    folder.write(user("ada", 1), folder.job("one", "ada", 0.5))
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        done = walras("local", "run", "-o", "json", folder.file)
    finally:
        os.sched_setaffinity(0, before)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["machine"]["cpus"] == str(cpu)
    assert result["jobs"][0]["source"] == "assumed"
    assert "it was not measured, which needs two cores" in result["jobs"][0]["sourceReason"]
    assert "speedups are assumed, not measured" in done.stderr


def test_observe_mode_moves_nothing(folder: Folder) -> None:
    folder.write(
        document("Market", "default", mode="observe"),
        user("ada", 1),
        user("bob", 1),
        folder.job("one", "ada", 0.5, parallelFraction="0.9"),
        folder.job("two", "bob", 0.5, parallelFraction="0.9"),
    )
    result = run_json(folder, "--logs", str(folder.path / "logs"))
    machine = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    assert set((folder.path / "logs/default.one.log").read_text().splitlines()) == {machine}
    assert "observe" in result["machine"]["placement"]


def test_jobs_arrive_leave_and_entitlements_change_with_the_file(folder: Folder) -> None:
    one = folder.job("one", "ada", 30.0, parallelFraction="0.9")
    two = folder.job("two", "bob", 30.0, parallelFraction="0.9")
    three = folder.job("three", "bob", 0.3, parallelFraction="0.9")
    folder.write(user("ada", 1), user("bob", 1), one, two)
    with start("local", "run", "-o", "json", folder.file) as process:
        await_jobs(folder, process, 2)
        folder.write(user("ada", 7), user("bob", 1), one, two)
        assert eventually(lambda: "the documents changed" in said_by(process))
        (Path(folder.file)).write_text("not: [yaml")
        assert eventually(lambda: "stays in force" in said_by(process))
        folder.write(user("ada", 7), user("bob", 1), one, three)
        assert eventually(lambda: "default/three ended" in said_by(process))
        folder.write(
            user("ada", 7), user("bob", 1), folder.job("one", "ada", parallelFraction="0.5")
        )
        assert eventually(lambda: "a changed command applies to the next run" in said_by(process))
        folder.write(user("ada", 7), user("bob", 1), three | {"metadata": {"name": "four"}})
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    result = json.loads(out)
    phases = {job["name"]: job["phase"] for job in result["jobs"]}
    assert phases == {"one": "removed", "two": "removed", "three": "done", "four": "done"}
    before, after = (decision["users"] for decision in result["decisions"][:2])
    cores = result["machine"]["cores"]
    assert [u["entitled"] for u in before] == pytest.approx([cores / 2, cores / 2])
    assert [u["entitled"] for u in after] == pytest.approx([7 * cores / 8, cores / 8])
    assert folder.left() == []


def test_a_job_that_comes_back_to_the_file_starts_anew(folder: Folder) -> None:
    one = folder.job("one", "ada", 30.0, parallelFraction="0.9")
    folder.write(user("ada", 1), one, folder.job("two", "ada", 30.0, parallelFraction="0.9"))
    short = folder.job("two", "ada", 0.3, parallelFraction="0.9")
    with start("local", "run", "-o", "json", folder.file) as process:
        await_jobs(folder, process, 2)
        folder.write(user("ada", 1), one)
        assert eventually(lambda: "default/two was removed" in said_by(process))
        folder.write(user("ada", 1), one, short)
        assert eventually(lambda: "default/two ended" in said_by(process))
        folder.write(user("ada", 1), short)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    phases = {job["name"]: job["phase"] for job in json.loads(out)["jobs"]}
    assert phases == {"one": "removed", "two": "done"}


def await_jobs(folder: Folder, process: subprocess.Popen[str], count: int) -> None:
    """Wait until so many jobs run."""
    seen: list[list[int]] = []

    def there() -> bool:
        seen.append(folder.left())
        return len(seen[-1]) >= count and said_by(process).count("started default/") >= count

    assert eventually(there), (seen[:3], seen[-3:], process.poll(), said_by(process))


_SAID: WeakKeyDictionary[subprocess.Popen[str], str] = WeakKeyDictionary()


def said_by(process: subprocess.Popen[str]) -> str:
    """Return everything that a process has written to standard error, without waiting for more."""
    assert process.stderr is not None
    number = process.stderr.fileno()
    os.set_blocking(number, False)
    while piece := _read(number):
        _SAID[process] = _SAID.get(process, "") + piece
    return _SAID.get(process, "")


def _read(number: int) -> str:
    try:
        return os.read(number, 65536).decode()
    except BlockingIOError:
        return ""


@needs_two_cpus
def test_a_job_that_arrives_unknown_is_measured_on_what_it_is_given(folder: Folder) -> None:
    one = folder.job("one", "ada", 60.0, parallelFraction="0.9")
    two = folder.job("two", "ada", 1.0, data={"samples": ["10%", "20%"]})
    folder.write(user("ada", 1), one)
    with start("local", "run", "-o", "json", folder.file) as process:
        await_jobs(folder, process, 1)
        folder.write(user("ada", 1), two)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    one_result, two_result = json.loads(out)["jobs"]
    assert (one_result["phase"], two_result["phase"]) == ("removed", "done")
    assert used_if_reliable(two_result)
    assert err.count("profiling default/two on CPUs") == 1
    assert folder.left() == []


@needs_two_cpus
def test_an_arriving_job_starts_with_an_assumed_speedup_if_it_cannot_be_measured(
    folder: Folder,
) -> None:
    """Once a measurement failed, or was unreliable twice, it is not tried again."""
    one = folder.job("one", "ada", 60.0, parallelFraction="0.9")
    command = ["sh", "-c", 'test "$0" = 1 && sleep 60', "{fraction}", folder.token]
    fails = document("MarketJob", "fails", entitlement="ada", command=command)
    folder.write(user("ada", 1), one)
    with start("local", "run", "-o", "json", folder.file) as process:
        await_jobs(folder, process, 1)
        folder.write(user("ada", 1), fails)
        assert eventually(lambda: "started default/fails" in said_by(process)), said_by(process)
        folder.write(user("ada", 1), too_short("blink", "ada"))
        before = said_by(process)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    err = before + err
    results = {job["name"]: job for job in json.loads(out)["jobs"]}
    assert (results["fails"]["phase"], results["fails"]["source"]) == ("removed", "assumed")
    assert "the command failed (exit code 1)" in results["fails"]["sourceReason"]
    assert results["blink"]["phase"] == "done"
    assert "default/blink: its measurement is not used and is made again" in err
    assert used_if_reliable(results["blink"])
    for name in ("fails", "blink"):
        assert err.count(f"profiling default/{name} on CPUs") == 1
    assert folder.left() == []


def test_a_job_that_fails_stops_the_others_and_is_named(folder: Folder) -> None:
    bad = folder.job("bad", "bob", parallelFraction="0.9")
    bad["spec"]["command"] = ["python3", "-c", "import sys; sys.exit('no input today')"]
    folder.write(
        user("ada", 1), user("bob", 1), folder.job("one", "ada", 60, parallelFraction="0.9"), bad
    )
    done = walras("local", "run", folder.file)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("walras: ")]
    assert line == (
        f"walras: {folder.file}: MarketJob default/bad: spec.command: "
        f"the command failed (exit code 1): no input today"
    )
    assert folder.left() == []
    assert "Traceback" not in done.stderr


def test_others_go_on_when_asked_to(folder: Folder) -> None:
    bad = folder.job("bad", "bob", parallelFraction="0.9")
    bad["spec"]["command"] = ["false"]
    folder.write(
        user("ada", 1), user("bob", 1), folder.job("one", "ada", 0.5, parallelFraction="0.9"), bad
    )
    done = walras("local", "run", "--keep-going", "-o", "json", folder.file)
    assert done.returncode == 1
    phases = {job["name"]: job["phase"] for job in json.loads(done.stdout)["jobs"]}
    assert phases == {"one": "done", "bad": "failed"}
    assert "walras: failed: default/bad" in done.stderr


def test_a_job_that_deletes_its_output_fails_alone(folder: Folder) -> None:
    logs = folder.path / "logs"
    bad = folder.job("bad", "bob", parallelFraction="0.9")
    bad["spec"]["command"] = ["sh", "-c", f"rm {logs}/default.bad.log; exit 3"]
    folder.write(
        user("ada", 1), user("bob", 1), folder.job("one", "ada", 0.5, parallelFraction="0.9"), bad
    )
    done = walras("local", "run", "--keep-going", "--logs", str(logs), folder.file)
    assert done.returncode == 1
    assert "MarketJob default/bad: spec.command: the command failed (exit code 3)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("option", "path", "problem"),
    [
        ("--logs", "market.yaml/logs", "cannot be made: Not a directory"),
        ("--save-profiles", "nowhere/p.yaml", "its folder cannot be written"),
        ("--save-profiles", "link.yaml", "is a link; name the file itself"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused_before_jobs_start(
    folder: Folder, option: str, path: str, problem: str
) -> None:
    folder.write(user("ada", 1), folder.job("one", "ada", parallelFraction="0.9"))
    (folder.path / "link.yaml").symlink_to(folder.path / "of-another-user")
    done = walras_here("local", "run", option, str(folder.path / path), folder.file)
    assert done.returncode == 2
    assert problem in done.stderr
    assert "started" not in done.stderr


def test_a_program_that_fails_while_it_is_profiled_starts_nothing(folder: Folder) -> None:
    bad = folder.job("bad", "ada")
    bad["spec"]["command"] = ["sh", "-c", "exit 3", "{fraction}"]
    folder.write(user("ada", 1), folder.job("one", "ada", 60, parallelFraction="0.9"), bad)
    done = walras("local", "run", folder.file)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("walras: ")]
    assert "MarketJob default/bad" in line
    assert "exit code 3" in line
    assert "started" not in done.stderr


def test_bad_documents_are_named_and_nothing_starts(folder: Folder) -> None:
    folder.write(user("ada", -1), folder.job("one", "ada", parallelFraction="0.9"))
    done = walras_here("local", "run", folder.file)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"walras: {folder.file}: line ")
    assert line.endswith(": Entitlement ada: spec.shares: is -1; it must be at least 1")


def test_all_cores_reserved_is_refused(folder: Folder) -> None:
    folder.write(
        document("Market", "default", cores={"reservedCores": 4096}),
        user("ada", 1),
        folder.job("one", "ada", parallelFraction="0.9"),
    )
    done = walras_here("local", "run", folder.file)
    assert done.returncode == 2
    assert "Market default: spec.cores.reservedCores: is 4096; this machine has" in done.stderr


def test_a_job_that_needs_more_cores_than_there_are_is_refused(folder: Folder) -> None:
    folder.write(
        user("ada", 1),
        folder.job("one", "ada", parallelFraction="0.9"),
        folder.job("two", "ada", parallelFraction="0.9", minCores=4096),
    )
    done = walras_here("local", "run", folder.file)
    assert done.returncode == 2
    assert "MarketJob default/two: spec.minCores: is 4096; this machine sells" in done.stderr
    assert folder.left() == []


@pytest.mark.parametrize(
    ("number", "status", "pin"),
    [
        (signal.SIGINT, 130, "auto"),
        (signal.SIGTERM, 130, "affinity"),
        (signal.SIGKILL, -9, "auto"),
        (signal.SIGKILL, -9, "affinity"),
    ],
)
def test_no_process_and_no_cgroup_outlives_the_run(
    folder: Folder, number: signal.Signals, status: int, pin: str
) -> None:
    folder.write(
        user("ada", 1),
        user("bob", 1),
        folder.job("one", "ada", 60.0, parallelFraction="0.9"),
        folder.job("two", "bob", 60.0, parallelFraction="0.9"),
    )
    with start("local", "run", "--pin", pin, folder.file) as process:
        await_jobs(folder, process, 2)
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    assert eventually(lambda: not folder.left())
    assert eventually(lambda: not cgroups_named(f"walras-{process.pid}-*"))
    if status == 130:
        assert err.splitlines()[-1].startswith("walras: interrupted; all jobs were stopped")
        assert "Traceback" not in err
