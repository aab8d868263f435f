"""Effects: pins the jobs of one run to CPUs, by cgroups if possible, else by CPU affinity.

Either way a run looks like a node: its jobs are pods, and the agent's own `Reconciler` enforces
their grants. A single program that is only measured on some CPUs is moved by `PlacedJob.place`.

`open_placer` tests a mechanism with a process of its own before it returns it.
"""

from __future__ import annotations

import logging
import os
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from walras_agent.cpuset import CpuSet
from walras_agent.enforce import CpuEnforcer
from walras_agent.journal import Journal
from walras_agent.kernel import read_kernel
from walras_agent.local.affinity import AffinityGroups
from walras_agent.local.cgroups import kernel_groups, remove_stale_runs
from walras_agent.local.pinned_cpus import pin_cpus
from walras_agent.local.runs import PlacementError, Run, container_of, marker, run_id
from walras_agent.memory.enforce import MemoryEnforcer
from walras_agent.memory.numa import NumaEnforcer
from walras_agent.moves import CPUS
from walras_agent.observe import PodObserver, read_group
from walras_agent.pod_cpus import allocate_cpus
from walras_agent.reconcile import Reconciler
from walras_agent.tree import CgroupError, CgroupFile, Cgroups
from walras_agent.weights import RANGES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walras_agent.topology import Topology

__all__ = [
    "JobPlacer",
    "PlacedJob",
    "PlacementError",
    "open_placer",
    "remove_stale_runs",
    "run_id",
]

_log = logging.getLogger(__name__)

_OF_A_CPU = 8192  # weight: fine enough for a hundredth of one in v1


class PlacementGroups(Cgroups, Protocol):
    """Interface to the groups of local jobs: cgroups that can be created, filled and removed.

    Groups in these methods are those of a job (`runs.Run.pod`) or of a run.
    """

    @property
    def description(self) -> str:
        """Name of the mechanism in messages, such as ``cgroup v2 cpuset``."""

    @property
    def weighs_threads(self) -> bool:
        """Whether each thread of a job has the job's weight to itself, roughly, as a nice value."""

    def make(self, pod: str) -> None:
        """Create the groups of a job, with all CPUs that this process may use.

        Raises:
            PlacementError: The name is in use, or the kernel refuses the groups.
        """

    def admit(self, pod: str, pid: int) -> None:
        """Add a newly started process and its future descendants to a job.

        Raises:
            CgroupError: The process has ended or may not be moved.
        """

    def keep(self) -> None:
        """Pin every process to its job's CPUs again; cheap."""

    def cpu_seconds(self, group: str) -> float:
        """Return the user and system time of all processes that a group ever had, in seconds.

        Raises:
            CgroupError: The group was removed.
        """

    def kill(self, group: str) -> None:
        """Kill all processes in a group, even if they keep forking.

        Raises:
            PlacementError: Some processes survive for a minute.
        """

    def remove(self, group: str) -> None:
        """Remove a group without processes and all below it, if it exists.

        Raises:
            PlacementError: The kernel refuses for a minute.
        """


@dataclass(slots=True)
class PlacedJob:
    """One job of a run and its processes.

    Attributes:
        name: Name of the job, which is the pod's UID in grants.
        pod: Group of the job.
        environment: Environment variables to start its first process with.
    """

    name: str
    pod: str
    environment: Mapping[str, str]
    _groups: PlacementGroups
    _used: float = 0.0

    @property
    def container(self) -> str:
        """Group of the job's processes."""
        return container_of(self.pod)

    def admit(self, pid: int) -> None:
        """Add a newly started process and its future descendants to the job.

        Raises:
            PlacementError: The process has ended or may not be moved.
        """
        try:
            self._groups.admit(self.pod, pid)
        except CgroupError as error:
            raise PlacementError(f"{error}; pin jobs as the user who runs them") from error

    def place(self, cpus: CpuSet) -> None:
        """Pin the job to CPUs, whether other jobs use them or not.

        Raises:
            PlacementError: The kernel refuses, or other CPUs are in effect.
            ValueError: ``cpus`` is empty.
        """
        if not cpus:
            raise ValueError(f"{self.name}: no CPU to be placed on")
        try:
            self._groups.write(CgroupFile("cpuset", self.container, CPUS), str(cpus))
            held = read_group(self._groups, self.container)
        except CgroupError as error:
            raise PlacementError(f"{error}; choose CPUs that are online and allowed") from error
        if held is None or held.cpus != cpus:
            raise PlacementError(
                f"{self.name}: wrote CPUs {cpus}, but {held.cpus if held else 'none'} are in "
                "effect; choose CPUs that are online and allowed"
            )

    def cpu_seconds(self) -> float:
        """Return the CPU time of the job in seconds; after `close`, its final value."""
        with suppress(CgroupError):
            self._used = max(self._used, self._groups.cpu_seconds(self.pod))
        return self._used

    def close(self) -> None:
        """Kill the job and remove its groups; may be repeated."""
        self._groups.kill(self.pod)
        self.cpu_seconds()
        self._groups.remove(self.pod)


