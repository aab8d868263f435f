"""Findings on a fitted profile: each names a fault and the way out.

Section IV of "Amdahl's Law in the Datacenter Era" names the cases in which Karp-Flatt falls short:
overheads that grow with cores, too few tasks, data that are too small.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from walras.speedup.profile import Sample, SpeedupFit, merge_samples
from walras.speedup.time_model import MIN_SIZES_FOR_QUADRATIC

TRUSTED_SECONDS = 0.1
"""Shortest run to trust: shorter ones are mostly start-up, and scheduler ticks distort them."""

TOLERANCE = 0.05
"""Differences in F that count as noise: smaller ones move an allocation by less than a core
(section VI studies errors of 5 to 15 %)."""

UNCERTAIN = 0.1
"""Uncertainty of F above which it cannot tell a program that scales from one that does not."""


SCALES_WELL = 0.6
"""Part of the ideal speedup from which a program scales well. Three threads on four cores reach
0.75 of it."""

DISTURBED = 0.1
"""Share of a run's CPUs that other programs may take before its times cannot be trusted."""


class FindingCode(StrEnum):
    """Stable names of the findings, for documents and scripts."""

    PARALLEL_OVERHEAD = "ParallelOverhead"
    SUPER_LINEAR = "SuperLinear"
    SLOW_DOWN = "SlowDown"
    THREADS_FIXED = "ThreadsFixed"
    BUSY_MACHINE = "BusyMachine"
    TOO_SHORT = "TooShort"
    TOO_NOISY = "TooNoisy"
    SINGLE_RUNS = "SingleRuns"
    ONE_CORE_COUNT = "OneCoreCount"
    SIZES_DISAGREE = "SizesDisagree"
    FEW_SIZES = "FewSizes"


NOT_MEASURED = frozenset({FindingCode.BUSY_MACHINE, FindingCode.TOO_NOISY})
"""Findings after which there is no F: its error is larger than what it is used for, or unknown."""

UNRELIABLE = NOT_MEASURED | {FindingCode.TOO_SHORT}
"""Findings after which F is not to be used: the times say more about the machine or about start-up
than about how the program speeds up."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a profile: a stable code, and a sentence with the way out after its last colon."""

    code: FindingCode
    message: str

    @property
    def fault(self) -> str:
        """The message without the way out."""
        return self.message.rpartition(": ")[0]


@dataclass(frozen=True, slots=True)
class _Case:
    """Input of the rules: the samples, the fit, and the uncertainty of F at each core count."""

    samples: tuple[Sample, ...]
    fit: SpeedupFit
    noise: dict[int, float]
    disturbance: float

    @property
    def blur(self) -> float:
        """The largest uncertainty of F at any core count."""
        return max(self.noise.values())


def diagnose(
    samples: Iterable[Sample], fit: SpeedupFit, disturbance: float = 0.0
) -> tuple[Finding, ...]:
    """Return the findings on `fit`, from its figures and its samples.

    Args:
        samples: Times that were measured.
        fit: Fit of the samples.
        disturbance: Share of the runs' CPU time that other programs took; 0 if unknown.

    Returns:
        Findings, most serious first; none if the profile is reliable.
    """
    merged = merge_samples(samples)
    case = _Case(merged, fit, uncertainties(merged, fit), disturbance)
    return tuple(Finding(code, text) for code, rule in _RULES.items() if (text := rule(case)))


def uncertainties(samples: Iterable[Sample], fit: SpeedupFit) -> dict[int, float]:
    """Return the uncertainty of F(x) by core count: dF = (T_x / T_1) (δ_1 + δ_x) / (1 - 1/x).

    First order in the relative uncertainties δ, the mean over data sizes, as F(x) itself is.
    """
    by_key = {(sample.size, sample.cores): sample for sample in samples}
    open_by: dict[int, list[float]] = {cores: [] for cores in fit.by_cores}
    for (size, cores), sample in by_key.items():
        if cores > 1:
            alone = by_key[size, 1]
            ratio = sample.typical / alone.typical
            open_by[cores].append(
                ratio * (alone.uncertainty + sample.uncertainty) / (1 - 1 / cores)
            )
    return {cores: sum(values) / len(values) for cores, values in open_by.items()}


def _slow_down(case: _Case) -> str | None:
    worst = min(case.fit.by_cores, key=lambda cores: case.fit.by_cores[cores])
    value = case.fit.by_cores[worst]
    if value >= -max(TOLERANCE, case.noise[worst]):
        return None
    return (
        f"it is slower on {worst} cores than on one (F = {value:.2f}): run it on one core, "
        "or with fewer threads than cores"
    )


def _threads_fixed(case: _Case) -> str | None:
    if max(abs(value) for value in case.fit.by_cores.values()) <= TOLERANCE:
        return (
            "it gains nothing from more cores (F is about 0): it runs in one thread; let it start "
            "as many as it may get cores (docs/threads.md)"
        )
    cores = _last_gain(case.fit)
    if cores is None:
        return None
    return (
        f"it is about {_speedups(case.fit)[cores]:.1f} times as fast on {cores} cores as on "
        f"one, and no faster on {max(case.fit.by_cores)}: its number of threads is fixed, or "
        "memory bandwidth limits it; let it start as many threads as it may get cores "
        "(docs/threads.md)"
    )


