"""Prices by alternation: exact responses of users to prices, and of servers to users, in turn.

For a job with parallel fraction f and work w, let a = sqrt(w f) / (1 - f) and g = f / (1 - f). The
KKT conditions of the user's problem (eq. 5) say x = max(0, a mu / sqrt(p) - g), where
mu = 1 / sqrt(lambda) is one number per user. Spending the whole budget fixes mu given prices,
selling all cores of a server fixes p given every mu, and both are roots of increasing piecewise
linear functions:

    user:    sum_k max(0, a sqrt(p) mu - g p) = b          unknown mu
    server:  sum_k max(0, a mu / q - g)       = C          unknown q = sqrt(p)

The composed map Phi on log prices never expands distances in the largest norm. By the implicit
function theorem, over a user's active jobs (x > 0) and with e = a mu q = p (x + g),

    d log mu / d log p_k = (g p_k - e_k / 2) / sum e,   so  sum_k |d log mu / d log p_k| <= kappa/2,
    kappa = 1 - 2 sum_k min(g p_k, p_k x_k) / sum_k p_k (x_k + g_k)  < 1,

while d log p / d log mu_i are 2 times weights that add up to one. Plain iteration therefore
converges; Anderson acceleration (depth 6) makes it fast; and `certify` turns the same bound into a
proof: if on every server |Phi(t) - t| <= (1 - kappa) r, with kappa at its largest over the
ball of radius r about t = log p, then Phi maps that ball into itself and contracts there, so that
the one equilibrium lies within it (Banach).

All arrays of jobs are in two orders: "by user" and "by server" (see `walras.numerics.segments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.amdahl._anderson import SETBACK, Anderson
from walras.numerics.kernel import exp, kernel, log
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from walras.numerics.arrays import Floats, Indices, Integers

EPSILON = 2.0**-52

FAR = 1e300
"""A bound above every price and every mu, with room to add to it."""


class UserSide(NamedTuple):
    """Jobs in the order of their users.

    A job is active at prices p = q**2 exactly where mu > r q.

    Attributes:
        start: First job of each user, and the number of jobs, shape (n + 1,).
        server: Server of each job, shape (k,).
        a: The number sqrt(w f) / (1 - f) of each job, shape (k,).
        r: Quotient g / a of each job, shape (k,).
        budget: Budget of each user, shape (n,).
    """

    start: Integers
    server: Indices
    a: Floats
    r: Floats
    budget: Floats


class ServerSide(NamedTuple):
    """Jobs in the order of their servers.

    The bid a mu of a job is g t with t = mu / r, and the job is active exactly where t > q.

    Attributes:
        start: First job of each server, and the number of jobs, shape (m + 1,).
        user: User of each job, shape (k,).
        g: Quotient f / (1 - f) of each job, shape (k,).
        inverse_r: Quotient a / g of each job, shape (k,).
        capacity: Cores of each server, shape (m,).
    """

    start: Integers
    user: Indices
    g: Floats
    inverse_r: Floats
    capacity: Floats


def user_side(
    start: Integers,
    order: Indices,
    server: Integers,
    fraction: Floats,
    work: Floats,
    budget: Floats,
) -> UserSide:
    """Return the jobs in the order of users; ``fraction`` must lie strictly between 0 and 1."""
    servers = np.empty(len(order), np.uint32)
    a, r = np.empty((2, len(order)))
    _order_by_user(order, read_only(server), read_only(fraction), read_only(work), servers, a, r)
    return UserSide(start, servers, a, r, budget)


def server_side(
    start: Integers,
    order: Indices,
    user: Integers,
    fraction: Floats,
    work: Floats,
    capacity: Floats,
) -> ServerSide:
    """Return the jobs in the order of servers; ``fraction`` must lie strictly between 0 and 1."""
    users = np.empty(len(order), np.uint32)
    g, inverse_r = np.empty((2, len(order)))
    _order_by_server(
        order, read_only(user), read_only(fraction), read_only(work), users, g, inverse_r
    )
    return ServerSide(start, users, g, inverse_r, capacity)


# One loop each: the same by NumPy takes three times as long, and most of it for temporary arrays.
@kernel
def _order_by_user(
    order: Indices,
    server: Integers,
    fraction: Floats,
    work: Floats,
    servers: Indices,
    a: Floats,
    r: Floats,
) -> None:
    """Fill the arrays of `UserSide`, each of shape (k,)."""
    for k in range(len(order)):
        job = order[k]
        f, w = fraction[job], work[job]
        servers[k] = server[job]
        a[k] = np.sqrt(w * f) / (1.0 - f)
        r[k] = np.sqrt(f / w)


@kernel
def _order_by_server(
    order: Indices,
    user: Integers,
    fraction: Floats,
    work: Floats,
    users: Indices,
    g: Floats,
    inverse_r: Floats,
) -> None:
    """Fill the arrays of `ServerSide`, each of shape (k,)."""
    for k in range(len(order)):
        job = order[k]
        f, w = fraction[job], work[job]
        users[k] = user[job]
        g[k] = f / (1.0 - f)
        inverse_r[k] = np.sqrt(w / f)


def cores_of_jobs(
    user: Integers,
    server: Integers,
    fraction: Floats,
    work: Floats,
    mu: Floats,
    root: Floats,
    capacity: Floats,
) -> Floats:
    """Return each job's cores, shape (k,), in the order of the market's jobs.

    Users' demand at prices ``root**2`` spends every budget exactly. Scaled to each server's
    capacity, as bids would be, it sells every core exactly. The servers' response is not used: it
    gives a small user's x as a difference of large numbers, which is many times less precise than
    prices are.
    """
    cores = np.empty(len(user))
    _demand(user, server, fraction, work, mu, root, cores)
    wanted = np.bincount(server, cores, len(capacity))
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.divide(capacity, wanted, out=np.ones(len(capacity)), where=wanted > 0)
        cores *= scale[server]
    return cores


@kernel
def _demand(
    user: Integers,
    server: Integers,
    fraction: Floats,
    work: Floats,
    mu: Floats,
    root: Floats,
    cores: Floats,
) -> None:
    """Set ``cores`` to each user's demand for its jobs, shape (k,)."""
    for job in range(len(user)):
        f = fraction[job]
        wanted = np.sqrt(work[job] * f) * mu[user[job]] / root[server[job]] - f
        cores[job] = max(0.0, wanted / (1.0 - f))


