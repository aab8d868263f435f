"""Effects: profiles jobs that come without a speedup, before a run or beside it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from walras_agent.local.placement import PlacementError
from walras_api.market_job import full_size
from walras_cli.local.measure import (
    HeldUpError,
    Measured,
    Measurements,
    Patience,
    assumption,
    measure,
    runs_needed,
)
from walras_cli.output import say
from walras_profiler.campaign import MeasurementError
from walras_profiler.sampling import SamplingError
from walras_service.failures import Failure

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from walras_agent.topology import Topology
    from walras_cli.local.documents import LocalJob, LocalMarket
    from walras_cli.local.host import Pin, SoldCpus
    from walras_profiler.campaign import Measurement, Trial, TrialObserver


def profile_missing(
    market: LocalMarket, sold: SoldCpus, pin: Pin, console: Console
) -> Measurements:
    """Profile the jobs that come without a speedup, one after the other on an idle machine."""
    missing = [job for job in market.jobs if job.fraction is None]
    profiled, patience = Measurements(), Patience()
    if not missing:
        return profiled
    if len(sold.topology.cores()) < 2:
        console.print(
            "walras: this machine sells only one core, so speedups are assumed, not measured",
            highlight=False,
        )
        return profiled
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        for job in missing:
            if not console.is_terminal:
                console.print(f"profiling {job.title} on parts of its data", highlight=False)
            task = bar.add_task(f"profiling {job.title}", total=runs_needed(job, sold.topology))
            try:
                measured = measure(
                    job,
                    sold.topology,
                    pin,
                    _shown_by(bar, task),
                    lambda text: say(console, text),
                    patience,
                )
            except HeldUpError as error:
                profiled.held_up[job.key] = str(error)
                way_out = "keep them off the machine meanwhile, or set spec.parallelFraction"
                say(console, assumption(job.title, f"{error}; {way_out}"))
                continue
            except (MeasurementError, SamplingError, ValueError) as error:
                raise Failure(f"{job.origin}: spec.command: profiling at {error}") from error
            profiled.made.append(measured)
            if not measured.doubts:
                fraction = measured.fit.fraction_at(full_size(job.spec.data))
                say(console, f"profiled {job.title}: parallel fraction {fraction:.3f}")
    return profiled


def _shown_by(bar: Progress, task: TaskID) -> TrialObserver:
    """Show the runs of a job's campaigns; each campaign begins anew, with its warm-up."""

    def show(trial: Trial, measurement: Measurement | None) -> None:
        if measurement is not None:
            bar.advance(task)
        elif not trial.repeat:
            bar.reset(task)

    return show


_UNMEASURED = (
    *(HeldUpError, MeasurementError, PlacementError, SamplingError),
    *(ValueError, OSError),
)


@dataclass(slots=True)
class BackgroundProfiling:
    """A measurement going on beside the run, and its sentences that were not passed on yet."""

    thread: threading.Thread
    messages: SimpleQueue[str] = field(default_factory=SimpleQueue)
    result: Measured | None = None
    problem: str = ""

    @classmethod
    def of(cls, job: LocalJob, topology: Topology, pin: Pin) -> BackgroundProfiling:
        """Start to measure a job on some CPUs."""
        profiling = cls(threading.Thread(daemon=True))

        def work() -> None:
            try:
                profiling.result = measure(
                    job,
                    topology,
                    pin,
                    lambda _trial, _measured: None,
                    profiling.messages.put,
                    Patience(),
                )
            except _UNMEASURED as error:
                profiling.problem = str(error)

        profiling.thread = threading.Thread(target=work, name=f"profile-{job.key}", daemon=True)
        profiling.thread.start()
        return profiling
