"""User populations as in section VI of "Amdahl's Law in the Datacenter Era".

What the paper prints: n users in 40, 120, ..., 1000; budgets of 1 to 5; s n servers, s in .25, .5,
1, 2, 4, of 24 cores; for a density d, d/2 to d jobs a server, drawn from Table I, each given to a
random user, every user having at least one. What is assumed beyond it is `STANDS_IN`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.amdahl.market import AmdahlMarket

if TYPE_CHECKING:
    from collections.abc import Sequence

PRINTED = {"dedup": 0.53, "bodytrack": 0.93, "x264": 0.96, "raytrace": 0.68}
ASSUMED = np.linspace(0.55, 0.99, 18)
FRACTIONS = np.array([*PRINTED.values(), *ASSUMED])

CORES = 24
USERS = tuple(range(40, 1001, 80))
SERVERS_PER_USER = (0.25, 0.5, 1.0, 2.0, 4.0)

STANDS_IN = (
    "Of 22 workloads' parallel fractions only four are printed (dedup .53, bodytrack .93, x264 "
    ".96, raytrace .68); the other 18 are spread evenly over the printed range of .55 to .99. "
    "Progress is what Amdahl's law predicts, where the paper ran the programs. Budgets are whole "
    "(the paper speaks of five classes), and every job does the same work on one core."
)


def draw_population(
    users: int, servers_per_user: float, density: int, seed: int | Sequence[int]
) -> AmdahlMarket:
    """Draw a population; users left without a job get one more on a random server."""
    random = np.random.default_rng(seed)
    servers = max(1, round(users * servers_per_user))
    count = random.integers(density // 2, density + 1, servers)
    server = np.repeat(np.arange(servers), count)
    user = random.integers(0, users, len(server))
    idle = np.setdiff1d(np.arange(users), user)
    user = np.concatenate([user, idle])
    server = np.concatenate([server, random.integers(0, servers, len(idle))])
    return AmdahlMarket(
        random.integers(1, 6, users),
        np.full(servers, CORES),
        user,
        server,
        random.choice(FRACTIONS, len(user)),
    )


def draw_any(seed: int, number: int, density: int, largest: int) -> AmdahlMarket:
    """Draw population ``number`` of a density, with users and servers drawn as in the paper."""
    random = np.random.default_rng([seed, density, number])
    users = int(random.choice([size for size in USERS if size <= largest]))
    return draw_population(
        users, float(random.choice(SERVERS_PER_USER)), density, [seed, density, number, 1]
    )
