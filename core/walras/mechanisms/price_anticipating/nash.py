"""Nash equilibria of the proportional-share market, by best responses in turn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.price_anticipating._response import sweep
from walras.mechanisms.price_anticipating.market import ShareMarket, ShareMarketError
from walras.numerics.checks import check_finite, check_kind, check_positive, check_whole, refuse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats

PATIENCE = 20
"""Rounds without smaller gains after which users are taken to cycle, and move half as far."""


@dataclass(frozen=True)
class NashEquilibrium:
    """Bids that a method found, and what any user could still gain by bidding otherwise.

    Attributes:
        bids: Bids, shape (n, m); each row adds up to the user's budget.
        iterations: Rounds in which every user had a turn.
        gains: Relative gain in utility of each user if it alone changed its bids to the best
            response, shape (n,). With limited parallelism, the best response is the one that local
            search found.
    """

    market: ShareMarket
    bids: Floats
    solver: str
    iterations: int
    gains: Floats
    tolerance: float

    @property
    def gain(self) -> float:
        """Largest of ``gains``: 0 at an equilibrium."""
        return float(self.gains.max(initial=0.0))

    @property
    def converged(self) -> bool:
        """Whether no user gains more than ``tolerance`` by other bids."""
        return self.gain <= self.tolerance

    @cached_property
    def prices(self) -> Floats:
        """Sum of all bids on each machine and its reserve, shape (m,)."""
        return np.asarray(self.market.reserve + self.bids.sum(axis=0))

    @cached_property
    def shares(self) -> Floats:
        """Share of each machine that each user gets, shape (n, m)."""
        return self.market.shares(self.bids)

    @cached_property
    def utilities(self) -> Floats:
        """Utility of each user, shape (n,)."""
        return self.market.utilities(self.shares)


def find_share_market_equilibrium(
    market: ShareMarket,
    *,
    tolerance: float = 1e-3,
    max_iterations: int = 200,
    start: ArrayLike | None = None,
) -> NashEquilibrium:
    """Let users respond in turn, until no user gains by another bid: a Nash equilibrium.

    Users take turns, since simultaneous responses cycle sooner. Responses in turn can cycle as well
    (Claim 4); where gains do not fall, users move half as far towards their best bids, then half
    of that, and so on, which leads to an equilibrium in the paper's example.

    With limited parallelism users always move all the way, as bids halfway between two sets of
    machines would be on too many. There may be no equilibrium then, and where one or two users
    compete for a machine often none is found (section 7.2); ``converged`` is False.

    Args:
        market: Users, machines and weights.
        tolerance: Largest relative gain in utility of any user. The paper stops at a gain of 0.001
            of the utility of all machines to a user, which is less strict.
        max_iterations: Rounds after which to give up; the paper's number.
        start: Bids to start from, shape (n, m); in proportion to weights if not given (section 7).

    Returns:
        The last bids, with the gains that are left.

    Raises:
        TypeError: The market is none.
        ShareMarketError: The bids to start from cannot be used, the tolerance is not positive and
            finite, or there is no round.
    """
    check_kind("market", market, ShareMarket)
    check_positive("tolerance", tolerance, ShareMarketError)
    check_whole("max_iterations", max_iterations, 1, ShareMarketError)
    bids = weight_proportional(market) if start is None else checked_bids(market, start, "start")
    gains = np.zeros(len(bids))
    guesses = np.full(len(bids), np.inf)
    step, best = 1.0, np.inf
    # Gains found in turn are against others' earlier bids. Gains against their last bids take a
    # round of their own, which is made only when they may be within the tolerance.
    promising = tolerance
    done = 0
    while done < max_iterations:
        respond_all(market, bids, guesses, gains, step)
        done += 1
        in_turn = gains.max(initial=0.0)
        if in_turn <= promising:
            respond_all(market, bids, guesses, gains, step=0.0)
            at_rest = gains.max(initial=0.0)
            if at_rest <= tolerance:
                break
            promising = in_turn * max(tolerance / at_rest, 0.1)
        if done % PATIENCE == 0 and not market.limited:
            step, best = (step, gains.max()) if gains.max() < best else (step / 2, best)
    else:
        respond_all(market, bids, guesses, gains, step=0.0)
    return NashEquilibrium(market, bids, "best responses in turn", done, gains, tolerance)


def weight_proportional(market: ShareMarket) -> Floats:
    """Return bids in proportion to weights, shape (n, m): those of users who anticipate nothing.

    With limited parallelism, in proportion to the k_i largest weights.
    """
    weights = np.array(market.weights)
    if market.limited:
        order = np.argsort(-weights, axis=1, kind="stable")
        rank = np.argsort(order, axis=1, kind="stable")
        weights[rank >= market.parallelism[:, None]] = 0
    return np.asarray(market.budgets[:, None] * (weights / weights.sum(axis=1, keepdims=True)))


def checked_bids(market: ShareMarket, given: ArrayLike, name: str = "bids") -> Floats:
    """Return a copy of ``given`` bids, shape (n, m), if they spend every user's budget.

    Raises:
        ShareMarketError: The bids do not spend every budget, or are invalid.
    """
    bids = np.array(check_finite(name, given, market.weights.shape, ShareMarketError))
    refuse(name, bids, bids < 0, "is negative", ShareMarketError)
    spent = bids.sum(axis=1)
    wrong = ~np.isclose(spent, market.budgets, rtol=1e-9, atol=0)
    refuse(f"sum of {name}", spent, wrong, "is not the user's budget", ShareMarketError)
    return bids


def respond_all(
    market: ShareMarket, bids: Floats, guesses: Floats, gains: Floats, step: float
) -> None:
    """Let all users of the market respond in turn; see `_response.sweep`."""
    sweep(
        market.roots, market.budgets, market.parallelism, market.reserve, bids, guesses, gains, step
    )
