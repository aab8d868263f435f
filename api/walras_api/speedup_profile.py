"""SpeedupProfile: how a program speeds up; `speedup_profile_status` has what it reports."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field

from walras_api.contract import MOST_REPEATS
from walras_api.fields import (
    Bytes,
    Fraction,
    Name,
    Portion,
    PositiveDecimal,
    PositiveInt,
    Text,
    Unique,
)
from walras_api.model import Model, Resource, Rule

if TYPE_CHECKING:
    from walras.speedup.diagnosis import Finding
    from walras.speedup.profile import Sample, SpeedupFit

MOST_RUN_TIMES = 256
"""Core counts and data sizes together of which a SpeedupProfile has run times."""

MOST_PENALTIES = 256
"""Programs beside which a SpeedupProfile says what its own loses."""


class ProfileMeasurement(Model):
    """The run times of one program at one core count and one data size.

    Any other field is a hardware counter that the machine has: the median over repeats.

    Attributes:
        cores: Core count.
        data_size: Fraction of the data as ``10%``, or size of the data as a number.
        seconds: Wall-clock time of each repeat, in seconds, without what other programs on a busy
            machine added to it.
        error: Relative standard error of these times that repeats do not show; 0 if not given.
        user_seconds: Median CPU time in user mode, in seconds.
        system_seconds: Median CPU time in the kernel, in seconds.
        peak_memory: Largest memory use of all repeats.
    """

    model_config = ConfigDict(extra="allow")

    cores: PositiveInt
    data_size: Text = "100%"
    seconds: Annotated[list[PositiveDecimal], Field(min_length=1, max_length=MOST_REPEATS)]
    error: PositiveDecimal | None = None
    user_seconds: Text | None = None
    system_seconds: Text | None = None
    peak_memory: Bytes | None = None


class ProfileSampling(Model):
    """The core counts and data sizes at which a program is, or was, sampled.

    Attributes:
        cores: Core counts.
        data_sizes: Fractions of the data as ``10%``, or sizes as numbers.
        repeats: Number of runs, or samples, at each core count and data size.
    """

    cores: Annotated[list[PositiveInt], Field(min_length=1, max_length=MOST_RUN_TIMES)]
    data_sizes: Annotated[list[Text], Field(min_length=1, max_length=100)] = Field(default=["100%"])
    repeats: PositiveInt = 3


class Penalty(Model):
    """The throughput that a program loses beside another program.

    Attributes:
        profile: Name of the other program's SpeedupProfile, in the same namespace.
        penalty: 1 - throughput together / throughput alone.
    """

    profile: Name
    penalty: Portion


class SpeedupProfileSpec(Model):
    """How a program speeds up with cores: measured run times, or a known parallel fraction.

    Measurements are part of the spec because ``kubectl apply`` drops a status; what follows from
    them is always computed again.

    Attributes:
        sampling: Core counts and data sizes to sample, or that were sampled.
        measurements: Measured run times.
        parallel_fraction: Parallel fraction F, if it is known without measurements.
        memory_bandwidth: Memory bandwidth of the program when it runs alone, in gigabytes (10**9
            bytes) per second.
        penalties: Throughput that the program was measured to lose beside programs of other
            profiles in its namespace.
    """

    RULES = (
        Rule(
            "has both measurements and parallelFraction; keep one of them",
            "!(has(self.measurements) && has(self.parallelFraction))",
            lambda spec: spec.measurements is None or spec.parallel_fraction is None,
        ),
    )

    sampling: ProfileSampling | None = None
    measurements: Annotated[list[ProfileMeasurement], Field(max_length=MOST_RUN_TIMES)] | None = (
        None
    )
    parallel_fraction: Fraction | None = None
    memory_bandwidth: PositiveDecimal | None = None
    penalties: Annotated[
        list[Penalty], Field(max_length=MOST_PENALTIES), Unique("penalties beside", key="profile")
    ] = Field(default_factory=list)


class SpeedupProfile(Resource):
    """How a program speeds up with cores: measured run times, or a known parallel fraction.

    What follows from measurements is computed once, by modules (and NumPy) that programs which only
    read documents do not load.
    """

    kind: Literal["SpeedupProfile"]
    spec: SpeedupProfileSpec

    @cached_property
    def fit(self) -> SpeedupFit:
        """The speedup that the measurements show.

        Raises:
            ValueError: There are no measurements, or they show no speedup; names the field.
        """
        return fit_of(self.spec)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Remarks on the quality of the measurements.

        Raises:
            ValueError: There are no measurements, or they show no speedup; names the field.
        """
        from walras.speedup.diagnosis import diagnose

        return diagnose(samples_of(self.spec), self.fit)

    @cached_property
    def refused(self) -> str:
        """Why F of the measurements is not used, as the end of a sentence; empty if it is used.

        Raises:
            ValueError: The measurements show no speedup; names the field.
        """
        if not self.spec.measurements:
            return ""
        from walras.speedup.diagnosis import NOT_MEASURED

        faults = [each.fault for each in self.findings if each.code in NOT_MEASURED]
        return " and ".join(faults)


def samples_of(spec: SpeedupProfileSpec) -> tuple[Sample, ...]:
    """Return the measurements as samples to fit.

    Raises:
        ValueError: A data size is invalid; names the field.
    """
    from walras.speedup.profile import Sample
    from walras.speedup.sizes import DataSize

    samples = []
    for index, each in enumerate(spec.measurements or ()):
        try:
            size = float(DataSize.parse(each.data_size).value)
        except ValueError as error:
            raise ValueError(f"spec.measurements[{index}].dataSize: {error}") from error
        seconds = tuple(map(float, each.seconds))
        samples.append(Sample(each.cores, size, seconds, float(each.error or 0)))
    return tuple(samples)


def fit_of(spec: SpeedupProfileSpec) -> SpeedupFit:
    """Return the speedup that the measurements show.

    Raises:
        ValueError: There are no measurements, or they show no speedup; names the field.
    """
    if not spec.measurements:
        raise ValueError(
            "spec: has neither measurements nor parallelFraction; add one, or have it measured"
        )
    from walras.speedup.profile import fit_profile

    samples = samples_of(spec)
    try:
        return fit_profile(samples)
    except (ValueError, ArithmeticError) as error:
        raise ValueError(f"spec.measurements: {error}") from error
