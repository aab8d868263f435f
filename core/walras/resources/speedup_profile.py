"""SpeedupProfile, field by field: how a program speeds up with cores."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field

from walras.resources.fields import (
    Bytes,
    Fraction,
    Name,
    Portion,
    PositiveDecimal,
    PositiveInt,
    Text,
    Unique,
)
from walras.resources.model import Model, Resource, Rule

if TYPE_CHECKING:
    from walras.diagnosis import Finding
    from walras.profile import SpeedupFit


class ProfileMeasurement(Model):
    """The run times of one program at one core count and one data size.

    Any other field is a hardware counter that the machine has: the median over repeats.

    Attributes:
        cores: Core count.
        data_size: Fraction of the data as ``10%``, or size of the data as a number.
        seconds: Wall-clock time of each repeat, in seconds.
        user_seconds: Median CPU time in user mode, in seconds.
        system_seconds: Median CPU time in the kernel, in seconds.
        peak_memory: Largest memory use of all repeats.
    """

    model_config = ConfigDict(extra="allow")

    cores: PositiveInt
    data_size: Text = "100%"
    seconds: Annotated[list[PositiveDecimal], Field(min_length=1, max_length=1000)]
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

    cores: Annotated[list[PositiveInt], Field(min_length=1, max_length=1000)]
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
    measurements: Annotated[list[ProfileMeasurement], Field(max_length=1000)] | None = None
    parallel_fraction: Fraction | None = None
    memory_bandwidth: PositiveDecimal | None = None
    penalties: Annotated[
        list[Penalty], Field(max_length=1000), Unique("penalties beside", key="profile")
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
            ValueError: there are none, or they show no speedup; names the field.
        """
        from walras.resources.speedups import fit_of

        return fit_of(self.spec)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What that is worth.

        Raises:
            ValueError: likewise.
        """
        from walras.diagnosis import diagnose
        from walras.resources.speedups import samples_of

        return diagnose(samples_of(self.spec), self.fit)
