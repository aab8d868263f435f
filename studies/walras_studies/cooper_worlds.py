"""Penalties of colocation that stand in for those measured for Cooper, which are not public.

Of contention the paper prints only the bandwidths of Table I.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Jobs = NDArray[np.int64]

SPARK = (25.05, 21.03, 10.06, 21.06, 0.32, 14.66, 5.69, 23.44, 14.59)
PARSEC = (0.99, 0.15, 3.34, 0.93, 1.80, 5.52, 0.57, 18.53, 0.07, 0.05, 4.00)
BANDWIDTH = np.array([*SPARK, *PARSEC])
"""Memory intensity of the paper's 20 jobs, GB/s (Table I)."""

JOBS = len(BANDWIDTH)
MIXES = ("Uniform", "Beta-Low", "Gaussian", "Beta-High")
WORLDS = ("pressure", "saturating")

STANDS_IN = (
    "Of contention the paper prints only the bandwidths of 20 jobs (Table I). Two models stand "
    "in. *pressure*: a job loses by its sensitivity, drawn from U(0.02, 0.1) whatever its own "
    "bandwidth, times what its co-runner presses, a half for the cache that any takes and up to "
    "one for its bandwidth, with noise of 0.01. *saturating*: stalls set in as the bandwidth of "
    "both together saturates at 30 GB/s, and who demands more is more sensitive, with noise of "
    "0.008. The parameters of the mixes' densities are not printed: Beta(2, 5), N(0.5, 0.15) and "
    "Beta(5, 2) over jobs in order of bandwidth."
)


def losses(world: str, random: Generator) -> Floats:
    """Return what each of the 20 jobs loses beside each, shape (20, 20)."""
    if world == "pressure":
        sensitivity = random.uniform(0.02, 0.1, JOBS)
        pressed = np.outer(sensitivity, 0.5 + BANDWIDTH / BANDWIDTH.max())
        return pressed + 0.01 * random.standard_normal((JOBS, JOBS))
    sensitive = (0.05 + 0.95 * BANDWIDTH / (BANDWIDTH + 6)) * random.uniform(0.6, 1.4, JOBS)
    saturated = 1 / (1 + np.exp((30 - BANDWIDTH[:, None] - BANDWIDTH) / 5))
    stalled = sensitive[:, None] * (0.25 * saturated + 0.004 * BANDWIDTH)
    return np.asarray(stalled + random.normal(0, 0.008, (JOBS, JOBS)))


def draw_jobs(mix: str, agents: int, random: Generator) -> Jobs:
    """Return a job of Table I for each agent, shape (agents,)."""
    if mix == "Uniform":
        return random.integers(0, JOBS, agents)
    if mix == "Gaussian":
        places = np.clip(random.normal(0.5, 0.15, agents), 0, 0.999)
    else:
        places = random.beta(*((2, 5) if mix == "Beta-Low" else (5, 2)), agents)
    return np.asarray(np.argsort(BANDWIDTH)[(JOBS * places).astype(int)])
