"""Records of settled quanta, from which anybody can settle them again, and accounts for users.

A record holds all inputs and results of a quantum, in whole numbers, so that a reader who replays
it need not trust its writer.

Accounts tell users their credits after a quantum, and who lent to whom. A slice costs the same
whoever donated it, and Algorithm 1 does not record whose slice a borrower gets. The accounts divide
it evenly: of every pool's borrowed slices each borrower has the same part from every donor, and the
rest from the shared slices that belong to no user.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from walras.karma.ledger import KarmaError, Ledger, in_credits
from walras.karma.quantum import allocate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from walras._arrays import Integers
    from walras.karma.quantum import Allocation

MOST_ENTRIES = 4096
"""Most users, and demands of users on nodes, in one record, so that a log line can hold it."""


@dataclass(frozen=True, eq=False)
class SettledQuantum:
    """A settled quantum, with the names and parameters that its arrays lack.

    Attributes:
        pools: Names of the nodes that are the pools, in the order of the rows.
        fading: Part of each difference from the mean balance that is gone after the quantum.
    """

    allocation: Allocation
    pools: tuple[str, ...]
    weights: Integers
    guaranteed_fraction: Fraction
    fading: float = 0.0

    @cached_property
    def ledger(self) -> Ledger:
        """Ledger after the quantum, with what has faded."""
        return self.allocation.ledger.faded(self.fading)

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


def record_of(settled: SettledQuantum) -> dict[str, Any]:
    """Return the record of a quantum as plain data.

    ``pools`` lists the pools with demands: their slices, and the slices wanted and held of each
    user with a demand, by its index in ``users``. ``unwanted`` lists the slices of the other pools,
    which only count for the users' income. Credits are whole micro-credits. The record of a
    quantum with more than `MOST_ENTRIES` users and demands has only its number and theirs.
    """
    allocation = settled.allocation
    number, entries = settled.number, int(np.count_nonzero(allocation.demands))
    users = len(allocation.before.users)
    if users + entries > MOST_ENTRIES:
        return {"quantum": number, "omitted": users + entries}
    wanted = (allocation.demands > 0).any(axis=1)
    capacities = allocation.shares.capacities
    return {
        "quantum": number,
        "guaranteedFraction": str(settled.guaranteed_fraction),
        "users": list(allocation.before.users),
        "weights": settled.weights.tolist(),
        "before": allocation.before.balances.tolist(),
        "carryBefore": allocation.before.carry,
        "pools": [_pool(settled, row) for row in np.flatnonzero(wanted).tolist()],
        "unwanted": capacities[~wanted].tolist(),
        "after": settled.ledger.balances.tolist(),
        "carry": settled.ledger.carry,
        **({"fading": settled.fading} if settled.fading else {}),
    }


def _pool(settled: SettledQuantum, row: int) -> dict[str, Any]:
    demands, slices = settled.allocation.demands[row], settled.allocation.slices[row]
    return {
        "node": settled.pools[row],
        "slices": int(settled.allocation.shares.capacities[row]),
        "demands": [[user, int(demands[user])] for user in np.flatnonzero(demands).tolist()],
        "held": [[user, int(slices[user])] for user in np.flatnonzero(slices).tolist()],
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
        again = allocate(
            self.before,
            demands,
            _whole([*(pool["slices"] for pool in pools), *unwanted]),
            guaranteed_fraction=record["guaranteedFraction"],
            weights=_whole(record["weights"]),
        )
        for row, pool in enumerate(pools):
            if not np.array_equal(again.slices[row], held[row]):
                node = pool["node"]
                yield f"quantum {self.number}: the slices of {node} do not follow from the demands"
        if again.ledger.faded(float(record.get("fading", 0))) != self.after:
            yield f"quantum {self.number}: the credits do not follow from the demands"


def _whole(values: Sequence[int]) -> Integers:
    return np.array(values, np.int64)


@dataclass(frozen=True, slots=True)
class Account:
    """Credits and loans of one user in a quantum; credits are exact decimal numbers.

    Attributes:
        earned: Credits earned in the quantum: its part of the free credits, and for slices lent.
        spent: Credits spent in the quantum, for slices borrowed.
        lent: Bytes lent by borrower, most first.
        borrowed: Bytes borrowed by donor, most first; shared slices have an empty name.
    """

    balance: str
    earned: str
    spent: str
    lent: tuple[tuple[str, int], ...] = ()
    borrowed: tuple[tuple[str, int], ...] = ()


def accounts_of(settled: SettledQuantum, slice_bytes: int) -> Iterator[Account]:
    """Yield the account of each user, in the order of the ledger."""
    allocation = settled.allocation
    users, loans = allocation.before.users, lending(allocation)
    lent: list[dict[str, float]] = [{} for _ in users]
    borrowed: list[dict[str, float]] = [{} for _ in users]
    for (donor, taker), slices in loans.items():
        lent[donor][users[taker]] = slices
        borrowed[taker][users[donor]] = slices
    taken = allocation.borrowed.sum(axis=0)
    gained = allocation.ledger.balances - allocation.before.balances
    for number, balance in enumerate(settled.ledger.balances.tolist()):
        spent = int(taken[number] * allocation.shares.prices[number])
        of_nobody = float(taken[number]) - sum(borrowed[number].values())
        if of_nobody * slice_bytes >= 1:
            borrowed[number][""] = of_nobody
        yield Account(
            in_credits(balance),
            in_credits(int(gained[number]) + spent),
            in_credits(spent),
            _in_bytes(lent[number], slice_bytes),
            _in_bytes(borrowed[number], slice_bytes),
        )


def lending(allocation: Allocation) -> Mapping[tuple[int, int], float]:
    """Return the slices that each donor lends to each borrower in all pools, by their indices."""
    donors = np.flatnonzero(allocation.lent.any(axis=0))
    takers = np.flatnonzero(allocation.borrowed.any(axis=0))
    # Every donor of a pool lends to every borrower of it, in proportion.
    whole = np.maximum(allocation.borrowed.sum(axis=1, keepdims=True), 1)
    part = allocation.borrowed[:, takers] / whole
    loans = np.einsum("pd,pt->dt", allocation.lent[:, donors], part)
    donor, taker = np.nonzero(loans)
    pairs = zip(donors[donor].tolist(), takers[taker].tolist(), strict=True)
    return dict(zip(pairs, loans[donor, taker].tolist(), strict=True))


def _in_bytes(slices: Mapping[str, float], size: int) -> tuple[tuple[str, int], ...]:
    amounts = ((name, round(each * size)) for name, each in slices.items())
    return tuple(sorted(amounts, key=lambda item: (-item[1], item[0])))
