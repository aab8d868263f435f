"""Jobs held to CPUs by the real kernel: the same properties by cgroup and by CPU affinity.

Nothing is faked: real programs are started, moved, and asked back from /proc. The module is
also run as a whole by an ordinary user (below) and inside an emulated machine with cgroup v2
(test_guest.py).
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from waiting import eventually
from walras_agent import procfs
from walras_agent.affinity import nice_of
from walras_agent.cpuset import CpuSet
from walras_agent.hierarchies import read_hierarchies
from walras_agent.placement import (
    Group,
    PlacementError,
    Placer,
    open_placer,
    remove_stale_runs,
    run_id,
)

NOBODY = 65534
IS_ROOT = os.geteuid() == 0
HAS_CPUSET = any(
    "cpuset" in h.controllers or (h.mount / "cpuset.cpus.effective").exists()
    for h in read_hierarchies()
)
ALLOWED = sorted(os.sched_getaffinity(0))

needs_root = pytest.mark.skipif(not IS_ROOT, reason="needs root, to make cgroups or change user")
needs_cpuset = pytest.mark.skipif(not HAS_CPUSET, reason="no cpuset controller is mounted")
pytestmark = pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two CPUs, to move between them")

FIRST, SECOND = CpuSet(ALLOWED[:1]), CpuSet(ALLOWED[1:2])
BOTH = FIRST | SECOND

SLEEPER = "import time; time.sleep(60)"
BURNER = "while True: pass"
MANY_THREADS = """
import threading, time
def churn():
    while True:
        short = threading.Thread(target=time.sleep, args=(0.001,)); short.start(); short.join()
for _ in range(20):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
for _ in range(4):
    threading.Thread(target=churn, daemon=True).start()
time.sleep(60)
"""
THREADS_AND_A_CHILD = """
import os, threading, time
if os.fork() == 0:
    time.sleep(60)
for _ in range(4):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(60)
"""
# Always a few children, each short-lived.
FORKING_TREE = """
import os, time
living = 0
while True:
    if living == 5:
        os.wait(); living -= 1
    if os.fork() == 0:
        time.sleep(0.003); os._exit(0)
    living += 1
"""
# Every process forks the next and ends: parents are gone when they are looked for.
FORKING_CHAIN = """
import os, time
while True:
    time.sleep(0.1)
    if os.fork() > 0:
        os._exit(0)
"""
# The same so fast that whoever has been listed is gone already.
FAST_CHAIN = FORKING_CHAIN.replace("time.sleep(0.1)", "pass")
DAEMON = """
import os, time
if os.fork() > 0:
    time.sleep(0.3); os._exit(0)
os.setsid()
if os.fork() > 0:
    os._exit(0)
time.sleep(60)
"""


@pytest.fixture(
    params=[pytest.param("cgroup", marks=[needs_root, needs_cpuset]), "affinity"],
)
def placer(request: pytest.FixtureRequest) -> Iterator[Placer]:
    placer = open_placer(run_id(), request.param)
    yield placer
    placer.close()


@pytest.fixture
def group(placer: Placer) -> Group:
    return placer.open("default.job")


@pytest.fixture
def start() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start a Python program in a group; it begins once it has been admitted and placed."""
    started: list[tuple[Group, subprocess.Popen[str]]] = []

    def start(
        group: Group, code: str, cpus: CpuSet | None = None, weight: int = 100
    ) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", f"input()\n{code}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | group.environment,
            start_new_session=True,
        )
        started.append((group, process))
        group.admit(process.pid)
        if cpus is not None:
            group.place(cpus, weight)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        return process

    yield start
    for group, process in started:
        group.close()
        with process:
            process.kill()


Start = Callable[..., "subprocess.Popen[str]"]


def cpus_of_threads(pid: int) -> set[CpuSet]:
    """What /proc says that the threads of a process may run on; nothing if it is gone."""
    found = set()
    for thread in procfs.threads(pid):
        try:
            status = Path(f"/proc/{pid}/task/{thread}/status").read_text()
        except OSError:
            continue
        match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
        assert match is not None
        found.add(CpuSet.parse(match[1]))
    return found


def cpus_of(group: Group) -> set[CpuSet]:
    return {cpus for pid in group.pids() for cpus in cpus_of_threads(pid)}


