"""Hysteresis: nodes keep their current division of cores where a new one gains too little.

Measured inputs are never the same twice. So a new division of a node replaces the current one only
if it gains enough.

Let s_k be the speedup of job k in hardware, w_k its work, b_i the budget of its user i, W_i the
work of all of i's jobs, and B the sum of budgets. The user's utility is U_i = sum_k w_k s_k / W_i
(eq. 4), the system's progress P = sum_i b_i U_i / B (eq. 10). P is a sum over jobs, so over nodes:
P = sum_j P_j. With t the threshold:

1. *Gain.* Node j stays as it is if it can (`_can_stay`) and P_j(new) - P_j(current) <
   t P_j(current). A frozen node, on which nothing can change now, stays whenever it can, by 2 too.
2. *Entitlements.* Let E_i be `ENOUGH` of user i's utility at its bare entitlement (V-C). Take U_i
   with the nodes of 1 as they are and all others new. Where it is below E_i, every node where the
   new division would do more for i is taken as new; repeat until there is none.

Properties. Let r be the outcome, and K the nodes that stay.

- No user that K holds back is below E_i: that is how 2 ends. It ends, since each round takes a node
  from K.
- The progress foregone is sum over K of P_j(new) - P_j(r) < t sum over K of P_j(r) <= t P(r).
- Clearing again with the same input gives r again: nodes outside K have nothing to decide, and
  those in K pass 1 by the same figures, so that 2 starts where it ended.
- All jobs on a node that stays were there before, and have what they keep in any case.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.division.auctions import breaks_promise
from walras.division.holdings import THOUSANDTH
from walras.market.snapshot import identity
from walras.mechanisms.amdahl import metrics

if TYPE_CHECKING:
    from walras.division.sale import Sale
    from walras.division.sale_units import UnitMarket
    from walras.market.snapshot import Policy, Snapshot
    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.numerics.arrays import Bools, Floats

ENOUGH = 0.992
"""Part of its entitlement's utility at which no node changes for a user's sake: a little more than
what is guaranteed, so that measurements that waver move no cores of users without a gain."""

LEEWAY = 1.5 * THOUSANDTH
"""Cores by which a division may differ from another and count as the same."""


class HysteresisResult(NamedTuple):
    """Division of the cores of m nodes to k jobs after hysteresis.

    Attributes:
        held: Cores of each job: of the new division, or of the current one on nodes that stay,
            shape (k,).
        stays: Whether each node keeps a division other than the new one, shape (m,).
    """

    held: Floats
    stays: Bools


def apply_hysteresis(
    snapshot: Snapshot, policy: Policy, sale: Sale, target: Floats, bare: Floats
) -> HysteresisResult:
    """Choose for every node between its current division and the new one.

    Args:
        snapshot: Snapshot with the cores that jobs hold now, and the nodes that are frozen.
        policy: Policy with the threshold.
        sale: Sale of k jobs on m nodes.
        target: Cores of each job by the new division, shape (k,).
        bare: Cores of each job's bare entitlement (V-C), shape (k,).
    """
    market = sale.market
    frozen = np.array([node.name in snapshot.frozen for node in snapshot.selling], np.bool_)
    if not snapshot.held or not sale.jobs or (policy.hysteresis <= 0 and not frozen.any()):
        return HysteresisResult(target, np.zeros(len(market.capacities), np.bool_))
    now = np.array([snapshot.held.get(identity(job), -1.0) for job in sale.jobs], np.float64)
    differs = market.sum_by_server((np.abs(now - target) > THOUSANDTH / 2).astype(np.float64)) > 0
    undecided = differs & _can_stay(snapshot, sale, now, target)
    current = np.where(undecided[market.server], now, target)
    before = metrics.speedups_in_hardware(market, current)
    after = metrics.speedups_in_hardware(market, target)
    frozen = undecided & frozen
    stays = frozen
    if policy.hysteresis > 0:
        stays = stays | (undecided & _gains_little(market, before, after, policy.hysteresis))
    stays = _except_users_below_entitlement(market, before, after, bare, stays, frozen)
    return HysteresisResult(np.where(stays[market.server], now, target), stays)


def _can_stay(snapshot: Snapshot, sale: Sale, now: Floats, target: Floats) -> Bools:
    """Return whether each node can keep its division, shape (m,).

    It can if no job has come or gone, the jobs hold no more than is for sale and leave no more
    idle than the new division does, the sockets that they are on now have room for them where cores
    are sold by socket, none is above its maximum, and none is below a minimum, of cores or of the
    utility that an auction promised, that the new division meets.
    """
    market, bounds = sale.market, sale.bounds
    bad = (now < 0) | (now > bounds.most + LEEWAY)
    bad |= now < np.minimum(bounds.least, target) - LEEWAY
    bad |= sale.whole & (target % 1 == 0) & (now % 1 != 0)
    if sale.auctioned is not None:
        bad |= breaks_promise(sale.auctioned, now, target)
    nodes = [node.name for node in snapshot.selling]
    before = Counter(node for *_, node in snapshot.held)
    jobs = market.sum_by_server(np.ones(market.jobs))
    same = jobs == np.array([before[name] for name in nodes], np.float64)
    held, sold = market.sum_by_server(now), market.sum_by_server(target)
    fits = (
        (held <= market.capacities + LEEWAY)
        & (held >= sold - LEEWAY)
        & _fit(sale.units, now, len(nodes))
    )
    return np.asarray(same & fits & (market.sum_by_server(bad.astype(np.float64)) == 0), np.bool_)


def _fit(units: UnitMarket, now: Floats, nodes: int) -> Bools:
    """Return whether each node's units have room for what the jobs on them hold, shape (m,).

    The new division may seat jobs on other sockets than the current one did. Jobs of several parts
    take in turn what room there is, first where fewest others of them are; so the answer may be no
    where three or more of them share sockets, although they could be divided otherwise.
    """
    market = units.market
    several = np.bincount(units.job, minlength=units.jobs)[units.job] > 1
    alone = market.sum_by_server(np.where(several, 0.0, now[units.job]))
    room = market.capacities + LEEWAY - alone
    others = np.bincount(market.server[several], minlength=len(room))
    for job in np.unique(units.job[several]).tolist():
        mine = market.server[slice(*np.searchsorted(units.job, [job, job + 1]))]
        left = float(now[job])
        for unit in mine[np.argsort(others[mine], kind="stable")].tolist():
            taken = max(min(left, float(room[unit])), 0.0)
            room[unit] -= taken
            left -= taken
        room[mine[0]] -= left
    return np.asarray(np.bincount(units.node, (room < 0).astype(np.float64), nodes) == 0, np.bool_)


def _gains_little(market: AmdahlMarket, before: Floats, after: Floats, threshold: float) -> Bools:
    """Return whether the new division adds less than the threshold to each node's progress."""
    weight = market.budgets[market.user] * metrics.worth_of_jobs(market)
    gain = market.sum_by_server(weight * (after - before))
    return np.asarray(gain < threshold * market.sum_by_server(weight * before), np.bool_)


def _except_users_below_entitlement(
    market: AmdahlMarket,
    before: Floats,
    after: Floats,
    bare: Floats,
    stays: Bools,
    frozen: Bools,
) -> Bools:
    """Return the nodes that stay, except those that would keep a user below its entitlement."""
    nodes = len(market.capacities)
    pairs, pair = np.unique(market.pair, return_inverse=True)
    user, node = pairs // nodes, pairs % nodes
    worth = metrics.worth_of_jobs(market)
    gain = np.bincount(pair, worth * (after - before))
    due = metrics.utilities_in_hardware(market, bare) * ENOUGH
    stays = stays.copy()
    while stays.any():
        done = market.sum_by_user(worth * np.where(stays[market.server], before, after))
        held_back = (gain > 0) & (stays & ~frozen)[node] & (done < due)[user]
        if not held_back.any():
            break
        stays[node[held_back]] = False
    return stays