def _last_gain(fit: SpeedupFit) -> int | None:
    """Return the core count up to which a program scales well and beyond which it gains nothing.

    Under Amdahl's law there is no such count: a program that scales well gains from more cores.
    """
    speedups = _speedups(fit)
    *counts, _ = sorted(speedups)
    for cores in counts:
        beyond = [value for count, value in speedups.items() if count > cores]
        flat = all(abs(value / speedups[cores] - 1) <= TOLERANCE for value in beyond)
        if flat and speedups[cores] >= SCALES_WELL * cores:
            return cores
    return None


def _speedups(fit: SpeedupFit) -> dict[int, float]:
    """Return the speedup that a fit says was measured at each core count.

    It is infinite from F = x / (x - 1) on: no time is left on x cores.
    """
    times = {cores: 1 - f + f / cores for cores, f in fit.by_cores.items()}
    return {cores: 1 / time if time > 0 else math.inf for cores, time in times.items()}


def _super_linear(case: _Case) -> str | None:
    best = max(case.fit.by_cores, key=lambda cores: case.fit.by_cores[cores])
    value = case.fit.by_cores[best]
    if value <= 1 + max(TOLERANCE, case.noise[best]):
        return None
    return (
        f"it speeds up more than {best}-fold on {best} cores (F = {value:.2f}): its data may fit "
        "the larger cache, or the one-core runs were disturbed; the market counts F as 1"
    )


def _parallel_overhead(case: _Case) -> str | None:
    counts = list(case.fit.by_cores)
    fewest, most = counts[0], counts[-1]
    at_few, at_most = case.fit.by_cores[fewest], case.fit.by_cores[most]
    if at_few - at_most <= max(TOLERANCE, case.blur) or _last_gain(case.fit) is not None:
        return None
    return (
        f"F falls from {at_few:.2f} on {fewest} cores to {at_most:.2f} on {most}: overheads grow "
        f"with cores and Amdahl's law promises too much: profile only up to the cores it will hold"
    )


def _too_short(case: _Case) -> str | None:
    shortest = min(case.samples, key=lambda sample: sample.typical)
    if shortest.typical >= TRUSTED_SECONDS:
        return None
    return (
        f"runs on {_cores(shortest.cores)} take only {shortest.typical:.3f} s, mostly start-up: "
        "give it more data or more work"
    )


def _too_noisy(case: _Case) -> str | None:
    worst = max(case.noise, key=lambda cores: case.noise[cores])
    if case.noise[worst] <= UNCERTAIN:
        return None
    return (
        f"its times are so uncertain that F on {worst} cores is uncertain by "
        f"±{case.noise[worst]:.2f}: quiet the machine, repeat more or run longer"
    )


def _busy_machine(case: _Case) -> str | None:
    if case.disturbance <= DISTURBED:
        return None
    return (
        f"other programs took {case.disturbance:.0%} of the CPUs during the runs: quiet the "
        "machine and profile again"
    )


def _single_runs(case: _Case) -> str | None:
    if any(len(sample.seconds) > 1 for sample in case.samples):
        return None
    return "every time was measured once, so nothing shows how noisy it is: repeat each run"


def _one_core_count(case: _Case) -> str | None:
    if len(case.fit.by_cores) > 1:
        return None
    (cores,) = case.fit.by_cores
    return (
        f"F comes from {cores} cores against one alone, so nothing shows whether Amdahl's law "
        "fits: profile at more core counts where the machine has them"
    )


def _sizes_disagree(case: _Case) -> str | None:
    low = min(case.fit.sizes, key=lambda fit: fit.mean)
    high = max(case.fit.sizes, key=lambda fit: fit.mean)
    if high.mean - low.mean <= max(UNCERTAIN, case.blur):
        return None
    return (
        f"F is {low.mean:.2f} at data size {low.size:g} and {high.mean:.2f} at {high.size:g}, as "
        "when small data give too few pieces of work to share out: measure at larger sizes only"
    )


def _few_sizes(case: _Case) -> str | None:
    sizes = [fit.size for fit in case.fit.sizes]
    if sizes == [1.0] or len(sizes) >= MIN_SIZES_FOR_QUADRATIC:
        return None
    if len(sizes) == 1:
        return "one data size gives no time model: measure two or more to predict other sizes"
    return (
        f"{len(sizes)} data sizes cannot show whether time grows faster than the data: measure "
        f"{MIN_SIZES_FOR_QUADRATIC} or more to rely on times predicted for larger data"
    )


def _cores(count: int) -> str:
    return "one core" if count == 1 else f"{count} cores"


_RULES: dict[FindingCode, Callable[[_Case], str | None]] = {
    FindingCode.SLOW_DOWN: _slow_down,
    FindingCode.THREADS_FIXED: _threads_fixed,
    FindingCode.BUSY_MACHINE: _busy_machine,
    FindingCode.TOO_NOISY: _too_noisy,
    FindingCode.TOO_SHORT: _too_short,
    FindingCode.SUPER_LINEAR: _super_linear,
    FindingCode.PARALLEL_OVERHEAD: _parallel_overhead,
    FindingCode.ONE_CORE_COUNT: _one_core_count,
    FindingCode.SINGLE_RUNS: _single_runs,
    FindingCode.SIZES_DISAGREE: _sizes_disagree,
    FindingCode.FEW_SIZES: _few_sizes,
}
