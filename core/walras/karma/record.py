"""Records of settled quanta, from which anybody can settle them again.

A record holds all inputs and results of a quantum, in whole numbers, so that a reader who replays
it need not trust its writer.
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
"""Most users, and demands of users on nodes, in one record, so that a log line can hold it."""


@dataclass(frozen=True, eq=False)
class SettledQuantum:
    """A settled quantum, with the names and parameters that its arrays lack.

    Attributes:
        allocation: Slices and credits of the quantum.
        pools: Names of the nodes that are the pools, in the order of the rows.
        weights: Weight of each user, shape (n,).
        guaranteed_fraction: Part of fair shares that is guaranteed (alpha).
    """

    allocation: Allocation
    pools: tuple[str, ...]
    weights: Counts
    guaranteed_fraction: Fraction

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
    """A recorded quantum that is settled again.

    Attributes:
        number: Number of the quantum.
        before: Ledger at its beginning, as recorded.
        after: Ledger at its end, as recorded.
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
        if again.ledger != self.after:
            yield f"quantum {self.number}: the credits do not follow from the demands"


def _whole(values: Sequence[int]) -> Counts:
    return np.array(values, np.int64)
