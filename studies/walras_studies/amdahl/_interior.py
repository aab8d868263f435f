"""Prices by an interior-point method, for jobs so parallel that alternation barely moves.

As f approaches 1 a job's demand becomes a step function of price, and the alternation hardly
contracts. Newton's method still converges if cores and slack are unknowns of their own. With
y = sqrt(w f) mu / sqrt(p), the KKT conditions of every job (eq. 5) are linear in its cores x and
slack z,

    (1 - f) x - z = y - f,   x >= 0,   z >= 0,   x z = 0,

and the market adds sum x = C for every server and sum p x = b for every user. The unknowns are
x, z, log p and log mu; the products x z are led to zero with the predictor-corrector step rule of
Mehrotra (SIAM J. Optimization 2(4), 1992). Eliminating x, z and the larger of the two sides
leaves one dense system of size min(n, m) per step; 6 to 40 steps are usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.numerics.kernel import kernel

if TYPE_CHECKING:
    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.numerics.arrays import Floats, FloatTable, Indices, Integers
    from walras.numerics.segments import Grouping

MAX_STEPS = 100
STALL = 8
"""Steps without progress after which rounding is taken to be the limit."""

STAY_INSIDE = 0.995
"""Longest step, as a part of the way to the boundary x = 0 or z = 0."""

LARGEST_LOG_STEP = 1.0
"""Largest change of log prices and log mu in a step, a factor e: they enter as exponentials."""


class InteriorPoint(NamedTuple):
    """Log prices, shape (m,), log mu, shape (n,), and cores, shape (k,), after some Newton steps.

    ``residual`` is the largest relative violation of a condition.
    """

    log_price: Floats
    log_mu: Floats
    cores: Floats
    steps: int
    residual: float


@kernel
def _coupling_matrix(
    start: Integers,
    order: Indices,
    other: Integers,
    left: Floats,
    right: Floats,
    scale: Floats,
    matrix: FloatTable,
) -> None:
    """Add the sum over groups of (left of one job) x (right of another) / scale of the group."""
    for group in range(len(scale)):
        for one in range(start[group], start[group + 1]):
            c = left[order[one]] / scale[group]
            row = other[order[one]]
            for two in range(start[group], start[group + 1]):
                matrix[row, other[order[two]]] += c * right[order[two]]


class _Newton:
    """The linear system of one step, factored once for its two right-hand sides."""

    def __init__(
        self, market: AmdahlMarket, price: Floats, y: Floats, x: Floats, z: Floats
    ) -> None:
        self.market = market
        self.pay = price[market.server]
        self.h = (1 - market.fraction) + z / x
        self.v = y / self.h
        # Rows: servers, a d_log_price - v d_log_mu; users, d d_log_mu + e d_log_price.
        self.a = 0.5 * market.sum_by_server(self.v)
        self.d = market.sum_by_user(self.pay * self.v)
        self.e = self.pay * (x - 0.5 * self.v)
        self.by_servers = len(self.a) <= len(self.d)
        keep, drop = (self.a, self.d) if self.by_servers else (self.d, self.a)
        groups: Grouping = market.by_user if self.by_servers else market.by_server
        other = market.server if self.by_servers else market.user
        left, right = (self.v, self.e) if self.by_servers else (self.e, self.v)
        matrix = np.zeros((len(keep), len(keep)))
        _coupling_matrix(groups.start, groups.order, other, left, right, drop, matrix)
        matrix.flat[:: len(keep) + 1] += keep
        self.inverse = np.linalg.inv(matrix)

    def solve(
        self, constant: Floats, server_rest: Floats, user_rest: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return the changes of log price, log mu and cores; ``constant`` is (r1 + r2 / x) / h."""
        market = self.market
        servers = server_rest - market.sum_by_server(constant)
        users = market.sum_by_user(self.pay * constant) - user_rest
        if self.by_servers:
            rest = users / self.d
            price = self.inverse @ (servers + market.sum_by_server(self.v * rest[market.user]))
            mu = rest - market.sum_by_user(self.e * price[market.server]) / self.d
        else:
            rest = servers / self.a
            mu = self.inverse @ (users - market.sum_by_user(self.e * rest[market.server]))
            price = rest + market.sum_by_server(self.v * mu[market.user]) / self.a
        cores = self.v * (mu[market.user] - 0.5 * price[market.server]) - constant
        return price, mu, cores


