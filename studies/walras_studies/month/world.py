"""Random months of a cluster: users, their jobs on nodes, and the jobs' demands for memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.market.snapshot import Entitlement, Job, MemoryDemand, Node, Snapshot
from walras_studies.amdahl.populations import FRACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.random import Generator

GIB = 1 << 30
CORES, MEMORY = 48, 192
"""Cores of a node, and its memory in GiB."""

JOBS_OF_USER = 4
LIFE_HOURS = 24.0
MEMORY_OF_JOB = 12.0
"""Means of the number of jobs of a user at a time, of a job's life in hours, and of the memory that
it could use, in GiB."""

QUIET, BUSY = 0.25, 2.5
"""Memory that a job could use in quiet and in busy phases, relative to its mean; it is busy for a
third of the time."""

STANDS_IN = (
    "No data are from a trace. On 50 nodes of 48 cores and 192 GiB, 200 users with 1 to 5 shares "
    "have four jobs each on average, with the parallel fractions of `amdahl`. Jobs arrive at "
    "random, by day and in bursts, and stay for 24 hours on average; their demand for memory "
    "changes every few hours. Utility is the speedup times the part of that demand that is met; an "
    "epoch is an hour. *Reservations*: a job keeps a quarter of its user's entitlement, if it gets "
    "that. *Fair share*: every node is divided by entitlements, memory max-min fairly; *max-min*: "
    "the same with equal entitlements; *market, max-min*: Walras without credits."
)
"""Data and assumptions of the study."""


@dataclass(frozen=True, slots=True)
class Life:
    """A job from its arrival to its end.

    Attributes:
        name: Name of the job.
        user: Number of its user.
        node: Number of its node.
        start: Hour in which it arrives.
        end: First hour in which it is gone.
        fraction: Parallel fraction.
        demand: Memory that it could use in each hour of its life, in GiB.
    """

    name: str
    user: int
    node: int
    start: int
    end: int
    fraction: float
    demand: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MonthWorld:
    """Users and jobs of a drawn month.

    Attributes:
        shares: Shares of each user.
        nodes: Number of nodes.
        hours: Length of the month in hours.
        lives: Lives of all jobs, sorted by arrival.
    """

    shares: tuple[int, ...]
    nodes: int
    hours: int
    lives: tuple[Life, ...]

    def present(self, hour: int) -> list[Life]:
        """Return the jobs that are present in an hour."""
        return [life for life in self.lives if life.start <= hour < life.end]

    def snapshot(self, hour: int, *, alike: bool = False) -> Snapshot:
        """Return the cluster in an hour; with ``alike``, as if all users had equal shares."""
        return Snapshot(
            tuple(
                Entitlement(
                    name_of(user), 1 if alike else shares, namespaces=frozenset({name_of(user)})
                )
                for user, shares in enumerate(self.shares)
            ),
            tuple(Node(f"node-{number}", CORES, MEMORY * GIB) for number in range(self.nodes)),
            tuple(_job(life, hour) for life in self.present(hour)),
        )


def name_of(user: int) -> str:
    """Return the name of a user by its number."""
    return f"user-{user}"


def _job(life: Life, hour: int) -> Job:
    demand = life.demand[hour - life.start] * GIB
    user = name_of(life.user)
    return Job(
        user, life.name, user, f"node-{life.node}", life.fraction, memory=MemoryDemand(demand)
    )


def draw_world(users: int, nodes: int, hours: int, seed: int) -> MonthWorld:
    """Draw a month, which begins with the mean number of jobs of each user."""
    random = np.random.default_rng(seed)
    shares = tuple(int(each) for each in random.integers(1, 6, users))
    load = np.zeros((nodes, hours))
    lives = []
    for number, (user, start) in enumerate(_arrivals(users, hours, random)):
        stay = 1 + int(random.exponential(LIFE_HOURS))
        end = min(start + stay, hours)
        node = _place(load[:, start], random)
        load[node, start:end] += 1
        demand = _demand(end - start, random)
        fraction = float(random.choice(FRACTIONS))
        lives.append(Life(f"job-{number}", user, node, start, end, fraction, demand))
    return MonthWorld(shares, nodes, hours, tuple(lives))


def _arrivals(users: int, hours: int, random: Generator) -> Iterator[tuple[int, int]]:
    """Yield the user and the hour of each arrival of a job, in order."""
    rate = JOBS_OF_USER / LIFE_HOURS
    eager = random.random((hours, users)) < 1 / 24  # a burst an hour long, once a day
    for hour in range(hours):
        by_day = 1 + 0.5 * np.sin(2 * np.pi * hour / 24)
        mean = rate * by_day * np.where(eager[hour], 12.5, 0.5)
        if hour == 0:
            mean = np.full(users, float(JOBS_OF_USER))
        for user in np.repeat(np.arange(users), random.poisson(mean)):
            yield int(user), hour


def _place(load: np.ndarray[tuple[int], np.dtype[np.float64]], random: Generator) -> int:
    """Return the less loaded of two random nodes, since schedulers do not know of the market."""
    first, second = random.integers(0, len(load), 2)
    return int(first if load[first] <= load[second] else second)


def _demand(hours: int, random: Generator) -> tuple[int, ...]:
    """Draw the memory that a job could use in each hour of its life, in GiB, at least 1."""
    mean = MEMORY_OF_JOB * random.lognormal(-0.125, 0.5)
    busy = random.random() < 1 / 3
    demand = []
    for _ in range(hours):
        demand.append(max(1, round(mean * (BUSY if busy else QUIET))))
        busy = random.random() > (1 / 4 if busy else 7 / 8)
    return tuple(demand)
