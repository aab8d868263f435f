"""Pure: from samples to the parallel fraction, by the functions of the core."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from walras_agent.profiling.request import Fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_agent.profiling.request import Sample


def fit(samples: Sequence[Sample]) -> Fit | None:
    """The parallel fraction, as `walras profile` finds it from times.

    Returns:
        None without samples on one core and on more.
    """
    counts = {sample.cores for sample in samples}
    if len(counts) < 2 or 1 not in counts:
        return None
    # These bring NumPy with them, some 13 MiB that an agent which never measures can do without.
    from walras.diagnosis import diagnose
    from walras.profile import fit_profile
    from walras.rates import TELLING, Progress, times_of

    times = times_of([Progress(each.cores, each.seconds, each.progress) for each in samples])
    found = fit_profile(times)
    findings = (each for each in diagnose(times, found) if each.code in TELLING)
    return Fit(
        dict(found.by_cores),
        found.sizes[0].mean,
        found.sizes[0].variance,
        tuple(each.message for each in findings),
    )


def memory_bandwidth(samples: Sequence[Sample]) -> float | None:
    """Bytes a second on the most cores measured; None where they were not counted."""
    most = max((sample.cores for sample in samples), default=0)
    known = [
        sample.memory_bytes / sample.seconds
        for sample in samples
        if sample.cores == most and sample.memory_bytes is not None
    ]
    return fmean(known) if known else None
