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

from another_user import NOBODY, another_user
from cgroup_folders import cgroups_named
from real_jobs import (
    ALLOWED,
    BOTH_WAYS,
    SLEEPER,
    THREADS_AND_A_CHILD,
    Programs,
    cpus_of,
    cpus_of_threads,
    needs_cpuset,
    needs_root,
    needs_two_cpus,
    pids_of,
)
from waiting import eventually
from walras_agent import procfs
from walras_agent.cpuset import CpuSet
from walras_agent.local.affinity import nice_of
from walras_agent.local.placement import (
    JobPlacer,
    PlacedJob,
    PlacementError,
    open_placer,
    remove_stale_runs,
    run_id,
)

pytestmark = [pytest.mark.system, needs_two_cpus]

FIRST, SECOND = CpuSet(ALLOWED[:1]), CpuSet(ALLOWED[1:2])
BOTH = FIRST | SECOND

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
# Every process forks the next and ends: parents are gone when they are looked for. Each lives long
# enough to be found on a busy machine.
FORKING_CHAIN = """
import os, time
while True:
    time.sleep(0.5)
    if os.fork() > 0:
        os._exit(0)
"""
# The same so fast that whoever has been listed is gone already.
FAST_CHAIN = FORKING_CHAIN.replace("time.sleep(0.5)", "pass")
DAEMON = """
import os, time
if os.fork() > 0:
    time.sleep(0.3); os._exit(0)
os.setsid()
if os.fork() > 0:
    os._exit(0)
time.sleep(60)
"""


@pytest.fixture(params=BOTH_WAYS)
def placer(request: pytest.FixtureRequest) -> Iterator[JobPlacer]:
    placer = open_placer(run_id(), request.param)
    yield placer
    placer.close()