@kernel
def answer_prices(side: UserSide, root: Floats, mu: Floats) -> None:
    """Set each user's ``mu`` to spend its budget at prices ``root**2``; ``mu`` is a warm start.

    Newton's method on a convex piecewise linear function: it ends, exactly, as soon as the set of
    active jobs (t < mu) that a step assumed is the one that the step's result has.

    Whether a job is active is a factor of 0 or 1, here and in `answer_users`: as a branch it would
    often be mispredicted where many jobs are idle, at twice the time of the whole.
    """
    for i in range(len(side.budget)):
        first, last = side.start[i], side.start[i + 1]
        guess = mu[i]
        lowest_idle = np.inf
        for _ in range(last - first + 3):
            slope = 0.0
            offset = side.budget[i]
            highest_active = 0.0
            lowest_idle = np.inf
            for k in range(first, last):
                q = root[side.server[k]]
                t = side.r[k] * q
                active = 1.0 * (t < guess)
                c = active * side.a[k] * q
                slope += c
                offset += c * t
                highest_active = max(highest_active, active * t)
                lowest_idle = min(lowest_idle, t + active * FAR)
            if slope == 0.0:
                guess = np.inf
                continue
            guess = offset / slope
            if highest_active < guess <= lowest_idle:
                break
        # A budget below the rounding error of a core's cost buys nothing.
        mu[i] = guess if guess < np.inf else lowest_idle


@kernel
def answer_users(side: ServerSide, mu: Floats, root: Floats) -> None:
    """Set each server's ``root`` price to sell all its cores; ``root`` is a warm start."""
    for j in range(len(side.capacity)):
        first, last = side.start[j], side.start[j + 1]
        if first == last:
            continue  # no demand: keep the price
        guess = root[j]
        for _ in range(last - first + 3):
            bids = 0.0
            supply = side.capacity[j]
            lowest_active = np.inf
            highest_idle = 0.0
            for k in range(first, last):
                t = mu[side.user[k]] * side.inverse_r[k]
                idle = 1.0 * (t <= guess)
                g = (1.0 - idle) * side.g[k]
                bids += g * t
                supply += g
                lowest_active = min(lowest_active, t + idle * FAR)
                highest_idle = max(highest_idle, idle * t)
            if bids == 0.0:
                guess = 0.0
                continue
            guess = bids / supply
            if highest_idle <= guess < lowest_active:
                break
        root[j] = guess


