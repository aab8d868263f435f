"""Memory, divided in slices among entitlements on every node, and among their jobs.

Each node is a pool of slices. An entitlement's demand there is what its jobs could use; Karma, or
one of its rivals, says how many slices it holds; its jobs fill them evenly, their minimums first.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._segments import group
from walras.admission import divide
from walras.fill import fill
from walras.karma.accounts import accounts_of
from walras.karma.ledger import Ledger
from walras.karma.quantum import allocate
from walras.karma.record import Settled
from walras.karma.rivals import share_max_min, share_strictly
from walras.plan import MemoryOutcome
from walras.words import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from walras.auctions import Auctioned
    from walras.snapshot import Job, MemoryDemand, Node, Policy, Snapshot

    Counts = NDArray[np.int64]
    Floats = NDArray[np.float64]

PAGE = 4096
"""Grants are whole pages of so many bytes: nothing smaller can be limited."""

FINEST = 1 << 20
"""Parts of the whole in which claims on memory are told apart."""


class Divided(NamedTuple):
    """What memory came to.

    Attributes:
        granted: bytes of each job, None for those that take no part.
        reasons: why, one sentence each; empty likewise.
        users: what each entitlement got.
        ledger: credits afterwards; as they were without Karma.
        quantum: that was settled; None without Karma.
    """

    granted: tuple[int | None, ...]
    reasons: tuple[str, ...]
    users: tuple[MemoryOutcome, ...]
    ledger: Ledger | None
    quantum: Settled | None = None


class _Pools(NamedTuple):
    """The memory of nodes, in slices, and what users want of it.

    Attributes:
        names: of the users.
        weights: shape (n,), their claims.
        slices: shape (pools,).
        wanted: shape (pools, n), slices.
    """

    names: tuple[str, ...]
    weights: Counts
    slices: Counts
    wanted: Counts


class _Demands(NamedTuple):
    """Jobs that want memory, by position, and what they want.

    Attributes:
        job: shape (k,), positions among all jobs.
        user: shape (k,), positions among the names.
        node: shape (k,), positions among the nodes.
        bytes: shape (k,).
        least: shape (k,), bytes.
    """

    job: Counts
    user: Counts
    node: Counts
    bytes: Counts
    least: Counts


def divide_memory(
    snapshot: Snapshot, jobs: Sequence[Job], policy: Policy, auctioned: Auctioned | None = None
) -> Divided:
    """Divide the memory of all nodes.

    All leaves of the tree of entitlements take part, those without jobs too: what they do not use
    is lent for them, and earns them credits.
    """
    if policy.memory is None or all(job.memory is None for job in jobs):
        return Divided((None,) * len(jobs), ("",) * len(jobs), (), snapshot.ledger)
    parents = {each.parent for each in snapshot.entitlements}
    leaves = [each.name for each in snapshot.entitlements if each.name not in parents]
    claims = divide(snapshot.entitlements, leaves, of_memory=True)
    ledger = (snapshot.ledger or Ledger.open(())).shared_by(leaves)
    demands = _demands(jobs, ledger.users, snapshot.nodes)
    pools = _Pools(
        ledger.users,
        np.array([max(round(claims[name] * FINEST), 1) for name in ledger.users], np.int64),
        np.array([node.memory // policy.slice_bytes for node in snapshot.nodes], np.int64),
        _wanted(demands, len(snapshot.nodes), len(ledger.users), policy.slice_bytes),
    )
    quantum: Settled | None = None
    if auctioned is not None and policy.memory == "Auction":
        granted = np.asarray(auctioned.memory[demands.job] // PAGE * PAGE, np.int64)
    else:
        held, quantum = _hold(policy, ledger, pools, snapshot)
        granted = _to_jobs(demands, held, policy.slice_bytes)
    return Divided(
        _per_job(len(jobs), demands, granted),
        _reasons(jobs, demands, granted),
        _outcomes(policy, pools, demands, granted, quantum),
        snapshot.ledger if quantum is None else quantum.allocation.ledger,
        quantum,
    )


def could_use(memory: MemoryDemand) -> int:
    """Return the bytes that a job takes if it can have them: its demand, within its bounds."""
    wanted = max(memory.demand, memory.least)
    return wanted if memory.most is None else min(wanted, memory.most)


def _demands(jobs: Sequence[Job], names: Sequence[str], nodes: Sequence[Node]) -> _Demands:
    user = {name: number for number, name in enumerate(names)}
    node = {each.name: number for number, each in enumerate(nodes)}
    rows = [
        (number, user[job.entitlement], node[job.node], could_use(job.memory), job.memory.least)
        for number, job in enumerate(jobs)
        if job.memory is not None
    ]
    return _Demands(*np.array(rows, np.int64).T)


def _wanted(demands: _Demands, pools: int, users: int, size: int) -> Counts:
    """Return demands in slices, shape (pools, n): a slice that is needed in part is needed."""
    wanted = np.zeros((pools, users), np.int64)
    np.add.at(wanted, (demands.node, demands.user), -(-demands.bytes // size))
    return wanted


def _raise_to_asked(pools: _Pools, snapshot: Snapshot, size: int) -> None:
    """Raise demands to what users have asked for earlier in the same quantum.

    Credits are counted by quanta: who could ask for less before one ends would have had the rest
    of it for nothing.
    """
    user = {name: number for number, name in enumerate(pools.names)}
    for row, node in enumerate(snapshot.nodes):
        for name, asked in snapshot.asked.get(node.name, {}).items():
            if name in user:
                wanted = pools.wanted[row]
                wanted[user[name]] = max(wanted[user[name]], -(-asked // size))


def _hold(
    policy: Policy, ledger: Ledger, pools: _Pools, snapshot: Snapshot
) -> tuple[Counts, Settled | None]:
    """Return the slices that each user holds of each pool, and the quantum that says so."""
    if policy.memory == "Karma":
        _raise_to_asked(pools, snapshot, policy.slice_bytes)
        quantum = allocate(
            ledger,
            pools.wanted,
            pools.slices,
            guaranteed_fraction=policy.guaranteed_fraction,
            weights=pools.weights,
        )
        names = tuple(node.name for node in snapshot.nodes)
        return quantum.slices, Settled(quantum, names, pools.weights, policy.guaranteed_fraction)
    rule = share_strictly if policy.memory == "Strict" else share_max_min
    held = [
        rule(wanted, int(capacity), pools.weights)
        for wanted, capacity in zip(pools.wanted, pools.slices, strict=True)
    ]
    return np.array(held, np.int64).reshape(pools.wanted.shape), None


def _to_jobs(demands: _Demands, held: Counts, size: int) -> Counts:
    """Divide what users hold on each node among their jobs there; returns bytes, shape (k,).

    Minimums first, if the user holds enough for all of them; the rest rises evenly, up to demands.
    """
    users = held.shape[1]
    pair = demands.node * users + demands.user
    pairs, member = np.unique(pair, return_inverse=True)
    room = (held.reshape(-1)[pairs] * size).astype(np.float64)
    needed = np.bincount(member, demands.least, len(pairs))
    lower = np.where((needed <= room)[member], demands.least, 0).astype(np.float64)
    filled = fill(
        np.ones(len(member)),
        lower,
        demands.bytes.astype(np.float64),
        room,
        group(member.astype(np.int64), len(pairs)),
    )
    return np.asarray(filled // PAGE * PAGE, np.int64)


def _per_job(jobs: int, demands: _Demands, granted: Counts) -> tuple[int | None, ...]:
    result: list[int | None] = [None] * jobs
    for number, amount in zip(demands.job.tolist(), granted.tolist(), strict=True):
        result[number] = amount
    return tuple(result)


def _reasons(jobs: Sequence[Job], demands: _Demands, granted: Counts) -> tuple[str, ...]:
    """Say of each job how what it gets compares with what it could use."""
    reasons = [""] * len(jobs)
    for number, amount, wanted, least in zip(
        demands.job.tolist(),
        granted.tolist(),
        demands.bytes.tolist(),
        demands.least.tolist(),
        strict=True,
    ):
        job = jobs[number]
        if wanted - amount < PAGE:
            reasons[number] = f"all {in_words(wanted)} that it can use"
            continue
        reasons[number] = (
            f"{in_words(amount)} of {in_words(wanted)} that it could use; {job.entitlement} has "
            f"no more on {job.node}"
        )
        if amount < least:
            reasons[number] += f"; short of its minimum of {in_words(least)}"
    return tuple(reasons)


def _outcomes(
    policy: Policy,
    pools: _Pools,
    demands: _Demands,
    granted: Counts,
    quantum: Settled | None,
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
