"""Memory, divided in slices among entitlements on every node, and among their jobs.

Each node is a pool of slices. An entitlement's demand there is what its jobs could use; Karma, or
one of its rivals, says how many slices it holds; its jobs fill them evenly, their minimums first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._segments import group
from walras.admission import divide
from walras.fill import fill
from walras.karma.ledger import Ledger, in_credits
from walras.karma.quantum import allocate
from walras.karma.rivals import share_max_min, share_strictly
from walras.plan import MemoryOutcome

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
        ledger: credits afterwards; None without Karma.
    """

    granted: tuple[int | None, ...]
    reasons: tuple[str, ...]
    users: tuple[MemoryOutcome, ...]
    ledger: Ledger | None


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
    ledger = _present(snapshot.ledger, leaves)
    demands = _demands(jobs, ledger.users, snapshot.nodes)
    pools = _Pools(
        ledger.users,
        np.array([max(round(claims[name] * FINEST), 1) for name in ledger.users], np.int64),
        np.array([node.memory // policy.slice_bytes for node in snapshot.nodes], np.int64),
        _wanted(demands, len(snapshot.nodes), len(ledger.users), policy.slice_bytes),
    )
    after: Ledger | None = None
    if auctioned is not None and policy.memory == "Auction":
        granted = np.asarray(auctioned.memory[demands.job] // PAGE * PAGE, np.int64)
    else:
        held, after = _hold(policy, ledger, pools)
        granted = _to_jobs(demands, held, policy.slice_bytes)
    return Divided(
        _per_job(len(jobs), demands, granted),
        _reasons(jobs, demands, granted),
        _outcomes(policy, pools, demands, granted, _balances(ledger, after)),
        snapshot.ledger if after is None else after,
    )


def could_use(memory: MemoryDemand) -> int:
    """Return the bytes that a job takes if it can have them: its demand, within its bounds."""
    wanted = max(memory.demand, memory.least)
    return wanted if memory.most is None else min(wanted, memory.most)


def _present(ledger: Ledger | None, names: Sequence[str]) -> Ledger:
    """Return the ledger without entitlements that are gone, and joined by those that are new."""
    ledger = ledger or Ledger.open(())
    there = set(names)
    gone = [user for user in ledger.users if user not in there]
    known = set(ledger.users)
    return ledger.leave(*gone).join(*(name for name in names if name not in known))


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


def _hold(policy: Policy, ledger: Ledger, pools: _Pools) -> tuple[Counts, Ledger | None]:
    """Return the slices that each user holds of each pool, and the credits afterwards."""
    if policy.memory == "Karma":
        quantum = allocate(
            ledger,
            pools.wanted,
            pools.slices,
            guaranteed_fraction=policy.guaranteed_fraction,
            weights=pools.weights,
        )
        return quantum.slices, quantum.ledger
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


def in_words(amount: int) -> str:
    """Return bytes for people, as 1.5Gi."""
    for unit, power in (("Gi", 3), ("Mi", 2), ("Ki", 1)):
        if amount >= 1024**power:
            return f"{amount / 1024**power:.1f}".removesuffix(".0") + unit
    return f"{amount} B"


def _balances(before: Ledger, after: Ledger | None) -> list[tuple[str, str]]:
    """Return each user's credits afterwards, and how many more than before they are."""
    if after is None:
        return [("", "")] * len(before.users)
    earned = after.balances - before.balances
    return [
        (in_credits(int(balance)), in_credits(int(more)))
        for balance, more in zip(after.balances, earned, strict=True)
    ]


def _outcomes(
    policy: Policy,
    pools: _Pools,
    demands: _Demands,
    granted: Counts,
    balances: Sequence[tuple[str, str]],
) -> tuple[MemoryOutcome, ...]:
    users = len(pools.names)
    entitled = int(pools.slices.sum()) * policy.slice_bytes * pools.weights / pools.weights.sum()
    wanted = np.bincount(demands.user, demands.bytes, users)
    got = np.bincount(demands.user, granted, users)
    return tuple(
        MemoryOutcome(
            name,
            int(entitled[number]),
            int(wanted[number]),
            int(got[number]),
            *balances[number],
        )
        for number, name in enumerate(pools.names)
    )