@pytest.fixture
def job(placer: JobPlacer) -> PlacedJob:
    return placer.open("default.job")


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return `Programs.start`; all programs end with the test."""
    programs = Programs()
    yield programs.start
    programs.close()


def place_until_settled(job: PlacedJob, cpus: CpuSet) -> None:
    """Place as a run does, again and again: by affinity, a fork under way shows up later."""
    right_in_a_row = 0

    def settled() -> bool:
        nonlocal right_in_a_row
        job.place(cpus)
        seen = cpus_of(job)
        # Nothing is seen while the only process is being forked.
        right_in_a_row += seen == {cpus}
        right_in_a_row *= seen <= {cpus}
        return right_in_a_row == 5

    assert eventually(settled, seconds=300)


def has_processes(process_group: int) -> bool:
    try:
        os.killpg(process_group, 0)
    except ProcessLookupError:
        return False
    return True


def is_alive(pid: int) -> bool:
    process = procfs.read_process(pid)
    return process is not None and process.alive


def test_all_threads_and_children_go_where_the_job_is_placed(job: PlacedJob, start: Start) -> None:
    start(job, THREADS_AND_A_CHILD, FIRST)
    assert eventually(lambda: len(pids_of(job)) == 2)
    assert eventually(lambda: sum(len(procfs.threads(pid)) for pid in pids_of(job)) == 6)
    assert cpus_of(job) == {FIRST}

    for cpus in (SECOND, BOTH, FIRST):
        job.place(cpus)
        assert cpus_of(job) == {cpus}


@pytest.mark.parametrize(
    "program", [FORKING_TREE, FORKING_CHAIN, MANY_THREADS], ids=["tree", "chain", "threads"]
)
def test_a_program_that_multiplies_while_it_is_moved_is_moved_whole(
    placer: JobPlacer, job: PlacedJob, start: Start, program: str
) -> None:
    start(job, program, FIRST)
    for cpus in (SECOND, FIRST, BOTH, SECOND):
        time.sleep(0.25)
        if placer.description == "CPU affinity":
            place_until_settled(job, cpus)
        else:
            job.place(cpus)
        for _ in range(5):
            assert cpus_of(job) <= {cpus}


@pytest.mark.parametrize("program", [FORKING_TREE, FAST_CHAIN], ids=["tree", "chain"])
def test_a_program_that_keeps_forking_is_killed_whole(
    job: PlacedJob, start: Start, program: str
) -> None:
    process = start(job, program, BOTH)
    time.sleep(0.3)
    os.killpg(process.pid, 0)

    job.close()

    process.wait()
    assert eventually(lambda: not has_processes(process.pid))


def test_a_daemon_that_left_parent_and_session_is_still_the_jobs(
    job: PlacedJob, start: Start
) -> None:
    process = start(job, DAEMON, FIRST)
    assert eventually(lambda: procfs.read_process(process.pid) is None or not is_alive(process.pid))
    (daemon,) = pids_of(job)
    assert daemon != process.pid

    job.place(SECOND)
    assert cpus_of_threads(daemon) == {SECOND}

    job.close()
    assert not is_alive(daemon)


def test_a_process_admitted_later_goes_to_the_present_cpus(job: PlacedJob, start: Start) -> None:
    job.place(SECOND)

    process = start(job, SLEEPER)

    assert cpus_of_threads(process.pid) == {SECOND}


def test_cpu_time_counts_all_processes_and_never_goes_back(job: PlacedJob, start: Start) -> None:
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
    process = start(job, program, BOTH)
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"

    used = job.cpu_seconds()
    assert 0.55 <= used <= 3

    job.close()
    assert job.cpu_seconds() >= used


def test_closing_leaves_no_process_and_no_cgroup(placer: JobPlacer, start: Start) -> None:
    job = placer.open("default.other")
    process = start(job, THREADS_AND_A_CHILD, BOTH)
    assert eventually(lambda: len(pids_of(job)) == 2)
    members = pids_of(job)
    run, _ = job.environment["WALRAS_RUN"].split("/")
    if placer.description != "CPU affinity":
        assert cgroups_named(f"walras-{run}")

    placer.close()
    placer.close()

    assert not any(is_alive(pid) for pid in members)
    assert process.wait() == -signal.SIGKILL
    assert not cgroups_named(f"walras-{run}")


def test_cpus_that_cannot_be_had_are_an_error_that_names_them(job: PlacedJob, start: Start) -> None:
    start(job, SLEEPER, FIRST)

    with pytest.raises(PlacementError, match="5000") as caught:
        job.place(CpuSet([5000]))

    assert "\n" not in str(caught.value)
    assert cpus_of(job) == {FIRST}


def test_a_process_that_is_gone_cannot_be_admitted(job: PlacedJob) -> None:
    process = subprocess.Popen(["true"])
    process.wait()

    with pytest.raises(PlacementError):
        job.admit(process.pid)


@pytest.mark.parametrize("name", ["", "a/b", "../up", "Upper", "a b", "a\n", "a_b"])
def test_a_name_that_could_leave_its_place_is_refused(placer: JobPlacer, name: str) -> None:
    with pytest.raises(ValueError, match="must consist of"):
        placer.open(name)


@pytest.mark.parametrize("name", ["..", "cpu.weight", "cgroup.procs", "cpuset.cpus", "9"])
def test_a_name_that_means_something_to_the_kernel_is_only_a_name(
    placer: JobPlacer, start: Start, name: str
) -> None:
    job = placer.open(name)
    process = start(job, SLEEPER, SECOND)

    assert pids_of(job) == (process.pid,)
    assert cpus_of(job) == {SECOND}


def test_two_jobs_cannot_have_one_name(placer: JobPlacer) -> None:
    placer.open("default.twin")

    with pytest.raises(PlacementError, match=r"default\.twin"):
        placer.open("default.twin")


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
        job = placer.open("team.train")
        process = start(job, SLEEPER, FIRST)
        memberships = Path(f"/proc/{process.pid}/cgroup").read_text()
    finally:
        placer.close()

    run, _ = job.environment["WALRAS_RUN"].split("/")
    assert f"/walras-{run}/job-team.train/main\n" in memberships


@needs_root
@needs_cpuset
def test_what_a_crashed_run_left_is_killed_and_removed_and_a_living_run_is_not() -> None:
    crash = (
        "import os, subprocess\n"
        "from walras_agent.local.placement import open_placer, run_id\n"
        "run = run_id()\n"
        "job = open_placer(run, 'cgroup').open('default.orphan')\n"
        "process = subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL)\n"
        "job.admit(process.pid)\n"
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
        assert not cgroups_named(f"walras-{run}")
        assert run not in remove_stale_runs()
        living.open("default.job").place(FIRST)
    finally:
        living.close()


ENDS_ITS_FIRST_THREAD = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("ends", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_is_killed(job: PlacedJob, start: Start) -> None:
    process = start(job, ENDS_ITS_FIRST_THREAD, BOTH)
    assert process.stdout is not None
    assert process.stdout.readline() == "ends\n"
    assert eventually(lambda: not is_alive(process.pid))
    assert process.poll() is None  # the other thread goes on

    job.close()

    assert process.wait(60) == -signal.SIGKILL


BINDS_ITSELF = """
import os
os.sched_setaffinity(0, {{{cpu}}})
print('bound', flush=True)
input()
"""


def bind(start: Start, job: PlacedJob, placed: CpuSet, own: CpuSet) -> int:
    process = start(job, BINDS_ITSELF.format(cpu=own), placed)
    assert process.stdout is not None
    assert process.stdout.readline() == "bound\n"
    return process.pid


def test_by_affinity_a_thread_that_binds_itself_within_is_left_alone(start: Start) -> None:
    placer = open_placer(run_id(), "affinity")
    job = placer.open("default.affine")
    pid = bind(start, job, placed=BOTH, own=FIRST)

    placer.keep()

    assert cpus_of_threads(pid) == {FIRST}
    job.place(SECOND)
    assert cpus_of_threads(pid) == {SECOND}


def test_by_affinity_a_process_that_shows_up_with_the_cpus_of_before_is_moved(
    start: Start,
) -> None:
    job, elsewhere = (open_placer(run_id(), "affinity").open("default.affine") for _ in "ab")
    job.place(FIRST)
    job.place(BOTH)
    elsewhere.environment = job.environment
    pid = bind(start, elsewhere, placed=BOTH, own=FIRST)

    job.place(BOTH)

    assert cpus_of_threads(pid) == {BOTH}


def test_by_affinity_an_admitted_process_has_not_chosen_its_cpus(start: Start) -> None:
    job = open_placer(run_id(), "affinity").open("default.affine")
    job.place(BOTH)
    with subprocess.Popen(["sleep", "60"]) as process:
        os.sched_setaffinity(process.pid, FIRST)
        try:
            job.admit(process.pid)
            assert cpus_of_threads(process.pid) == {BOTH}
        finally:
            job.close()


def test_by_affinity_a_thread_that_breaks_out_is_brought_back(start: Start) -> None:
    placer = open_placer(run_id(), "affinity")
    job = placer.open("default.affine")
    pid = bind(start, job, placed=FIRST, own=SECOND)

    placer.keep()

    assert cpus_of_threads(pid) == {FIRST}


DETACHES = """
import os, time
if os.fork() == 0:
    if {new_session}:
        os.setsid()
    if os.fork() > 0:
        os._exit(0)
    os.write(1, b"%d\\n" % os.getpid())
    os.execve("/bin/sleep", ["sleep", "60"], {environment})
