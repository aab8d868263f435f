"""Core credits: who lends cores by leaving its budget unspent has a larger budget later.

Within a quantum, the budget of a user without jobs goes to the others, and the market forgets it.
Core credits remember. A user's credit c_i is the core-seconds that it has lent, less those that it
has borrowed, and older ones count less:

    dc_i / dt = r_i - (ln 2 / H) c_i,    -l_i <= c_i <= l_i,    l_i = e_i H / ln 2

H is the half-life, and e_i the cores that i's share of the cluster is worth if all entitlements
count, also those without jobs. The limit l_i is what a user would reach that always lends all of
e_i. The *level* c_i / l_i, from -1 to 1, is the part of its entitlement that a user has lent on
average lately.

**Lending.** A user borrows if it pays more, and holds more, than it is entitled to; it lends if it
pays and holds less, as long as others borrow that:

    b_i = max(0, min(p_i, x_i) - e_i)    a_i = max(0, e_i - max(p_i, x_i))
    r_i = a_i T / sum(a) - b_i T / sum(b)    with T = min(sum(a), sum(b))

where x_i are the cores that i buys, and p_i is what it pays for them, in cores at the average
price of those that are bought. So the r_i add up to zero: what one earns others pay, and cores
that nobody uses earn nothing. What a user says about speedups earns it nothing: a_i is at most
e_i - p_i, and p_i depends on its budget alone, as long as its jobs can use more cores.

**Budgets.** With s_i the bare budget, the part of i by shares among users with jobs,

    budget of i = s_i w_i / sum_j s_j w_j,    w_i = (1 - beta)^(-z_i / 2)

with z_i the level times `STEEPNESS`, at least -1 and at most 1. The weights w are within a factor
of 1 - beta of each other, so no budget is below (1 - beta) s_i, and none above s_i / (1 - beta).

**What is left of sharing incentives.** A market gives each user at least the utility of its part of
every node by budget (V-C of the Amdahl paper). With a budget of at least (1 - beta) s_i, and since
Amdahl's utility u is concave with u(0) = 0, this is at least u((1 - beta) y) >= (1 - beta) u(y),
where y is its part by the bare budget. So in a quantum, credits cost no user more than the part
beta of its bare entitlement's utility, whatever the others do.

**What a user gains by hiding jobs.** While it hides all of them, it has none of the utility that it
could have, at least that of its bare entitlement; for that, its later budgets are larger by a
factor of up to 1 / (1 - beta), and what it can buy at the prices by no more, until it has borrowed
what it lent or the credit has faded.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras._arrays import Floats

STEEPNESS = 4.0
"""Levels from -1 / STEEPNESS to 1 / STEEPNESS change budgets, by up to the most allowed."""


class CoreCredit(NamedTuple):
    """Core credit of one entitlement.

    Attributes:
        core_seconds: Core-seconds that the entitlement has lent lately; negative if borrowed.
        rate: Cores that it lends at present; negative if it borrows.
        entitled: Cores that its share is worth if all entitlements count.
        factor: Its budget, relative to the bare one; 1 without jobs.
    """

    core_seconds: float
    rate: float = 0.0
    entitled: float = 0.0
    factor: float = 1.0

    def limit(self, half_life: float) -> float:
        """Return the most core-seconds that can be lent; ``half_life`` is in seconds."""
        return self.entitled * half_life / math.log(2)

    def level(self, half_life: float) -> float:
        """Return the credit in units of its limit, from -1 to 1."""
        limit = self.limit(half_life)
        return max(-1.0, min(self.core_seconds / limit, 1.0)) if limit > 0 else 0.0

    def after(self, seconds: float, half_life: float) -> CoreCredit:
        """Return the credit after a time in which nothing has changed."""
        left = 2.0 ** (-seconds / half_life)
        steady = self.rate * half_life / math.log(2)
        return self._replace(core_seconds=steady + (self.core_seconds - steady) * left)

    def bounded(self, half_life: float) -> CoreCredit:
        """Return the credit within its limits."""
        return self._replace(core_seconds=self.level(half_life) * self.limit(half_life))


NO_CORE_CREDIT = CoreCredit(0.0)
"""Core credit of an entitlement that is new."""


def budgets_with_credits(
    parts: Mapping[str, float], levels: Mapping[str, float], most: float
) -> dict[str, float]:
    """Return the parts of the cluster of users with jobs, with their credits; they sum to 1.

    Args:
        parts: Part by shares of each user with jobs; they sum to 1.
        levels: Level of each user's credit; 0 where absent.
        most: Part beta of a budget that credits may cost a user, below 1.
    """
    if not parts:
        return {}
    level = np.array([levels.get(name, 0.0) for name in parts])
    exponents = np.clip(STEEPNESS * level, -1, 1) / -2
    weighted = np.array(list(parts.values())) * (1 - most) ** exponents
    return dict(zip(parts, (weighted / weighted.sum()).tolist(), strict=True))


def lending(entitled: Floats, paid: Floats, bought: Floats) -> Floats:
    """Return the cores that each entitlement lends, negative if it borrows; they add up to zero.

    Args:
        entitled: Cores that shares are worth, if all entitlements count, shape (n,).
        paid: Amount that each pays, in cores at the average price of those bought; 0 without jobs.
        bought: Cores that each buys; 0 without jobs.
    """
    borrowed = np.maximum(np.minimum(paid, bought) - entitled, 0.0)
    left = np.maximum(entitled - np.maximum(paid, bought), 0.0)
    total = min(float(borrowed.sum()), float(left.sum()))
    if total <= 0:
        return np.zeros(len(entitled))
    return np.asarray(left * (total / left.sum()) - borrowed * (total / borrowed.sum()))
