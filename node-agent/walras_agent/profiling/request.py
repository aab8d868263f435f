"""Values: what is to be measured, and what came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Source = Literal["instructions", "cpuTime", "file", "http"]
"""What can be counted as progress."""

Purpose = Literal["Speedup", "Progress"]
"""Whether cores are varied, or only progress is counted on all of them."""

State = Literal["Running", "Complete", "Expired", "Failed", "Cancelled"]


@dataclass(frozen=True, slots=True)
class FileCounter:
    """A counter that the job keeps in a file.

    Attributes:
        path: Inside its container, from the root.
    """

    path: str


@dataclass(frozen=True, slots=True)
class HttpCounter:
    """A counter that the job serves.

    Attributes:
        address: The pod's IP address.
        port: Where it listens.
        path: Of the page.
        metric: Name of the counter in Prometheus's text format; None for a page with one number.
    """

    address: str
    port: int
    path: str = "/"
    metric: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A measurement to make.

    Attributes:
        id: Another one is another measurement; one that has ended is not made again.
        pod: UID of the pod.
        purpose: What it is for.
        cores: Core counts to measure at; one core is always among them, since speedup is relative
            to it. None for powers of two up to all whole cores that the pod holds.
        sample_seconds: How long each sample takes.
        repeats: Samples at each core count.
        lease_seconds: The measurement ends by itself so long after the last renewal.
        renewals: Grows with every renewal.
        progress: The job's own counter; None to count instructions, or else CPU time.
    """

    id: str
    pod: str
    purpose: Purpose = "Speedup"
    cores: tuple[int, ...] | None = None
    sample_seconds: float = 2.0
    repeats: int = 3
    lease_seconds: float = 120.0
    renewals: int = 0
    progress: FileCounter | HttpCounter | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """What was counted in one stretch of time.

    Attributes:
        cores: That the pod used.
        seconds: How long.
        progress: How far the counter moved, above 0.
        memory_bytes: That went between caches and memory; None where that is not counted.
    """

    cores: int
    seconds: float
    progress: float
    memory_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """The parallel fraction that samples show.

    Attributes:
        by_cores: Core count to F(x), raw Karp-Flatt values.
        mean: Over core counts.
        variance: Over core counts; low where Amdahl's law fits.
        warnings: What is doubtful about it, for people.
    """

    by_cores: Mapping[int, float]
    mean: float
    variance: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """How a measurement goes, or went.

    Attributes:
        id: Of the request.
        pod: UID.
        state: ``Complete`` when all samples were taken; ``Expired`` with its lease; ``Failed``;
            ``Cancelled`` when the request was withdrawn.
        reason: Why it is not complete, for people.
        source: What was counted; None before it is known.
        warnings: What the source cannot see, and what is doubtful about the result.
        samples: Those taken, in their order.
        planned: How many samples there are to be.
        fit: None while the measurement runs, and without samples on one core and on more.
        memory_bandwidth: Bytes a second on the most cores measured; None where not counted.
    """

    id: str
    pod: str
    state: State
    reason: str = ""
    source: Source | None = None
    warnings: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()
    planned: int = 0
    fit: Fit | None = None
    memory_bandwidth: float | None = None
