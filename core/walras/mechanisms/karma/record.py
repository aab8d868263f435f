"""Records of settled quanta, from which anybody can settle them again, and accounts for users.

A record holds all inputs and results of a quantum, in whole numbers, so that a reader who replays
it need not trust its writer.

Accounts tell users their credits after a quantum, and who lent to whom. A slice costs the same
whoever donated it, and Algorithm 1 does not record whose slice a borrower gets. The accounts divide
it evenly: of every pool's borrowed slices each borrower has the same part from every donor, and the
rest from the shared slices that belong to no user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from walras.mechanisms.karma.ledger import LARGEST_BALANCE, UNIT, KarmaError, Ledger, in_credits
from walras.mechanisms.karma.quantum import allocate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

    from walras.mechanisms.karma.quantum import Allocation
    from walras.numerics.arrays import Floats, Integers

MOST_ENTRIES = 4096
"""Most users, and demands of users on nodes, in one record, so that a log line can hold it."""

MOST_LOANS = 10
"""Most loans of each kind in an account, as many as an Entitlement's status lists."""


@dataclass(frozen=True, eq=False)
class SettledQuantum:
    """A settled quantum, with the names and parameters that its arrays lack.

    Attributes:
        pools: Names of the nodes that are the pools, in the order of the rows.
        fading: Part of each difference from the mean balance that is gone after the quantum.
        everyone: Ledger before the quantum with the balances that are parked, those of users who
            take no part in it; None if there are none.
    """

    allocation: Allocation
    pools: tuple[str, ...]
    weights: Integers
    guaranteed_fraction: Fraction
    fading: float = 0.0
    everyone: Ledger | None = None

    @property
    def before(self) -> Ledger:
        """Ledger before the quantum, with all balances."""
        return self.allocation.before if self.everyone is None else self.everyone

    @cached_property
    def ledger(self) -> Ledger:
        """Ledger after the quantum, with all balances, and what has faded."""
        return ledger_after(self.before, self.allocation).faded(self.fading)

    @cached_property
    def places(self) -> Integers:
        """Index in the whole ledger of each user that takes part, shape (n,)."""
        return self.before.indices(self.allocation.before.users)

    @property
    def number(self) -> int:
        """Number of the quantum; the first that is ever settled has 1."""
        return self.allocation.ledger.quantum

    def demands(self) -> dict[str, dict[str, int]]:
        """Return the demands above 0 in slices, by pool and user."""
        users, table = self.allocation.before.users, self.allocation.demands
        rows, columns = np.nonzero(table)
        asked: dict[str, dict[str, int]] = {}
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            asked.setdefault(self.pools[row], {})[users[column]] = int(table[row, column])
        return asked


def ledger_after(everyone: Ledger, allocation: Allocation) -> Ledger:
    """Return the ledger after a quantum that some users of a ledger took part in.

    The other balances are parked: they neither earn nor pay. Slices that nobody pays for raise the
    mean balance of those who take part (`Allocation.unused`), and so the parked ones by as much,
    rounded down to a micro-credit. Otherwise it would become a debt to be away for a time.
    """
    after = allocation.ledger
    if everyone.users == after.users:
        return after
    rise = UNIT * allocation.unused // len(after.users) if after.users else 0
    balances = np.minimum(everyone.balances, LARGEST_BALANCE - 1 - rise) + rise
    balances[everyone.indices(after.users)] = after.balances
    return replace(everyone, balances=balances, carry=after.carry, quantum=after.quantum)


def record_of(settled: SettledQuantum) -> dict[str, Any]:
    """Return the record of a quantum as plain data.

    ``users`` lists all users; those whose balances are parked have the weight 0. ``pools`` lists
    the pools with demands: their slices, and the slices wanted and held of each user with a demand,
    by its index in ``users``. ``unwanted`` lists the slices of the other pools, which only count
    for the users' income. Credits are whole micro-credits. The record of a quantum with more than
    `MOST_ENTRIES` users and demands has only its number and theirs.
    """
    allocation = settled.allocation
    number, entries = settled.number, int(np.count_nonzero(allocation.demands))
    users = len(settled.before.users)
    if users + entries > MOST_ENTRIES:
        return {"quantum": number, "omitted": users + entries}
    weights = np.zeros(users, np.int64)
    weights[settled.places] = settled.weights
    wanted = (allocation.demands > 0).any(axis=1)
    capacities = allocation.shares.capacities
    return {
        "quantum": number,
        "guaranteedFraction": str(settled.guaranteed_fraction),
        "users": list(settled.before.users),
        "weights": weights.tolist(),
        "before": settled.before.balances.tolist(),
        "carryBefore": settled.before.carry,
        "pools": [_pool(settled, row) for row in np.flatnonzero(wanted).tolist()],
        "unwanted": capacities[~wanted].tolist(),
        "after": settled.ledger.balances.tolist(),
        "carry": settled.ledger.carry,
        **({"fading": settled.fading} if settled.fading else {}),
    }


def _pool(settled: SettledQuantum, row: int) -> dict[str, Any]:
    demands, slices = settled.allocation.demands[row], settled.allocation.slices[row]
    places = settled.places.tolist()
    return {
        "node": settled.pools[row],
        "slices": int(settled.allocation.shares.capacities[row]),
        "demands": [[places[n], int(demands[n])] for n in np.flatnonzero(demands).tolist()],
        "held": [[places[n], int(slices[n])] for n in np.flatnonzero(slices).tolist()],
    }


