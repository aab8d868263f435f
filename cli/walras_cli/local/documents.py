"""Files to a market: read, check everything that can be checked before anything is started."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walras.market import snapshot as core
from walras.market.admission import EntitlementError, admit
from walras.speedup.sizes import DataSize, check_sizes
from walras_api.assembly import entitlement_of
from walras_api.contract import MARKET_NAME
from walras_api.kinds import (
    AnyResource,
    EntitlementObject,
    JobData,
    Market,
    MarketJob,
    MarketSpec,
    SpeedupProfile,
)
from walras_api.market_job import full_size
from walras_api.parse import parse_resource
from walras_cli.documents import InputError, Located, read
from walras_profiler.sampling import SamplingError, check_source
from walras_profiler.template import Template, check_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from walras.speedup.profile import SpeedupFit
    from walras_api.kinds import MarketJobSpec

NODE = "localhost"
"""The name of the one node of a local market."""


@dataclass(frozen=True, slots=True)
class LocalJob:
    """A job to run on this machine.

    Attributes:
        namespace: Namespace of its MarketJob.
        name: Name of its MarketJob.
        origin: File and object that it was read from, for messages.
        folder: Folder of its file; relative paths in it start there.
        spec: Spec as written.
        fit: Speedup in its SpeedupProfile document; None if it has none.
        fraction: Parallel fraction in its documents; None if they give none.
    """

    namespace: str
    name: str
    origin: str
    folder: Path
    spec: MarketJobSpec
    fit: SpeedupFit | None
    fraction: float | None

    @property
    def id(self) -> tuple[str, str]:
        """Namespace and name of its MarketJob."""
        return self.namespace, self.name

    @property
    def key(self) -> str:
        """Name of the job's processes and cgroup: ``namespace.name``."""
        return f"{self.namespace}.{self.name}"

    @property
    def title(self) -> str:
        """The job's name for people: ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def template(self) -> Template:
        """Its command, with placeholders."""
        return Template(tuple(self.spec.command or ()))

    @property
    def cwd(self) -> Path:
        """Working directory of its command."""
        return (self.folder / self.spec.working_dir).resolve()

    @property
    def data(self) -> Path | None:
        """Its data, if it has any that are files."""
        path = self.spec.data.path
        return None if path is None else (self.folder / Path(path).expanduser()).resolve()

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its command, before what the run adds."""
        return {**os.environ, **{entry.name: entry.value for entry in self.spec.env}}

    def part(self, share: DataSize) -> DataSize:
        """Return a share of its data, as a number if its data are counted."""
        full = self.spec.data.size
        if full is None or not share.relative:
            return share
        return DataSize((full * share.value).normalize(), relative=False)

    @property
    def samples(self) -> tuple[DataSize, ...]:
        """The parts of its data to profile on."""
        return tuple(sorted(self.part(DataSize.parse(text)) for text in self.spec.data.samples))


