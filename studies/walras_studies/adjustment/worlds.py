"""Clusters of the study of greedy adjustment, whose programs may not follow Amdahl's law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.amdahl.market import AmdahlMarket
from walras_studies.amdahl.populations import CORES, FRACTIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

USERS, SERVERS, JOBS_OF_USER = 8, 8, 6
"""Numbers of users, of servers, and of jobs of a user."""

AMDAHL, LINEAR, THREADS, OVERHEADS = "Amdahl", "linear", "fixed threads", "overheads"
PROGRAMS = (AMDAHL, LINEAR, THREADS, OVERHEADS)
"""Kinds of programs, which differ in their speedups."""

NUMBERS_OF_THREADS = (2, 4, 8)
"""Numbers of threads of programs with a fixed number, which cannot use more cores than threads."""

OVERHEAD = 0.005
"""Time that each further core costs a program with overheads, as a part of its time on one core.
With F = 0.9, such a program is fastest on 13 cores."""


@dataclass(frozen=True)
class Cluster:
    """Jobs with their true speedups; a user has at most one job on a server.

    Attributes:
        market: Users, servers and jobs, with true parallel fractions.
        threads: Number of threads of each job, shape (k,); infinite if it has one for each core.
        overhead: Time that each further core costs, as a part of the time on one core.
        noise: Standard deviation of a reading of progress over 30 s, relative to the reading. The
            noise is white: the error of a reading over a time t is sqrt(30 s / t) times as large.
    """

    market: AmdahlMarket
    threads: Floats
    overhead: float
    noise: float

    def progress(self, cores: Floats) -> Floats:
        """Return the true progress of each job per unit of time, shape (k,)."""
        f = self.market.fraction
        busy = np.minimum(cores, self.threads)
        wide = np.maximum(busy, 1)  # less than a core is a core for part of the time
        faster = wide / (f + (1 - f + self.overhead * (wide - 1)) * wide)
        return np.asarray(self.market.work * np.minimum(busy, 1) * faster)

    def utilities(self, progress: Floats) -> Floats:
        """Return the progress of each user, relative to that with one core a job, shape (n,)."""
        alone = self.market.sum_by_user(self.market.work)
        return np.asarray(self.market.sum_by_user(progress) / alone)

    def cores_for(self, bids: Floats) -> Floats:
        """Return the cores that jobs get for their bids, shape (k,)."""
        prices = self.market.sum_by_server(bids)[self.market.server]
        return np.asarray(bids / prices * self.market.capacities[self.market.server])


def draw_cluster(programs: str, noise: float, seed: list[int]) -> Cluster:
    """Draw eight users with six jobs each on eight servers; kinds differ in their speedups only."""
    random = np.random.default_rng(seed)
    jobs = USERS * JOBS_OF_USER
    server = [random.permutation(SERVERS)[:JOBS_OF_USER] for _ in range(USERS)]
    budgets = random.integers(1, 6, USERS)
    work = random.uniform(0.5, 2, jobs)
    fraction = random.choice(FRACTIONS, jobs)
    threads = random.choice(NUMBERS_OF_THREADS, jobs).astype(np.float64)
    market = AmdahlMarket(
        budgets,
        np.full(SERVERS, CORES),
        np.repeat(np.arange(USERS), JOBS_OF_USER),
        np.concatenate(server),
        np.ones(jobs) if programs == LINEAR else fraction,
        work,
    )
    return Cluster(
        market,
        threads if programs == THREADS else np.full(jobs, np.inf),
        OVERHEAD if programs == OVERHEADS else 0.0,
        noise,
    )
