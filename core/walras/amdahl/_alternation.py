"""Prices by turns: users answer prices exactly, servers answer users exactly, until neither moves.

With f and w of a job, a = sqrt(w f) / (1 - f) and g = f / (1 - f), the KKT conditions of the
user's problem (eq. 5) say x = max(0, a mu / sqrt(p) - g), where mu = 1 / sqrt(lambda) is one
number a user. Spending the whole budget fixes mu given prices, filling the server fixes p given
every mu, and both are roots of increasing piecewise linear functions:

    user:    sum_k max(0, a sqrt(p) mu - g p) = b          unknown mu
    server:  sum_k max(0, a mu / q - g)       = C          unknown q = sqrt(p)

The composed map Phi on log prices never expands distances in the largest norm. By the implicit
function theorem, over a user's active jobs (x > 0) and with e = a mu q = p (x + g),

    d log mu / d log p_k = (g p_k - e_k / 2) / sum e,   so  sum_k |d log mu / d log p_k| <= kappa/2,
    kappa = 1 - 2 sum_k min(g p_k, p_k x_k) / sum_k p_k (x_k + g_k)  < 1,

while d log p / d log mu_i are 2 times weights that add up to one. Plain iteration therefore
converges; Anderson acceleration (depth 6) makes it fast; and `certify` turns the same bound into a
proof: if on every server |Phi(t) - t| <= (1 - kappa) r, with kappa taken at its largest over the
ball of radius r about t = log p, then Phi maps that ball into itself and contracts there, so that
the one equilibrium lies within it (Banach).

Everything here works on arrays in two orders: "by user" and "by server" (see `_segments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Matrix = NDArray[np.float64]
    Indices = NDArray[np.int64]
    ShortIndices = NDArray[np.uint32]

DEPTH = 6
"""Steps that Anderson acceleration looks back on; deeper windows saved no passes."""

SETBACK = 10.0
"""Growth of the residual over its smallest so far at which the acceleration starts anew."""

LEAP = 2.0
"""Furthest that a log price is extrapolated beyond the plain step."""

EPSILON = 2.0**-52

FAR = 1e300
"""Above every price and every mu, with room to add to it."""


class UserSide(NamedTuple):
    """Jobs in the order of their users: where each user's begin, their server, a, and r = g / a.

    A job is active at prices p = q**2 exactly where mu > r q.
    """

    start: Indices
    server: ShortIndices
    a: Floats
    r: Floats
    budget: Floats


class ServerSide(NamedTuple):
    """Jobs in the order of their servers: where each server's begin, their user, g, and 1 / r.

    The bid a mu of a job is g t with t = mu / r, and the job is active exactly where t > q.
    """

    start: Indices
    user: ShortIndices
    g: Floats
    inverse_r: Floats
    capacity: Floats


def user_side(
    start: Indices,
    order: ShortIndices,
    server: Indices,
    fraction: Floats,
    work: Floats,
    budget: Floats,
) -> UserSide:
    """Lay the jobs out by user; ``fraction`` must lie strictly between 0 and 1."""
    job = order.astype(np.intp)  # once, or each of the three look-ups below would do it
    f, w = fraction[job], work[job]
    servers = server[job].astype(np.uint32)
    return UserSide(start, servers, np.sqrt(w * f) / (1 - f), np.sqrt(f / w), budget)


def server_side(
    start: Indices,
    order: ShortIndices,
    user: Indices,
    fraction: Floats,
    work: Floats,
    capacity: Floats,
) -> ServerSide:
    """Lay the jobs out by server; ``fraction`` must lie strictly between 0 and 1."""
    job = order.astype(np.intp)
    f, w = fraction[job], work[job]
    return ServerSide(start, user[job].astype(np.uint32), f / (1 - f), np.sqrt(w / f), capacity)


def even_bids(users: UserSide, servers: ServerSide) -> Floats:
    """Return the square roots of the prices at which every user bids the same on all its jobs."""
    jobs = np.diff(users.start)
    bid = np.repeat(users.budget / np.maximum(jobs, 1), jobs)
    money = np.bincount(users.server, bid, len(servers.capacity))
    return np.sqrt(np.where(money > 0, money / servers.capacity, 1.0))


def cores_of_jobs(
    user: Indices,
    server: Indices,
    fraction: Floats,
    work: Floats,
    mu: Floats,
    root: Floats,
    capacity: Floats,
) -> Floats:
    """Return each job's cores, shape (k,), in the order of the jobs.

    What users demand at prices ``root**2`` spends every budget exactly; scaling it to each
    server's capacity, as bids would be, then sells every core exactly. To take x from the servers'
    answer instead would leave a small user's x, a difference of large numbers, many times further
    off than prices are.
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
    user: Indices,
    server: Indices,
    fraction: Floats,
    work: Floats,
    mu: Floats,
    root: Floats,
    cores: Floats,
) -> None:
    """Set the ``cores`` that each job's user wants for it."""
    for job in range(len(user)):
        f = fraction[job]
        wanted = np.sqrt(work[job] * f) * mu[user[job]] / root[server[job]] - f
        cores[job] = max(0.0, wanted / (1.0 - f))


