"""This machine as the market sees it: what it sells, how jobs are started and held there."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from walras.speedup.sizes import WHOLE
from walras_agent.local.placement import open_placer, remove_stale_runs, run_id
from walras_agent.node_plan import NodePlan
from walras_agent.topology import Topology
from walras_profiler.command_runner import describe_failure
from walras_profiler.launch import (
    Command,
    LaunchedProcess,
    LaunchError,
    job_environment,
    launch,
)
from walras_profiler.reaper import Reaper

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from walras_agent.cpuset import CpuSet
    from walras_agent.local.placement import JobPlacer, PlacedJob
    from walras_agent.node_plan import EnforcedGrant, Mode
    from walras_agent.reconcile import Reconciler
    from walras_agent.status import NodeStatus
    from walras_api.kinds import CoresPolicy
    from walras_cli.local.documents import LocalJob

Pin = Literal["auto", "cgroup", "affinity"]


@dataclass(frozen=True, slots=True)
class SoldCpus:
    """The part of the machine that is for sale.

    Attributes:
        topology: CPUs for sale.
        units: CPUs of each core (or thread) for sale, in assignment order.
        unit: Unit that is sold: core or thread.
    """

    topology: Topology
    units: tuple[CpuSet, ...]
    unit: Literal["core", "thread"]

    @classmethod
    def of(cls, topology: Topology, rules: CoresPolicy) -> SoldCpus:
        """Keep the reserved cores out of the market: the first, which interrupts prefer.

        Raises:
            ValueError: nothing would be left.
        """
        units = topology.cores(rules.unit)
        reserved = rules.reserved_cores
        if reserved >= len(units):
            raise ValueError(
                f"spec.cores.reservedCores: is {reserved}; this machine has {len(units)} "
                f"{rules.unit}(s), so none is left for sale; lower it"
            )
        kept = {cpu for unit in units[reserved:] for cpu in unit}
        sold = Topology(tuple(cpu for cpu in topology.cpus if cpu.id in kept))
        return cls(sold, sold.cores(rules.unit), rules.unit)

    def threads(self, cores: int) -> int:
        """Return how many CPUs the first ``cores`` units have together."""
        return sum(len(unit) for unit in self.units[:cores])


@dataclass(slots=True)
class Running:
    """A started job: its process, and what it writes."""

    process: LaunchedProcess
    log: Path

    def failure(self) -> str | None:
        """Return how the job failed and the last it wrote; None if it did not (yet)."""
        outcome = self.process.poll()
        if outcome is None or outcome.exit_code == 0:
            return None
        try:
            with self.log.open("rb") as stream:
                return describe_failure(outcome.exit_code, stream)
        except OSError:  # the job may have deleted it
            return describe_failure(outcome.exit_code, BytesIO())


@dataclass(slots=True)
class Host:
    """Starts jobs, holds them to their grants, leaves nothing behind; open it with `open_host`.

    Attributes:
        sold: The part of the machine that is for sale.
        logs: Folder in which the output of each job is kept.
    """

    sold: SoldCpus
    logs: Path
    _placer: JobPlacer
    _reaper: Reaper
    _reconciler: Reconciler
    _jobs: int = 0
    _epoch: int = 0

    @property
    def description(self) -> str:
        """How jobs are held to their CPUs."""
        return self._placer.description

    @property
    def shares_roughly(self) -> bool:
        """Whether shared CPUs are divided by nice values of threads, and so only roughly."""
        return self._placer.weighs_threads

    def open(self, job: LocalJob) -> PlacedJob:
        """Make the place where a job is to run; it can be granted CPUs from now on.

        Raises:
            PlacementError: it cannot be made.
        """
        self._jobs += 1
        return self._placer.open(f"{self._jobs}-{job.key}")

    def grant(self, mode: Mode, grants: Iterable[EnforcedGrant]) -> None:
        """Say what jobs are granted from now on, by the names of their places."""
        self._epoch += 1
        self._reconciler.offer(NodePlan(self._epoch, mode, tuple(grants), self.sold.unit))

    def hold(self, fixed: Collection[str] = ()) -> NodeStatus:
        """Bring every job to what it was granted, and say how it stands; call it every second.

        Args:
            fixed: Groups whose processes stay on their CPUs for now.
        """
        self._placer.keep()
        return self._reconciler.step(time.monotonic(), fixed=fixed)

    def start(self, job: LocalJob, place: PlacedJob, cores: int) -> Running:
        """Start a job on its whole data, in its place from the first instruction.

        Args:
            job: Job to start.
            place: Placement from `open`.
            cores: Largest number of cores that it can ever get.

        Raises:
            LaunchError: it cannot be started.
            PlacementError: it cannot be held.
        """
        threads = self.sold.threads(cores)
        argv = job.template.render(
            cores=cores, threads=threads, size=job.part(WHOLE), data=job.data
        )
        log = self.logs / f"{job.key}.log"
        with new_log(log) as output:
            environment = job_environment(job.environment, place.environment, threads)
            command = Command(argv, environment, job.cwd, output=output, errors=output)
            process = launch(command, place.admit)
        self._reaper.guard_session(process.pid)
        return Running(process, log)


def new_log(file: Path) -> IO[bytes]:
    """Open the file for a job's output; one that is a link may lead to anything, and is refused.

    Raises:
        LaunchError: it cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.fdopen(os.open(file, flags, 0o666), "wb")
    except OSError as error:
        why = "it is a symbolic link" if file.is_symlink() else error.strerror
        raise LaunchError(f"its output cannot be written to {file}: {why}") from error


@contextmanager
def open_host(sold: SoldCpus, pin: Pin, logs: Path | None) -> Iterator[Host]:
    """Open the host; however this ends, no process, cgroup or temporary file is left.

    Raises:
        PlacementError: cgroups were demanded and cannot be had.
    """
    # What the agent would warn an administrator of, this run's user is told by events.
    logging.getLogger("walras_agent").addHandler(logging.NullHandler())
    remove_stale_runs()
    run = run_id()
    with Reaper(run) as reaper:
        scratch = Path(tempfile.mkdtemp(prefix="walras-"))
        reaper.guard_folder(scratch)
        try:
            placer = open_placer(run, pin)
            try:
                reconciler = placer.reconciler(lambda: sold.topology)
                yield Host(sold, logs or scratch, placer, reaper, reconciler)
            finally:
                placer.close()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
