"""Rounding credits: what rounding takes from users at one time, it returns at another.

As long as nothing changes on a node, Hamilton's method rounds the same user down: of two equal
users on three cores, one holds two. Over time, though, fractions of cores can be held exactly. So
each user has a credit, the core-seconds that rounding has taken from it, or given if negative:

    c_i(t) = integral of (q_i - x_i) dt

with q_i the user's cores before rounding and x_i those that it holds. Fractional parts are ranked
by their size plus c_i / l_i (`walras.rounding`), and a node that hysteresis would keep as it is
changes if that gives cores to a user whose credit has reached its limit l_i, or takes some from one
at -l_i (`walras.hysteresis`), where

    l_i = LIMIT T q_i

and T is the averaging time. Credits therefore stay between about -l_i and l_i, and the mean of x_i
over the time T is within 2 LIMIT, 1.5 %, of q_i; decisions that come late add to that.

Some losses can never be returned: a pool of small jobs, for example, has at least one core. Credits
are therefore kept within `MOST` limits, so that no user has to make up for more than that later.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT = 0.0075
"""Limit of a user's credit, as a part of its cores times the averaging time."""

MOST = 2.0
"""Limits beyond which a credit does not grow."""

NEGLIGIBLE = 1e-6
"""Cores of a loss that are due to the error of prices."""


class RoundingCredit(NamedTuple):
    """Rounding credit of one user.

    Attributes:
        core_seconds: Core-seconds that rounding has taken from the user; negative if it has given.
        loss: Cores that rounding takes at present; negative if it gives.
        quota: Cores of the user before rounding.
    """

    core_seconds: float
    loss: float = 0.0
    quota: float = 0.0

    def limit(self, averaging: float) -> float:
        """Return the core-seconds at which cores are returned; ``averaging`` is in seconds."""
        return LIMIT * averaging * self.quota

    def relative(self, averaging: float) -> float:
        """Return the credit in units of its limit, from -`MOST` to `MOST`."""
        limit = self.limit(averaging)
        return max(-MOST, min(self.core_seconds / limit, MOST)) if limit > 0 else 0.0

    def after(self, seconds: float) -> RoundingCredit:
        """Return the credit after a time in which nothing has changed."""
        return self._replace(core_seconds=self.core_seconds + self.loss * seconds)

    def clipped(self, averaging: float) -> RoundingCredit:
        """Return the credit within `MOST` limits."""
        return self._replace(core_seconds=self.relative(averaging) * self.limit(averaging))


NO_CREDIT = RoundingCredit(0.0)
"""Rounding credit of a user that is new."""


def seconds_to_limit(credits_: Iterable[RoundingCredit], averaging: float) -> float | None:
    """Return the seconds until the first credit reaches a limit, if nothing changes.

    None if no credit will. One that has reached its limit already does not count: rounding cannot
    make up for it at present.
    """
    times = (
        (math.copysign(each.limit(averaging), each.loss) - each.core_seconds) / each.loss
        for each in credits_
        if abs(each.loss) > NEGLIGIBLE
    )
    first = min((time for time in times if time > 0), default=math.inf)
    return None if first == math.inf else first
