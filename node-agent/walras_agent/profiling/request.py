"""Pure: requests for measurements, and their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Source = Literal["instructions", "cpuTime", "file", "http"]
"""Kind of a counter of progress."""

Purpose = Literal["Speedup", "Progress"]
"""``Speedup`` varies the cores; ``Progress`` counts on all cores that the pod holds."""

State = Literal["Running", "Complete", "Expired", "Failed", "Cancelled"]
"""State of a measurement; all but ``Running`` are final."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """A job's own counter in a file.

    Attributes:
        path: Absolute path in the container.
    """

    path: str


@dataclass(frozen=True, slots=True)
class HttpSource:
    """A job's own counter on a page that it serves by HTTP.

    Attributes:
        address: IP address of the pod.
        port: Port that the job listens on.
        path: Path of the page.
        metric: Name of the counter in Prometheus's text format; None for a page with one number.
    """

    address: str
    port: int
    path: str = "/"
    metric: str | None = None


@dataclass(frozen=True, slots=True)
class MeasurementRequest:
    """Request for a measurement of one pod.

    Attributes:
        id: Identity of the measurement; one that has ended is not repeated.
        pod: UID of the pod.
        purpose: Whether to vary the cores.
        cores: Core counts to measure at; one core is always added, since speedup is relative to
            it. None for powers of two up to all whole cores that the pod holds.
        sample_seconds: Duration of a sample.
        repeats: Samples at each core count.
        lease_seconds: Time after the last renewal at which the measurement expires.
        renewals: Number of renewals so far.
        progress: Job's own counter; None to count instructions, or else CPU time.
    """

    id: str
    pod: str
    purpose: Purpose = "Speedup"
    cores: tuple[int, ...] | None = None
    sample_seconds: float = 2.0
    repeats: int = 3
    lease_seconds: float = 120.0
    renewals: int = 0
    progress: FileSource | HttpSource | None = None


@dataclass(frozen=True, slots=True)
class ProgressSample:
    """Progress of a pod on a number of cores.

    Attributes:
        cores: Cores that the pod was held to.
        seconds: Duration of the sample.
        progress: Increase of the counter, above 0.
        memory_bytes: Bytes moved between caches and memory; None where not counted.
        waited: Seconds by which the sample was longer, since the pod's threads waited for CPUs.
        error: Relative standard error of ``seconds`` that follows from that.
    """

    cores: int
    seconds: float
    progress: float
    memory_bytes: float | None = None
    waited: float = 0.0
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class Fit:
    """Parallel fraction fitted to samples.

    Attributes:
        by_cores: Core count to F(x), raw Karp-Flatt values.
        mean: Mean over core counts.
        variance: Variance over core counts; low where Amdahl's law fits.
        warnings: Messages about doubts in the fit.
    """

    by_cores: Mapping[int, float]
    mean: float
    variance: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasurementReport:
    """Progress or result of a measurement.

    Attributes:
        id: Identity of the request.
        pod: UID of the pod.
        state: ``Running``; ``Complete`` when all samples were taken; ``Expired`` with its lease;
            ``Failed``; ``Cancelled`` when the request was withdrawn.
        reason: Message why the measurement is not complete; empty if it is.
        source: Kind of the counter; None before it is known.
        warnings: Messages about what the counter cannot see, and about doubts in the result.
        samples: Samples taken so far, in their order.
        planned: Number of samples in all.
        fit: Fitted parallel fraction; None while the measurement runs, and without samples on one
            core and on more.
        memory_bandwidth: Bytes per second on the most cores measured; None where not counted.
    """

    id: str
    pod: str
    state: State
    reason: str = ""
    source: Source | None = None
    warnings: tuple[str, ...] = ()
    samples: tuple[ProgressSample, ...] = ()
    planned: int = 0
    fit: Fit | None = None
    memory_bandwidth: float | None = None
