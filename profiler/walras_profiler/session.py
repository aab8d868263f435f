"""One profile from beginning to end: check the request, run its campaign, fit, judge."""

import os
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from walras.diagnosis import diagnose
from walras.profile import fit_profile
from walras.sizes import WHOLE, Size, parse_sizes
from walras_agent.local.placement import PlacementError
from walras_agent.topology import Topology
from walras_profiler.campaign import (
    MeasurementError,
    Observer,
    Runner,
    Trial,
    default_core_counts,
    disturbance_of,
    plan_trials,
    run_campaign,
    samples_of,
)
from walras_profiler.command import Template, check_program
from walras_profiler.commands import command_runner
from walras_profiler.container import ContainerError, container_runner
from walras_profiler.report import Report
from walras_profiler.sampling import SamplingError, check_source

_COUNTS = re.compile(r"\s*\d{1,6}\s*(,\s*\d{1,6}\s*)*")


class RequestError(Exception):
    """The request cannot work; the message is one line: what is wrong and the way out."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asks for.

    Attributes:
        argv: The words of the command template.
        cores: Core counts as written ("1,2,4"); None for `default_core_counts`.
        sizes: Data sizes as written ("10%,20%"); None for all of the data.
        repeats: Runs of each core count and size.
        data: Data to sample.
        image: Container image; None runs the command here.
        network: The container's network; None for no network.
        pin: How to hold runs to their cores; None for "auto".
        seed: Seed of the order of runs and of the samples.
        timeout: Seconds that one run may take.
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
class Plan:
    """A checked request: what to run, where, and in which order."""

    request: Request
    template: Template
    topology: Topology
    trials: tuple[Trial, ...]


class Watcher(Protocol):
    """Is told how a session goes."""

    def begin(self, runner: Runner, runs: int) -> AbstractContextManager[Observer]:
        """Called once before `runs` runs; gives what is called at each of them."""


def prepare(request: Request, topology: Topology) -> Plan:
    """Check everything that can be checked before anything is run.

    Raises:
        RequestError: Bad input.
        MeasurementError: The machine offers one core only.
    """
    try:
        cores = core_counts(request.cores, len(topology.cores()))
        sizes = parse_sizes(request.sizes) if request.sizes is not None else ()
        template = Template(request.argv)
        _check_target(request)
        _check_command(request, template, sizes)
    except (ValueError, SamplingError) as error:
        raise RequestError(str(error)) from error
    trials = plan_trials(cores, sizes or (WHOLE,), request.repeats, request.seed)
    return Plan(request, template, topology, trials)


def carry_out(plan: Plan, watcher: Watcher) -> Report:
    """Make all runs of a plan, fit their times and judge the fit.

    Raises:
        MeasurementError: A run failed, or runs cannot be made here.
    """
    try:
        with _open_runner(plan) as runner, watcher.begin(runner, len(plan.trials) + 1) as observe:
            measurements = run_campaign(runner, plan.trials, observe)
        samples = samples_of(measurements)
        fit = fit_profile(samples)
    except (PlacementError, ContainerError, SamplingError, ValueError) as error:
        raise MeasurementError(str(error)) from error
    return Report(measurements, fit, diagnose(samples, fit, disturbance_of(measurements)))


def core_counts(text: str | None, machine: int) -> tuple[int, ...]:
    """The core counts to measure, ascending.

    Args:
        text: As written, or None for the default.
        machine: Cores that this process may use.

    Raises:
        MeasurementError: One core only, which shows no speedup.
        ValueError: Not a list of counts, without 1, only 1, or more than the machine has.
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
            f"--cores {text}: give 1 and at least one more, speedup is relative to one core"
        )
    if counts[-1] > machine:
        raise ValueError(f"--cores {text}: {counts[-1]} cores wanted, {machine} are usable here")
    return tuple(counts)


def _check_target(request: Request) -> None:
    """Refuse options that belong to containers on a command, and the other way round."""
    if request.image is None and request.network is not None:
        raise ValueError("--network: only containers have one, give --image too")
    if request.image is not None and request.pin is not None:
        raise ValueError("--pin: containers are held by Docker's own cpuset, leave it out")


def _check_command(request: Request, template: Template, sizes: tuple[Size, ...]) -> None:
    runs_images_own = request.image is not None and not request.argv
    if sizes or request.data or not runs_images_own:
        template.check(sizes, has_data=request.data is not None)
    if request.data is not None:
        check_source(request.data)
    if request.image is None:
        check_program(request.argv, os.environ, Path.cwd())


def _open_runner(plan: Plan) -> AbstractContextManager[Runner]:
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