def certify(
    users: UserSide,
    servers: ServerSide,
    root: Floats,
    mu: Floats,
    next_root: Floats,
    radius: float,
) -> float:
    """Return a bound on the distance of log prices from those of the equilibrium.

    Args:
        users: Jobs in the order of users.
        servers: Jobs in the order of servers.
        root: Square roots of the prices exp(t), shape (m,).
        mu: Users' exact response to these prices, shape (n,).
        next_root: Servers' exact response to mu, the square roots of exp(Phi(t)), shape (m,).
        radius: Radius of the ball for which the contraction is bounded.

    Returns:
        max_j |Phi(t) - t|_j / (1 - kappa_j), with kappa at its largest over the ball. If at most
        ``radius``, it is a proven bound on the error of t and of Phi(t); above, it is an estimate.
        It allows for rounding: a sum of k positive terms is off by at most k units in the last
        place.
    """
    return _bound(users, servers, root, mu, next_root, radius, np.empty(len(mu)))


@kernel
def _bound(  # noqa: C901 - one sum by user, one by server, told apart by their bounds
    users: UserSide,
    servers: ServerSide,
    root: Floats,
    mu: Floats,
    next_root: Floats,
    radius: float,
    gain: Floats,
) -> float:
    """Return the bound of `certify`; ``gain``, shape (n,), is set to the users' parts of kappa."""
    grow = exp(radius)
    shrink = 1.0 / grow
    longest = 0
    for i in range(len(mu)):
        first, last = users.start[i], users.start[i + 1]
        if first == last:
            continue
        longest = max(longest, last - first)
        kept = 0.0
        total = 0.0
        for k in range(first, last):
            q = root[users.server[k]]
            e = users.a[k] * q * mu[i]
            gp = users.a[k] * q * users.r[k] * q
            if e * grow > gp * shrink:
                total += e * grow
                kept += max(0.0, min(gp * shrink, e * shrink - gp * grow))
        gain[i] = 2.0 * kept / total
    worst = 0.0
    for j in range(len(root)):
        first, last = servers.start[j], servers.start[j + 1]
        if first == last:
            continue
        kept = 0.0
        total = 0.0
        for k in range(first, last):
            i = servers.user[k]
            t = mu[i] * servers.inverse_r[k]
            c = servers.g[k] * t
            if t * grow > next_root[j]:
                total += c * grow
                if t * shrink > next_root[j]:
                    kept += c * gain[i]
        moved = abs(2.0 * log(next_root[j] / root[j]))
        moved += (longest + last - first + 32) * EPSILON
        if kept == 0.0:
            return np.inf
        worst = max(worst, moved * total / kept)
    return worst


def alternate(
    users: UserSide,
    servers: ServerSide,
    root: Floats,
    mu: Floats,
    tolerance: float,
    max_passes: int,
) -> tuple[int, float]:
    """Iterate from ``root`` (sqrt of prices) until the price error is proven below ``tolerance``.

    Args:
        users: Jobs in the order of users.
        servers: Jobs in the order of servers.
        root: Square roots of the prices to start from, shape (m,); set to the result.
        mu: Users' responses to start from, which may be infinite, shape (n,); set to the result.
        tolerance: Largest relative price error, as certified.
        max_passes: Number of passes after which to give up.

    Returns:
        The number of passes made, and the proven bound; infinity if nothing is proven.
    """
    search = Anderson(2.0 * np.log(root))
    next_root = root.copy()
    goal = 0.25 * tolerance
    smallest = np.inf
    for count in range(1, max_passes + 1):
        answer_prices(users, root, mu)
        answer_users(servers, mu, next_root)
        largest = search.compare(next_root, np.inf)
        if largest <= goal:
            bound = certify(users, servers, root, mu, next_root, tolerance)
            if bound <= tolerance:
                root[:] = next_root
                return count, bound
            # The bound tells how much smaller the change must become, down to rounding errors.
            goal = max(0.5 * goal * max(tolerance / bound, 1e-3), 4.0 * EPSILON)
        if largest > SETBACK * smallest:
            search.restart()  # the acceleration has extrapolated too far
        smallest = min(smallest, largest)
        search.move(root)
        next_root[:] = root
    return max_passes, np.inf
