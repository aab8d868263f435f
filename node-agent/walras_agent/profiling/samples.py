"""Pure: which samples a measurement takes, and what they show of the pod."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from walras_agent.profiling.request import Fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_agent.profiling.request import ProgressSample


def core_counts(requested: tuple[int, ...] | None, held: int) -> tuple[int, ...]:
    """Return the core counts to measure at, ascending.

    One core is always among them: speedup is relative to it, and the parallel fraction has no
    other zero (equation 3 of "Amdahl's Law in the Datacenter Era").

    Args:
        requested: Core counts of the request; None for powers of two up to `held`, and `held`.
        held: Whole cores that the pod holds.

    Raises:
        ValueError: The pod holds too few cores, or only one core is requested.
    """
    if held < 2:
        raise ValueError(
            f"the pod can have {held} whole cores of its own now, and speedup shows only on two or "
            "more: measure it when other pods need fewer"
        )
    if requested is None:
        powers = {1 << exponent for exponent in range(held.bit_length())}
        return tuple(sorted(powers | {held}))
    if max(requested) > held:
        raise ValueError(
            f"the pod holds {held} whole cores, and {max(requested)} are requested: request no "
            "more than it holds, or grant it more first"
        )
    if set(requested) == {1}:
        raise ValueError("only one core is requested: request another core count too")
    return tuple(sorted({1, *requested}))


def sample_order(counts: tuple[int, ...], repeats: int) -> tuple[int, ...]:
    """Return the core count of every sample: each repeat visits all of them, up and down in turn.

    What grows or shrinks steadily over the measurement, such as a job that gets faster as its
    caches fill, then affects all core counts of a pair of passes alike.
    """
    passes = (counts if turn % 2 == 0 else counts[::-1] for turn in range(repeats))
    return tuple(cores for each in passes for cores in each)


def fit_samples(samples: Sequence[ProgressSample]) -> Fit | None:
    """Fit the parallel fraction, as `walras profile` does from execution times.

    Returns:
        The fit; None without samples on one core and on more.
    """
    counts = {sample.cores for sample in samples}
    if len(counts) < 2 or 1 not in counts:
        return None
    # These import NumPy, some 13 MiB that an agent which never measures can do without.
    from walras.speedup.diagnosis import diagnose
    from walras.speedup.profile import fit_profile
    from walras.speedup.rates import RUNTIME_FINDINGS, Progress, samples_of_progress

    times = samples_of_progress(
        [Progress(each.cores, each.seconds, each.progress, each.error) for each in samples]
    )
    profile = fit_profile(times)
    findings = (each for each in diagnose(times, profile) if each.code in RUNTIME_FINDINGS)
    return Fit(
        dict(profile.by_cores),
        profile.sizes[0].mean,
        profile.sizes[0].variance,
        tuple(each.message for each in findings),
    )


def memory_bandwidth(samples: Sequence[ProgressSample]) -> float | None:
    """Return the bytes per second on the most cores measured; None if they were not counted."""
    most = max((sample.cores for sample in samples), default=0)
    rates = [
        sample.memory_bytes / (sample.seconds + sample.waited)
        for sample in samples
        if sample.cores == most and sample.memory_bytes is not None
    ]
    return fmean(rates) if rates else None
