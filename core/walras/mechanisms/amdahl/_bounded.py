"""Prices by alternation where jobs have a least and a largest number of cores.

The steps are those of `walras_studies.amdahl._alternation`, with both bounds:
x = clip(a mu / sqrt(p) - g, l, h), where mu spends the user's budget given prices, and p sells the
server's cores given every mu. With bounds, they are no contraction: a job held at its maximum costs
its user more as its price rises, so that less is left for the rest. Such cores are complements, and
there may be several equilibria. (The limit f = 1 is a market of piecewise linear utilities, whose
equilibrium is PPAD-hard to find in general: Chen and Teng, ISAAC 2009.) The quality of a result is
therefore the largest violation of an equilibrium condition; no error of prices is bounded.

- A user whose jobs all have their maximum keeps the money that is left over. Its mu is then the
  least at which it wants no more, which keeps mu a continuous function of prices.
- A server with cores for the maximums of all its jobs has price 0, and its jobs have their
  maximum; the price of every other server is positive, as all its maximums would be demanded at 0.
- A user that cannot pay for its minimums buys as if it had none; after `MAX_UNAFFORDABLE_PASSES`
  such passes they are dropped for good, so that the search ends. Minimums within the entitlement,
  the share b / B of each server, can be paid for at any equilibrium, and are never dropped.
- Cores that a job keeps in any case are a minimum that is never dropped: a user that cannot pay
  for them has them all the same, and buys nothing else.

Where a plain step overshoots, Anderson acceleration restarts with smaller steps.

The search and the kernels of both responses are one module, since they share these rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.amdahl._anderson import LEAP, SETBACK, Anderson
from walras.mechanisms.amdahl.conditions import kkt_residual
from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.mechanisms.amdahl.satiation import Satiation, reserve_price, sated
from walras.numerics.clipped import clipped_root
from walras.numerics.kernel import kernel
from walras.numerics.segments import longest_group, read_only
from walras.numerics.water_filling import water_fill

if TYPE_CHECKING:
    from walras.numerics.arrays import Bools, Floats, FloatTable, Indices, Integers
    from walras.numerics.segments import Grouping

MAX_UNAFFORDABLE_PASSES = 16
"""Number of passes in which minimums may cost more than the budget before they are dropped."""

LOG_PRICE_RANGE = 200.0
"""Width of the searched range of log prices, below the highest that all budgets could pay."""

LEAST_LEFT = 1e-6
"""Part of a server's cores that counts as not kept, so that its price has a bound."""

TINY = 1e-300
"""Smallest divisor, which replaces 0."""

ROUNDING = 1e-12
"""Relative excess of minimums over a budget, share or capacity that counts as a rounding error."""

AT_RESERVE = 1e-9
"""Relative excess over the reserve price, or over minimums, that counts as a rounding error."""

STALL = 40
"""Number of passes without a smaller residual after which the acceleration restarts."""

LEAST_DAMPING = 0.05
"""Smallest factor of a plain step."""

STEADY = 1e-6
"""Relative difference of two successive changes of a price below which its stride doubles."""


class BoundedJobs(NamedTuple):
    """Jobs grouped by user or by server.

    Attributes:
        start: First job of each group, and the number of jobs, shape (groups + 1,).
        other: Server of each job if jobs are grouped by user, or else its user, shape (k,).
        a: sqrt(w f) / (1 - f) of each job, shape (k,).
        g: f / (1 - f) of each job, shape (k,).
        kept: Cores of each job that are never dropped, at most ``lower``, shape (k,).
        lower: Fewest cores of each job, shape (k,).
        upper: Most cores of each job, shape (k,).
        amount: Budget of each user, or cores of each server, shape (groups,).
    """

    start: Integers
    other: Indices
    a: Floats
    g: Floats
    kept: Floats
    lower: Floats
    upper: Floats
    amount: Floats


