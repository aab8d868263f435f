"""Carries out a profile: checks the request, makes the runs, fits and judges their times."""

import os
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from walras.speedup.diagnosis import diagnose
from walras.speedup.profile import fit_profile
from walras.speedup.sizes import WHOLE, DataSize, parse_sizes
from walras_agent.local.placement import PlacementError
from walras_agent.topology import Topology
from walras_api.speedup_profile import MOST_RUN_TIMES
from walras_profiler.campaign import (
    MeasurementError,
    Runner,
    Trial,
    TrialObserver,
    default_core_counts,
    disturbance_of,
    plan_trials,
    run_campaign,
    samples_of,
)
from walras_profiler.command_runner import command_runner
from walras_profiler.container_runner import ContainerError, container_runner
from walras_profiler.correction import without_waiting
from walras_profiler.profile_tables import ProfileReport
from walras_profiler.sampling import SamplingError, check_source
from walras_profiler.template import Template, check_program

_COUNTS = re.compile(r"\s*\d{1,6}\s*(,\s*\d{1,6}\s*)*")


class RequestError(Exception):
    """The request is invalid; the message is one line with the cause and the way out."""


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """Request of a user for a profile.

    Attributes:
        cores: Core counts such as "1,2,4"; None for `default_core_counts`.
        sizes: Data sizes such as "10%,20%"; None for all of the data.
        repeats: Runs at each core count and data size.
        data: Data to sample; None for no data.
        image: Container image; None to run the command on this machine.
        network: Docker network mode of the container; None for no network.
        pin: Mechanism that holds runs to their cores; None for "auto".
        seed: Seed of the order of runs and of the samples.
        timeout: Longest duration of a run in seconds.
    """

    argv: tuple[str, ...]
    cores: str | None = None
    sizes: str | None = None
    repeats: int = 3
    data: Path | None = None
    image: str | None = None
    network: str | None = None
    pin: Literal["auto", "cgroup", "affinity"] | None = None
    seed: int = 0
    timeout: float = 3600.0


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """A valid request and the runs to make for it."""

    request: ProfileRequest
    template: Template
    topology: Topology
    trials: tuple[Trial, ...]


class SessionObserver(Protocol):
    """Observer of the progress of a profile."""

    def begin(self, runner: Runner, runs: int) -> AbstractContextManager[TrialObserver]:
        """Observe the start: called once before `runs` runs; yields the observer of each run."""


def prepare(request: ProfileRequest, topology: Topology) -> ProfilePlan:
    """Check a request and plan its runs; nothing is run.

    Raises:
        RequestError: The request is invalid.
        MeasurementError: The machine has only one usable core.
    """
    try:
        cores = core_counts(request.cores, len(topology.cores()))
        sizes = parse_sizes(request.sizes) if request.sizes is not None else ()
        template = Template(request.argv)
        _check_target(request)
        _check_command(request, template, sizes)
    except (ValueError, SamplingError) as error:
        raise RequestError(str(error)) from error
    if len(cores) * max(len(sizes), 1) > MOST_RUN_TIMES:
        raise RequestError(
            f"{len(cores)} core counts and {len(sizes)} sizes are more than the {MOST_RUN_TIMES} "
            f"pairs that a SpeedupProfile has; name fewer by --cores or --sizes"
        )
    trials = plan_trials(cores, sizes or (WHOLE,), request.repeats, request.seed)
    return ProfilePlan(request, template, topology, trials)


def carry_out(plan: ProfilePlan, observer: SessionObserver) -> ProfileReport:
    """Make all runs of a plan, fit their times and judge the fit.

    Raises:
        MeasurementError: A run failed, or runs cannot be made on this machine.
    """
    try:
        with _open_runner(plan) as runner, observer.begin(runner, len(plan.trials) + 1) as observe:
            measurements = without_waiting(run_campaign(runner, plan.trials, observe))
        samples = samples_of(measurements)
        fit = fit_profile(samples)
    except (PlacementError, ContainerError, SamplingError, ValueError) as error:
        raise MeasurementError(str(error)) from error
    return ProfileReport(measurements, fit, diagnose(samples, fit, disturbance_of(measurements)))


def core_counts(text: str | None, machine: int) -> tuple[int, ...]:
    """Return the core counts to measure, ascending.

    Args:
        text: Core counts such as "1,2,4"; None for the default.
        machine: Number of cores that this process may use.

    Raises:
        MeasurementError: The machine has only one usable core, which shows no speedup.
        ValueError: The text is no list of counts, lacks 1 or has nothing else, or exceeds
            the machine.
    """
    if machine == 1:
        raise MeasurementError(
            "only one core is usable here, so no speedup can be measured: profile on a machine "
            "(or in a cpuset) with two or more"
        )
    if text is None:
        return default_core_counts(machine)
    if not _COUNTS.fullmatch(text):
        raise ValueError(f"--cores {text!r}: write core counts as 1,2,4")
    counts = sorted({int(part) for part in text.split(",")})
    if counts[0] != 1 or len(counts) == 1:
        raise ValueError(
            f"--cores {text}: give 1 and at least one more: speedup is relative to one core"
        )
    if counts[-1] > machine:
        raise ValueError(f"--cores {text}: {counts[-1]} cores requested, {machine} are usable here")
    return tuple(counts)


def _check_target(request: ProfileRequest) -> None:
    """Check that container options come with an image, and others without one."""
    if request.image is None and request.network is not None:
        raise ValueError("--network: only for containers: give --image too")
    if request.image is not None and request.pin is not None:
        raise ValueError(
            "--pin: not for containers, which Docker holds by its cpuset: leave it out"
        )


def _check_command(
    request: ProfileRequest, template: Template, sizes: tuple[DataSize, ...]
) -> None:
    runs_images_own = request.image is not None and not request.argv
    if sizes or request.data or not runs_images_own:
        template.check(sizes, has_data=request.data is not None)
    if request.data is not None:
        check_source(request.data)
    if request.image is None:
        check_program(request.argv, os.environ, Path.cwd())


def _open_runner(plan: ProfilePlan) -> AbstractContextManager[Runner]:
    request = plan.request
    if request.image is not None:
        return container_runner(
            request.image,
            plan.template,
            plan.topology,
            data=request.data,
            network=request.network or "none",
            timeout=request.timeout,
            seed=request.seed,
        )
    return command_runner(
        plan.template,
        plan.topology,
        data=request.data,
        prefer=request.pin or "auto",
        timeout=request.timeout,
        seed=request.seed,
    )