def _longest_step(values: Floats, change: Floats) -> float:
    """Return the part of ``change``, at most 1, after which positive ``values`` stay positive."""
    falling = change < 0
    if not falling.any():
        return 1.0
    return min(1.0, STAY_INSIDE * float((-values[falling] / change[falling]).min()))


def _limit_log_step(*changes: Floats) -> float:
    """Return the part of ``changes``, at most 1, in which none exceeds `LARGEST_LOG_STEP`."""
    largest = max(float(np.abs(change).max()) for change in changes)
    return min(1.0, LARGEST_LOG_STEP / largest) if largest > 0 else 1.0


def _initial_cores_and_slack(
    market: AmdahlMarket, log_price: Floats, log_mu: Floats, scale: Floats
) -> tuple[Floats, Floats]:
    """Return cores and slack near the central path: x z close to ``scale``."""
    f = market.fraction
    excess = np.sqrt(f * market.work) * np.exp(log_mu[market.user] - 0.5 * log_price[market.server])
    excess -= f
    spread = np.sqrt(excess**2 + 4 * (1 - f) * scale)
    idle = excess < 0
    cores = np.where(
        idle, 2 * scale / np.where(idle, spread - excess, 1.0), (excess + spread) / (2 * (1 - f))
    )
    cores = np.minimum(cores, market.capacities[market.server])
    return cores, np.maximum((1 - f) * cores - excess, 0.01 * f)


def solve_interior(
    market: AmdahlMarket, log_price: Floats, log_mu: Floats, tolerance: float = 1e-14
) -> InteriorPoint:
    """Find the equilibrium from a rough start.

    Args:
        market: Market whose fractions are strictly between 0 and 1, and whose users and servers all
            have a job.
        log_price: Log prices to start from, shape (m,).
        log_mu: Log mu of users to start from, shape (n,).
        tolerance: Largest relative violation of any condition.

    Returns:
        The best point found; its ``residual`` tells whether it reached the tolerance.
    """
    f = market.fraction
    root_wf = np.sqrt(market.work * f)
    budget = market.budgets[market.user]
    # What a job could get at most, times f: the size of x z when x and z are both "large".
    size = f * np.minimum(
        market.capacities[market.server], budget * np.exp(-log_price[market.server])
    )
    x, z = _initial_cores_and_slack(market, log_price, log_mu, 0.01 * size)
    best = InteriorPoint(log_price, log_mu, x, 0, np.inf)
    for step in range(MAX_STEPS):
        price = np.exp(log_price)
        y = root_wf * np.exp(log_mu[market.user] - 0.5 * log_price[market.server])
        gap = (1 - f) * x - z - y + f
        unsold = market.sum_by_server(x) - market.capacities
        unspent = market.sum_by_user(price[market.server] * x) - market.budgets
        product = x * z
        residual = max(
            float(np.abs(gap / np.maximum(y, 1e-3)).max()),
            float(np.abs(unsold / market.capacities).max()),
            float(np.abs(unspent / market.budgets).max()),
            float((product / size).max()),
        )
        if residual < best.residual:
            best = InteriorPoint(log_price, log_mu, x, step, residual)
        stuck = step - best.steps >= STALL
        if residual <= tolerance or stuck or not np.isfinite(residual):
            break
        try:
            newton = _Newton(market, price, y, x, z)
        except np.linalg.LinAlgError:  # singular to working precision: no better point from here
            break
        aim = 0.0
        for predicting in (True, False):
            target = product - aim * size
            change = newton.solve((gap + target / x) / newton.h, unsold, unspent)
            d_price, d_mu, d_x = change
            d_z = (-target - z * d_x) / x
            length = min(
                _longest_step(x, d_x), _longest_step(z, d_z), _limit_log_step(d_price, d_mu)
            )
            if predicting:
                mean = float((product / size).mean())
                ahead = float(((x + length * d_x) * (z + length * d_z) / size).mean())
                centring = min(max((ahead / mean) ** 3, 1e-4), 0.9)
                aim = mean * (max(centring, 0.5) if length < 0.1 else centring)
        x = x + length * d_x
        z = z + length * d_z
        log_price = log_price + length * d_price
        log_mu = log_mu + length * d_mu
    return best