class BoundedSolution(NamedTuple):
    """Outcome of the search.

    Attributes:
        prices: Price per core of each server, shape (m,).
        cores: Cores of each job, shape (k,).
        affordable: Whether each user's minimums were kept, shape (n,).
        passes: Number of passes made.
        residual: Largest violation of an equilibrium condition; None if the market that was solved
            has other fractions than the one given, or fewer jobs.
    """

    prices: Floats
    cores: Floats
    affordable: Bools
    passes: int
    residual: float | None


def solve_bounded(
    market: AmdahlMarket,
    kept: Floats,
    lower: Floats,
    upper: Floats,
    fraction: Floats,
    prices: Floats,
    tolerance: float,
    max_passes: int,
    promise: Floats | None,
) -> BoundedSolution:
    """Search for an equilibrium within bounds.

    Args:
        market: Users, servers and jobs.
        kept: Cores that each job keeps in any case, at most ``lower``, shape (k,).
        lower: Fewest cores of each job, shape (k,).
        upper: Most cores of each job, shape (k,); may be infinite.
        fraction: Parallel fraction of each job, strictly between 0 and 1, shape (k,).
        prices: Prices to start from, positive, shape (m,).
        tolerance: Largest violation of an equilibrium condition.
        max_passes: Passes after which to give up.
        promise: Utility, weighted by work, below which each user is not sated, shape (n,); None if
            users spend their budgets in any case.
    """
    free = market.sum_by_server(upper) <= market.capacities
    scarce = np.flatnonzero(~free[market.server])
    whole = len(scarce) == market.jobs and np.array_equal(fraction, market.fraction)
    satiation = None
    if promise is not None:
        done = _work_at(market, np.where(free[market.server], upper, 0.0))
        satiation = Satiation(promise, market.sum_by_user(done))
    if whole:
        search = _Search(market, kept, lower, upper, satiation)
    else:
        part = AmdahlMarket(
            market.budgets,
            market.capacities,
            market.user[scarce],
            market.server[scarce],
            fraction[scarce],
            market.work[scarce],
        )
        search = _Search(part, kept[scarce], lower[scarce], upper[scarce], satiation)
    # A price is highest if all budgets are spent on the cores of one server that nobody keeps.
    left = market.capacities - market.sum_by_server(kept)
    highest = np.log(market.budgets.sum() / np.maximum(left, LEAST_LEFT * market.capacities))
    lowest = highest - LOG_PRICE_RANGE
    if satiation is not None:
        lowest = np.maximum(lowest, np.log(reserve_price(market)))
    bounds = lowest, highest
    steps = Anderson(np.clip(np.log(prices), *bounds))
    pace = _Pace()
    goal = 0.25 * tolerance
    for passes in range(1, max_passes + 1):
        # The cores of a server whose users have no money left are sold at the lowest price.
        answer = np.maximum(search.respond(steps.log_price), np.exp(0.5 * bounds[0]))
        largest = steps.compare(answer, LEAP)
        if largest <= goal or passes == max_passes:
            cores = search.cores()
            at = np.exp(steps.log_price)
            violation = search.violation(at, cores)
            if violation <= tolerance or (goal < ROUNDING and search.minimums_settled()):
                break
            goal = min(goal, largest) / 10 if search.minimums_settled() else goal
        pace.move(steps, search.root)
        np.clip(steps.log_price, *bounds, out=steps.log_price)
    held = upper.copy()
    held[scarce] = cores
    residual = violation if whole else None
    return BoundedSolution(np.where(free, 0.0, at), held, search.affordable(), passes, residual)


def _work_at(market: AmdahlMarket, cores: Floats) -> Floats:
    """Return the work w s(x) of each job, shape (k,)."""
    f = market.fraction
    return market.work * np.divide(
        cores, f + (1 - f) * cores, out=np.zeros(len(cores)), where=cores > 0
    )


