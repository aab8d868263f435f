"""Apply: the jobs of one run, held to CPUs by cgroups where these can be had, else by affinity.

Either way a run looks like a node: its jobs are pods, and the agent's own `Reconciler` holds them
to what they were granted. A single program that is only to be measured on some CPUs needs none of
that: `Job.place` puts it there.

`open_placer` makes sure by trying: it places a process of its own and reads back where the
kernel put it.
"""

from __future__ import annotations

import logging
import os
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from walras_agent.cpuset import CpuSet
from walras_agent.enforce import Enforcer
from walras_agent.journal import Journal
from walras_agent.local.affinity import AffinityGroups
from walras_agent.local.cgroups import kernel_groups, remove_stale_runs
from walras_agent.local.runs import PlacementError, Run, container_of, marker, run_id
from walras_agent.memory.keeper import MemoryKeeper
from walras_agent.memory.nodes import NodeKeeper
from walras_agent.moves import CPUS
from walras_agent.observe import Observer, read_group
from walras_agent.reconcile import Reconciler
from walras_agent.tree import CgroupError, Cgroups, Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walras_agent.topology import Topology

__all__ = ["Job", "PlacementError", "Placer", "open_placer", "remove_stale_runs", "run_id"]

_log = logging.getLogger(__name__)


class Groups(Cgroups, Protocol):
    """Cgroups, or what answers as they do, that can be made, filled and emptied as well.

    A group that is named here is that of a job (`runs.Run.pod`) or of a run.
    """

    @property
    def description(self) -> str:
        """The mechanism's name for people, such as ``cgroup v2 cpuset``."""

    def make(self, pod: str) -> None:
        """Make the groups of a job, for a start on all CPUs that this process may use.

        Raises:
            PlacementError: The name is in use, or the kernel refuses them.
        """

    def admit(self, pod: str, pid: int) -> None:
        """Take in a freshly started process, with all that it will start.

        Raises:
            CgroupError: The process is gone or may not be moved.
        """

    def keep(self) -> None:
        """Hold every process to its job's CPUs as they were last written; cheap."""

    def cpu_seconds(self, group: str) -> float:
        """User and system CPU time of all processes that a group ever had, in seconds.

        Raises:
            CgroupError: The group is gone.
        """

    def kill(self, group: str) -> None:
        """Kill all processes in a group, also such as keep forking.

        Raises:
            PlacementError: Some outlive it for seconds.
        """

    def remove(self, group: str) -> None:
        """Remove a group without processes and all below it; one that is gone is fine.

        Raises:
            PlacementError: The kernel refuses it for seconds.
        """


@dataclass(slots=True)
class Job:
    """One job of a run, and all its processes.

    Attributes:
        name: It, and its pod's UID in grants.
        pod: Its group.
        environment: Variables to start its first process with.
    """

    name: str
    pod: str
    environment: Mapping[str, str]
    _groups: Groups
    _used: float = 0.0

    @property
    def container(self) -> str:
        """The group of its processes."""
        return container_of(self.pod)

    def admit(self, pid: int) -> None:
        """Take in a freshly started process, with all that it will start.

        Raises:
            PlacementError: The process is gone or may not be moved.
        """
        try:
            self._groups.admit(self.pod, pid)
        except CgroupError as error:
            raise PlacementError(f"{error}; place jobs as the user they run as") from error

    def place(self, cpus: CpuSet) -> None:
        """Move the job to CPUs, whoever else is there.

        Raises:
            PlacementError: The kernel did not take it; the message says what it holds instead.
            ValueError: ``cpus`` is empty.
        """
        if not cpus:
            raise ValueError(f"{self.name}: no CPU to be placed on")
        try:
            self._groups.write(Setting("cpuset", self.container, CPUS), str(cpus))
            held = read_group(self._groups, self.container)
        except CgroupError as error:
            raise PlacementError(
                f"{error}; choose among CPUs that are online and allowed"
            ) from error
        if held is None or held.cpus != cpus:
            raise PlacementError(
                f"{self.name}: CPUs {cpus} were asked for, the kernel gives "
                f"{held.cpus if held else 'none'}; choose among CPUs that are online and allowed"
            )

    def cpu_seconds(self) -> float:
        """See `Groups`; of a job that was closed, what it used until then."""
        with suppress(CgroupError):
            self._used = max(self._used, self._groups.cpu_seconds(self.pod))
        return self._used

    def close(self) -> None:
        """Kill the job and remove its groups; again is fine."""
        self._groups.kill(self.pod)
        self.cpu_seconds()
        self._groups.remove(self.pod)


