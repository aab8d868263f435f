"""Amdahl's law and the Karp-Flatt metric: a parallel fraction and a speedup give each other.

Source: "Amdahl's Law in the Datacenter Era", equations 1 to 3. Every function takes numbers or
NumPy arrays, broadcast against each other, and returns a float when all arguments are numbers.
"""

from typing import overload

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

MIN_FRACTION = 0.001
"""Smallest parallel fraction in the market; any number of cores then gains a thousandth.

At 0 no core is worth anything to the job, and its bids are undefined.
"""


@overload
def speedup(cores: float, fraction: float) -> float: ...
@overload
def speedup(cores: Array, fraction: float | Array) -> Array: ...
@overload
def speedup(cores: float | Array, fraction: Array) -> Array: ...
def speedup(cores: float | Array, fraction: float | Array) -> float | Array:
    """Return the speedup over one core by Amdahl's law, s(x) = x / (f + (1 - f) x) (equation 1).

    Args:
        cores: Cores x, at least 0; may be fractional.
        fraction: Parallel fraction f, at most 1; raw values below 0 (a slow-down) are fine.
    """
    return cores / (fraction + (1 - fraction) * cores)


@overload
def marginal_speedup(cores: float, fraction: float) -> float: ...
@overload
def marginal_speedup(cores: Array, fraction: float | Array) -> Array: ...
@overload
def marginal_speedup(cores: float | Array, fraction: Array) -> Array: ...
def marginal_speedup(cores: float | Array, fraction: float | Array) -> float | Array:
    """Return the speedup gained per further core, ds/dx = f / (f + (1 - f) x)^2."""
    return fraction / (fraction + (1 - fraction) * cores) ** 2


@overload
def cores_for_speedup(target: float, fraction: float) -> float: ...
@overload
def cores_for_speedup(target: Array, fraction: float | Array) -> Array: ...
@overload
def cores_for_speedup(target: float | Array, fraction: Array) -> Array: ...
def cores_for_speedup(target: float | Array, fraction: float | Array) -> float | Array:
    """Return the cores that give a speedup, x = s f / (1 - (1 - f) s), the inverse of equation 1.

    Args:
        target: Speedup s over one core, at least 0.
        fraction: Parallel fraction f in (0, 1].

    Returns:
        Cores; infinity from Amdahl's limit s = 1 / (1 - f) on, which no number of cores reaches.
    """
    serial_share = np.asarray((1 - fraction) * target, dtype=np.float64)
    reachable = serial_share < 1
    remaining = np.where(reachable, 1 - serial_share, 1.0)
    return _plain(np.where(reachable, target * fraction / remaining, np.inf))


@overload
def karp_flatt(measured_speedup: float, cores: float) -> float: ...
@overload
def karp_flatt(measured_speedup: Array, cores: float | Array) -> Array: ...
@overload
def karp_flatt(measured_speedup: float | Array, cores: Array) -> Array: ...
def karp_flatt(measured_speedup: float | Array, cores: float | Array) -> float | Array:
    """Return the parallel fraction of a measured speedup, (1 - 1/s) / (1 - 1/x) (equation 3).

    It is the raw value: below 0 when the program got slower (s < 1), above 1 when it sped up
    by more than its cores (s > x). `market_fraction` clamps where only (0, 1] will do.

    Args:
        measured_speedup: Speedup s over one core, above 0.
        cores: Cores x that gave it, above 1.

    Raises:
        ValueError: The cores are not above 1, or the speedup is not above 0.
    """
    if not np.all(np.asarray(cores) > 1):
        raise ValueError("the Karp-Flatt metric needs more than one core")
    if not np.all(np.asarray(measured_speedup) > 0):
        raise ValueError("a speedup is a ratio of times, above 0")
    return (1 - 1 / measured_speedup) / (1 - 1 / cores)


@overload
def market_fraction(raw: float) -> float: ...
@overload
def market_fraction(raw: Array) -> Array: ...
def market_fraction(raw: float | Array) -> float | Array:
    """Return a raw Karp-Flatt value clamped into [`MIN_FRACTION`, 1], the market's range.

    A program that slows down with cores becomes one that hardly gains by them, a super-linear one
    becomes perfectly parallel: both keep their rank among programs.
    """
    return _plain(np.clip(raw, MIN_FRACTION, 1.0))


def _plain(value: npt.ArrayLike) -> float | Array:
    """Return a float for a number, an array for an array."""
    array = np.asarray(value, dtype=np.float64)
    return float(array) if array.ndim == 0 else array
