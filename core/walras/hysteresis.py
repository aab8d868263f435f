"""Chooses the nodes whose cores stay as they are, since a new division gains too little (pure).

Measured inputs are never twice the same, and rounding turns the least of changes into whole cores
that move. So a new division of a node replaces the present one only for a reason.

Let s_k be the speedup of job k in hardware, at its own cores or its part of a pool, w_k its work,
b_i the budget of its user i, W_i the work of all its jobs, and B all budgets. What its jobs do is
U_i = sum_k w_k s_k / W_i (eq. 4), what all do is P = sum_i b_i U_i / B (eq. 10). P is a sum over
jobs, so over nodes: P = sum_j P_j. With t the threshold:

1. *Gain.* Node j stays if it can go on as it is (`walras.present`) and
   P_j(new) - P_j(present) < t P_j(present).
2. *Entitlements.* Take U_i with the nodes of 1 as they are and all others new. Where it is below
   E_i, user i's utility at its bare entitlement (V-C), every node where the new division would do
   more for i is taken as new; repeat until there is none. There is one exception. Whole cores may
   leave no division that gives everybody its due: of two equals on three cores one is always short,
   and to hand the odd core back and forth mends nothing. So on nodes where the new division would
   take from a user whom it leaves below its own E, this is done only where U_i is below E_i less
   what rounding may take (`_least_after_rounding`).

What follows. Call the outcome r, and the nodes that stay K.

- Nobody is below E_i and held back but by that exception, and nobody at all by more than rounding:
  that is how 2 ends. It ends, as each round takes a node from K.
- All that is foregone is sum over K of P_j(new) - P_j(r) < t sum over K of P_j(r) <= t P(r).
- Cleared again with the same input, the outcome is r: nodes outside K have then nothing to decide,
  and those in K pass 1 by the same figures, so that 2 starts where it ended.
- Who is held back on a node was there before, and so were all others there: 1 says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras import metrics
from walras.apportion import Portions
from walras.present import present
from walras.sale import cores_in_hardware, kept_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from walras.amdahl.market import AmdahlMarket
    from walras.sale import Sale
    from walras.snapshot import Holding, Job, Key, Policy

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

EXACT = 1 - 1e-9
"""Part of a utility from which it counts as reached: sums are not more exact."""


class Settled(NamedTuple):
    """What is done.

    Attributes:
        portions: of the parts of jobs: the new ones, or on nodes that stay the present ones.
        stays: shape (m,), nodes whose division differs from the new one.
    """

    portions: Portions
    stays: Bools


def settle(
    held: Mapping[Key, Holding],
    jobs: Sequence[Job],
    market: AmdahlMarket,
    sale: Sale,
    due: Portions,
    policy: Policy,
) -> Settled:
    """Take the new division of every node or leave it as it is.

    Args:
        held: what jobs have.
        jobs: shape (k,).
        market: of the jobs; its servers are nodes, m of them.
        sale: what is sold.
        due: the new division, by parts of jobs.
        policy: has the threshold.
    """
    if policy.hysteresis <= 0 or not held or not jobs:
        return Settled(due, np.zeros(len(market.capacities), np.bool_))
    now, possible = present(held, jobs, sale, due)
    node = sale.node[sale.market.server]
    moved = now.whole != due.whole
    moved |= (now.shared != due.shared) & kept_parts(sale, len(jobs), due)
    differs = np.zeros(len(market.capacities), np.bool_)
    differs[node[moved]] = True
    open_to_choice = possible & differs
    most = np.array([job.max_cores or np.inf for job in jobs])
    before = _speedups(market, cores_in_hardware(sale, len(jobs), now), most)
    after = _speedups(market, cores_in_hardware(sale, len(jobs), due), most)
    before = np.where(open_to_choice[market.server], before, after)
    stays = open_to_choice & _gains_little(market, before, after, policy.hysteresis)
    stays = _without_the_short(market, before, after, most, stays)
    return Settled(_either(now, due, stays[node]), stays)


def _worth(market: AmdahlMarket) -> Floats:
    """Return what a speedup of each job by one adds to its user's utility, shape (k,)."""
    return np.asarray(market.work / market.sum_by_user(market.work)[market.user], np.float64)


def _speedups(market: AmdahlMarket, cores: Floats, most: Floats) -> Floats:
    """Return speedups in hardware; less than a core is a core part of the time."""
    usable = np.minimum(cores, most)
    return np.where(usable >= 1, metrics.speedups(market, usable), usable)


def _gains_little(market: AmdahlMarket, before: Floats, after: Floats, threshold: float) -> Bools:
    """Return the nodes where a new division adds less than the threshold to what jobs do."""
    weight = market.budgets[market.user] * _worth(market)
    gain = market.sum_by_server(weight * (after - before))
    return np.asarray(gain < threshold * market.sum_by_server(weight * before), np.bool_)


def _without_the_short(
    market: AmdahlMarket, before: Floats, after: Floats, most: Floats, stays: Bools
) -> Bools:
    """Return the nodes that stay, but for those that would keep a user below its entitlement."""
    nodes = len(market.capacities)
    pairs, pair = np.unique(market.user * nodes + market.server, return_inverse=True)
    user, node = pairs // nodes, pairs % nodes
    worth = _worth(market)
    gain = np.bincount(pair, worth * (after - before))
    entitled, least = _entitled(market, most)
    left_short = market.sum_by_user(worth * after) < entitled
    robs = np.zeros(nodes, np.bool_)
    robs[node[(gain < 0) & left_short[user]]] = True
    due = np.where(robs[node], least[user], entitled[user])
    stays = stays.copy()
    while stays.any():
        done = market.sum_by_user(worth * np.where(stays[market.server], before, after))
        held_back = (gain > 0) & stays[node] & (done[user] < due)
        if not held_back.any():
            break
        stays[node[held_back]] = False
    return stays


def _entitled(market: AmdahlMarket, most: Floats) -> tuple[Floats, Floats]:
    """Return users' utilities at their bare entitlements, and what rounding leaves of them.

    Rounding is allowed to take from one job of each user, the one where it takes most.
    """
    bare = np.minimum(metrics.bare_entitlement(market), most)
    worth = _worth(market)
    done = worth * _speedups(market, bare, most)
    rounded = worth * _speedups(market, _least_after_rounding(bare), most)
    taken = np.zeros(len(market.budgets))
    np.maximum.at(taken, market.user, done - rounded)
    utility = market.sum_by_user(done)
    return utility * EXACT, (utility - taken) * EXACT


def _least_after_rounding(cores: Floats) -> Floats:
    """Return what Hamilton's method leaves at least: less than a core is taken, or than half.

    Of two cores and more the whole part stays. Of less, a core stays, be it the job's own or of
    the pool that it has a part of.
    """
    return np.maximum(cores - 1, cores / 2)


def _either(now: Portions, due: Portions, stays: Bools) -> Portions:
    return Portions(*(np.where(stays, one, other) for one, other in zip(now, due, strict=True)))
