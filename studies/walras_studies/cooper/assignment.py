"""The kernel of maximum-weight matching where a user can take several machines.

Shortest augmenting paths with prices u_j of machines and v_i of places, such that u_j + v_i >= w_ij
everywhere, with equality where machine j is matched to user i, and v_i = 0 where i has places
left: by linear programming duality sum u_j + sum k_i v_i then equals the matching's weight, and no
matching weighs more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.numerics.kernel import kernel

if TYPE_CHECKING:
    from walras.numerics.arrays import Bools, Floats, FloatTable, Integers


@kernel
def assign(
    weights: FloatTable,
    places: Integers,
    owner: Integers,
    machine_price: Floats,
    place_price: Floats,
) -> None:
    """Match every machine to a user so that the sum of weights is largest.

    Args:
        weights: Weight of each machine for each user, not negative, shape (n, m); all 0 for the
            last user.
        places: Most machines of each user, shape (n,); m for the last one.
        owner: User of each machine, shape (m,); given as -1 and written.
        machine_price: Prices u, shape (m,), written.
        place_price: Prices v, shape (n,), written.
    """
    users, machines = weights.shape
    _begin_prices(weights, machine_price, place_price)
    taken = np.zeros(users, np.int64)
    distance = np.empty(users)
    towards = np.empty(users, np.int64)
    reached = np.empty(users, np.bool_)
    for newcomer in range(machines):
        for i in range(users):
            distance[i], reached[i] = np.inf, False
        relax(weights, newcomer, 0.0, machine_price, place_price, reached, distance, towards)
        last = nearest(distance, reached)
        while taken[last] == places[last]:
            reached[last] = True
            for j in range(machines):
                if owner[j] == last:
                    start = distance[last]
                    relax(weights, j, start, machine_price, place_price, reached, distance, towards)
            last = nearest(distance, reached)
        raise_prices(owner, reached, distance, distance[last], machine_price, place_price)
        machine_price[newcomer] -= distance[last]
        taken[last] += 1
        while True:
            mover = towards[last]
            owner[mover], last = last, owner[mover]
            if mover == newcomer:
                break


@kernel
def _begin_prices(weights: FloatTable, machine_price: Floats, place_price: Floats) -> None:
    """Set prices at which no machine is worth more to anybody, and places cost nothing."""
    for j in range(len(machine_price)):
        machine_price[j] = 0.0
        for i in range(len(place_price)):
            machine_price[j] = max(machine_price[j], weights[i, j])
    for i in range(len(place_price)):
        place_price[i] = 0.0


@kernel
def relax(
    weights: FloatTable,
    machine: int,
    start: float,
    machine_price: Floats,
    place_price: Floats,
    reached: Bools,
    distance: Floats,
    towards: Integers,
) -> None:
    """Shorten the distances of users through ``machine``, which is at distance ``start``."""
    for i in range(len(distance)):
        if not reached[i]:
            loss = machine_price[machine] + place_price[i] - weights[i, machine]
            if start + loss < distance[i]:
                distance[i] = start + loss
                towards[i] = machine


@kernel
def nearest(distance: Floats, reached: Bools) -> int:
    """Return the nearest user not reached yet, the first one among equals."""
    best = -1
    for i in range(len(distance)):
        if not reached[i] and (best < 0 or distance[i] < distance[best]):
            best = i
    return best


@kernel
def raise_prices(
    owner: Integers,
    reached: Bools,
    distance: Floats,
    length: float,
    machine_price: Floats,
    place_price: Floats,
) -> None:
    """Adjust prices so that a path of ``length`` has no loss left, and no loss is negative."""
    for j in range(len(owner)):
        if owner[j] >= 0 and reached[owner[j]]:
            machine_price[j] -= length - distance[owner[j]]
    for i in range(len(distance)):
        if reached[i]:
            place_price[i] += length - distance[i]
