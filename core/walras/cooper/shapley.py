"""Fair shares of a common penalty: the Shapley value (Cooper, eq. 1 and appendix).

An agent's fair share is what it adds to the penalty of those before it, averaged over all orders
in which the agents could arrive. Penalties cannot be handed from one agent to another, so nobody
is charged these shares: they say which agents a fair colocation lets lose more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

Game: TypeAlias = Callable[["NDArray[np.bool_]"], "ArrayLike"]
"""The penalty of coalitions: takes who is in each, shape (coalitions, agents), and returns one
number each, in any unit. It must give the same number for the same coalition."""

EXACT_AGENTS = 12
AT_ONCE = 1 << 22
"""Entries of the membership matrix that a game is asked about at once, at most."""


class ShapleyError(ValueError):
    """A game that has no Shapley value; the message names the coalition."""


@dataclass(frozen=True)
class Shares:
    """What each agent should bear of the penalty of all together.

    Attributes:
        share: shape (agents,), in the game's unit; they add up to what all together cost more
            than nobody.
        error: shape (agents,); the standard error of each share, 0 where exact.
        coalitions: how many coalitions the game was asked about.
    """

    share: Floats
    error: Floats
    coalitions: int


def shapley(game: Game, agents: int, *, pairs: int = 500, seed: int = 0) -> Shares:
    """Divide a penalty: exactly among up to 12 agents, by sampled orders among more.

    Args:
        game: the penalty of each coalition.
        agents: how many there are.
        pairs: of sampled orders, each an order and its reverse; at least 2.
        seed: of the orders; the same seed gives the same shares.

    Raises:
        ShapleyError: the game gives no finite number for a coalition.
        ValueError: ``agents`` is below 0, or ``pairs`` below 2.
    """
    if agents < 0:
        raise ValueError(f"agents is {agents}: 0 at least is needed")
    if agents <= EXACT_AGENTS:
        everyone = np.arange(1 << agents)[:, None] >> np.arange(agents) & 1
        return shapley_exact(_penalties(game, everyone.astype(np.bool_)))
    if pairs < 2:
        raise ValueError(f"pairs is {pairs}: at least 2 are needed for an error")
    return _sample(game, agents, pairs, np.random.default_rng(seed))


def shapley_exact(penalties: ArrayLike) -> Shares:
    """Divide a penalty whose every coalition is listed, by equation 1.

    Args:
        penalties: shape (2**agents,); agent i is in coalition number c if bit i of c is set, so
            that entry 0 is nobody's, entry 3 that of agents 0 and 1 together.

    Raises:
        ShapleyError: the length is no power of two, or an entry is not finite.
    """
    penalty = np.asarray(penalties, np.float64)
    agents = penalty.size.bit_length() - 1
    if penalty.shape != (1 << max(agents, 0),):
        raise ShapleyError(f"penalties has shape {penalty.shape}: a flat 2**agents is needed")
    coalitions = np.arange(penalty.size)
    _refuse_infinite(penalty, lambda entry: np.flatnonzero(entry >> np.arange(agents) & 1))
    others = np.bitwise_count(coalitions[: penalty.size // 2])
    orders = np.array([1 / (agents * comb(agents - 1, size)) for size in range(agents)])
    share = np.empty(agents)
    for i in range(agents):
        without, joined = np.moveaxis(penalty.reshape(-1, 2, 1 << i), 1, 0)
        share[i] = ((joined - without).ravel() * orders[others]).sum()
    return Shares(share, np.zeros(agents), penalty.size)


def _sample(game: Game, agents: int, pairs: int, generator: np.random.Generator) -> Shares:
    """Average over random orders and their reverses.

    Who comes late in an order comes early in its reverse. Where penalties grow with the coalition
    the two err to opposite sides, and their mean by less than two orders drawn apart.
    """
    added = np.empty((pairs, agents))
    batch = max(1, AT_ONCE // (2 * (agents + 1) * agents))
    for first in range(0, pairs, batch):
        size = min(batch, pairs - first)
        arrival = generator.permuted(np.tile(np.arange(agents), (size, 1)), axis=1)
        both = np.stack([arrival, agents - 1 - arrival], axis=1)
        here = both[:, :, None, :] < np.arange(agents + 1)[:, None]
        penalty = _penalties(game, here.reshape(-1, agents)).reshape(size, 2, agents + 1)
        steps = np.take_along_axis(np.diff(penalty, axis=2), both, axis=2)
        added[first : first + size] = steps.mean(axis=1)
    error = added.std(axis=0, ddof=1) / np.sqrt(pairs)
    return Shares(added.mean(axis=0), error, 2 * pairs * (agents + 1))


def _penalties(game: Game, members: NDArray[np.bool_]) -> Floats:
    penalty = np.asarray(game(members), np.float64)
    if penalty.shape != members.shape[:1]:
        raise ShapleyError(
            f"game gave shape {penalty.shape} for {len(members)} coalitions: "
            "one number each is needed"
        )
    _refuse_infinite(penalty, lambda entry: np.flatnonzero(members[entry]))
    return penalty


def _refuse_infinite(penalty: Floats, members: Callable[[int], NDArray[np.int64]]) -> None:
    bad = ~np.isfinite(penalty)
    if bad.any():
        entry = int(bad.argmax())
        who = ", ".join(str(agent) for agent in members(entry)) or "nobody"
        raise ShapleyError(f"coalition of {who}: penalty is {penalty[entry]}, not a finite number")
