"""Facts: what a run is called, and after it the groups and processes of its jobs.

A run is one round of placing jobs; a process may have several, also at once. Its id names the
process for all time, so that what a crashed run left behind can be told from what a living one
holds.
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
"""The environment variable that marks the processes of a job: ``<run>/<job>``."""

PREFIX = "walras-"
"""How the name of a run's group begins; the run's id is the rest."""

_NAME = re.compile(r"[a-z0-9.-]+")
_COUNT = itertools.count(1)


class PlacementError(Exception):
    """Jobs cannot be held to CPUs; the message is one line: what, why, and the way out."""


@dataclass(frozen=True, slots=True)
class Run:
    """How one run calls its groups: the source of pods here, as `kubepods.Layout` is on a node.

    A job is a pod with one container, ``/walras-<run>/job-<name>/main``. The prefix keeps names
    such as ``cpu.weight`` apart from the kernel's own files.

    Attributes:
        id: From `run_id`.
    """

    id: str

    @property
    def group(self) -> str:
        """The group of all its jobs."""
        return f"/{PREFIX}{self.id}"

    def pod(self, job: str) -> str:
        """The group of a job.

        Raises:
            ValueError: The job's name cannot be part of a path.
        """
        return f"{self.group}/job-{checked_name(job)}"

    def job(self, pod: str) -> str:
        """The name of the job whose group this is."""
        return pod.removeprefix(f"{self.group}/job-")

    def scan(self, cgroups: Cgroups) -> tuple[PodGroups, ...]:
        """The groups of all jobs that are there now; see `observe.PodSource`."""
        pods = cgroups.children(self.group)
        return tuple(PodGroups(self.job(pod), pod, cgroups.children(pod)) for pod in pods)


def container_of(pod: str) -> str:
    """The group that holds the processes of a job."""
    return f"{pod}/main"


def run_id() -> str:
    """A new id: the calling process's PID, start time (ticks), PID namespace, and a count.

    The namespace is part of it because a PID of another container says nothing here.
    """
    own = procfs.read_process(os.getpid())
    if own is None:
        raise PlacementError("/proc does not show this process; mount proc for its PID namespace")
    return f"{own.pid}-{own.start}-{_pid_namespace()}-{next(_COUNT)}"


def is_over(run: str) -> bool:
    """Whether the run's process is known to be gone; False in doubt."""
    match = re.fullmatch(r"(\d+)-(\d+)-(\d+)-\d+", run)
    if match is None or int(match[3]) != _pid_namespace():
        return False
    process = procfs.read_process(int(match[1]))
    return process is None or not process.alive or process.start != int(match[2])


def marker(run: str, name: str) -> dict[str, str]:
    """The environment that marks a process and all its descendants as of this job."""
    return {MARKER: f"{run}/{name}"}


def checked_name(name: str) -> str:
    """Return the name of a run or job if it can safely be part of a path.

    Raises:
        ValueError: It is not made of lower-case letters, digits, dots and hyphens.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of lower-case letters, digits, '.' and '-'")
    return name


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino
