"""Speedups of jobs that come without one: short runs on parts of their data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras.diagnosis import diagnose
from walras.profile import fit_profile
from walras_profiler.campaign import (
    default_core_counts,
    disturbance_of,
    plan_trials,
    run_campaign,
    samples_of,
)
from walras_profiler.command_runner import command_runner
from walras_profiler.document import profile_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.diagnosis import Finding
    from walras.profile import SpeedupFit
    from walras_agent.topology import Topology
    from walras_cli.local.documents import LocalJob
    from walras_cli.local.host import Pin
    from walras_profiler.campaign import Measurement, TrialObserver
    from walras_profiler.document import Document

REPEATS = 3
SEED = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured speedup: the runs, the fit, and what the fit is worth."""

    job: LocalJob
    measurements: Sequence[Measurement]
    fit: SpeedupFit
    findings: Sequence[Finding]

    @property
    def document(self) -> Document:
        """The SpeedupProfile document, named as the job."""
        return profile_document(
            self.job.name, self.job.namespace, self.measurements, self.fit, self.findings
        )


def runs_needed(job: LocalJob, topology: Topology) -> int:
    """Return how many runs `measure` makes, the warm-up included."""
    return len(default_core_counts(len(topology.cores()))) * len(job.samples) * REPEATS + 1


def measure(job: LocalJob, topology: Topology, pin: Pin, observe: TrialObserver) -> Measured:
    """Profile a job on the cores of ``topology``, of which there must be two or more.

    Raises:
        MeasurementError: a run failed.
        PlacementError: runs cannot be held to cores as demanded.
        SamplingError: its data cannot be sampled.
    """
    counts = default_core_counts(len(topology.cores()))
    trials = plan_trials(counts, job.samples, REPEATS, SEED)
    with command_runner(
        job.template,
        topology,
        data=job.data,
        environment=job.environment,
        cwd=job.cwd,
        prefer=pin,
        seed=SEED,
    ) as runner:
        measurements = run_campaign(runner, trials, observe)
    samples = samples_of(measurements)
    fit = fit_profile(samples)
    return Measured(job, measurements, fit, diagnose(samples, fit, disturbance_of(measurements)))