class _Search:
    """Responses of users and servers to prices, and the minimums that are still kept."""

    def __init__(
        self,
        market: AmdahlMarket,
        kept: Floats,
        lower: Floats,
        upper: Floats,
        satiation: Satiation | None,
    ) -> None:
        self.market = market
        self.satiation = satiation
        self.limits = satiation or Satiation(
            np.full(len(market.budgets), np.inf), np.zeros(len(market.budgets))
        )
        self.kept, self.lower, self.upper = kept, lower, upper
        f = market.fraction
        self.pull = np.sqrt(market.work * f)
        self.a, self.g = self.pull / (1 - f), f / (1 - f)
        self.users = self._group_jobs(market.by_user, market.server, market.budgets)
        self.servers = self._group_jobs(market.by_server, market.user, market.capacities)
        self.protected = _within_entitlement(market, lower)
        self.unaffordable_passes = np.zeros(len(market.budgets), np.int64)
        self.minimum_scale = np.ones(len(market.budgets))
        self.mu = np.full(len(market.budgets), np.inf)
        self.root = np.ones(len(market.capacities))

    def _group_jobs(self, groups: Grouping, other: Integers, amount: Floats) -> BoundedJobs:
        start, order = groups
        others, there = np.empty(len(order), np.uint32), np.empty((5, len(order)))
        a, g, kept, lower, upper = there
        _order_jobs(
            order,
            other,
            read_only(self.a),
            read_only(self.g),
            read_only(self.kept),
            read_only(self.lower),
            read_only(self.upper),
            others,
            there,
        )
        return BoundedJobs(start, others, a, g, kept, lower, upper, amount)

    def respond(self, log_price: Floats) -> Floats:
        """Return servers' response to users' response, as square roots of prices, shape (m,)."""
        self.root = np.exp(0.5 * log_price)
        _users_respond(
            self.users,
            self.root,
            self.protected,
            self.unaffordable_passes,
            self.minimum_scale,
            *self.limits,
            self.mu,
        )
        answered = self.root.copy()
        _servers_respond(self.servers, self.mu, self.minimum_scale, answered)
        return answered

    def cores(self) -> Floats:
        """Return users' demand at the last prices, scaled to servers' capacities, shape (k,).

        Where the minimums on a server exceed its cores, those of its unprotected users are dropped.
        """
        market = self.market
        needed = market.sum_by_server(self.minimums)
        crowded = needed > market.capacities * (1 + ROUNDING)
        if crowded.any():
            asking = (self.minimums > self.kept) & crowded[market.server]
            asking &= ~self.protected[market.user]
            self.unaffordable_passes[market.user[asking]] = MAX_UNAFFORDABLE_PASSES
        lower, wanted = self.minimums, np.empty(market.jobs)
        jobs = market.user, market.server, market.fraction, self.pull
        bounds = read_only(lower), read_only(self.upper)
        _demand(*jobs, *bounds, self.mu, self.root, wanted)
        room = market.capacities
        if self.satiation is not None:
            # Whoever has no money left wants no more than its minimum, and is given all.
            asked, least = market.sum_by_server(wanted), market.sum_by_server(lower)
            unsold = self.root**2 <= reserve_price(market) * (1 + AT_RESERVE)
            unsold &= asked > least * (1 + AT_RESERVE)
            room = np.where(unsold, np.minimum(room, asked), room)
        return water_fill(wanted, lower, self.upper, room, market.by_server)

    @property
    def minimums(self) -> Floats:
        """Fewest cores of each job, shape (k,): those that it keeps, where others were dropped."""
        affordable = self.affordable()
        if affordable.all():
            return self.lower
        return np.where(affordable[self.market.user], self.lower, self.kept)

    def affordable(self) -> Bools:
        """Return whether each user's minimums are still kept, shape (n,)."""
        standing: Bools = self.unaffordable_passes < MAX_UNAFFORDABLE_PASSES
        return standing

    def minimums_settled(self) -> bool:
        """Return whether the last responses were made with the minimums that are still kept."""
        return bool(np.all(((self.minimum_scale > 0) == self.affordable()) | self.protected))

    def violation(self, prices: Floats, cores: Floats) -> float:
        """Return the largest violation of an equilibrium condition."""
        return kkt_residual(
            self.market,
            prices,
            cores,
            minimum=self.minimums,
            maximum=self.upper,
            satiation=self.satiation,
        )


