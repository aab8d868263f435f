"""The watchdog process: when the run's parent is gone, leave nothing of the run behind.

`walras_profiler.reaper` starts this file by path in an isolated interpreter, so it may use the
standard library only. It reads lines from standard input until end of file, which comes when the
parent closes the pipe or dies, however it dies. Each line names something to clean up:

    session PID STARTED     a session that the run started, and when (clock ticks since boot)
    folder PATH             a temporary folder; only ``walras-*`` folders are ever removed
    container NAME SOCKET   a container of the Docker daemon that listens on that Unix socket

Then, in this order: kill every process of the run (found by cgroup, session and environment
marker) until a scan finds none, remove the run's cgroups, the containers and the folders.
"""

import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
FOLDER_PREFIX = "walras-"
PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.02
_EXEC_SECONDS = 1.0
# Fields of proc_pid_stat(5), counted from the one after the name.
_STATE, _SESSION, STARTED, _MEMORY, _ENVIRONMENT_END = 0, 3, 19, 20, 48
_DEAD = ("Z", "X")


@dataclass(slots=True)
class Estate:
    """What a run leaves behind.

    Attributes:
        marker: How the value of WALRAS_RUN begins in the environment of the run's processes.
        cgroup: Name of the run's cgroup in every hierarchy.
        sessions: Session id to the start time of the process that leads it, clock ticks.
        folders: Temporary folders.
        containers: Name of a container to the socket of its daemon.
    """

    marker: bytes
    cgroup: str
    sessions: dict[int, int] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    containers: dict[str, str] = field(default_factory=dict)

    def note(self, line: str) -> None:
        """Add what one line of the parent's names."""
        kind, _, rest = line.rstrip("\n").partition(" ")
        if kind == "session":
            pid, started = rest.split()
            self.sessions[int(pid)] = int(started)
        elif kind == "folder":
            self.folders.append(Path(rest))
        elif kind == "container":
            name, _, path = rest.partition(" ")
            self.containers[name] = path


def main(run_id: str) -> None:
    """Read what to clean up until the parent is gone, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    estate = Estate(marker=f"WALRAS_RUN={run_id}/".encode(), cgroup=f"walras-{run_id}")
    for line in sys.stdin.buffer:
        estate.note(os.fsdecode(line))
    until(lambda: kill_all(estate) == 0)
    until(lambda: remove_cgroups(estate.cgroup))
    for name, path in estate.containers.items():
        remove_container(name, path)
    for folder in estate.folders:
        if folder.name.startswith(FOLDER_PREFIX):
            shutil.rmtree(folder, ignore_errors=True)


def remove_container(name: str, path: str) -> None:
    """Kill and remove one container, if its daemon still has it (Docker Engine API)."""
    connection = http.client.HTTPConnection("docker", timeout=PATIENCE_SECONDS)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE_SECONDS)
        connection.sock.connect(path)
        connection.request("DELETE", f"/containers/{name}?force=1")
        connection.getresponse().read()


def until(done: Callable[[], bool]) -> bool:
    """Call `done` until it says so, with short pauses, or until patience ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (finished := done()) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
    return finished


def kill_all(estate: Estate) -> int:
    """SIGKILL what a scan finds of the run; returns how many were still alive."""
    doomed = set(cgroup_members(estate.cgroup)) | set(marked_or_in_session(estate))
    doomed.discard(os.getpid())
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(doomed)


def marked_or_in_session(estate: Estate) -> Iterator[int]:
    """Live processes that carry the run's marker or belong to one of its sessions."""
    stale = [pid for pid, started in estate.sessions.items() if recycled(pid, started)]
    for pid in stale:
        del estate.sessions[pid]
    for entry in PROC.iterdir():
        if not entry.name.isdigit() or (stat := stat_fields(int(entry.name))) is None:
            continue
        if stat[_STATE] not in _DEAD and (
            int(stat[_SESSION]) in estate.sessions or carries(entry, estate.marker)
        ):
            yield int(entry.name)


def recycled(pid: int, started: int) -> bool:
    """Whether `pid` is by now another process than the one that started then."""
    stat = stat_fields(pid)
    return stat is not None and int(stat[STARTED]) != started


def stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name (which may hold blanks and parentheses)."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def carries(process: Path, marker: bytes) -> bool:
    """Whether the process was started with an environment variable beginning with `marker`."""
    deadline, settled = time.monotonic() + _EXEC_SECONDS, False
    while True:
        try:
            environment = (process / "environ").read_bytes()
        except OSError:  # gone, or another user's
            return False
        if environment or settled or time.monotonic() > deadline:
            return environment.startswith(marker) or b"\0" + marker in environment
        settled = not in_exec(int(process.name))
        time.sleep(0 if settled else _PAUSE_SECONDS / 20)


def in_exec(pid: int) -> bool:
    """Whether the process has its new memory already, but no environment in it yet (execve(2)).

    A kernel thread has no memory at all, and an empty environment still has an address.
    """
    stat = stat_fields(pid)
    return stat is not None and int(stat[_MEMORY]) > 0 and int(stat[_ENVIRONMENT_END]) == 0


def cgroup_members(name: str) -> Iterator[int]:
    """Processes in the cgroups of that name and in those below them."""
    for top in named_cgroups(name):
        for folder, _, _ in os.walk(top):
            with contextlib.suppress(OSError):  # removed meanwhile
                yield from map(int, (Path(folder) / "cgroup.procs").read_text().split())


def remove_cgroups(name: str) -> bool:
    """Remove the cgroups of that name, children first; says whether all are gone."""
    for top in named_cgroups(name):
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):  # busy while its last task exits, or gone
                Path(folder).rmdir()
    return not any(True for _ in named_cgroups(name))


def named_cgroups(name: str) -> Iterator[Path]:
    """Every cgroup of that name, in every hierarchy of cgroup v1 and in that of v2."""
    for mount in cgroup_mounts():
        for folder, children, _ in os.walk(mount):
            if name in children:
                yield Path(folder) / name
                children.remove(name)


def cgroup_mounts() -> Iterator[Path]:
    """Mount points of cgroup file systems (proc_pid_mountinfo(5))."""
    for line in (PROC / "self/mountinfo").read_text().splitlines():
        mount, _, file_system = line.partition(" - ")
        if file_system.split()[0] in {"cgroup", "cgroup2"}:
            yield Path(unescape(mount.split()[4]))


def unescape(text: str) -> str:
    """Decode the octal escapes by which mountinfo writes blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


if __name__ == "__main__":
    main(sys.argv[1])