def place_until_settled(group: Group, cpus: CpuSet) -> None:
    """Place as a run does, again and again: by affinity, a fork under way shows up later."""
    right_in_a_row = 0

    def settled() -> bool:
        nonlocal right_in_a_row
        group.place(cpus)
        seen = cpus_of(group)
        # Nothing is seen while the only process is being forked.
        right_in_a_row += seen == {cpus}
        right_in_a_row *= seen <= {cpus}
        return right_in_a_row == 5

    assert eventually(settled, seconds=30)


def run_folders(run: str) -> list[Path]:
    return [path for h in read_hierarchies() for path in h.mount.rglob(f"walras-{run}")]


def has_processes(process_group: int) -> bool:
    try:
        os.killpg(process_group, 0)
    except ProcessLookupError:
        return False
    return True


def is_alive(pid: int) -> bool:
    process = procfs.read_process(pid)
    return process is not None and process.alive


def test_all_threads_and_children_go_where_the_job_is_placed(group: Group, start: Start) -> None:
    start(group, THREADS_AND_A_CHILD, FIRST)
    assert eventually(lambda: len(group.pids()) == 2)
    assert eventually(lambda: sum(len(procfs.threads(pid)) for pid in group.pids()) == 6)
    assert cpus_of(group) == {FIRST}

    for cpus in (SECOND, BOTH, FIRST):
        group.place(cpus)
        assert cpus_of(group) == {cpus}


@pytest.mark.parametrize(
    "program", [FORKING_TREE, FORKING_CHAIN, MANY_THREADS], ids=["tree", "chain", "threads"]
)
def test_a_program_that_multiplies_while_it_is_moved_is_moved_whole(
    placer: Placer, group: Group, start: Start, program: str
) -> None:
    start(group, program, FIRST)
    for cpus in (SECOND, FIRST, BOTH, SECOND):
        time.sleep(0.25)
        if placer.description == "CPU affinity":
            place_until_settled(group, cpus)
        else:
            group.place(cpus)
        for _ in range(5):
            assert cpus_of(group) <= {cpus}


@pytest.mark.parametrize("program", [FORKING_TREE, FAST_CHAIN], ids=["tree", "chain"])
def test_a_program_that_keeps_forking_is_killed_whole(
    group: Group, start: Start, program: str
) -> None:
    process = start(group, program, BOTH)
    time.sleep(0.3)
    os.killpg(process.pid, 0)

    group.kill()

    process.wait()
    assert eventually(lambda: not has_processes(process.pid))


def test_a_daemon_that_left_parent_and_session_is_still_the_jobs(
    group: Group, start: Start
) -> None:
    process = start(group, DAEMON, FIRST)
    assert eventually(lambda: procfs.read_process(process.pid) is None or not is_alive(process.pid))
    (daemon,) = group.pids()
    assert daemon != process.pid

    group.place(SECOND)
    assert cpus_of_threads(daemon) == {SECOND}

    group.close()
    assert not is_alive(daemon)


def test_a_process_admitted_later_goes_to_the_present_cpus(group: Group, start: Start) -> None:
    group.place(SECOND)

    process = start(group, SLEEPER)

    assert cpus_of_threads(process.pid) == {SECOND}


def test_cpu_time_counts_all_processes_and_never_goes_back(group: Group, start: Start) -> None:
    program = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    while time.process_time() < 0.3: pass\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "while time.process_time() < 0.3: pass\n"
        "print('done', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = start(group, program, BOTH)
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"

    used = group.cpu_seconds()
    assert 0.55 <= used <= 3

    group.close()
    assert group.cpu_seconds() >= used


def test_weights_divide_a_shared_cpu(placer: Placer, start: Start) -> None:
    heavy, light = placer.open("default.heavy"), placer.open("default.light")
    start(heavy, BURNER, FIRST, weight=100)
    start(light, BURNER, FIRST, weight=25)
    # Ordinary users' session weights are taken by the kernel only every 0.1 s.
    time.sleep(0.3)
    heavy.place(FIRST, 100)
    light.place(FIRST, 25)
    before = heavy.cpu_seconds(), light.cpu_seconds()

    time.sleep(2)

    ratio = (heavy.cpu_seconds() - before[0]) / (light.cpu_seconds() - before[1])
    assert 2.5 < ratio < 6.5


