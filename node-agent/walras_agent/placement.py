"""How a job's processes are held to CPUs: one interface, by cgroup where that can be had.

``open_placer`` makes sure by trying: it places a process of its own and reads back where the
kernel put it.
"""

from __future__ import annotations

import logging
import os
import subprocess
from typing import TYPE_CHECKING, Literal, Protocol

from walras_agent.affinity import AffinityPlacer
from walras_agent.cgroups import cgroup_placers, remove_stale_runs
from walras_agent.cpuset import CpuSet
from walras_agent.runs import PlacementError, run_id

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Group", "PlacementError", "Placer", "open_placer", "remove_stale_runs", "run_id"]

_log = logging.getLogger(__name__)


class Group(Protocol):
    """All processes of one job.

    Attributes:
        environment: Variables to start the job's first process with.
    """

    environment: Mapping[str, str]

    def admit(self, pid: int) -> None:
        """Take in a freshly started process, with all that it will start.

        Raises:
            PlacementError: The process is gone or may not be moved.
        """

    def place(self, cpus: CpuSet, weight: int = 100) -> None:
        """Hold the job to the CPUs; cheap when nothing changes: call it every second.

        Args:
            cpus: The CPUs, at least one.
            weight: Its part of CPUs it shares, from 1 to 10000 as cgroup v2's ``cpu.weight``.

        Raises:
            PlacementError: The kernel did not take it; the message says what it holds instead.
            ValueError: ``cpus`` is empty or ``weight`` off its scale.
        """

    def pids(self) -> tuple[int, ...]:
        """The processes alive in the job."""

    def cpu_seconds(self) -> float:
        """User and system CPU time of all processes the job ever had, in seconds."""

    def kill(self) -> None:
        """Kill all processes of the job, also such as keep forking.

        Raises:
            PlacementError: Some outlive it for seconds.
        """

    def close(self) -> None:
        """Kill the job and remove its group; again is fine."""


class Placer(Protocol):
    """A mechanism, opened for one run.

    Attributes:
        description: The mechanism's name for people, such as ``cgroup v2 cpuset``.
    """

    description: str

    def open(self, name: str) -> Group:
        """Make the group of the job ``name`` (lower-case letters, digits, dots, hyphens).

        Raises:
            PlacementError: The name is in use, or the kernel refuses the group.
            ValueError: The name has other characters.
        """

    def close(self) -> None:
        """Close all groups and remove what holds them; again is fine."""


def open_placer(run: str, prefer: Literal["auto", "cgroup", "affinity"] = "auto") -> Placer:
    """Open the strongest mechanism that works here, or the one demanded.

    Args:
        run: The run's id, from ``run_id()``.
        prefer: ``auto`` falls back from cgroups to CPU affinity.

    Raises:
        PlacementError: A cgroup is demanded and none can be had.
    """
    if prefer == "affinity":
        return AffinityPlacer(run)
    reasons = []
    for attempt in cgroup_placers(run):
        try:
            return _tried(attempt())
        except PlacementError as error:
            reasons.append(str(error))
    why = "; ".join(reasons) or "no cpuset controller is mounted"
    if prefer == "cgroup":
        raise PlacementError(f"no cgroup can hold jobs: {why} (run as root, or use CPU affinity)")
    _log.info("placing jobs by CPU affinity: %s", why)
    return AffinityPlacer(run)


def _tried(placer: Placer) -> Placer:
    """Return the placer after a process was seen to follow it; close it otherwise."""
    try:
        _place_one_process(placer)
    except BaseException:
        placer.close()
        raise
    return placer


def _place_one_process(placer: Placer) -> None:
    group = placer.open("trial")
    cpu = CpuSet([min(os.sched_getaffinity(0))])
    # cat waits for its input and ends with it, whatever becomes of this process.
    with subprocess.Popen(
        ["cat"],  # noqa: S607 - wherever the system keeps it
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        process_group=0,
    ) as process:
        try:
            group.admit(process.pid)
            group.place(cpu)
            held = CpuSet(os.sched_getaffinity(process.pid))
        finally:
            process.kill()
    group.close()
    if held != cpu:
        raise PlacementError(f"{placer.description}: a process put on CPU {cpu} may run on {held}")
