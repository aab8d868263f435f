"""Fair shares of a common penalty: the Shapley value (Cooper, eq. 1 and appendix).

An agent's fair share is its addition to the penalty of those before it, averaged over all orders of
arrival. Penalties cannot be transferred between agents, so nobody is charged these shares: they
tell which agents lose more in a fair colocation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Bools, Floats, Integers

Game: TypeAlias = Callable[["Bools"], "ArrayLike"]
"""Penalty of coalitions: takes members, shape (coalitions, agents), and returns one number each,
in any unit. It must give the same number for the same coalition."""

EXACT_AGENTS = 12
"""Largest number of agents for which the penalties of all coalitions are computed."""

AT_ONCE = 1 << 22
"""Largest number of entries of the membership matrix that a game is called with."""


class ShapleyError(ValueError):
    """A game without a Shapley value; the message names the coalition."""


@dataclass(frozen=True)
class ShapleyValue:
    """Fair share of each agent in the penalty of all together.

    Attributes:
        share: Share of each agent, in the game's unit, shape (agents,); they add up to the penalty
            of all together less that of nobody.
        error: Standard error of each share, 0 where exact, shape (agents,).
        coalitions: Number of coalitions whose penalties were computed.
    """

    share: Floats
    error: Floats
    coalitions: int


def shapley(game: Game, agents: int, *, pairs: int = 500, seed: int = 0) -> ShapleyValue:
    """Divide a penalty: exactly among up to 12 agents, by sampled orders among more.

    Args:
        game: Penalty of each coalition.
        agents: Number of agents.
        pairs: Number of sampled pairs of orders, each an order and its reverse; at least 2.
        seed: Seed of the orders; the same seed gives the same shares.

    Raises:
        ShapleyError: The game gives no finite number for a coalition.
        ValueError: ``agents`` is below 0, or ``pairs`` below 2.
    """
    if agents < 0:
        raise ValueError(f"agents is {agents}: at least 0 is needed")
    if agents <= EXACT_AGENTS:
        everyone = np.arange(1 << agents)[:, None] >> np.arange(agents) & 1
        return shapley_exact(_penalties(game, everyone.astype(np.bool_)))
    if pairs < 2:
        raise ValueError(f"pairs is {pairs}: at least 2 are needed for an error")
    return _sample(game, agents, pairs, np.random.default_rng(seed))


def shapley_exact(penalties: ArrayLike) -> ShapleyValue:
    """Divide a penalty given for every coalition, by equation 1.

    Args:
        penalties: Penalty of each coalition, shape (2**agents,); agent i is in coalition c if bit i
            of c is set, so that entry 0 is that of nobody, and entry 3 that of agents 0 and 1.

    Raises:
        ShapleyError: The length is no power of two, or an entry is not finite.
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
        without, included = np.moveaxis(penalty.reshape(-1, 2, 1 << i), 1, 0)
        share[i] = ((included - without).ravel() * orders[others]).sum()
    return ShapleyValue(share, np.zeros(agents), penalty.size)


def _sample(game: Game, agents: int, pairs: int, generator: np.random.Generator) -> ShapleyValue:
    """Divide a penalty by the mean over random orders and their reverses.

    Agents late in an order are early in its reverse. Where penalties grow with the coalition, the
    two err in opposite directions, and their mean errs less than two independent orders.
    """
    added = np.empty((pairs, agents))
    batch = max(1, AT_ONCE // (2 * (agents + 1) * agents))
    for first in range(0, pairs, batch):
        size = min(batch, pairs - first)
        arrival = generator.permuted(np.tile(np.arange(agents), (size, 1)), axis=1)
        both = np.stack([arrival, agents - 1 - arrival], axis=1)
        members = both[:, :, None, :] < np.arange(agents + 1)[:, None]
        penalty = _penalties(game, members.reshape(-1, agents)).reshape(size, 2, agents + 1)
        steps = np.take_along_axis(np.diff(penalty, axis=2), both, axis=2)
        added[first : first + size] = steps.mean(axis=1)
    error = added.std(axis=0, ddof=1) / np.sqrt(pairs)
    return ShapleyValue(added.mean(axis=0), error, 2 * pairs * (agents + 1))


def _penalties(game: Game, members: Bools) -> Floats:
    """Return the game's penalties of coalitions, shape (coalitions,), if they are finite."""
    penalty = np.asarray(game(members), np.float64)
    if penalty.shape != members.shape[:1]:
        raise ShapleyError(
            f"game gave shape {penalty.shape} for {len(members)} coalitions: "
            "one number each is needed"
        )
    _refuse_infinite(penalty, lambda entry: np.flatnonzero(members[entry]))
    return penalty


def _refuse_infinite(penalty: Floats, members: Callable[[int], Integers]) -> None:
    """Raise an error for the first penalty that is not finite, with the coalition's members."""
    bad = ~np.isfinite(penalty)
    if bad.any():
        entry = int(bad.argmax())
        who = ", ".join(str(agent) for agent in members(entry)) or "nobody"
        raise ShapleyError(f"coalition of {who}: penalty is {penalty[entry]}, not a finite number")
