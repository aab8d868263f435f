"""Random markets of every mechanism, the same for the same number.

python random_markets.py COUNT [uncompiled]      write a digest of each market's plan
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, get_args

if "uncompiled" in sys.argv:
    sys.modules["walras._kernels"] = None  # type: ignore[assignment] # as where nothing compiled it

import numpy as np

from walras.clearing import clear
from walras.market.snapshot import (
    Bid,
    ColocationRule,
    CoreMechanism,
    Entitlement,
    Job,
    MemoryDemand,
    MemoryMechanism,
    Node,
    Policy,
    Snapshot,
)
from walras.numerics.kernel import COMPILED

GIB = 1024**3


def random_market(number: int) -> tuple[Snapshot, Policy]:
    """Return a market of up to 12 users, 10 nodes and 60 jobs, and a policy for it."""
    random = np.random.default_rng(number)
    users, nodes = int(random.integers(1, 13)), int(random.integers(1, 11))
    everywhere = frozenset({"default"})
    bounded, bidding = random.random() < 0.5, random.random() < 0.5
    jobs = []
    for k in range(int(random.integers(1, 61))):
        least = int(random.integers(0, 3)) if bounded else 0
        job = Job(
            "default",
            f"job-{k}",
            f"user-{random.integers(users)}",
            f"node-{random.integers(nodes)}",
            float(random.choice([0.0, 0.3, 0.9, 0.99, 1.0, random.random()])),
            min_cores=least,
            max_cores=least + int(random.integers(1, 5)) if bounded else None,
            memory=MemoryDemand(int(random.integers(1, 9)) * GIB),
            bid=Bid(utility=pick(random, "Log", "Linear") if bidding else "Linear"),
            program=f"program-{k % 5}",
            bandwidth=float(random.integers(1, 20)),
        )
        waits = random.random() < 0.1
        jobs.append(replace(job, node="") if waits else job)
    penalties = {
        (f"program-{i}", f"program-{k}"): float(random.random() / 2)
        for i in range(5)
        for k in range(i, 5)
        if random.random() < 0.5
    }
    snapshot = Snapshot(
        tuple(
            Entitlement(f"user-{i}", int(random.integers(1, 9)), namespaces=everywhere)
            for i in range(users)
        ),
        tuple(
            Node(f"node-{j}", int(random.integers(1, 65)), int(random.integers(8, 65)) * GIB)
            for j in range(nodes)
        ),
        tuple(jobs),
        penalties=penalties,
    )
    policy = Policy(
        pick(random, *get_args(CoreMechanism)),
        memory=pick(random, *get_args(MemoryMechanism)),
        colocation=pick(random, *get_args(ColocationRule)),
    )
    return snapshot, policy


def pick(random: np.random.Generator, *names: str) -> Any:
    """Return one of the names."""
    return names[random.integers(len(names))]


def main() -> None:
    """Write what the plan of each market says, floating-point numbers to the last digit."""
    if ("uncompiled" in sys.argv) != (COMPILED is None):
        sys.exit("the kernels are not the ones that were asked for")
    for number in range(int(sys.argv[1])):
        try:
            sys.stdout.write(f"{number} {clear(*random_market(number))}\n")
        except ValueError as error:  # a market that cannot be cleared says the same either way
            sys.stdout.write(f"{number} {error}\n")


if __name__ == "__main__":
    main()
