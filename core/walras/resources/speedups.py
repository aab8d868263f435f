"""What a SpeedupProfile says about a program's speedup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.profile import Sample, SpeedupFit, fit_profile
from walras.sizes import Size

if TYPE_CHECKING:
    from walras.resources.kinds import JobData, SpeedupProfileSpec


def samples_of(spec: SpeedupProfileSpec) -> tuple[Sample, ...]:
    """Return the measurements as the core fits them.

    Raises:
        ValueError: a data size that is none; names the field.
    """
    samples = []
    for index, each in enumerate(spec.measurements or ()):
        try:
            size = float(Size.parse(each.data_size).value)
        except ValueError as error:
            raise ValueError(f"spec.measurements[{index}].dataSize: {error}") from error
        samples.append(Sample(each.cores, size, tuple(map(float, each.seconds))))
    return tuple(samples)


def fit_of(spec: SpeedupProfileSpec) -> SpeedupFit:
    """Return the speedup that the measurements show.

    Raises:
        ValueError: there are none, or they show no speedup; names the field.
    """
    if not spec.measurements:
        raise ValueError(
            "spec: has neither measurements nor parallelFraction; add one, or have it measured"
        )
    samples = samples_of(spec)
    try:
        return fit_profile(samples)
    except (ValueError, ArithmeticError) as error:
        raise ValueError(f"spec.measurements: {error}") from error


def full_size(data: JobData) -> float:
    """Return all of a job's data, in the unit that samples of them are measured in."""
    return 1.0 if data.size is None else float(data.size)
