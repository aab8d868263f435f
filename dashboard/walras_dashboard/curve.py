"""Pure: how a job speeds up with cores, as the market predicts it and as it was measured."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from walras.speedup.amdahls_law import speedup
from walras.speedup.rates import Progress, rate_on_one_core
from walras_api.speedup_profile import samples_of
from walras_api.speedup_profile_status import SpeedupProfileStatus
from walras_dashboard.models import Curve, CurvePoint, MeasuredPoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.speedup.profile import Sample
    from walras_api.speedup_profile import SpeedupProfile
    from walras_api.speedup_profile_status import OnlineMeasurement

LEAST_CORES = 8
MOST_POINTS = 64


def curve_of(
    fraction: float | None, held: Iterable[float], profile: SpeedupProfile | None
) -> Curve:
    """Return the curve of a job, at least to its largest count of cores.

    Args:
        fraction: Parallel fraction that it bids with; None if there is none.
        held: Cores that its pods hold.
        profile: Its measurements; None if it has none.
    """
    measured = [] if profile is None else measured_points(profile)
    most = max([LEAST_CORES, *(2 * each for each in held), *(each.cores for each in measured)])
    predicted = (
        []
        if fraction is None
        else [
            CurvePoint(cores=cores, speedup=speedup(cores, fraction)) for cores in _steps(int(most))
        ]
    )
    return Curve(fraction=fraction, predicted=predicted, measured=measured)


def _steps(most: int) -> Sequence[int]:
    """Return counts of cores from one on, with wider steps where there are very many."""
    step = -(-most // MOST_POINTS)
    return sorted({1, most, *range(step, most + 1, step)})


def measured_points(profile: SpeedupProfile) -> list[MeasuredPoint]:
    """Return the measured speedups of a program; none where nothing was measured on one core."""
    try:
        of_times = _of_times(samples_of(profile.spec))
    except ValueError:
        of_times = {}
    speedups = of_times or _of_rates(profile.status)
    return [
        MeasuredPoint(cores=cores, speedup=fmean(each), low=min(each), high=max(each))
        for cores, each in sorted(speedups.items())
    ]


def _of_times(samples: Sequence[Sample]) -> dict[int, list[float]]:
    """Return speedups by cores from run times, on the largest data that ran on one core."""
    sizes = [each.size for each in samples if each.cores == 1]
    if not sizes:
        return {}
    whole = [each for each in samples if each.size == max(sizes)]
    alone = fmean(second for each in whole if each.cores == 1 for second in each.seconds)
    speedups: dict[int, list[float]] = {}
    for each in whole:
        speedups.setdefault(each.cores, []).extend(alone / second for second in each.seconds)
    return speedups


def _of_rates(document: Mapping[str, Any] | None) -> dict[int, list[float]]:
    """Return speedups by cores from samples of running pods, each against its own pod alone."""
    speedups: dict[int, list[float]] = {}
    for measurement in _measurements(document):
        try:
            samples = [
                Progress(each.cores, float(each.seconds), float(each.progress))
                for each in measurement.samples
            ]
            alone = rate_on_one_core(samples)
        except ValueError:
            continue
        for each in samples:
            speedups.setdefault(each.cores, []).append(each.rate / alone)
    return speedups


def _measurements(document: Mapping[str, Any] | None) -> Sequence[OnlineMeasurement]:
    try:
        status = SpeedupProfileStatus.read(document or {})
    except ValidationError:
        return ()
    return () if status.online is None else status.online.measurements