@kernel
def answer_prices(side: UserSide, root: Floats, mu: Floats) -> None:
    """Set each user's ``mu`` to spend its budget at prices ``root**2``; ``mu`` is a warm start.

    Newton's method on a convex piecewise linear function: it ends, exactly, as soon as the set of
    active jobs (t < mu) that a step assumed is the one that the step's result has.

    Whether a job is active is a factor of 0 or 1, here and in `answer_users`: where many are idle a
    processor would guess a branch wrong too often, at twice the time of the whole.
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
        # A budget lost in the rounding of what one core costs buys nothing.
        mu[i] = guess if guess < np.inf else lowest_idle


@kernel
def answer_users(side: ServerSide, mu: Floats, root: Floats) -> None:
    """Set each server's ``root`` price to sell all its cores; ``root`` is a warm start."""
    for j in range(len(side.capacity)):
        first, last = side.start[j], side.start[j + 1]
        if first == last:
            continue  # nobody asks: any price will do, keep the one there is
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
    """Bound the distance of the log prices from equilibrium, if it is at most ``radius``.

    Args:
        users: the market in the order of users.
        servers: the market in the order of servers.
        root: sqrt of the prices t in question.
        mu: the users' exact answer to them.
        next_root: the servers' exact answer to that, sqrt of Phi(t).
        radius: of the ball for which the contraction is bounded.

    Returns:
        max_j |Phi(t) - t|_j / (1 - kappa_j), with kappa at its largest over the ball. At most
        ``radius``, it is proven to bound the error of t and of Phi(t); above, it is an estimate.
        Rounding is in it: a sum of k positive terms is off by at most k units in the last place.
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
    """Return the bound of `certify`; ``gain``, shape (n,), becomes the users' parts of kappa."""
    grow = np.exp(radius)
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
        moved = abs(2.0 * np.log(next_root[j] / root[j]))
        moved += (longest + last - first + 32) * EPSILON
        if kept == 0.0:
            return np.inf
        worst = max(worst, moved * total / kept)
    return worst


class _History(NamedTuple):
    """What Anderson acceleration looks back on, and room to work in; by servers, or by slots.

    Attributes:
        log_price: shape (m,), the point, and
        residual: shape (m,), by how much the map moves it.
        last_price: shape (m,), the same of the pass before, as is
        last_residual: shape (m,).
        changes: shape (DEPTH, m), of the residual from pass to pass.
        moves: shape (DEPTH, m), of the point that the pass led to.
        gram: shape (DEPTH, DEPTH), products of changes.
        projection: shape (DEPTH,), of the residual on changes.
        matrix: shape (DEPTH, DEPTH), scratch.
        weights: shape (DEPTH,), of the moves that are taken back.
    """

    log_price: Floats
    residual: Floats
    last_price: Floats
    last_residual: Floats
    changes: Matrix
    moves: Matrix
    gram: Matrix
    projection: Floats
    matrix: Matrix
    weights: Floats


def alternate(
    users: UserSide,
    servers: ServerSide,
    root: Floats,
    mu: Floats,
    tolerance: float,
    max_passes: int,
) -> tuple[int, float]:
    """Iterate from ``root`` (sqrt of prices) until the price error is proven below ``tolerance``.

    A loop in Python over kernels: as one kernel it would gain 4 microseconds a pass, and have the
    first decision of a machine wait for all of them to be compiled twice.

    Args:
        users: the market in the order of users.
        servers: the market in the order of servers.
        root: shape (m,), start; holds the result afterwards.
        mu: shape (n,), start (infinity will do); holds the result afterwards.
        tolerance: on the certified largest relative price error.
        max_passes: after which to give up.

    Returns:
        Passes made, and the proven bound (infinity where there is none).
    """
    history = _start(root)
    next_root = root.copy()
    goal = 0.25 * tolerance
    smallest = np.inf
    steps = 0
    for count in range(1, max_passes + 1):
        answer_prices(users, root, mu)
        answer_users(servers, mu, next_root)
        largest = _compare(history.log_price, next_root, history.residual)
        if largest <= goal:
            bound = certify(users, servers, root, mu, next_root, tolerance)
            if bound <= tolerance:
                root[:] = next_root
                return count, bound
            # How far to go is known now; where no bound is in reach, rounding has the last word.
            goal = max(0.5 * goal * max(tolerance / bound, 1e-3), 4.0 * EPSILON)
        if largest > SETBACK * smallest:
            steps = 0  # extrapolated too far: forget what misled, and take a plain step
        elif count > 1:
            steps += 1
        smallest = min(smallest, largest)
        _extrapolate(history, steps, root, next_root)
    return max_passes, np.inf


