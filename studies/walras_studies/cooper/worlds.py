"""Penalties of colocation that replace those measured for Cooper, which are not public.

The paper prints only the memory bandwidths of its jobs (Table I).
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
"""Memory bandwidth of the paper's 20 jobs, in GB/s (Table I)."""

JOBS = len(BANDWIDTH)
"""Number of the paper's jobs."""

MIXES = ("Uniform", "Beta-Low", "Gaussian", "Beta-High")
"""Densities by which agents' jobs are drawn."""

WORLDS = ("pressure", "saturating")
"""Models of contention."""

STANDS_IN = (
    "The paper prints only the memory bandwidths of its 20 jobs (Table I); two models replace its "
    "penalties. In *pressure* (P), a loss is the job's sensitivity, which is random, times the "
    "co-runner's pressure, which grows with its bandwidth. In *saturating* (S), stalls set in as "
    "the bandwidth of both saturates, and jobs that demand more are more sensitive. Policies: "
    "greedy (GR), complementary (CO), stable marriage with a partition by bandwidth (SMP) or at "
    "random (SMR), stable roommates (SR)."
)
"""Data and assumptions that replace what the paper does not print."""


def losses(world: str, random: Generator) -> Floats:
    """Return the part of its throughput that each job loses beside each other, shape (20, 20)."""
    if world == "pressure":
        sensitivity = random.uniform(0.02, 0.1, JOBS)
        pressed = np.outer(sensitivity, 0.5 + BANDWIDTH / BANDWIDTH.max())
        return pressed + 0.01 * random.standard_normal((JOBS, JOBS))
    sensitive = (0.05 + 0.95 * BANDWIDTH / (BANDWIDTH + 6)) * random.uniform(0.6, 1.4, JOBS)
    saturated = 1 / (1 + np.exp((30 - BANDWIDTH[:, None] - BANDWIDTH) / 5))
    stalled = sensitive[:, None] * (0.25 * saturated + 0.004 * BANDWIDTH)
    return np.asarray(stalled + random.normal(0, 0.008, (JOBS, JOBS)))


def draw_jobs(mix: str, agents: int, random: Generator) -> Jobs:
    """Draw the index of a job of Table I for each agent, shape (agents,)."""
    if mix == "Uniform":
        return random.integers(0, JOBS, agents)
    if mix == "Gaussian":
        places = np.clip(random.normal(0.5, 0.15, agents), 0, 0.999)
    else:
        places = random.beta(*((2, 5) if mix == "Beta-Low" else (5, 2)), agents)
    return np.asarray(np.argsort(BANDWIDTH)[(JOBS * places).astype(int)])
