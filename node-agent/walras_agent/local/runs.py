"""Facts: names the groups and processes of a local run and its jobs.

A run is one use of a placer; a process may have several at the same time. Its ID identifies the
process uniquely, so that the remains of a crashed run can be told from a live run.
"""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from walras_agent import procfs
from walras_agent.kubepods import PodGroups

if TYPE_CHECKING:
    from walras_agent.tree import Cgroups

MARKER = "WALRAS_RUN"
"""Environment variable of the processes of a job, with the value ``<run>/<job>``."""

PREFIX = "walras-"
"""Prefix of the name of a run's group; the run's ID follows."""

_NAME = re.compile(r"[a-z0-9.-]+")
_COUNT = itertools.count(1)


class PlacementError(Exception):
    """Jobs cannot be pinned to CPUs; the message is one line with the cause and the remedy."""


@dataclass(frozen=True, slots=True)
class Run:
    """The naming scheme of one run's groups (implements `observe.PodSource`).

    A job is a pod with one container, ``/walras-<run>/job-<name>/main``. The prefix keeps job names
    such as ``cpu.weight`` from clashing with the kernel's files.

    Attributes:
        id: ID of the run, from `run_id`.
    """

    id: str

    @property
    def group(self) -> str:
        """Group of all jobs of the run."""
        return f"/{PREFIX}{self.id}"

    def pod(self, job: str) -> str:
        """Return the pod's group of a job.

        Raises:
            ValueError: The job's name cannot be part of a path.
        """
        return f"{self.group}/job-{checked_name(job)}"

    def job(self, pod: str) -> str:
        """Return the name of the job with this group."""
        return pod.removeprefix(f"{self.group}/job-")

    def scan(self, cgroups: Cgroups) -> tuple[PodGroups, ...]:
        """Return the groups of all jobs; see `observe.PodSource`."""
        pods = cgroups.children(self.group)
        return tuple(PodGroups(self.job(pod), pod, cgroups.children(pod)) for pod in pods)


def container_of(pod: str) -> str:
    """Return the group with the processes of a job."""
    return f"{pod}/main"


def run_id() -> str:
    """Return a new ID: PID, start time in ticks and PID namespace of this process, and a count.

    The namespace is part of it because PIDs of other containers are not comparable.
    """
    own = procfs.read_process(os.getpid())
    if own is None:
        raise PlacementError("/proc does not show this process; mount proc for its PID namespace")
    return f"{own.pid}-{own.start}-{_pid_namespace()}-{next(_COUNT)}"


def is_over(run: str) -> bool:
    """Whether the run's process is known to have ended; False if that is unknown."""
    match = re.fullmatch(r"(\d+)-(\d+)-(\d+)-\d+", run)
    if match is None or int(match[3]) != _pid_namespace():
        return False
    process = procfs.read_process(int(match[1]))
    return process is None or not process.alive or process.start != int(match[2])


def marker(run: str, name: str) -> dict[str, str]:
    """Return the environment variable that marks a process and its descendants as a job's."""
    return {MARKER: f"{run}/{name}"}


def checked_name(name: str) -> str:
    """Return the name of a run or job if it is valid in a path.

    Raises:
        ValueError: The name has other characters than lower-case letters, digits, ``.`` and ``-``.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} must consist of lower-case letters, digits, '.' and '-'")
    return name


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino
