"""Hysteresis: nodes keep their current division of cores where a new one gains too little.

Measured inputs are never the same twice, and rounding turns the smallest change into whole cores
that move. So a new division of a node replaces the current one only if it gains enough.

Let s_k be the speedup of job k in hardware, at its own cores or its part of a pool, w_k its work,
b_i the budget of its user i, W_i the work of all of i's jobs, and B the sum of budgets. The user's
utility is U_i = sum_k w_k s_k / W_i (eq. 4), the system's progress P = sum_i b_i U_i / B (eq. 10).
P is a sum over jobs, so over nodes: P = sum_j P_j. With t the threshold:

1. *Gain.* Node j stays as it is if it can (`walras.current_division`) and
   P_j(new) - P_j(current) < t P_j(current).
   A frozen node, on which nothing can change now, stays as it is whenever it can, by 2 and 3 too.
2. *Credits.* Nodes are taken as new if that returns cores to a user whose rounding credit has
   reached its limit (`walras.rounding_credit`).
3. *Entitlements.* Take U_i with the nodes of 1 as they are and all others new. Where it is below
   E_i, user i's utility at its bare entitlement (V-C), every node where the new division would do
   more for i is taken as new; repeat until there is none. There is one exception. Whole cores may
   allow no division that gives everybody its entitlement: of two equal users on three cores one is
   short at any time. So on nodes where the new division would take from a user whom it leaves
   below its own E, this is done only where U_i is below E_i less what rounding may take
   (`_least_after_rounding`); and on all nodes if credits decide who is short at which time.

Properties. Let r be the outcome, and K the nodes that stay.

- No user whom K holds back is below E_i but by that exception, and none by more than rounding:
  that is how 3 ends. It ends, since each round takes a node from K.
- The progress foregone is sum over K of P_j(new) - P_j(r) < t sum over K of P_j(r) <= t P(r).
- Clearing again with the same input gives r again: nodes outside K have nothing to decide, and
  those in K pass 1 and 2 by the same figures, so that 3 starts where it ended.
- All jobs on a node that stays were there before, by 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras import metrics
from walras.apportion import Apportionment
from walras.current_division import current_division
from walras.rounding_credit import NEGLIGIBLE
from walras.sale_units import cores_in_hardware, kept_parts

if TYPE_CHECKING:
    from walras._arrays import Bools, Floats
    from walras.amdahl.market import AmdahlMarket
    from walras.sale import Sale
    from walras.snapshot import Policy, Snapshot

EXACT = 1 - 1e-9
"""Part of a utility at which it counts as reached, since sums are not more exact."""


class HysteresisResult(NamedTuple):
    """Division of cores after hysteresis.

    Attributes:
        apportioned: Cores of the parts of jobs: the new division, or the current one on nodes that
            stay.
        stays: Whether each of m nodes keeps a division other than the new one, shape (m,).
    """

    apportioned: Apportionment
    stays: Bools


def apply_hysteresis(
    snapshot: Snapshot, policy: Policy, sale: Sale, target: Apportionment, bare: Floats
) -> HysteresisResult:
    """Choose for every node between its current division and the new one.

    Args:
        snapshot: Snapshot with the cores that jobs hold now, and the nodes that are frozen.
        policy: Policy with the threshold.
        sale: Sale of k jobs on m nodes.
        target: New division, by parts of jobs.
        bare: Cores of each job's bare entitlement that it can use (V-C), shape (k,).
    """
    jobs, market, units, most = sale.jobs, sale.market, sale.units, sale.most
    frozen = np.array([node.name in snapshot.frozen for node in snapshot.selling], np.bool_)
    if not snapshot.held or not jobs or (policy.hysteresis <= 0 and not frozen.any()):
        return HysteresisResult(target, np.zeros(len(market.capacities), np.bool_))
    now, possible = current_division(snapshot.held, jobs, units, target)
    node = units.node[units.market.server]
    moved = now.whole != target.whole
    moved |= (now.shared != target.shared) & kept_parts(units, target)
    differs = np.zeros(len(market.capacities), np.bool_)
    differs[node[moved]] = True
    undecided = possible & differs
    here = undecided[market.server]
    new = cores_in_hardware(units, target)
    current = np.where(here, cores_in_hardware(units, now), new)
    before = speedups_in_hardware(market, current, most)
    after = speedups_in_hardware(market, new, most)
    frozen = undecided & frozen
    stays = frozen
    if policy.hysteresis > 0:
        stays = stays | (undecided & _gains_little(market, before, after, policy.hysteresis))
    stays = _except_users_with_credit(sale, target, current, new, stays, frozen)
    stays = _except_users_below_entitlement(sale, before, after, bare, stays, frozen)
    return HysteresisResult(_either(now, target, stays[node]), stays)


def worth_of_jobs(market: AmdahlMarket) -> Floats:
    """Return the utility that each job's user gains per unit of its speedup, shape (k,)."""
    return np.asarray(market.work / market.sum_by_user(market.work)[market.user], np.float64)


