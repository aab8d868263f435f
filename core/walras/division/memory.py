"""Division of memory, in slices, among entitlements on every node, and among their jobs.

Each node is a pool of slices. An entitlement's demand in a pool is what its jobs there could use.
Karma, or another mechanism, decides how many slices it holds; its jobs divide them evenly, after
their minimums.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.market.admission import divide_by_shares, leaves_of
from walras.market.plan import MemoryOutcome, Sentence
from walras.mechanisms.karma.baselines import share_max_min, share_strictly
from walras.mechanisms.karma.ledger import Ledger
from walras.mechanisms.karma.quantum import allocate
from walras.mechanisms.karma.record import SettledQuantum, accounts_of
from walras.numerics.byte_text import format_bytes
from walras.numerics.segments import group
from walras.numerics.water_filling import water_fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.market.snapshot import Job, Node, Policy, Snapshot
    from walras.mechanisms.karma.quantum import Allocation
    from walras.numerics.arrays import Floats, Integers


PAGE = 4096
"""Size of a page, bytes; grants are whole pages, as the kernel limits nothing smaller."""

FINEST = 1 << 35
"""Weight of all memory: claims are rounded to whole parts of this many."""

FINEST_FRACTION = 10**8
"""Largest denominator of a guaranteed fraction; times `FINEST`, it fits into 64 bits."""


class MemoryDivision(NamedTuple):
    """Memory of all jobs and entitlements.

    Attributes:
        granted: Bytes of each job; None for jobs without a demand.
        reasons: Explanation to each job's user, one sentence; empty for jobs without a demand.
        ledger: Credits after the decision; the snapshot's without Karma.
        quantum: Quantum that was settled; None without Karma.
    """

    granted: tuple[int | None, ...]
    reasons: tuple[Sentence | str, ...]
    users: tuple[MemoryOutcome, ...]
    ledger: Ledger | None
    quantum: SettledQuantum | None = None


class _Pools(NamedTuple):
    """Slices of all nodes, shape (pools,), and weights of n users and the slices they could use.

    Weights have the shape (n,), usable slices the shape (pools, n).
    """

    names: tuple[str, ...]
    weights: Integers
    slices: Integers
    wanted: Integers


class _Demands(NamedTuple):
    """Jobs with a demand, their users and nodes (indices), bytes usable and needed; shape (k,)."""

    job: Integers
    user: Integers
    node: Integers
    bytes: Integers
    least: Integers


def divide_memory(
    snapshot: Snapshot, policy: Policy, jobs: Sequence[Job], auctioned: Floats | None
) -> MemoryDivision:
    """Divide the memory of all nodes by the mechanism of the policy.

    All leaves of the tree of entitlements take part. Those without jobs lend their slices, which
    earns them credits. Balances of users that are no leaves are parked: they have children, or are
    not in the snapshot since they cannot be used at the moment.

    Args:
        snapshot: Entitlements, nodes, credits and demands of earlier decisions in the quantum.
        policy: Mechanism and its parameters.
        jobs: Jobs that have a node.
        auctioned: Bytes that each job won in auctions, shape (k,), if memory is auctioned.
    """
    if policy.memory is None or all(job.memory is None for job in jobs):
        return MemoryDivision((None,) * len(jobs), ("",) * len(jobs), (), snapshot.ledger)
    leaves = leaves_of(snapshot.entitlements)
    claims = divide_by_shares(snapshot.entitlements, leaves, of_memory=True)
    everyone = (snapshot.ledger or Ledger.open(())).joined_by(leaves)
    ledger = everyone.part_of(leaves)
    demands = _demands(jobs, ledger.users, snapshot.nodes)
    pools = _Pools(
        ledger.users,
        np.array([max(round(claims[name] * FINEST), 1) for name in ledger.users], np.int64),
        np.array([node.memory // policy.slice_bytes for node in snapshot.nodes], np.int64),
        _wanted(demands, snapshot.nodes, len(ledger.users), policy.slice_bytes),
    )
    quantum: SettledQuantum | None = None
    if auctioned is not None and policy.memory == "Auction":
        granted = np.asarray(auctioned[demands.job] // PAGE * PAGE, np.int64)
    else:
        held, quantum = _slices_held(policy, everyone, pools, snapshot)
        granted = _to_jobs(demands, held, policy.slice_bytes)
    return MemoryDivision(
        *_per_job(jobs, demands, granted),
        _outcomes(policy, pools, demands, granted, quantum),
        snapshot.ledger if quantum is None else quantum.ledger,
        quantum,
    )


def _demands(jobs: Sequence[Job], names: Sequence[str], nodes: Sequence[Node]) -> _Demands:
    user = {name: number for number, name in enumerate(names)}
    node = {each.name: number for number, each in enumerate(nodes)}
    rows = [
        (number, user[job.entitlement], node[job.node], job.memory.usable, job.memory.least)
        for number, job in enumerate(jobs)
        if job.memory is not None
    ]
    return _Demands(*np.array(rows, np.int64).T)


def _wanted(demands: _Demands, nodes: Sequence[Node], users: int, size: int) -> Integers:
    """Return demands in slices, rounded up job by job, at most the node's, shape (pools, n)."""
    memory = np.array([node.memory for node in nodes], np.int64)
    wanted = np.zeros((len(nodes), users), np.int64)
    most = np.minimum(demands.bytes, memory[demands.node])
    np.add.at(wanted, (demands.node, demands.user), -(-most // size))
    return np.minimum(wanted, memory[:, np.newaxis] // size)


def _raise_to_asked(pools: _Pools, snapshot: Snapshot, size: int) -> None:
    """Raise demands to the largest of earlier decisions in the same quantum.

    Karma charges by quantum: a user that lowers its demand before the quantum ends must not have
    had the slices for nothing.
    """
    user = {name: number for number, name in enumerate(pools.names)}
    for row, node in enumerate(snapshot.nodes):
        for name, asked in snapshot.earlier_demands.get(node.name, {}).items():
            if name in user:
                wanted = pools.wanted[row]
                wanted[user[name]] = max(wanted[user[name]], -(-asked // size))


def _slices_held(
    policy: Policy, everyone: Ledger, pools: _Pools, snapshot: Snapshot
) -> tuple[Integers, SettledQuantum | None]:
    """Return the slices that users hold, shape (pools, n), and the quantum if Karma decides."""
    if policy.memory == "Karma":
        _raise_to_asked(pools, snapshot, policy.slice_bytes)
        everyone = everyone.centred()
        fraction = policy.guaranteed_fraction.limit_denominator(FINEST_FRACTION)
        quantum = allocate(
            everyone.part_of(pools.names),
            pools.wanted,
            pools.slices,
            guaranteed_fraction=fraction,
            weights=pools.weights,
        )
        names = tuple(node.name for node in snapshot.nodes)
        return quantum.slices + _for_free(pools, quantum), SettledQuantum(
            quantum, names, pools.weights, fraction, policy.fading, everyone
        )
    rule = share_strictly if policy.memory == "Strict" else share_max_min
    held = [
        rule(wanted, int(capacity), pools.weights)
        for wanted, capacity in zip(pools.wanted, pools.slices, strict=True)
    ]
    return np.array(held, np.int64).reshape(pools.wanted.shape), None


def _for_free(pools: _Pools, quantum: Allocation) -> Integers:
    """Return the idle slices that users want but lack credits for, shape (pools, n).

    They have them for nothing, evenly by weight: nobody else wants them. What their borrowing
    costs beyond their credits would be forgiven (`Ledger.centred`).
    """
    free = np.zeros_like(quantum.slices)
    unmet = quantum.demands - quantum.slices
    for pool in np.flatnonzero((quantum.idle > 0) & unmet.any(axis=1)):
        free[pool] = share_max_min(unmet[pool], int(quantum.idle[pool]), pools.weights)
    return free


def _to_jobs(demands: _Demands, held: Integers, size: int) -> Integers:
    """Return the bytes of each job, shape (k,), from the slices of its user on its node.

    Minimums come first, if the user holds enough for all of them; the rest is divided evenly up to
    demands.
    """
    users = held.shape[1]
    pair = demands.node * users + demands.user
    pairs, member = np.unique(pair, return_inverse=True)
    room = (held.reshape(-1)[pairs] * size).astype(np.float64)
    needed = np.bincount(member, demands.least, len(pairs))
    lower = np.where((needed <= room)[member], demands.least, 0).astype(np.float64)
    filled = water_fill(
        np.ones(len(member)),
        lower,
        demands.bytes.astype(np.float64),
        room,
        group(member.astype(np.int64), len(pairs)),
    )
    return np.asarray(filled // PAGE * PAGE, np.int64)


def _per_job(
    jobs: Sequence[Job], demands: _Demands, granted: Integers
) -> tuple[tuple[int | None, ...], tuple[Sentence | str, ...]]:
    """Return every job's bytes, and the sentence that compares them with its demand."""
    held: list[int | None] = [None] * len(jobs)
    reasons: list[Sentence | str] = [""] * len(jobs)
    rows = (column.tolist() for column in (demands.job, granted, demands.bytes, demands.least))
    for number, amount, wanted, least in zip(*rows, strict=True):
        held[number] = amount
        reasons[number] = Sentence(_explain, (jobs[number], amount, wanted, least))
    return tuple(held), tuple(reasons)


def _explain(job: Job, amount: int, wanted: int, least: int) -> str:
    """Return why a job has this amount of the bytes that it could use, or needs at least."""
    if wanted - amount < PAGE:
        return f"all {format_bytes(wanted)} that it can use"
    reason = (
        f"{format_bytes(amount)} of the {format_bytes(wanted)} that it can use; "
        f"{job.entitlement} has no more on {job.node}"
    )
    return f"{reason}; short of its minimum of {format_bytes(least)}" if amount < least else reason


def _outcomes(
    policy: Policy,
    pools: _Pools,
    demands: _Demands,
    granted: Integers,
    quantum: SettledQuantum | None,
) -> tuple[MemoryOutcome, ...]:
    users = len(pools.names)
    total = int(pools.slices.sum()) * policy.slice_bytes
    weights = pools.weights.tolist()  # all bytes times a weight need not fit into 64 bits
    parts = sum(weights)
    entitled = [total * weight // parts for weight in weights]
    wanted = np.bincount(demands.user, demands.bytes, users)
    got = np.bincount(demands.user, granted, users)
    accounts = repeat(None) if quantum is None else accounts_of(quantum, policy.slice_bytes)
    return tuple(
        MemoryOutcome(name, entitled[number], int(wanted[number]), int(got[number]), account)
        for number, (name, account) in enumerate(zip(pools.names, accounts, strict=False))
    )