class Placer:
    """Makes the jobs of one run."""

    def __init__(self, run: Run, groups: Groups) -> None:
        self._run, self._groups = run, groups
        self.description = groups.description

    def open(self, name: str) -> Job:
        """Make a job without processes, for a start on all CPUs that this process may use.

        Raises:
            PlacementError: The name is in use, or the kernel refuses the group.
            ValueError: The name is not of lower-case letters, digits, dots and hyphens.
        """
        pod = self._run.pod(name)
        self._groups.make(pod)
        return Job(name, pod, marker(self._run.id, name), self._groups)

    def keep(self) -> None:
        """See `Groups`; call it every second."""
        self._groups.keep()

    def reconciler(self, topology: Callable[[], Topology]) -> Reconciler:
        """The agent's loop for the jobs of this run; their memory is left alone.

        All of them must have a grant. What their groups said before need not outlive this
        process, as they do not.

        Args:
            topology: The CPUs that they may have.
        """
        journal = Journal.in_memory()
        observer = Observer(self._groups, self._run, pauses=False)
        enforcer = Enforcer(self._groups, observer, journal, others=False)
        memory = MemoryKeeper(self._groups, journal)
        nodes = NodeKeeper(self._groups, journal)
        return Reconciler(enforcer, memory, nodes, topology, why_not=str)

    def close(self) -> None:
        """Kill and remove all jobs, also if one resists; again is fine."""
        try:
            self._groups.kill(self._run.group)
        finally:
            self._groups.remove(self._run.group)


def open_placer(run: str, prefer: Literal["auto", "cgroup", "affinity"] = "auto") -> Placer:
    """Open the strongest mechanism that works here, or the one demanded.

    Args:
        run: The run's id, from ``run_id()``.
        prefer: ``auto`` falls back from cgroups to CPU affinity.

    Raises:
        PlacementError: A cgroup is demanded and none can be had.
    """
    named = Run(run)
    reasons = []
    for groups in kernel_groups() if prefer != "affinity" else ():
        try:
            return _tried(Placer(named, groups))
        except PlacementError as error:
            reasons.append(str(error))
    why = "; ".join(reasons) or "no cpuset controller is mounted"
    if prefer == "cgroup":
        raise PlacementError(f"no cgroup can hold jobs: {why} (run as root, or use CPU affinity)")
    if prefer == "auto":
        _log.info("placing jobs by CPU affinity: %s", why)
    return Placer(named, AffinityGroups(named))


def _tried(placer: Placer) -> Placer:
    """Return the placer after a process was seen to follow it; close it otherwise."""
    cpu = CpuSet([min(os.sched_getaffinity(0))])
    with ExitStack() as otherwise:
        otherwise.callback(placer.close)
        job = placer.open("trial")
        # cat waits for its input and ends with it, whatever becomes of this process.
        with subprocess.Popen(
            ["cat"],  # noqa: S607 - wherever the system keeps it
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,
        ) as process:
            job.admit(process.pid)
            job.place(cpu)
            held = CpuSet(os.sched_getaffinity(process.pid))
        job.close()
        if held != cpu:
            told = f"a process put on CPU {cpu} may run on {held}"
            raise PlacementError(f"{placer.description}: {told}")
        otherwise.pop_all()
    return placer