os.wait()
os.write(1, b"ended\\n")
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("new_session", "environment", "outlives"),
    [(True, "{}", True), (True, "os.environ", False), (False, "{}", False)],
    ids=["neither", "environment", "session"],
)
def test_by_affinity_only_what_keeps_neither_session_nor_environment_outlives_its_job(
    start: Start, new_session: bool, environment: str, outlives: bool
) -> None:
    """What docs/local-run.md promises, and what it does not."""
    job = open_placer(run_id(), "affinity").open("default.forks")
    code = DETACHES.format(new_session=new_session, environment=environment)
    process = start(job, code, BOTH)
    assert process.stdout is not None
    told = {process.stdout.readline().strip(), process.stdout.readline().strip()}
    (detached,) = map(int, told - {"ended"})
    command = Path(f"/proc/{detached}/cmdline")
    try:
        assert eventually(lambda: command.read_bytes().startswith(b"sleep"))

        job.close()

        assert eventually(lambda: is_alive(detached) == outlives)
    finally:
        if is_alive(detached):
            os.kill(detached, signal.SIGKILL)


@pytest.mark.parametrize(
    ("shares", "nice"),
    [(262_144, 0), (1024, 0), (921, 0), (911, 1), (512, 3), (256, 6), (102, 10), (20, 18), (2, 19)],
)
def test_shares_are_the_nice_value_of_the_closest_kernel_weight(shares: int, nice: int) -> None:
    assert nice_of(shares) == nice


AS_A_USER = """
import sys
from walras_agent.local.placement import PlacementError, open_placer, run_id
print(open_placer(run_id()).description)
try:
    open_placer(run_id(), "cgroup")
except PlacementError as error:
    print(error)
"""


@another_user
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
        r"cannot pin jobs by cgroup: .*(Permission denied|Read-only|no cpuset).*"
        r"\(run as root, or use CPU affinity\)",
        on_demand,
    )
