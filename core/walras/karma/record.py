"""What is written down of a settled quantum, so that anybody can settle it again.

A record holds all that a quantum follows from and all that followed, in whole numbers: whoever
replays it needs no trust in whoever wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from walras.karma.ledger import KarmaError, Ledger
from walras.karma.quantum import allocate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from walras.karma.quantum import Allocation

    Counts = NDArray[np.int64]

MOST_ENTRIES = 4096
"""Users, and demands of users on nodes, that one record lists, so that a log can hold it."""


@dataclass(frozen=True, eq=False)
class SettledQuantum:
    """A quantum, with what its arrays are about.

    Attributes:
        allocation: what it gave.
        pools: names of the pools, of nodes, in the order of the rows.
        weights: of users, shape (n,).
        guaranteed_fraction: alpha.
    """

    allocation: Allocation
    pools: tuple[str, ...]
    weights: Counts
    guaranteed_fraction: Fraction

    @property
    def number(self) -> int:
        """Of the quantum; the first that is ever settled has 1."""
        return self.allocation.ledger.quantum

    def demands(self) -> dict[str, dict[str, int]]:
        """Return the slices that were asked for, by pool and user, where any were."""
        users, table = self.allocation.before.users, self.allocation.demands
        rows, columns = np.nonzero(table)
        asked: dict[str, dict[str, int]] = {}
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            asked.setdefault(self.pools[row], {})[users[column]] = int(table[row, column])
        return asked


def record_of(settled: SettledQuantum) -> dict[str, Any]:
    """Return a quantum as plain data.

    ``pools`` lists the pools that somebody wants: their slices, and for each user that does (by
    its place in ``users``) the slices wanted and held. Of pools that nobody wants only the slices
    count, which give all users their income: ``unwanted`` lists these. Credits are whole
    micro-credits. A quantum of too many users and demands has its number only.
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
        "after": allocation.ledger.balances.tolist(),
        "carry": allocation.ledger.carry,
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
    """A record, settled again.

    Attributes:
        number: of the quantum.
        before: the ledger that it began with, as the record has it.
        after: the ledger that it ended with, as the record has it.
        problems: what of the record does not follow from the rest; one line each.

    Raises:
        KarmaError: it is no record.
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
                yield f"quantum {self.number}: other slices of {pool['node']} follow from it"
        if again.ledger != self.after:
            yield f"quantum {self.number}: other credits follow from it"


def _whole(values: Sequence[int]) -> Counts:
    return np.array(values, np.int64)
