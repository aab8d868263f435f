"""Runs a command on chosen CPUs of this machine, measures it, and cleans up after it.

A cpuset keeps a program on its CPUs, but does not keep others off them. So the time that the
program waited for them, or else the time that others took of them, is measured too.
"""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from walras_agent.assign import CoreDemand, assign
from walras_agent.cpuset import CpuSet
from walras_agent.local.placement import JobPlacer, PlacedJob, PlacementError, open_placer, run_id
from walras_agent.topology import Topology
from walras_agent.waiting import Unwaited, Watch, threads_of
from walras_profiler.campaign import Measurement, MeasurementError, Trial
from walras_profiler.counters import (
    EVENTS,
    AttachedPerf,
    Counters,
    NoCounters,
    open_counters,
    parse_counts,
)
from walras_profiler.launch import (
    Command,
    LaunchedProcess,
    LaunchError,
    ProcessResult,
    job_environment,
    launch,
)
from walras_profiler.reaper import Reaper
from walras_profiler.sampling import Sampler
from walras_profiler.template import Template

_REPAIR_SECONDS = 1.0  # between two repairs of the placement
_TAIL_BYTES, _TAIL_LINES = 2000, 3
_MOST_ERRORS = 16 << 20  # bytes of standard error, of which then only the end is kept
_LOOK_SECONDS = 0.1  # between two looks at how much it is
_JOB = "run"


@dataclass(slots=True)
class CommandRunner:
    """Runner of a command template; open it with `command_runner`.

    Attributes:
        topology: CPUs of the machine; runs get whole cores of them.
        environment: Environment of the user.
        cwd: Working directory of the command.
        timeout: Seconds after which a run counts as hung.
        sampler: Draws samples of the data; None without data.
    """

    template: Template
    topology: Topology
    environment: Mapping[str, str]
    cwd: Path
    timeout: float
    sampler: Sampler | None
    _placer: JobPlacer
    _reaper: Reaper
    _scratch: Path
    _counters: Counters | NoCounters
    _runs: int = field(default=0)

    @property
    def description(self) -> str:
        """Mechanism that holds runs to their cores."""
        return self._placer.description

    @property
    def notes(self) -> Sequence[str]:
        """Reason why there are no hardware counters; empty if there are."""
        if isinstance(self._counters, NoCounters):
            return (f"no hardware counters: {self._counters.reason}",)
        return ()

    def run(self, trial: Trial) -> Measurement:
        """Make a run and wait for its end, as `campaign.Runner` does."""
        self._runs += 1
        cpus = choose_cpus(self.topology, trial.cores)
        argv = self.template.render(
            cores=trial.cores,
            threads=len(cpus),
            size=trial.size,
            data=self.sampler.draw(trial.size) if self.sampler else None,
        )
        try:
            job = self._placer.open(f"{_JOB}-{self._runs}")
            try:
                return self._run_as(job, cpus, argv, trial)
            finally:
                job.close()
        except (LaunchError, PlacementError) as error:
            raise MeasurementError(f"{trial}: {error}") from error

    def _run_as(
        self, job: PlacedJob, cpus: CpuSet, argv: tuple[str, ...], trial: Trial
    ) -> Measurement:
        job.place(cpus)
        counting: AttachedPerf | None = None

        def admit(pid: int) -> None:
            nonlocal counting
            job.admit(pid)
            if isinstance(self._counters, Counters):
                counting = self._counters.attach(pid)

        path = self._scratch / "errors"
        path.unlink(missing_ok=True)
        with path.open("a+b") as stream:  # appended to, so that it can be shortened meanwhile
            environment = job_environment(self.environment, job.environment, len(cpus))
            busy_before = busy_seconds(cpus)
            command = Command(argv, environment, self.cwd, errors=stream)
            try:
                process = launch(command, admit)
                self._reaper.guard_session(process.pid)
                pid = process.pid
                watch = Watch(lambda: threads_of([pid]), len(cpus), time.monotonic())
                try:
                    outcome = self._wait(process, trial, stream)
                finally:
                    waiting = watch.stop()
            finally:
                counts = parse_counts(counting.detach()) if counting else {}
            if outcome.exit_code:
                raise MeasurementError(f"{trial}: {describe_failure(outcome.exit_code, stream)}")
        busy = busy_seconds(cpus) - busy_before
        # Children that nobody waited for are missing in the sum of the process.
        own = max(outcome.user_seconds + outcome.system_seconds, job.cpu_seconds())
        others = share_of_others(busy, own, outcome.seconds, cpus)
        unwaited = waiting.unwaited(outcome.seconds, own)
        return _measurement(trial, outcome, others, unwaited, counts)

    def _wait(self, process: LaunchedProcess, trial: Trial, errors: IO[bytes]) -> ProcessResult:
        """Wait for the end of a run; meanwhile, move stray threads back, and bound its output."""
        now = time.monotonic()
        deadline, repaired = now + self.timeout, now
        while True:
            outcome = process.wait(max(0.0, min(deadline - now, _LOOK_SECONDS)))
            if outcome is not None:
                return outcome
            now = time.monotonic()
            if now >= deadline:
                raise MeasurementError(
                    f"{trial}: still running after {self.timeout:g} s: raise --timeout, "
                    "or give it less work"
                )
            keep_tail(errors)
            if now - repaired >= _REPAIR_SECONDS:
                self._placer.keep()
                repaired = now


