"""Local greedy adjustment (6.3): bids of users who can only observe what their money brings.

At each step, a user moves a fixed small amount of money from the server with the lowest marginal
utility of money to the one with the highest. With price Y of a server and bid x on it, this utility
is, for progress g(r) on the share r = x / Y of the server,

    dg / dx = g'(r) (Y - x) / Y**2.

A user sees Y, r and g(r), but not g'. It is estimated by a line through the mean of what was
observed lately, with the origin, where progress is surely 0, as one observation more:

    g' = (cov(r, g) + ORIGIN r g) / (var(r) + ORIGIN r**2),   within 0 and g / r,

the bounds of a concave g. As long as the share has hardly moved, this is g / r, the slope of a
linear utility as in the rest of the paper; noise then does not count as a slope. After the share
has moved by more than a tenth of itself, the observed slope counts for more. What was observed of
a far larger or smaller share is soon forgotten, since the slope may have been another there.

All users move at once, since on a cluster they see the same decision. Many users then run after
the same cheap servers; they overshoot less with a smaller amount, which takes more steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.price_anticipating.market import ShareMarketError
from walras.numerics.checks import check_finite, refuse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from walras.numerics.arrays import Floats

    Mask = NDArray[np.bool_]

ORIGIN = 0.01
"""Weight of the origin beside the mean of the observations, the square of a tenth."""

MEMORY = 0.95
"""Weight of an observation relative to the next one at the same share: about twenty count."""

PROBE = 1e-3
"""Part of a user's budget that stays spread over all its servers, so that each is observed."""

AMOUNT = 0.01
"""Part of its budget that a user moves at a step."""


@dataclass(frozen=True)
class AdjustmentState:
    """Bids of n users on m servers, and what each has observed; all arrays have shape (n, m).

    The size does not depend on the number of steps.

    Attributes:
        bids: Bids for the next step.
        weight: Number of observations, with earlier ones and those of other shares discounted.
        share: Weighted mean of the observed shares.
        progress: Weighted mean of the observed progress.
        variance: Weighted variance of the observed shares.
        covariance: Weighted covariance of the observed shares and progress.
    """

    bids: Floats
    weight: Floats
    share: Floats
    progress: Floats
    variance: Floats
    covariance: Floats

    @property
    def slopes(self) -> Floats:
        """Estimated progress for each further unit of a share; NaN where nothing was observed."""
        known = self.weight > 0
        steepest = np.divide(
            self.progress, self.share, out=np.full_like(self.share, np.nan), where=known
        )
        rise = self.covariance + ORIGIN * self.share * self.progress
        run = self.variance + ORIGIN * self.share**2
        line = np.divide(rise, run, out=np.full_like(rise, np.nan), where=known)
        return np.asarray(np.clip(line, 0.0, steepest))


def even_bids(budgets: ArrayLike, usable: Mask) -> AdjustmentState:
    """Return the state of users who have observed nothing, and bid evenly on what they may use.

    Args:
        budgets: Budget of each user, positive, shape (n,).
        usable: Whether each user may use each server, shape (n, m).

    Raises:
        ShareMarketError: A budget is not positive, or the shapes do not fit.
    """
    nothing = np.zeros(np.shape(usable))
    state = AdjustmentState(nothing, nothing, nothing, nothing, nothing, nothing)
    return replace(state, bids=_spent(nothing, _checked_budgets(budgets, usable), usable))