def _within_entitlement(market: AmdahlMarket, lower: Floats) -> Bools:
    """Return whether each user's minimums are at most b / B of every server, shape (n,)."""
    within = np.ones(len(market.budgets), np.bool_)
    share = market.budgets / market.budgets.sum()
    _compare_with_entitlement(
        *market.by_user, market.server, read_only(lower), share, market.capacities, within
    )
    return within


@kernel
def _compare_with_entitlement(
    start: Integers,
    order: Indices,
    server: Integers,
    lower: Floats,
    share: Floats,
    capacity: Floats,
    within: Bools,
) -> None:
    """Set ``within`` to False for users whose minimums on a server exceed their ``share`` of it."""
    wanted = np.zeros(len(capacity))
    for i in range(len(share)):
        for slot in range(start[i], start[i + 1]):
            wanted[server[order[slot]]] += lower[order[slot]]
        for slot in range(start[i], start[i + 1]):
            j = server[order[slot]]
            if wanted[j] > share[i] * capacity[j] * (1.0 + ROUNDING):
                within[i] = False
            wanted[j] = 0.0


@kernel
def _order_jobs(
    order: Indices,
    other: Integers,
    a: Floats,
    g: Floats,
    kept: Floats,
    lower: Floats,
    upper: Floats,
    others: Indices,
    there: FloatTable,
) -> None:
    """Fill ``others`` and the rows of ``there``, the other columns of `BoundedJobs`, in order."""
    for k in range(len(order)):
        job = order[k]
        others[k] = other[job]
        there[0, k] = a[job]
        there[1, k] = g[job]
        there[2, k] = kept[job]
        there[3, k] = lower[job]
        there[4, k] = upper[job]


@kernel
def _demand(
    user: Integers,
    server: Integers,
    fraction: Floats,
    pull: Floats,
    lower: Floats,
    upper: Floats,
    mu: Floats,
    root: Floats,
    wanted: Floats,
) -> None:
    """Set the cores of each job that are ``wanted`` within bounds at prices ``root**2``.

    ``pull`` is sqrt(w f).
    """
    for k in range(len(wanted)):
        f = fraction[k]
        x = pull[k] * mu[user[k]] / root[server[k]] - f
        wanted[k] = min(max(x / (1.0 - f), lower[k]), upper[k])


@kernel
def _bound_crossings(
    slope: Floats, offset: Floats, bound: Floats, size: int
) -> tuple[float, float]:
    """Return the first and the last t at which a line, slope t - offset, meets its bound."""
    first, last = np.inf, 0.0
    for k in range(size):
        edge = (bound[k] + offset[k]) / slope[k]
        first = min(first, edge)
        last = max(last, edge)
    return first, last


