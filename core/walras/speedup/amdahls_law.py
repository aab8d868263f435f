"""Amdahl's law and the Karp-Flatt metric: a parallel fraction and a speedup give each other.

Amdahl's law speaks of whole cores. A program that has a part of a core runs for that part of the
time, which is its speedup then (`speedup_in_hardware`).

Source: "Amdahl's Law in the Datacenter Era", equations 1 to 3.
"""

MIN_FRACTION = 0.001
"""Smallest parallel fraction in the market; any number of cores then gains a thousandth.

At 0 no core is worth anything to the job, and its bids are undefined.
"""

FIRST_CORE = 0.98
"""Least parallel fraction by which the market sells a job's first core (`amdahl.time_shared`)."""

SPARED = 0.012
"""Largest part of its utility that a user gives up sooner than pay for it (`amdahl.satiation`)."""

PROMISED = 1 / 1.01
"""Part of the utility of its bare entitlement below which no user is sated."""


def speedup(cores: float, fraction: float) -> float:
    """Return the speedup over one core by Amdahl's law, s(x) = x / (f + (1 - f) x) (equation 1).

    Args:
        cores: Cores x, at least 0; may be fractional.
        fraction: Parallel fraction f, at most 1; raw values below 0 (a slow-down) are fine.
    """
    return cores / (fraction + (1 - fraction) * cores)


def speedup_in_hardware(cores: float, fraction: float) -> float:
    """Return the speedup over one core: Amdahl's from one core on, and below it the part of a core.

    Args:
        cores: Cores x, at least 0; may be fractional.
        fraction: Parallel fraction f, at most 1.
    """
    return speedup(cores, fraction) if cores >= 1 else cores


def karp_flatt(measured_speedup: float, cores: float) -> float:
    """Return the parallel fraction of a measured speedup, (1 - 1/s) / (1 - 1/x) (equation 3).

    It is the raw value: below 0 when the program got slower (s < 1), above 1 when it sped up
    by more than its cores (s > x). `market_fraction` clamps where only (0, 1] will do.

    Args:
        measured_speedup: Speedup s over one core, above 0.
        cores: Cores x that gave it, above 1.

    Raises:
        ValueError: The cores are not above 1, or the speedup is not above 0.
    """
    if not cores > 1:
        raise ValueError("the Karp-Flatt metric needs more than one core")
    if not measured_speedup > 0:
        raise ValueError("a speedup is a ratio of times, above 0")
    return (1 - 1 / measured_speedup) / (1 - 1 / cores)


def market_fraction(raw: float) -> float:
    """Return a raw Karp-Flatt value clamped into [`MIN_FRACTION`, 1], the market's range.

    A program that slows down with cores becomes one that hardly gains by them, a super-linear one
    becomes perfectly parallel: both keep their rank among programs.
    """
    return float(min(max(raw, MIN_FRACTION), 1.0))