def test_closing_leaves_no_process_and_no_cgroup(placer: Placer, start: Start) -> None:
    job = placer.open("default.other")
    process = start(job, THREADS_AND_A_CHILD, BOTH)
    assert eventually(lambda: len(job.pids()) == 2)
    members = job.pids()
    run, _ = job.environment["WALRAS_RUN"].split("/")
    if placer.description != "CPU affinity":
        assert run_folders(run)

    placer.close()
    placer.close()

    assert not any(is_alive(pid) for pid in members)
    assert process.wait() == -signal.SIGKILL
    assert not run_folders(run)


def test_a_group_may_be_closed_twice(group: Group, start: Start) -> None:
    start(group, SLEEPER, BOTH)

    group.close()
    group.close()

    assert group.pids() == ()


def test_cpus_that_cannot_be_had_are_an_error_that_names_them(group: Group, start: Start) -> None:
    start(group, SLEEPER, FIRST)

    with pytest.raises(PlacementError, match="5000") as caught:
        group.place(CpuSet([5000]))

    assert "\n" not in str(caught.value)
    assert cpus_of(group) == {FIRST}


def test_a_process_that_is_gone_cannot_be_admitted(group: Group) -> None:
    process = subprocess.Popen(["true"])
    process.wait()

    with pytest.raises(PlacementError):
        group.admit(process.pid)


def test_no_cpus_and_weights_off_the_scale_are_refused(group: Group) -> None:
    with pytest.raises(ValueError, match=r"default\.job: no CPU"):
        group.place(CpuSet())
    for weight in (0, 10_001):
        with pytest.raises(ValueError, match=f"default.job: the weight {weight} "):
            group.place(FIRST, weight)


