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
    """The times of one program at one core count and one data size.

    Any other field is a hardware counter, whatever the machine has: a median.

    Attributes:
        cores: core count.
        data_size: part of the data as ``10%``, or their size as a number.
        seconds: wall time of each repeat.
        user_seconds: CPU time in user mode, median.
        system_seconds: CPU time in the kernel, median.
        peak_memory: the largest of all repeats.
    """

    model_config = ConfigDict(extra="allow")

    cores: PositiveInt
    data_size: Text = "100%"
    seconds: Annotated[list[PositiveDecimal], Field(min_length=1, max_length=1000)]
    user_seconds: Text | None = None
    system_seconds: Text | None = None
    peak_memory: Bytes | None = None


class ProfileSampling(Model):
    """What to sample, or what was sampled.

    Attributes:
        cores: core counts.
        data_sizes: parts of the data as ``10%``, or their sizes as numbers.
        repeats: runs, or samples, at each core count and data size.
    """

    cores: Annotated[list[PositiveInt], Field(min_length=1, max_length=1000)]
    data_sizes: Annotated[list[Text], Field(min_length=1, max_length=100)] = Field(default=["100%"])
    repeats: PositiveInt = 3


class Penalty(Model):
    """What a program loses beside another.

    Attributes:
        profile: of the other, in the same namespace.
        penalty: 1 - throughput together / throughput alone.
    """

    profile: Name
    penalty: Portion


class SpeedupProfileSpec(Model):
    """How much a program speeds up with cores: measured times, or a fraction known beforehand.

    Measurements stand in the spec because ``kubectl apply`` drops a status; what follows from
    them is always computed again.

    Attributes:
        sampling: what to sample, or what was sampled.
        measurements: times.
        parallel_fraction: F, if it is known without measurements.
        memory_bandwidth: that it draws when it runs alone, gigabytes (10**9) a second.
        penalties: that were measured beside programs of other profiles in its namespace.
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
    """How a program speeds up with cores: measurements, or a parallel fraction known beforehand.

    What follows from measurements is computed once, by modules (and NumPy) that those who only read
    documents have no use for.
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
