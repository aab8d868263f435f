"""The kernel of maximum-weight matching where a user has several places.

Shortest augmenting paths with prices u_j of machines and v_i of places, such that u_j + v_i >= w_ij
everywhere, with equality where machine j is matched to user i, and v_i = 0 where i has places
left: by linear programming duality sum u_j + sum k_i v_i then equals the matching's weight, and no
matching weighs more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@kernel
def assign(
    weights: Floats,
    places: NDArray[np.int64],
    owner: NDArray[np.int64],
    machine_price: Floats,
    place_price: Floats,
) -> None:
    """Match every machine to a user so that the weights add up to the most.

    Args:
        weights: shape (n, m), not negative; the last user has weight 0 for all machines.
        places: shape (n,), how many machines each user can take; m for the last one.
        owner: shape (m,), comes as -1; each machine's user.
        machine_price: shape (m,), written; u.
        place_price: shape (n,), written; v.
    """
    users, machines = weights.shape
    machine_price[:] = 0.0
    place_price[:] = 0.0
    for i in range(users):
        for j in range(machines):
            machine_price[j] = max(machine_price[j], weights[i, j])
    taken = np.zeros(users, np.int64)
    distance = np.empty(users)
    towards = np.empty(users, np.int64)
    reached = np.empty(users, np.bool_)
    for newcomer in range(machines):
        distance[:] = np.inf
        reached[:] = False
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
def relax(
    weights: Floats,
    machine: int,
    start: float,
    machine_price: Floats,
    place_price: Floats,
    reached: NDArray[np.bool_],
    distance: Floats,
    towards: NDArray[np.int64],
) -> None:
    """Shorten the ways to users that lead through ``machine``, which is ``start`` away."""
    for i in range(len(distance)):
        if not reached[i]:
            loss = machine_price[machine] + place_price[i] - weights[i, machine]
            if start + loss < distance[i]:
                distance[i] = start + loss
                towards[i] = machine


@kernel
def nearest(distance: Floats, reached: NDArray[np.bool_]) -> int:
    """Return the nearest user that is not reached yet, the first one among equals."""
    best = -1
    for i in range(len(distance)):
        if not reached[i] and (best < 0 or distance[i] < distance[best]):
            best = i
    return best


@kernel
def raise_prices(
    owner: NDArray[np.int64],
    reached: NDArray[np.bool_],
    distance: Floats,
    length: float,
    machine_price: Floats,
    place_price: Floats,
) -> None:
    """Move prices so that no loss on a path of ``length`` is left, and none is negative."""
    for j in range(len(owner)):
        if owner[j] >= 0 and reached[owner[j]]:
            machine_price[j] -= length - distance[owner[j]]
    for i in range(len(distance)):
        if reached[i]:
            place_price[i] += length - distance[i]