@pytest.mark.parametrize("name", ["", "a/b", "../up", "Upper", "a b", "a\n", "a_b"])
def test_a_name_that_could_leave_its_place_is_refused(placer: Placer, name: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        placer.open(name)


@pytest.mark.parametrize("name", ["..", "cpu.weight", "cgroup.procs", "cpuset.cpus", "9"])
def test_a_name_that_means_something_to_the_kernel_is_only_a_name(
    placer: Placer, start: Start, name: str
) -> None:
    job = placer.open(name)
    process = start(job, SLEEPER, SECOND)

    assert job.pids() == (process.pid,)
    assert cpus_of(job) == {SECOND}


def test_two_jobs_cannot_have_one_name(placer: Placer) -> None:
    placer.open("default.twin")

    with pytest.raises(PlacementError, match=r"default\.twin"):
        placer.open("default.twin")


def test_a_closed_job_leaves_its_name_to_the_next(placer: Placer, start: Start) -> None:
    placer.open("default.again").close()

    group = placer.open("default.again")
    process = start(group, SLEEPER, SECOND)

    assert group.pids() == (process.pid,)


@needs_root
@needs_cpuset
def test_root_gets_a_cgroup_without_asking() -> None:
    placer = open_placer(run_id())
    placer.close()

    assert re.fullmatch("cgroup v[12] cpuset", placer.description)


@needs_root
@needs_cpuset
def test_a_jobs_processes_are_in_a_cgroup_of_its_run_and_name(start: Start) -> None:
    placer = open_placer(run_id(), "cgroup")
    try:
        group = placer.open("team.train")
        process = start(group, SLEEPER, FIRST)
        memberships = Path(f"/proc/{process.pid}/cgroup").read_text()
    finally:
        placer.close()

    run, _ = group.environment["WALRAS_RUN"].split("/")
    assert f"/walras-{run}/job-team.train\n" in memberships


@needs_root
@needs_cpuset
def test_what_a_crashed_run_left_is_killed_and_removed_and_a_living_run_is_not() -> None:
    crash = (
        "import os, subprocess\n"
        "from walras_agent.placement import open_placer, run_id\n"
        "run = run_id()\n"
        "group = open_placer(run, 'cgroup').open('default.orphan')\n"
        "process = subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL)\n"
        "group.admit(process.pid)\n"
        "print(run, process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    crashed = subprocess.run(
        [sys.executable, "-c", crash], check=False, stdout=subprocess.PIPE, text=True
    )
    run, orphan = crashed.stdout.split()
    living = open_placer(run_id(), "cgroup")
    try:
        assert is_alive(int(orphan))

        assert run in remove_stale_runs()

        assert not is_alive(int(orphan))
        assert not run_folders(run)
        assert run not in remove_stale_runs()
        living.open("default.job").place(FIRST)
    finally:
        living.close()


BINDS_ITSELF = """
import os
os.sched_setaffinity(0, {{{cpu}}})
print('bound', flush=True)
input()
"""


def bind(start: Start, group: Group, placed: CpuSet, own: CpuSet) -> int:
    process = start(group, BINDS_ITSELF.format(cpu=own), placed)
    assert process.stdout is not None
    assert process.stdout.readline() == "bound\n"
    return process.pid


def test_by_affinity_a_thread_that_binds_itself_within_is_left_alone(start: Start) -> None:
    group = open_placer(run_id(), "affinity").open("default.affine")
    pid = bind(start, group, placed=BOTH, own=FIRST)

    group.place(BOTH)

    assert cpus_of_threads(pid) == {FIRST}
    group.place(SECOND)
    assert cpus_of_threads(pid) == {SECOND}


def test_by_affinity_a_process_that_shows_up_with_the_cpus_of_before_is_moved(
    start: Start,
) -> None:
    group, elsewhere = (open_placer(run_id(), "affinity").open("default.affine") for _ in "ab")
    group.place(FIRST)
    group.place(BOTH)
    elsewhere.environment = group.environment
    pid = bind(start, elsewhere, placed=BOTH, own=FIRST)

    group.place(BOTH)

    assert cpus_of_threads(pid) == {BOTH}


def test_by_affinity_an_admitted_process_has_not_chosen_its_cpus(start: Start) -> None:
    group = open_placer(run_id(), "affinity").open("default.affine")
    group.place(BOTH)
    with subprocess.Popen(["sleep", "60"]) as process:
        os.sched_setaffinity(process.pid, FIRST)
        try:
            group.admit(process.pid)
            assert cpus_of_threads(process.pid) == {BOTH}
        finally:
            group.close()


def test_by_affinity_a_thread_that_breaks_out_is_brought_back(start: Start) -> None:
    group = open_placer(run_id(), "affinity").open("default.affine")
    pid = bind(start, group, placed=FIRST, own=SECOND)

    group.place(FIRST)

    assert cpus_of_threads(pid) == {FIRST}


@pytest.mark.parametrize(
    ("weight", "nice"),
    [(10_000, 0), (100, 0), (90, 0), (89, 1), (50, 3), (25, 6), (10, 10), (2, 17), (1, 19)],
)
def test_a_weight_is_the_nice_value_of_the_closest_kernel_weight(weight: int, nice: int) -> None:
    assert nice_of(weight) == nice


def test_by_affinity_nice_values_of_all_threads_only_ever_rise(start: Start) -> None:
    group = open_placer(run_id(), "affinity").open("default.affine")
    start(group, THREADS_AND_A_CHILD, FIRST)
    assert eventually(lambda: sum(len(procfs.threads(pid)) for pid in group.pids()) == 6)
    base = os.getpriority(os.PRIO_PROCESS, 0)

    def nices() -> set[int]:
        threads = [thread for pid in group.pids() for thread in procfs.threads(pid)]
        return {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads}

    for weight, nice in ((100, 0), (50, 3), (100, 3), (10, 10)):
        group.place(FIRST, weight)
        assert nices() == {min(19, base + nice)}


@needs_root
def test_all_of_it_holds_by_affinity_for_an_ordinary_user() -> None:
    options = ["-q", "-p", "no:cacheprovider", "-k", "affinity and not ordinary_user"]
    nested = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", *options, __file__],
        check=False,
        capture_output=True,
        text=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    )

    assert nested.returncode == 0, nested.stdout + nested.stderr
    assert re.search(r"^\d+ passed, \d+ deselected in", nested.stdout, re.MULTILINE), nested.stdout


AS_A_USER = """
import sys
from walras_agent.placement import PlacementError, open_placer, run_id
print(open_placer(run_id()).description)
try:
    open_placer(run_id(), "cgroup")
except PlacementError as error:
    print(error)
"""


@needs_root
def test_an_ordinary_user_gets_affinity_or_the_reason_why_no_cgroup() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", AS_A_USER],
        capture_output=True,
        text=True,
        check=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    )

    by_default, on_demand = answer.stdout.splitlines()
    assert by_default == "CPU affinity"
    assert re.fullmatch(
        r"no cgroup can hold jobs: .*(Permission denied|Read-only|no cpuset).*"
        r"\(run as root, or use CPU affinity\)",
        on_demand,
    )