def _start(root: Floats) -> _History:
    servers = len(root)
    residual, last_price, last_residual = np.empty((3, servers))
    changes, moves = np.empty((2, DEPTH, servers))
    gram, matrix = np.empty((2, DEPTH, DEPTH))
    projection, weights = np.empty((2, DEPTH))
    return _History(
        2.0 * np.log(root),
        residual,
        last_price,
        last_residual,
        changes,
        moves,
        gram,
        projection,
        matrix,
        weights,
    )


@kernel
def _compare(log_price: Floats, next_root: Floats, residual: Floats) -> float:
    """Set ``residual`` to how far the answers move log prices; return the furthest."""
    largest = 0.0
    for j in range(len(residual)):
        residual[j] = 2.0 * np.log(next_root[j]) - log_price[j]
        largest = max(largest, abs(residual[j]))
    return largest


def _extrapolate(history: _History, steps: int, root: Floats, next_root: Floats) -> None:
    """Set ``root`` and ``next_root`` to the next point, looking back on ``steps`` at most."""
    point = history.log_price, history.residual, history.last_price, history.last_residual
    products = history.gram, history.projection
    size = min(steps, DEPTH)
    if size > 0:
        _remember(*point, history.changes, history.moves, *products, (steps - 1) % DEPTH, size)
        _mix(*products, history.matrix, history.weights, size)
    _move(*point, history.moves, history.weights, size, root, next_root)


@kernel
def _remember(
    log_price: Floats,
    residual: Floats,
    last_price: Floats,
    last_residual: Floats,
    changes: Matrix,
    moves: Matrix,
    gram: Matrix,
    projection: Floats,
    slot: int,
    size: int,
) -> None:
    """Put the last step into ``slot``, and its products with the ``size`` that are remembered."""
    m = len(residual)
    for j in range(m):
        change = residual[j] - last_residual[j]
        changes[slot, j] = change
        moves[slot, j] = log_price[j] - last_price[j] + change
    for i in range(size):
        dot = 0.0
        against = 0.0
        for j in range(m):
            dot += changes[i, j] * changes[slot, j]
            against += changes[i, j] * residual[j]
        gram[i, slot] = dot
        gram[slot, i] = dot
        projection[i] = against


@kernel
def _move(
    log_price: Floats,
    residual: Floats,
    last_price: Floats,
    last_residual: Floats,
    moves: Matrix,
    weights: Floats,
    size: int,
    root: Floats,
    next_root: Floats,
) -> None:
    """Go from the point to the next, the ``size`` moves taken back by their weights."""
    m = len(root)
    for j in range(m):
        last_price[j] = log_price[j]
        last_residual[j] = residual[j]
        log_price[j] += residual[j]
    for i in range(size):
        weight = weights[i]
        for j in range(m):
            log_price[j] -= weight * moves[i, j]
    for j in range(m):
        plain = last_price[j] + residual[j]
        log_price[j] = min(max(log_price[j], plain - LEAP), plain + LEAP)
        root[j] = np.exp(0.5 * log_price[j])
        next_root[j] = root[j]


@kernel
def _mix(gram: Matrix, projection: Floats, matrix: Matrix, weights: Floats, size: int) -> None:
    """Set the least-squares ``weights`` of Anderson acceleration, slightly regularised."""
    trace = 0.0
    for i in range(size):
        weights[i] = 0.0
        trace += gram[i, i]
    if trace == 0.0:
        return
    for i in range(size):
        weights[i] = projection[i]
        for j in range(size):
            matrix[i, j] = gram[i, j]
        matrix[i, i] += 1e-14 * trace
    for i in range(size):  # elimination; the matrix is symmetric and positive definite
        for j in range(i + 1, size):
            factor = matrix[j, i] / matrix[i, i]
            for k in range(i, size):
                matrix[j, k] -= factor * matrix[i, k]
            weights[j] -= factor * weights[i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            weights[i] -= matrix[i, k] * weights[k]
        weights[i] /= matrix[i, i]
