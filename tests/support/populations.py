"""User populations as in section VI of "Amdahl's Law in the Datacenter Era".

What the paper prints: n users in 40, 120, ..., 1000; budgets of 1 to 5; s n servers, s in .25, .5,
1, 2, 4, of 24 cores; for a density d, d/2 to d jobs a server, drawn from Table I, each given to a
random user, every user having at least one.

What it does not print and is assumed here: budgets are whole (section VI-C speaks of five
classes), work is 1, and the parallel fractions, of which only four are printed. The others are
spread evenly over the printed range of .55 to .99 (which does not hold the printed .53 of dedup).
"""

from __future__ import annotations

import numpy as np

from walras.amdahl.market import Market

PRINTED = {"dedup": 0.53, "bodytrack": 0.93, "x264": 0.96, "raytrace": 0.68}
ASSUMED = np.linspace(0.55, 0.99, 18)
FRACTIONS = np.array([*PRINTED.values(), *ASSUMED])

CORES = 24
USERS = range(40, 1001, 80)
SERVERS_PER_USER = (0.25, 0.5, 1.0, 2.0, 4.0)


def draw_population(users: int, servers_per_user: float, density: int, *, seed: int) -> Market:
    """Draw a population; users left without a job get one more on a random server."""
    random = np.random.default_rng(seed)
    servers = max(1, round(users * servers_per_user))
    count = random.integers(density // 2, density + 1, servers)
    server = np.repeat(np.arange(servers), count)
    user = random.integers(0, users, len(server))
    idle = np.setdiff1d(np.arange(users), user)
    user = np.concatenate([user, idle])
    server = np.concatenate([server, random.integers(0, servers, len(idle))])
    return Market(
        random.integers(1, 6, users),
        np.full(servers, CORES),
        user,
        server,
        random.choice(FRACTIONS, len(user)),
    )


def sample_populations(count: int, density: int, *, largest: int = 1000) -> list[Market]:
    """Draw ``count`` populations of one density, users and servers drawn as in the paper."""
    random = np.random.default_rng(density)
    sizes = [size for size in USERS if size <= largest]
    return [
        draw_population(
            int(random.choice(sizes)),
            float(random.choice(SERVERS_PER_USER)),
            density,
            seed=1000 * density + number,
        )
        for number in range(count)
    ]
