"""Compare a cluster divided into shards with its whole market: no times, but what users lose.

Each shard is a market of its own on a part of the nodes, as if one operator decided for each node
pool. Users have jobs all over the cluster, so that their budgets have to be divided among shards:

- by capacity, as with independent Markets: each shard counts for as much as it has cores. A user
  that has no job in a shard gets nothing for its part of it.
- by exchange: each shard reports one number for each user, what the user's cores there are worth to
  it at the margin (the sum of x dU/dx); the next decision divides budgets in proportion. A fixed
  point of this is the equilibrium of the whole, since every user's money then has the same marginal
  value everywhere.

Errors are relative to the utilities in the equilibrium of the whole market.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

from harness import one_thread

one_thread()  # before NumPy is imported

import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from walras.mechanisms.amdahl import metrics  # noqa: E402
from walras.mechanisms.amdahl.market import AmdahlMarket  # noqa: E402
from walras_studies.amdahl.without_bounds import find_equilibrium  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras.numerics.arrays import Floats, Integers

SIZES = (
    (1_000, 100, 10),
    (10_000, 1_000, 100),
    (100_000, 10_000, 1_000),
    (1_000_000, 10_000, 1_000),
)
"""Jobs, servers and users."""

SHARDS = (2, 8, 32)
ROUNDS = (1, 2, 4, 8)
CORES = (16, 32, 64)


class Error(NamedTuple):
    """How users fare in shards, relative to the whole market.

    Attributes:
        progress: Change of the system progress.
        worst: Largest relative loss of a user's utility.
        typical: Median of users' relative changes of utility, as absolute values.
    """

    progress: float
    worst: float
    typical: float


def draw(jobs: int, servers: int, users: int, seed: int) -> AmdahlMarket:
    """Draw a market: servers of different sizes, users with some more and some fewer jobs."""
    random = np.random.default_rng(seed)
    capacities = random.choice(CORES, servers).astype(np.float64)
    weight = random.exponential(size=users) + 0.1
    user = random.choice(users, jobs, p=weight / weight.sum())
    user[:users] = np.arange(users)  # everybody has a job
    return AmdahlMarket(
        random.uniform(0.5, 2.0, users) * capacities.sum() / users,
        capacities,
        user,
        random.integers(0, servers, jobs),
        random.uniform(0.5, 0.999, jobs),
    )


class Shards:
    """A market divided into shards by its servers.

    Args:
        whole: Market of the whole cluster.
        count: Number of shards.
    """

    def __init__(self, whole: AmdahlMarket, count: int) -> None:
        self.whole, self.count = whole, count
        self.of_server = np.arange(len(whole.capacities)) * count // len(whole.capacities)
        self.of_job = self.of_server[whole.server]
        base = whole.sum_by_user(whole.work)
        self.weight = whole.work / base[whole.user]

    def cores(self, budgets: Floats) -> Floats:
        """Return the cores of each job, shape (k,); ``budgets`` has shape (shards, n)."""
        cores = np.zeros(self.whole.jobs)
        for shard in range(self.count):
            mine = np.flatnonzero(self.of_job == shard)
            cores[mine] = find_equilibrium(self._market(mine, budgets[shard])).cores
        return cores

    def _market(self, jobs: Integers, budgets: Floats) -> AmdahlMarket:
        users, user = np.unique(self.whole.user[jobs], return_inverse=True)
        servers, server = np.unique(self.whole.server[jobs], return_inverse=True)
        return AmdahlMarket(
            budgets[users],
            self.whole.capacities[servers],
            user,
            server,
            self.whole.fraction[jobs],
            self.weight[jobs],
        )

    def by_capacity(self) -> Floats:
        """Return budgets in proportion to the cores of each shard, shape (shards, n)."""
        part = np.bincount(self.of_server, self.whole.capacities, self.count)
        return np.outer(part / part.sum(), self.whole.budgets)

    def exchanged(self, cores: Floats) -> Floats:
        """Return budgets in proportion to what cores are worth at the margin, shape (shards, n)."""
        f = self.whole.fraction
        worth = self.weight * f * cores / (f + (1 - f) * cores) ** 2
        users = len(self.whole.budgets)
        of = np.bincount(self.of_job * users + self.whole.user, worth, self.count * users)
        table = of.reshape(self.count, users)
        return np.asarray(self.whole.budgets * table / table.sum(axis=0))


def errors(whole: AmdahlMarket, count: int) -> Iterator[tuple[str, Error]]:
    """Yield how budgets are divided, and the error."""
    shards = Shards(whole, count)
    best = find_equilibrium(whole).cores
    cores = shards.cores(shards.by_capacity())
    yield "by capacity", compared(whole, best, cores)
    for number in range(1, max(ROUNDS) + 1):
        cores = shards.cores(shards.exchanged(cores))
        if number in ROUNDS:
            yield f"after {number} exchange{'s' * (number > 1)}", compared(whole, best, cores)


def compared(whole: AmdahlMarket, best: Floats, cores: Floats) -> Error:
    """Return how far an allocation is from the equilibrium of the whole market."""
    change = metrics.user_progress(whole, cores) / metrics.user_progress(whole, best) - 1
    progress = metrics.system_progress(whole, cores) / metrics.system_progress(whole, best) - 1
    return Error(progress, float(-change.min()), float(np.median(np.abs(change))))


def main() -> None:
    """Print a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=SIZES[-1][0], help="largest market to divide")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    for jobs, servers, users in SIZES:
        if jobs > chosen.jobs:
            break
        whole = draw(jobs, servers, users, chosen.seed)
        title = f"{jobs} jobs, {servers} servers, {users} users"
        table = Table("shards", "budgets", title=title, title_justify="left")
        for column in ("system progress", "worst-off user", "median user"):
            table.add_column(column, justify="right")
        for count in SHARDS:
            for how, error in errors(whole, count):
                row = f"{error.progress:+.2%}", f"{-error.worst:+.2%}", f"{error.typical:.3%}"
                table.add_row(str(count), how, *row)
        Console(width=100).print(table)


if __name__ == "__main__":
    main()
