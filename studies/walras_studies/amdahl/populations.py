"""User populations as in section VI of "Amdahl's Law in the Datacenter Era".

As the paper prints it, a population has n = 40, 120, ..., 1000 users with budgets of 1 to 5, and
s n servers of 24 cores, where s is 0.25, 0.5, 1, 2 or 4. For a density d, a server has d/2 to d
jobs, drawn from Table I. Each is given to a random user, and every user has at least one.
`STANDS_IN` says what is assumed beyond that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.amdahl.market import AmdahlMarket

if TYPE_CHECKING:
    from collections.abc import Sequence

PRINTED = {"dedup": 0.53, "bodytrack": 0.93, "x264": 0.96, "raytrace": 0.68}
"""Parallel fractions of workloads that the paper prints."""

ASSUMED = np.linspace(0.55, 0.99, 18)
"""Parallel fractions that are assumed for the other workloads."""

FRACTIONS = np.array([*PRINTED.values(), *ASSUMED])
"""Parallel fractions that jobs are drawn from."""

CORES = 24
"""Cores of a server."""

USERS = tuple(range(40, 1001, 80))
"""Numbers of users of a population."""

SERVERS_PER_USER = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Numbers of servers for each user."""

STANDS_IN = (
    "Of 22 workloads, the paper prints the parallel fractions of four; the others are spread "
    "evenly over its range of 0.55 to 0.99. Progress is what Amdahl's law predicts, where the "
    "paper ran programs. Budgets are whole numbers, and every job does the same work on one core."
)
"""Data and assumptions that replace what the paper does not print."""


def draw_population(
    users: int, servers_per_user: float, density: int, seed: int | Sequence[int]
) -> AmdahlMarket:
    """Draw a population; a user left without a job gets one on a random server.

    Args:
        users: Number of users.
        servers_per_user: Number of servers for each user.
        density: Largest number of jobs of a server, before users without a job get one.
        seed: Seed of the draw.
    """
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
    """Draw population ``number`` of a density, with random numbers of users and servers.

    Args:
        seed: Seed of the study.
        number: Number of the population, which changes the draw.
        density: Largest number of jobs of a server, before users without a job get one.
        largest: Largest number of users.
    """
    random = np.random.default_rng([seed, density, number])
    users = int(random.choice([size for size in USERS if size <= largest]))
    return draw_population(
        users, float(random.choice(SERVERS_PER_USER)), density, [seed, density, number, 1]
    )