@dataclass(frozen=True, slots=True)
class LocalMarket:
    """Everything that a local run's documents say, and the documents themselves.

    Attributes:
        entitlements: Entitlements of the documents.
        jobs: Jobs to run.
        rules: Spec of the Market, or its defaults.
        resources: All objects of the documents.
        profiles: SpeedupProfiles as they were written, by namespace and name.
    """

    entitlements: tuple[core.Entitlement, ...]
    jobs: tuple[LocalJob, ...]
    rules: MarketSpec
    resources: tuple[AnyResource, ...] = ()
    profiles: Mapping[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    @property
    def policy(self) -> core.Policy:
        """The rules as the core takes them."""
        cores = self.rules.cores
        return core.Policy(cores=cores.mechanism, hysteresis=float(cores.hysteresis))


def load(files: Iterable[Path]) -> LocalMarket:
    """Read the documents of a local run.

    Raises:
        InputError: Lists all problems: file, object, field, and the way out.
    """
    objects: list[Located[AnyResource]] = read(files, parse_resource)
    problems: list[str] = []
    market = _assemble(objects, problems)
    problems += _check_entitlements(market, objects)
    if not problems and not market.jobs:
        names = ", ".join(str(file) for file in files)
        problems.append(f"{names}: contains no MarketJob; add one with a command")
    if problems:
        raise InputError(problems)
    return market


def _assemble(objects: Sequence[Located[AnyResource]], problems: list[str]) -> LocalMarket:
    profiles = {
        (each.resource.metadata.namespace, each.resource.metadata.name): each
        for each in objects
        if isinstance(each.resource, SpeedupProfile)
    }
    jobs = []
    entitlements = []
    rules = MarketSpec()
    for each in objects:
        resource = each.resource
        if isinstance(resource, EntitlementObject):
            entitlements.append(entitlement_of(resource))
        elif isinstance(resource, Market):
            rules = resource.spec
            if resource.metadata.name != MARKET_NAME:
                problems.append(
                    f"{each.origin}: metadata.name: only the Market named {MARKET_NAME} is used; "
                    "rename it"
                )
        elif isinstance(resource, MarketJob):
            try:
                jobs.append(_job(each, resource, profiles))
            except OSError as error:
                problems.append(f"{each.origin}: {error.filename}: {error.strerror}")
            except (ValueError, RuntimeError) as error:  # RuntimeError: no such home, or links
                problems.append(f"{each.origin}: {error}")
    resources = tuple(each.resource for each in objects)
    written = {key: dict(each.document) for key, each in profiles.items()}
    return LocalMarket(tuple(entitlements), tuple(jobs), rules, resources, written)


def _job(
    located: Located[AnyResource],
    resource: MarketJob,
    profiles: Mapping[tuple[str, str], Located[AnyResource]],
) -> LocalJob:
    """Check one job and find its speedup.

    Raises:
        ValueError: the field, what is wrong with it, and the way out.
    """
    spec = resource.spec
    namespace, name = resource.metadata.namespace, resource.metadata.name
    if spec.command is None:
        raise ValueError("spec.command: is missing; a local run needs a program to start")
    profile = profiles.get((namespace, resource.profile_name))
    if spec.profile is not None and profile is None:
        raise ValueError(
            f"spec.profile: there is no SpeedupProfile {namespace}/{spec.profile} in the files; "
            f"add it, or remove the field to measure the job"
        )
    fit, fraction = None, None
    if spec.parallel_fraction is not None:
        fraction = float(spec.parallel_fraction)
    elif profile is not None:
        fit, fraction = _speedup(profile, spec.data)
    job = LocalJob(namespace, name, located.origin, located.file.parent, spec, fit, fraction)
    _check_command(job)
    return job


def _speedup(
    located: Located[AnyResource], data: JobData
) -> tuple[SpeedupFit | None, float | None]:
    """Return what a SpeedupProfile says: a fit of its measurements, or just a fraction.

    Nothing if its measurements are refused, so that the job is measured anew.
    """
    resource = located.resource
    if not isinstance(resource, SpeedupProfile):
        return None, None
    if resource.spec.parallel_fraction is not None:
        return None, float(resource.spec.parallel_fraction)
    try:
        fit = resource.fit
        if resource.refused:
            return None, None
    except ValueError as error:
        raise ValueError(f"spec.profile: cannot be used: {located.origin}: {error}") from error
    return fit, fit.fraction_at(full_size(data))


def _check_command(job: LocalJob) -> None:
    """Refuse what cannot be run.

    Raises:
        ValueError: the field, what is wrong with it, and the way out.
    """
    if not job.cwd.is_dir():
        raise ValueError(f"spec.workingDir: there is no folder {job.cwd}; create or correct it")
    try:
        check_program(job.template.argv, job.environment, job.cwd)
    except ValueError as error:
        raise ValueError(f"spec.command: {error}; install it or correct the first word") from error
    try:
        job.template.check_spelling()
    except ValueError as error:
        raise ValueError(f"spec.command: {error}") from error
    _check_data(job)
    _check_samples(job)


def _check_data(job: LocalJob) -> None:
    """Refuse data without a placeholder for them, and the other way round."""
    used = job.template.placeholders
    if "data" in used and job.data is None:
        raise ValueError("spec.command: uses {data}; set spec.data.path to the path of the data")
    if "size" in used and job.spec.data.size is None:
        raise ValueError("spec.command: uses {size}; set spec.data.size to the full size")
    if job.data is not None:
        if "data" not in used:
            raise ValueError("spec.data.path: is not used; write {data} in spec.command")
        try:
            check_source(job.data)
        except SamplingError as error:
            raise ValueError(f"spec.data.path: {error}") from error


def _check_samples(job: LocalJob) -> None:
    """Refuse a job that has to be profiled and cannot be."""
    try:
        samples = job.samples
        check_sizes(samples)
    except ValueError as error:
        raise ValueError(f"spec.data.samples: {error}") from error
    if job.fraction is None and not job.template.placeholders & {
        "data",
        "size",
        "fraction",
        "percent",
    }:
        raise ValueError(
            "spec.command: cannot be profiled on part of its data; use {data}, {size}, {fraction} "
            "or {percent} in it, or set spec.parallelFraction or spec.profile"
        )


def _check_entitlements(
    market: LocalMarket, objects: Sequence[Located[AnyResource]]
) -> Iterator[str]:
    """Yield what the market's admission would object to, before anything runs."""
    origins = {
        (job.metadata.namespace, job.metadata.name): (each.origin, job.spec.entitlement)
        for each in objects
        if isinstance(job := each.resource, MarketJob)
    }
    jobs = tuple(
        core.Job(namespace, name, entitlement, NODE, fraction=1.0)
        for (namespace, name), (_, entitlement) in origins.items()
    )
    try:
        refused = admit(
            core.Snapshot(market.entitlements, (core.Node(NODE, cores=1),), jobs)
        ).refused
    except EntitlementError as error:
        origin = next(
            each.origin
            for each in objects
            if isinstance(each.resource, EntitlementObject)
            and each.resource.metadata.name == error.entitlement
        )
        yield f"{origin}: spec.parent: {error}"
        return
    for each in refused:
        origin, _ = origins[each.namespace, each.name]
        yield f"{origin}: spec.entitlement: {each.reason}"


@dataclass(slots=True)
class FileWatch:
    """Compares files with how they were when last asked; editors may replace them meanwhile."""

    files: Sequence[Path]
    _seen: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        self._seen = self._look()

    def changed(self) -> bool:
        """Whether any file is another than at the last call."""
        now = self._look()
        changed = now != self._seen
        self._seen = now
        return changed

    def _look(self) -> tuple[tuple[int, int, int], ...]:
        return tuple(_signature(file) for file in self.files)


def _signature(file: Path) -> tuple[int, int, int]:
    try:
        status = file.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)