@kernel
def _users_respond(
    side: BoundedJobs,
    root: Floats,
    protected: Bools,
    unaffordable_passes: Integers,
    minimum_scale: Floats,
    promise: Floats,
    base: Floats,
    mu: Floats,
) -> None:
    """Set each user's ``mu`` to spend its budget at prices ``root**2``, as far as it is not sated.

    ``minimum_scale`` is set to the factor, in this pass, of each user's minimums beyond what is
    kept: 1; for a ``protected`` user less where they cost more than its budget; for any other 0
    then, and ``unaffordable_passes`` rises by one.
    """
    longest = longest_group(side.start)
    slope, offset = np.empty(longest), np.empty(longest)
    lower, upper = np.empty(longest), np.empty(longest)
    loss, most, none = np.empty(longest), np.empty(longest), np.zeros(longest)
    for i in range(len(mu)):
        first, size = side.start[i], side.start[i + 1] - side.start[i]
        budget = side.amount[i]
        kept, asked, all_of_it = 0.0, 0.0, 0.0
        for k in range(size):
            q = root[side.other[first + k]]
            slope[k] = side.a[first + k] * q
            offset[k] = side.g[first + k] * q * q
            lower[k] = side.kept[first + k] * q * q
            upper[k] = side.upper[first + k] * q * q
            kept += lower[k]
            asked += side.lower[first + k] * q * q - lower[k]
            all_of_it += upper[k]
        scale = 1.0
        if protected[i]:
            scale = min(1.0, max(budget - kept, 0.0) / max(asked, TINY))
        elif asked > 0.0 and (
            kept + asked > budget * (1.0 + ROUNDING)
            or unaffordable_passes[i] >= MAX_UNAFFORDABLE_PASSES
        ):
            scale = 0.0
            unaffordable_passes[i] = min(unaffordable_passes[i] + 1, MAX_UNAFFORDABLE_PASSES)
        minimum_scale[i] = scale
        least = kept + scale * asked
        for k in range(size):
            q = root[side.other[first + k]]
            lower[k] += scale * (side.lower[first + k] - side.kept[first + k]) * q * q
        if all_of_it <= budget:
            mu[i] = _bound_crossings(slope, offset, upper, size)[1]
        elif least >= budget:
            mu[i] = _bound_crossings(slope, offset, lower, size)[0]
        else:
            mu[i] = clipped_root(slope, offset, lower, upper, size, budget, mu[i], 0.0)
        if promise[i] < np.inf and least < budget:
            mu[i] = sated(
                slope, offset, lower, upper, size, mu[i], base[i], promise[i], loss, most, none
            )


@kernel
def _servers_respond(side: BoundedJobs, mu: Floats, minimum_scale: Floats, root: Floats) -> None:
    """Set each ``root`` of a price to sell the server's cores; raise it if minimums exceed them."""
    longest = longest_group(side.start)
    slope, offset = np.empty(longest), np.empty(longest)
    lower, upper = np.empty(longest), np.empty(longest)
    for j in range(len(root)):
        first, size = side.start[j], side.start[j + 1] - side.start[j]
        if size == 0:
            continue
        least = 0.0
        for k in range(size):
            i = side.other[first + k]
            slope[k] = side.a[first + k] * mu[i]
            offset[k] = side.g[first + k]
            more = side.lower[first + k] - side.kept[first + k]
            lower[k] = side.kept[first + k] + more * minimum_scale[i]
            upper[k] = side.upper[first + k]
            least += lower[k]
        capacity = side.amount[j]
        if least > capacity * (1.0 + ROUNDING):
            root[j] *= np.e
        else:
            guess = 1.0 / root[j]
            root[j] = 1.0 / clipped_root(slope, offset, lower, upper, size, capacity, guess, 0.0)


class _Pace:
    """Control of step lengths and of restarts, since the map is no contraction here."""

    def __init__(self) -> None:
        self.smallest = np.inf
        self.stalled = 0
        self.damping = 1.0

    def move(self, steps: Anderson, root: Floats) -> None:
        """Move to the next point; see `Anderson.move`."""
        size = np.abs(steps.change)
        turn = np.abs(steps.change - steps.last_change)
        steady = (turn <= STEADY * size) & (size > STEADY) & steps.started
        np.multiply(steps.stride, 2.0, out=steps.stride, where=steady)
        steps.stride[~steady] = 1.0
        largest = float(size[~steady].max(initial=0.0))
        if largest > 0.0:
            self._judge(steps, largest)
        if largest == 0.0 or largest >= LEAP:  # differences of such changes are uninformative
            steps.restart()
        steps.move(root, self.damping)

    def _judge(self, steps: Anderson, largest: float) -> None:
        """Restart, with smaller steps, where the ``largest`` change does not become smaller."""
        self.stalled += 1
        if largest < self.smallest:
            self.smallest, self.stalled = largest, 0
            self.damping = min(1.0, 1.1 * self.damping)
        elif largest > SETBACK * self.smallest or self.stalled > STALL:
            steps.restart()
            self.smallest, self.stalled = largest, 0
            self.damping = max(0.5 * self.damping, LEAST_DAMPING)