def speedups_in_hardware(market: AmdahlMarket, cores: Floats, most: Floats) -> Floats:
    """Return speedups in hardware, shape (k,): that of less than a core is its part of a core."""
    usable = np.minimum(cores, most)
    return np.where(usable >= 1, metrics.speedups(market, usable), usable)


def _gains_little(market: AmdahlMarket, before: Floats, after: Floats, threshold: float) -> Bools:
    """Return whether the new division adds less than the threshold to each node's progress."""
    weight = market.budgets[market.user] * worth_of_jobs(market)
    gain = market.sum_by_server(weight * (after - before))
    return np.asarray(gain < threshold * market.sum_by_server(weight * before), np.bool_)


def _except_users_below_entitlement(
    sale: Sale, before: Floats, after: Floats, bare: Floats, stays: Bools, frozen: Bools
) -> Bools:
    """Return the nodes that stay, except those that would keep a user below its entitlement.

    If rounding gives back what it takes, no user counts as below for what rounding takes.
    """
    market, nodes = sale.market, len(sale.market.capacities)
    pairs, pair = np.unique(market.user * nodes + market.server, return_inverse=True)
    user, node = pairs // nodes, pairs % nodes
    worth = worth_of_jobs(market)
    gain = np.bincount(pair, worth * (after - before))
    entitled, least = _entitled(market, bare, sale.most)
    left_short = market.sum_by_user(worth * after) < entitled
    robs = np.zeros(nodes, np.bool_)
    robs[node[(gain < 0) & left_short[user]]] = True
    due = np.where((sale.credit is not None) | robs[node], least[user], entitled[user])
    stays = stays.copy()
    while stays.any():
        done = market.sum_by_user(worth * np.where(stays[market.server], before, after))
        held_back = (gain > 0) & (stays & ~frozen)[node] & (done[user] < due)
        if not held_back.any():
            break
        stays[node[held_back]] = False
    return stays


def _except_users_with_credit(
    sale: Sale, target: Apportionment, current: Floats, new: Floats, stays: Bools, frozen: Bools
) -> Bools:
    """Return the nodes that stay, except those that bring back users whose credit is at a limit.

    Nodes are taken in order, as long as such a user is still rounded down, or up if its credit is
    at the lower limit. A node is left out if it would take from a user with a larger credit than
    all that it gives to.

    Args:
        sale: Sale of k jobs on m nodes, with the credits of users if these are kept.
        target: New division, by parts of jobs.
        current: Cores that jobs hold if their node stays, shape (k,).
        new: Cores that jobs hold if it does not, shape (k,).
        stays: Nodes that would stay, shape (m,).
        frozen: Nodes that stay in any case, shape (m,).
    """
    market, credit = sale.market, sale.credit
    if credit is None:
        return stays
    quota = sale.units.of_jobs(target.quota)
    loss = market.sum_by_user(quota - np.where(stays[market.server], current, new))
    change = new - current
    helps = np.where(change > 0, credit[market.user] >= 1, credit[market.user] <= -1)
    helps &= (change != 0) & (stays & ~frozen)[market.server]
    stays = stays.copy()
    start, order = market.by_server
    for node in np.unique(market.server[helps]):
        jobs = order[start[node] : start[node + 1]]
        user = market.user[jobs]
        due = helps[jobs] & (loss[user] * change[jobs] > NEGLIGIBLE)
        gets, gives = credit[user[change[jobs] > 0]], credit[user[change[jobs] < 0]]
        if due.any() and gets.max(initial=-np.inf) > gives.max(initial=-np.inf):
            stays[node] = False
            np.subtract.at(loss, user, change[jobs])
    return stays


def _entitled(market: AmdahlMarket, bare: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Return users' utilities at their bare entitlements, and the least that rounding leaves.

    Rounding may take from one job of each user, the one where it takes most.
    """
    worth = worth_of_jobs(market)
    done = worth * speedups_in_hardware(market, bare, most)
    rounded = worth * speedups_in_hardware(market, _least_after_rounding(bare), most)
    taken = np.zeros(len(market.budgets))
    np.maximum.at(taken, market.user, done - rounded)
    utility = market.sum_by_user(done)
    return utility * EXACT, (utility - taken) * EXACT


def _least_after_rounding(cores: Floats) -> Floats:
    """Return the fewest cores that Hamilton's method leaves of ``cores``.

    It takes less than a core, and less than half. Of two cores and more, the whole part is left. Of
    less, one core is left, the job's own or its pool's.
    """
    return np.maximum(cores - 1, cores / 2)


def _either(now: Apportionment, target: Apportionment, stays: Bools) -> Apportionment:
    return Apportionment(
        *(np.where(stays, one, other) for one, other in zip(now, target, strict=True))
    )
