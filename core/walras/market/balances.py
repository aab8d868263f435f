"""Balances of users' account: whole numbers that add up to zero, and stay so."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.numerics.arrays import Floats

UNIT = 1_000_000
"""Parts of a core-hour, and of a core, in which balances and their rates are whole numbers."""

HOUR = 3600.0


class Balance(NamedTuple):
    """The balance of one entitlement; 0 for one with children.

    Attributes:
        owed: Millionths of a core-hour that others owe it; negative if it owes.
        rate: Millionths of a core by which that grows now, without what fades.
        parent: Name of the entitlement above it; None at the top.
        entitled: Cores that its share is worth if all entitlements count; 0 if unknown.
        factor: Its budget, relative to that by shares alone; 1 without jobs.
    """

    owed: int = 0
    rate: int = 0
    parent: str | None = None
    entitled: float = 0.0
    factor: float = 1.0

    @property
    def core_hours(self) -> float:
        """Core-hours that others owe it; negative if it owes."""
        return self.owed / UNIT

    def level(self, half_life: float) -> float:
        """Return the balance in units of the most that could be lent; half-life in seconds."""
        return level(self.owed, self.entitled, half_life)


def level(owed: int, entitled: float, half_life: float) -> float:
    """Return a balance in units of what a user would be owed that always lent all of its cores.

    Args:
        owed: Millionths of a core-hour that others owe it.
        entitled: Cores that its share is worth.
        half_life: Half-life of balances in seconds.
    """
    limit = entitled * half_life / HOUR / math.log(2)
    return owed / UNIT / limit if limit > 0 else 0.0


def brought_forward(
    account: Mapping[str, Balance], seconds: float, half_life: float
) -> dict[str, Balance]:
    """Return the account after a time in which rates have not changed; balances sum to zero.

    Args:
        account: Balances and rates that each sum to zero.
        seconds: Seconds that have passed, not negative.
        half_life: Half-life of balances in seconds; 0 if they do not fade.
    """
    if seconds <= 0 or not account:
        return dict(account)
    owed = np.array([each.owed for each in account.values()], np.float64)
    rate = np.array([each.rate for each in account.values()], np.float64)
    if half_life > 0:
        steady = rate * (half_life / HOUR / math.log(2))
        later = steady + (owed - steady) * 2.0 ** (-seconds / half_life)
    else:
        later = owed + rate * (seconds / HOUR)
    return _with_owed(account, _whole(later))


def whole_rates(cores: Floats) -> list[int]:
    """Return rates that sum to zero as millionths of a core that sum to exactly zero."""
    return _whole(cores * UNIT)


def _whole(values: Floats) -> list[int]:
    """Return whole numbers that sum to zero, for numbers that nearly do."""
    whole = [round(each) for each in values.tolist()]
    if whole:
        largest = max(range(len(whole)), key=lambda row: abs(whole[row]))
        whole[largest] -= sum(whole)
    return whole


def shared_out(amount: int, weights: Sequence[float]) -> list[int]:
    """Return whole numbers in proportion to positive weights that sum to an amount."""
    if not weights:
        return []
    total = math.fsum(weights)
    ends = [round(amount * (each / total)) for each in accumulate(weights)]
    return [end - start for start, end in zip([0, *ends], [*ends[:-1], amount], strict=False)]


def settled_among_others(owed: Mapping[str, int]) -> dict[str, int]:
    """Return balances that sum to zero: claims without debtors are cut in proportion, and debts."""
    excess = sum(owed.values())
    sign = (excess > 0) - (excess < 0)
    cut = {name: each for name, each in owed.items() if each * sign > 0}
    parts = shared_out(excess, [abs(each) for each in cut.values()])
    return dict(owed) | {
        name: each - part for (name, each), part in zip(cut.items(), parts, strict=True)
    }


def _with_owed(account: Mapping[str, Balance], owed: Iterable[int]) -> dict[str, Balance]:
    return {
        name: each._replace(owed=amount)
        for (name, each), amount in zip(account.items(), owed, strict=True)
    }


def with_subtrees(account: Mapping[str, Balance]) -> dict[str, Balance]:
    """Return balances in which those of entitlements with children are the sum of all below."""
    sums = dict(account)
    for name in reversed(parents_first({name: each.parent for name, each in account.items()})):
        each = sums[name]
        if each.parent in sums:
            above = sums[each.parent]
            sums[each.parent] = above._replace(
                owed=above.owed + each.owed,
                rate=above.rate + each.rate,
                entitled=above.entitled + each.entitled,
            )
    return sums


def parents_first(parents: Mapping[str, str | None]) -> list[str]:
    """Return names so that each comes after its parent, siblings in the order of the alphabet."""
    children: defaultdict[str | None, list[str]] = defaultdict(list)
    for name, parent in sorted(parents.items()):
        children[parent if parent in parents else None].append(name)
    names = list(children[None])
    for name in names:
        names += children[name]
    return names
