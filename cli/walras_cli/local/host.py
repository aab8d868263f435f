"""This machine as the market sees it: what it sells, how jobs are started and held there."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from walras.sizes import WHOLE
from walras_agent.placement import Group, PlacementError, Placer, open_placer, run_id
from walras_agent.runs import checked_name
from walras_agent.topology import Topology
from walras_profiler.commands import describe_failure
from walras_profiler.launch import Command, LaunchError, Process, job_environment, launch
from walras_profiler.reaper import Reaper

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras.resources.kinds import CoresPolicy
    from walras_agent.cpuset import CpuSet
    from walras_cli.local.documents import LocalJob

Pin = Literal["auto", "cgroup", "affinity"]


class StartError(Exception):
    """A job could not be started; one line."""


@dataclass(frozen=True, slots=True)
class Market:
    """The part of the machine that is for sale.

    Attributes:
        topology: its CPUs.
        units: its cores (or threads), in assignment order.
        unit: what is sold.
    """

    topology: Topology
    units: tuple[CpuSet, ...]
    unit: Literal["core", "thread"]

    @classmethod
    def of(cls, topology: Topology, rules: CoresPolicy) -> Market:
        """Keep the reserved cores out of the market: the first, which interrupts prefer.

        Raises:
            ValueError: nothing would be left.
        """
        units = topology.cores(rules.unit)
        reserved = rules.reserved_cores
        if reserved >= len(units):
            raise ValueError(
                f"spec.cores.reservedCores: is {reserved}; this machine has {len(units)} "
                f"{rules.unit}(s), so none is left to sell; lower it"
            )
        kept = {cpu for unit in units[reserved:] for cpu in unit}
        sold = Topology(tuple(cpu for cpu in topology.cpus if cpu.id in kept))
        return cls(sold, sold.cores(rules.unit), rules.unit)

    def threads(self, cores: int) -> int:
        """Return how many CPUs the first ``cores`` units have together."""
        return sum(len(unit) for unit in self.units[:cores])


@dataclass(slots=True)
class Running:
    """A started job: its process, and the group that holds everything it starts."""

    process: Process
    group: Group
    log: Path

    def failure(self) -> str | None:
        """Return how the job failed and the last it wrote; None if it did not (yet)."""
        outcome = self.process.poll()
        if outcome is None or outcome.exit_code == 0:
            return None
        with self.log.open("rb") as stream:
            return describe_failure(outcome.exit_code, stream)


@dataclass(slots=True)
class Host:
    """Starts jobs and leaves nothing of them behind; open it with `open_host`.

    Attributes:
        description: how jobs are held to their CPUs.
        logs: folder of what jobs write.
    """

    logs: Path
    _placer: Placer
    _reaper: Reaper
    _starts: int = 0

    @property
    def description(self) -> str:
        """How jobs are held to their CPUs."""
        return self._placer.description

    def start(
        self, job: LocalJob, cores: int, threads: int, cpus: CpuSet | None, weight: int
    ) -> Running:
        """Start a job on its whole data, held to ``cpus`` (or free, without) from the beginning.

        Raises:
            StartError: it cannot be started or held.
        """
        argv = job.template.render(
            cores=cores, threads=threads, size=job.part(WHOLE), data=job.data
        )
        self._starts += 1
        log = self.logs / f"{job.key}.log"
        try:
            group = self._placer.open(checked_name(f"{self._starts}-{job.key}"))
        except PlacementError as error:
            raise StartError(str(error)) from error
        try:
            if cpus is not None:
                group.place(cpus, weight)
            with log.open("wb") as output:
                environment = job_environment(job.environment, group.environment, threads)
                command = Command(argv, environment, job.cwd, output=output, errors=output)
                process = launch(command, group.admit)
            self._reaper.guard_session(process.pid)
        except (LaunchError, PlacementError) as error:
            group.close()
            raise StartError(str(error)) from error
        return Running(process, group, log)


@contextmanager
def open_host(pin: Pin, logs: Path | None) -> Iterator[Host]:
    """Open the host; however this ends, no process, cgroup or temporary file is left.

    Raises:
        PlacementError: cgroups were demanded and cannot be had.
    """
    run = run_id()
    with Reaper(run) as reaper:
        scratch = Path(tempfile.mkdtemp(prefix="walras-"))
        reaper.guard_folder(scratch)
        try:
            placer = open_placer(run, pin)
            try:
                if logs is not None:
                    logs.mkdir(parents=True, exist_ok=True)
                yield Host(logs or scratch, placer, reaper)
            finally:
                placer.close()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