@contextmanager
def command_runner(
    template: Template,
    topology: Topology,
    *,
    data: Path | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    prefer: Literal["auto", "cgroup", "affinity"] = "auto",
    timeout: float = 3600.0,
    seed: int = 0,
    events: tuple[str, ...] = EVENTS,
) -> Iterator[CommandRunner]:
    """Open a runner; on exit, all processes, cgroups and files of its runs are removed.

    Args:
        template: Command template.
        topology: CPUs of the machine.
        data: Data to sample; None for no data.
        environment: Environment of the command; None for this process's own.
        cwd: Working directory of the command; None for this process's own.
        prefer: Mechanism that holds runs to their cores.
        timeout: Longest duration of a run in seconds.
        seed: Seed of the samples.
        events: Events for perf to count; those that the machine lacks are left out.

    Raises:
        PlacementError: Cgroups were requested and are not available.
    """
    run = run_id()
    with Reaper(run) as reaper:
        scratch = Path(tempfile.mkdtemp(prefix="walras-"))
        try:
            reaper.guard_folder(scratch)
            placer = open_placer(run, prefer)
            try:
                yield CommandRunner(
                    template,
                    topology,
                    environment=os.environ if environment is None else environment,
                    cwd=cwd or Path.cwd(),
                    timeout=timeout,
                    sampler=Sampler(data, scratch, seed) if data else None,
                    _placer=placer,
                    _reaper=reaper,
                    _scratch=scratch,
                    _counters=open_counters(events),
                )
            finally:
                placer.close()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def choose_cpus(topology: Topology, cores: int) -> CpuSet:
    """Return the CPUs that a job with so many whole cores would get on an idle machine.

    Raises:
        MeasurementError: The machine has fewer cores.
    """
    try:
        assignment = assign(topology, [CoreDemand(key=_JOB, cores=cores)], unit="core")
    except ValueError as error:
        raise MeasurementError(str(error)) from error
    return assignment.exclusive[_JOB]


def describe_failure(exit_code: int, errors: IO[bytes]) -> str:
    """Return one line about a failed run: how it ended, and its last output to standard error."""
    ended = f"exit code {exit_code}" if exit_code > 0 else f"killed by {_signal_name(-exit_code)}"
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - _TAIL_BYTES))
    tail = last_lines(errors.read())
    return f"the command failed ({ended})" + (f": {tail}" if tail else "")


def keep_tail(errors: IO[bytes]) -> None:
    """Shorten a file to which a program appends to its end, once it is large."""
    size = os.fstat(errors.fileno()).st_size
    if size > _MOST_ERRORS:
        tail = os.pread(errors.fileno(), _TAIL_BYTES, size - _TAIL_BYTES)
        os.ftruncate(errors.fileno(), 0)
        os.write(errors.fileno(), tail)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def last_lines(text: bytes) -> str:
    """Return the last lines that are not blank, joined into one printable line."""
    lines = [line.strip() for line in text.decode(errors="replace").splitlines()]
    joined = " | ".join([line for line in lines if line][-_TAIL_LINES:])
    return "".join(character if character.isprintable() else "?" for character in joined)


def _measurement(
    trial: Trial,
    outcome: ProcessResult,
    others: float,
    unwaited: Unwaited | None,
    counts: dict[str, int],
) -> Measurement:
    return Measurement(
        cores=trial.cores,
        size=trial.size,
        seconds=outcome.seconds,
        user_seconds=outcome.user_seconds,
        system_seconds=outcome.system_seconds,
        peak_memory=outcome.peak_memory,
        others=others,
        unwaited=unwaited,
        counters=counts,
    )


_STAT = Path("/proc/stat")
# Fields of a "cpu" line that count as busy, after the name (proc_stat(5)): user, nice, system, irq,
# softirq, and the time that the hypervisor gave to other guests (steal).
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)


def busy_seconds(cpus: CpuSet, stat: Path = _STAT) -> float:
    """Return the seconds for which `cpus` have been busy since boot, summed over them."""
    ticks = 0
    for line in stat.read_text().splitlines():
        name, *fields = line.split()
        number = name.removeprefix("cpu")
        if name.startswith("cpu") and number.isdigit() and int(number) in cpus:
            ticks += sum(int(fields[index]) for index in _BUSY_FIELDS if index < len(fields))
    return ticks / os.sysconf("SC_CLK_TCK")


def share_of_others(busy: float, own: float, seconds: float, cpus: CpuSet) -> float:
    """Return the fraction of the CPUs' time that other programs took, from 0 to 1.

    Args:
        busy: Increase of `busy_seconds` during the run.
        own: CPU time of the run itself, in seconds.
        seconds: Wall time of the run.
        cpus: CPUs of the run.
    """
    return min(1.0, max(0.0, busy - own) / (seconds * len(cpus)))