def adjust_bids(
    state: AdjustmentState,
    prices: ArrayLike,
    shares: ArrayLike,
    progress: ArrayLike,
    budgets: ArrayLike,
    usable: Mask,
    *,
    amount: float = AMOUNT,
) -> AdjustmentState:
    """Learn from what was observed under the state's bids, and move a little money for each user.

    Each row of the new bids adds up to the user's budget, or to 0 if it may use no server. Budgets
    and servers may change from step to step: bids on servers that may not be used any more go to
    the others in proportion. A server without any observation neither gives nor gets money.

    Args:
        state: Bids of the last step, and earlier observations.
        prices: Sum of all bids on each server, reserve included, positive, shape (m,).
        shares: Share of each server that each user got, shape (n, m).
        progress: Progress of each user on each server, shape (n, m); NaN or negative if it was not
            measured. A user's progress on all its servers must be in one unit.
        budgets: Budget of each user, positive, shape (n,).
        usable: Whether each user may use each server, shape (n, m).
        amount: Part of its budget that each user moves, above 0 and at most 1.

    Raises:
        ShareMarketError: A number is out of its range, or the shapes do not fit.
    """
    if not 0 < amount <= 1:
        raise ShareMarketError(
            f"amount = {amount}: a part of the budget from above 0 to 1 is needed"
        )
    given = _checked_budgets(budgets, usable)
    paid = check_finite("prices", prices, (usable.shape[1],), ShareMarketError)
    refuse("prices", paid, ~(paid > 0), "is not positive", ShareMarketError)
    got = check_finite("shares", shares, usable.shape, ShareMarketError)
    done = np.asarray(progress, np.float64)
    if done.shape != usable.shape:
        users, servers = usable.shape
        raise ShareMarketError(
            f"progress has shape {done.shape}: {users} x {servers} entries are needed"
        )
    learnt = _observe(state, got, done, usable)
    margins = learnt.slopes * np.maximum(paid - state.bids, 0.0) / paid**2
    margins[~usable] = np.nan
    bids = _spent(state.bids, given, usable)
    return replace(learnt, bids=move_money(bids, margins, amount * given, _probes(given, usable)))


def move_money(
    bids: Floats, margins: Floats, amounts: Floats, least: Floats | float = 0.0
) -> Floats:
    """Return bids after each user has moved money from its worst server to its best, shape (n, m).

    The sum of each row stays the same. The worst server is one that the user bids more than the
    least on.

    Args:
        bids: Bids of the users now, shape (n, m).
        margins: Marginal utility of money on each server, shape (n, m); NaN if it is not known.
        amounts: Money that each user moves, shape (n,); less if its worst server has less.
        least: Bid that stays on a server, shape (n, m).
    """
    row = np.arange(len(bids))
    spare = bids - least
    known = ~np.isnan(margins)
    low = np.where(known & (spare > 0), margins, np.inf)
    high = np.where(known, margins, -np.inf)
    worst, best = low.argmin(axis=1), high.argmax(axis=1)
    gains = high[row, best] > low[row, worst]
    step = np.where(gains, np.minimum(amounts, spare[row, worst]), 0.0)
    moved = np.array(bids)
    moved[row, worst] -= step
    moved[row, best] += step
    return moved


def _observe(
    state: AdjustmentState, shares: Floats, progress: Floats, usable: Mask
) -> AdjustmentState:
    """Add an observation to the means; what was not measured leaves its entry as it is."""
    seen = usable & np.isfinite(progress) & (progress >= 0) & (shares > 0)
    larger = np.maximum(shares, state.share)
    near = np.divide(np.minimum(shares, state.share), larger, out=np.zeros_like(larger), where=seen)
    weight = np.where(seen, MEMORY * near * state.weight + 1, state.weight)
    part = np.where(seen, 1 / np.maximum(weight, 1), 0.0)
    by_share = np.where(seen, shares - state.share, 0.0)
    by_progress = np.where(seen, progress - state.progress, 0.0)
    return replace(
        state,
        weight=weight,
        share=state.share + part * by_share,
        progress=state.progress + part * by_progress,
        variance=(1 - part) * (state.variance + part * by_share**2),
        covariance=(1 - part) * (state.covariance + part * by_share * by_progress),
    )


def _spent(bids: Floats, budgets: Floats, usable: Mask) -> Floats:
    """Return bids that spend the budgets on usable servers, on each of them at least a probe."""
    kept = np.where(usable, np.maximum(bids, _probes(budgets, usable)), 0.0)
    total = kept.sum(axis=1, keepdims=True)
    scaled = kept * budgets[:, None]
    return np.asarray(np.divide(scaled, total, out=np.zeros_like(kept), where=total > 0))


def _probes(budgets: Floats, usable: Mask) -> Floats:
    """Return the bid of each user that stays on each server, shape (n, m)."""
    servers = np.maximum(usable.sum(axis=1), 1)
    return np.asarray(np.where(usable, (PROBE * budgets / servers)[:, None], 0.0))


def _checked_budgets(budgets: ArrayLike, usable: Mask) -> Floats:
    given = check_finite("budgets", budgets, (len(usable),), ShareMarketError)
    refuse("budgets", given, ~(given > 0), "is not positive", ShareMarketError)
    return given