class ReplayedQuantum:
    """A recorded quantum that is settled again.

    Attributes:
        problems: Recorded results that do not follow from the recorded inputs, one line each.

    Raises:
        KarmaError: The data are not a record.
    """

    def __init__(self, record: dict[str, Any]) -> None:
        try:
            self.number = int(record["quantum"])
            users, past = tuple(map(str, record["users"])), self.number - 1
            self.before = Ledger(users, _whole(record["before"]), int(record["carryBefore"]), past)
            after = _whole(record["after"])
            self.after = Ledger(users, after, int(record["carry"]), self.number)
            self.problems = tuple(self._problems(record))
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise KarmaError(f"this is no record of a quantum: {error!r}") from error

    def _problems(self, record: dict[str, Any]) -> Iterable[str]:
        pools, unwanted = record["pools"], record["unwanted"]
        users = len(self.before.users)
        demands = np.zeros((len(pools) + len(unwanted), users), np.int64)
        held = np.zeros_like(demands)
        for row, pool in enumerate(pools):
            for table, field in ((demands, "demands"), (held, "held")):
                for user, amount in pool[field]:
                    table[row, user] = amount
        weights = _whole(record["weights"])
        there = np.flatnonzero(weights)
        again = allocate(
            self.before.part_of(self.before.users[user] for user in there.tolist()),
            demands[:, there],
            _whole([*(pool["slices"] for pool in pools), *unwanted]),
            guaranteed_fraction=record["guaranteedFraction"],
            weights=weights[there],
        )
        due = np.zeros_like(held)
        due[:, there] = again.slices
        for row, pool in enumerate(pools):
            if not np.array_equal(due[row], held[row]):
                node = pool["node"]
                yield f"quantum {self.number}: the slices of {node} do not follow from the demands"
        after = ledger_after(self.before, again)
        if after.faded(float(record.get("fading", 0))) != self.after:
            yield f"quantum {self.number}: the credits do not follow from the demands"


def _whole(values: Sequence[int]) -> Integers:
    return np.array(values, np.int64)


@dataclass(frozen=True, slots=True)
class Account:
    """Credits and loans of one user in a quantum; credits are exact decimal numbers.

    Attributes:
        earned: Credits earned in the quantum: its part of the free credits, and for slices lent.
        spent: Credits spent in the quantum, for slices borrowed.
        lent: Bytes lent by borrower, the `MOST_LOANS` largest.
        borrowed: Bytes borrowed by donor, the `MOST_LOANS` largest; shared slices have an empty
            name.
    """

    balance: str
    earned: str
    spent: str
    lent: tuple[tuple[str, int], ...] = ()
    borrowed: tuple[tuple[str, int], ...] = ()


def accounts_of(settled: SettledQuantum, slice_bytes: int) -> Iterator[Account]:
    """Yield the account of each user that takes part, in the order of the ledger."""
    allocation = settled.allocation
    users, loans = allocation.before.users, lending(allocation)
    taken = allocation.borrowed.sum(axis=0)
    shared = taken[loans.takers] - loans.slices.sum(axis=0)
    from_all = np.vstack([loans.slices, np.where(shared * slice_bytes >= 1, shared, 0)])
    donors = [users[donor] for donor in loans.donors.tolist()]
    takers = [users[taker] for taker in loans.takers.tolist()]
    lent = dict(zip(donors, _largest(loans.slices * slice_bytes, takers), strict=True))
    borrowed = dict(zip(takers, _largest(from_all.T * slice_bytes, [*donors, ""]), strict=True))
    gained = allocation.ledger.balances - allocation.before.balances
    for number, balance in enumerate(settled.ledger.balances[settled.places].tolist()):
        spent = int(taken[number] * allocation.shares.prices[number])
        yield Account(
            in_credits(balance),
            in_credits(int(gained[number]) + spent),
            in_credits(spent),
            lent.get(users[number], ()),
            borrowed.get(users[number], ()),
        )


class _Loans(NamedTuple):
    """Slices that k donors lend to m borrowers in all pools together, shape (k, m)."""

    donors: Integers
    takers: Integers
    slices: Floats


def lending(allocation: Allocation) -> _Loans:
    """Return what donors lend to borrowers: every donor of a pool to every borrower of it."""
    donors = np.flatnonzero(allocation.lent.any(axis=0))
    takers = np.flatnonzero(allocation.borrowed.any(axis=0))
    lent = allocation.lent[:, donors]
    whole = allocation.borrowed.sum(axis=1)
    slices = np.empty((len(donors), len(takers)))
    for number, taker in enumerate(takers.tolist()):  # each borrows in few pools
        taken = allocation.borrowed[:, taker]
        pools = np.flatnonzero(taken)
        slices[:, number] = (lent[pools] * (taken[pools] / whole[pools])[:, np.newaxis]).sum(axis=0)
    return _Loans(donors, takers, slices)


def _largest(loans: Floats, names: Sequence[str]) -> Iterator[tuple[tuple[str, int], ...]]:
    """Yield the largest loans of each row with the names of their columns, in whole bytes."""
    place = np.empty(len(names), np.int64)
    place[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    for row in np.rint(loans).astype(np.int64):
        order = np.lexsort((place, -row))[:MOST_LOANS].tolist()
        yield tuple((names[each], int(row[each])) for each in order if row[each])
