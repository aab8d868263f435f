"""Watchdog process that cleans up after a run when the run's parent has ended.

`walras_profiler.reaper` starts this file by path in an isolated interpreter, so it may use the
standard library only. It reads lines from standard input until end of file, which comes when the
parent closes the pipe or dies, however it dies. Each line names a resource to clean up:

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
TIMEOUT_SECONDS = 10.0
_PAUSE_SECONDS = 0.02
_EXEC_SECONDS = 1.0
# Fields of proc_pid_stat(5), counted from the one after the name.
_STATE, _SESSION, STARTED, _MEMORY, _ENVIRONMENT_END = 0, 3, 19, 20, 48
_DEAD = ("Z", "X")


@dataclass(slots=True)
class RunResources:
    """Resources of a run that must be cleaned up.

    Attributes:
        marker: Beginning of the entry ``WALRAS_RUN=...`` in the environment of its processes.
        cgroup: Name of its cgroup in every hierarchy.
        sessions: Start times of session leaders by session ID, in clock ticks since boot.
        containers: Sockets of Docker daemons by the name of the container.
    """

    marker: bytes
    cgroup: str
    sessions: dict[int, int] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    containers: dict[str, str] = field(default_factory=dict)

    def add(self, line: str) -> None:
        """Add the resource that a line from the parent names."""
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
    """Read resources from standard input until the parent has ended, then clean them up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    resources = RunResources(marker=f"WALRAS_RUN={run_id}/".encode(), cgroup=f"walras-{run_id}")
    for line in sys.stdin.buffer:
        resources.add(os.fsdecode(line))
    retry_until(lambda: kill_all(resources) == 0)
    retry_until(lambda: remove_cgroups(resources.cgroup))
    for name, path in resources.containers.items():
        remove_container(name, path)
    for folder in resources.folders:
        if folder.name.startswith(FOLDER_PREFIX):
            shutil.rmtree(folder, ignore_errors=True)


def remove_container(name: str, path: str) -> None:
    """Kill and remove a container if its daemon still has it (Docker Engine API)."""
    connection = http.client.HTTPConnection("docker", timeout=TIMEOUT_SECONDS)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(TIMEOUT_SECONDS)
        connection.sock.connect(path)
        connection.request("DELETE", f"/containers/{name}?force=1")
        connection.getresponse().read()


def retry_until(done: Callable[[], bool]) -> bool:
    """Call `done` until it returns True or `TIMEOUT_SECONDS` are over; return its last result."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (finished := done()) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
    return finished


def kill_all(resources: RunResources) -> int:
    """Send SIGKILL to the processes of a run; return how many were still alive."""
    processes = set(cgroup_members(resources.cgroup)) | set(marked_or_in_session(resources))
    processes.discard(os.getpid())
    for pid in processes:
        kill_if(pid, lambda pid: belongs(pid, resources))
    return len(processes)


def kill_if(pid: int, is_meant: Callable[[int], bool]) -> None:
    """Send SIGKILL to the process with a PID, if it is one that is meant.

    This program cannot import `walras_agent.local.killing`, which does the same: a pidfd, where the
    kernel has them, holds on to the process meanwhile, so that the signal reaches nobody else.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError), contextlib.ExitStack() as held:
        handle = pidfd(pid)
        if handle is not None:
            held.callback(os.close, handle)
        if not is_meant(pid):
            return
        if handle is None:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(handle, signal.SIGKILL)


def pidfd(pid: int) -> int | None:
    """Return a pidfd of a process, or None where there are none.

    Raises:
        ProcessLookupError: The process has ended.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


def belongs(pid: int, resources: RunResources) -> bool:
    """Return whether a process is in the run's cgroup or a session of it, or has its marker."""
    return is_in_cgroup(pid, resources.cgroup) or is_marked_or_in_session(pid, resources)


def is_in_cgroup(pid: int, name: str) -> bool:
    """Return whether a thread of a process is in a cgroup of that name, or below one.

    The first thread can have ended before the others; version 1 then says that it is at the top.
    """
    with contextlib.suppress(OSError):  # it has ended
        for thread in (PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):  # this thread has
                lines = (thread / "cgroup").read_text(errors="replace").splitlines()
                if any(name in line.split("/") for line in lines):
                    return True
    return False


def marked_or_in_session(resources: RunResources) -> Iterator[int]:
    """Yield live processes that have the run's marker or belong to one of its sessions."""
    stale = [pid for pid, started in resources.sessions.items() if is_reused(pid, started)]
    for pid in stale:
        del resources.sessions[pid]
    pids = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    yield from (pid for pid in pids if is_marked_or_in_session(pid, resources))


def is_marked_or_in_session(pid: int, resources: RunResources) -> bool:
    """Return whether a process lives and has the run's marker or belongs to one of its sessions."""
    stat = stat_fields(pid)
    return (
        stat is not None
        and stat[_STATE] not in _DEAD
        and (
            int(stat[_SESSION]) in resources.sessions
            or has_marker(PROC / str(pid), resources.marker)
        )
    )


def is_reused(pid: int, started: int) -> bool:
    """Return whether `pid` now belongs to another process than the one that started then."""
    stat = stat_fields(pid)
    return stat is not None and int(stat[STARTED]) != started


def stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name; None if the process has ended."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()  # the name may contain blanks and parentheses


def has_marker(process: Path, marker: bytes) -> bool:
    """Return whether the process was started with an environment entry that begins so."""
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
    """Return whether the process is in execve(2), with new memory but no environment in it yet.

    A kernel thread has no memory at all, and an empty environment still has an address.
    """
    stat = stat_fields(pid)
    return stat is not None and int(stat[_MEMORY]) > 0 and int(stat[_ENVIRONMENT_END]) == 0


def cgroup_members(name: str) -> Iterator[int]:
    """Yield the processes in the cgroups of that name and in their descendants."""
    for top in named_cgroups(name):
        for folder, _, _ in os.walk(top):
            with contextlib.suppress(OSError):  # removed meanwhile
                yield from map(int, (Path(folder) / "cgroup.procs").read_text().split())


def remove_cgroups(name: str) -> bool:
    """Remove the cgroups of that name, children first; return whether none is left."""
    for top in named_cgroups(name):
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):  # busy while its last task exits, or gone
                Path(folder).rmdir()
    return not any(True for _ in named_cgroups(name))


def named_cgroups(name: str) -> Iterator[Path]:
    """Yield every cgroup of that name, in all hierarchies of cgroup v1 and in that of v2."""
    for mount in cgroup_mounts():
        for folder, children, _ in os.walk(mount):
            if name in children:
                yield Path(folder) / name
                children.remove(name)


def cgroup_mounts() -> Iterator[Path]:
    """Yield the mount points of cgroup file systems (proc_pid_mountinfo(5))."""
    for line in (PROC / "self/mountinfo").read_text().splitlines():
        mount, _, file_system = line.partition(" - ")
        if file_system.split()[0] in {"cgroup", "cgroup2"}:
            yield Path(unescape(mount.split()[4]))


def unescape(text: str) -> str:
    """Decode the octal escapes by which mountinfo writes blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


if __name__ == "__main__":
    main(sys.argv[1])