class JobPlacer:
    """Creates and removes the jobs of one run."""

    def __init__(self, run: Run, groups: PlacementGroups) -> None:
        self._run, self._groups = run, groups
        self.description = groups.description

    def open(self, name: str) -> PlacedJob:
        """Create a job without processes, on all CPUs that this process may use.

        Raises:
            PlacementError: The name is in use, or the kernel refuses the group.
            ValueError: The name has other characters than lower-case letters, digits, ``.``, ``-``.
        """
        pod = self._run.pod(name)
        self._groups.make(pod)
        return PlacedJob(name, pod, marker(self._run.id, name), self._groups)

    def keep(self) -> None:
        """Pin every process to its job's CPUs again; call it every second."""
        self._groups.keep()

    def reconciler(self, topology: Callable[[], Topology]) -> Reconciler:
        """Return a reconciler for the jobs of this run, all of which must have a grant.

        The groups do not outlive this process, so the journal has no file.

        Args:
            topology: Function that returns the CPUs that jobs may have.
        """
        journal = Journal.in_memory()
        observer = PodObserver(self._groups, self._run)
        by_nice = self._groups.weighs_threads  # which knows no finer weights than the kubelet's
        weights, kernel = RANGES[self._groups.version], read_kernel()
        enforcer = CpuEnforcer(
            self._groups,
            observer,
            journal,
            others=False,
            weights=weights if by_nice else weights._replace(of_a_cpu=_OF_A_CPU),
            concurrent=kernel is not None and kernel.counts_for_each_cpu and not by_nice,
            allocate=pin_cpus if by_nice else allocate_cpus,
        )
        memory = MemoryEnforcer(self._groups, journal)
        nodes = NumaEnforcer(self._groups, journal)
        return Reconciler(enforcer, memory, nodes, topology, write_conflict=str)

    @property
    def weighs_threads(self) -> bool:
        """Whether shared CPUs are divided by nice values of threads, and so only roughly."""
        return self._groups.weighs_threads

    def close(self) -> None:
        """Kill and remove all jobs, even if one cannot be killed; may be repeated."""
        try:
            self._groups.kill(self._run.group)
        finally:
            self._groups.remove(self._run.group)


def open_placer(run: str, prefer: Literal["auto", "cgroup", "affinity"] = "auto") -> JobPlacer:
    """Return a placer with the strongest mechanism that works here, or with the preferred one.

    Args:
        run: ID of the run, from ``run_id()``.
        prefer: Mechanism; ``auto`` for cgroups with CPU affinity as a fallback.

    Raises:
        PlacementError: Cgroups are preferred but cannot be used.
    """
    named = Run(run)
    reasons = []
    for groups in kernel_groups() if prefer != "affinity" else ():
        try:
            return _tried(JobPlacer(named, groups))
        except PlacementError as error:
            reasons.append(str(error))
    why = "; ".join(reasons) or "no cpuset controller is mounted"
    if prefer == "cgroup":
        raise PlacementError(f"cannot pin jobs by cgroup: {why} (run as root, or use CPU affinity)")
    if prefer == "auto":
        _log.info("pinning jobs by CPU affinity: %s", why)
    return JobPlacer(named, AffinityGroups(named))


def _tried(placer: JobPlacer) -> JobPlacer:
    """Return the placer after pinning a test process with it; close it if that fails."""
    cpu = CpuSet([min(os.sched_getaffinity(0))])
    with ExitStack() as otherwise:
        otherwise.callback(placer.close)
        job = placer.open("trial")
        # cat waits for its input, and ends with this process.
        with subprocess.Popen(
            ["cat"],  # noqa: S607 - in any folder of PATH
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,
        ) as process:
            job.admit(process.pid)
            job.place(cpu)
            held = CpuSet(os.sched_getaffinity(process.pid))
        job.close()
        if held != cpu:
            problem = f"a process pinned to CPU {cpu} may run on {held}"
            raise PlacementError(f"{placer.description}: {problem}")
        otherwise.pop_all()
    return placer
