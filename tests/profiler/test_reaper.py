"""The watchdog, against real processes, cgroups and folders, and a parent that is really killed."""

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from waiting import PATIENCE, eventually
from walras_agent.local.runs import marker
from walras_profiler import _reaper
from walras_profiler.launch import Command, launch
from walras_profiler.reaper import Reaper

pytestmark = pytest.mark.system

# A parent as a run is: a watchdog, a folder, and a job whose children try to slip away: one in a
# session of its own, one without the marker in its environment. It prints the folder.
PARENT = """
import os, sys, tempfile, time
from pathlib import Path
from walras_agent.local.runs import marker
from walras_profiler.launch import Command, job_environment, launch
from walras_profiler.reaper import Reaper

run_id = sys.argv[1]
reaper = Reaper(run_id)
folder = Path(tempfile.mkdtemp(prefix="walras-"))
(folder / "data").write_text("x")
reaper.guard_folder(folder)
script = f"setsid sleep 6{run_id[-3:]} & env -i sleep 6{run_id[-3:]} & exec sleep 6{run_id[-3:]}"
job = Command(("sh", "-c", script), job_environment(os.environ, marker(run_id, "job"), 1))
process = launch(job, lambda pid: None)
reaper.guard_session(process.pid)
print(folder, flush=True)
time.sleep(60)
"""


@pytest.fixture
def run_id() -> str:
    return f"test-{os.getpid()}-{secrets.randbelow(900) + 100}"


def nowhere(pid: int) -> None:
    """Admit a process to no group at all."""


def sleepers(run_id: str) -> list[int]:
    """Processes of the job above, told by their unusual number of seconds to sleep."""
    wanted = f"sleep\x006{run_id[-3:]}\x00".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes() == wanted:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_parent_leaves_no_process_and_no_folder(number: int, run_id: str) -> None:
    arguments = [sys.executable, "-c", PARENT, run_id]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        folder = Path(parent.stdout.readline().strip())
        assert eventually(lambda: len(sleepers(run_id)) == 3), "the job did not get going"
        assert folder.is_dir()
        parent.send_signal(number)
    assert eventually(lambda: not sleepers(run_id))
    assert eventually(lambda: not folder.exists())


def test_close_cleans_up_and_waits_for_it(run_id: str, tmp_path: Path) -> None:
    folder = tmp_path / "walras-data"
    folder.mkdir()
    environment = dict(os.environ) | marker(run_id, "job")
    with Reaper(run_id) as reaper:
        reaper.guard_folder(folder)
        process = launch(Command(("sleep", "60"), environment), nowhere)
    outcome = process.wait(PATIENCE)
    assert outcome is not None
    assert outcome.exit_code == -signal.SIGKILL
    assert not folder.exists()
    reaper.close()
    with pytest.raises(RuntimeError, match="closed"):
        reaper.guard_folder(folder)


def test_marker_is_found_in_the_midst_of_exec(run_id: str) -> None:
    environment = os.environ | marker(run_id, "job")
    sought = f"WALRAS_RUN={run_id}/".encode()
    for delay in range(300):
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exec sleep 60"], environment)
        try:
            until = time.perf_counter_ns() + delay * 10_000
            while time.perf_counter_ns() < until:
                pass
            assert _reaper.has_marker(Path(f"/proc/{pid}"), sought)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_other_runs_are_left_alone(run_id: str) -> None:
    environment = dict(os.environ) | marker(f"{run_id}1", "job")
    bystander = launch(Command(("sleep", "60"), environment), nowhere)
    Reaper(run_id).close()
    try:
        assert bystander.wait(0.1) is None
    finally:
        os.kill(bystander.pid, signal.SIGKILL)
        bystander.wait(PATIENCE)


def test_recycled_session_id_is_not_killed(run_id: str) -> None:
    resources = _reaper.RunResources(marker=b"WALRAS_RUN=none/", cgroup="walras-none")
    stranger = launch(Command(("sleep", "60"), dict(os.environ)), nowhere)
    try:
        resources.add(f"session {stranger.pid} 1\n")
        assert list(_reaper.marked_or_in_session(resources)) == []
        stat = _reaper.stat_fields(stranger.pid)
        assert stat is not None
        resources.add(f"session {stranger.pid} {stat[_reaper.STARTED]}\n")
        assert list(_reaper.marked_or_in_session(resources)) == [stranger.pid]
    finally:
        os.kill(stranger.pid, signal.SIGKILL)
        stranger.wait(PATIENCE)


@pytest.mark.skipif(
    not os.access("/sys/fs/cgroup/cpuset/cgroup.procs", os.W_OK),
    reason="needs root and a cgroup v1 cpuset hierarchy at /sys/fs/cgroup/cpuset",
)
def test_cgroups_of_the_run_are_emptied_and_removed(run_id: str) -> None:
    group = Path("/sys/fs/cgroup/cpuset") / f"walras-{run_id}" / "job"
    group.mkdir(parents=True)
    for file in ("cpuset.mems", "cpuset.cpus"):
        inherited = (Path("/sys/fs/cgroup/cpuset") / file).read_text()
        (group.parent / file).write_text(inherited)
        (group / file).write_text(inherited)

    def admit(pid: int) -> None:
        (group / "cgroup.procs").write_text(str(pid))

    process = launch(Command(("sleep", "60"), dict(os.environ)), admit)
    Reaper(run_id).close()
    assert process.wait(PATIENCE) is not None
    assert not group.parent.exists()


def test_only_folders_of_walras_are_accepted(run_id: str, tmp_path: Path) -> None:
    with Reaper(run_id) as reaper, pytest.raises(ValueError, match=r"walras-\*"):
        reaper.guard_folder(tmp_path / "precious")


def test_removal_does_not_follow_links_out_of_a_folder(run_id: str, tmp_path: Path) -> None:
    precious, folder = tmp_path / "precious", tmp_path / "walras-sample"
    precious.mkdir()
    (precious / "file").write_text("kept")
    folder.mkdir()
    (folder / "link").symlink_to(precious)
    with Reaper(run_id) as reaper:
        reaper.guard_folder(folder)
    assert not folder.exists()
    assert (precious / "file").read_text() == "kept"


@pytest.mark.parametrize("bad", ["", "UPPER", "a/b", "a b"])
def test_malformed_run_id_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="must consist of"):
        Reaper(bad)
