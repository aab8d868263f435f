"""Pairs that are made to learn their penalties: the value of information.

A policy pairs agents by what is believed of their losses. A pair that it never makes is never
measured, so a belief that is too pessimistic is never corrected. Here two pairs of a matching
exchange partners where that teaches more than it costs, and no agent is expected to lose more by it
than a given part of its throughput.

Of two ways to pair four agents, one is better by e in the sum of losses that are expected, and what
is learned of one of the ways has the standard deviation s. To know it before the choice is worth
the expectation of what the better way then saves (the knowledge gradient: Frazier, Powell and
Dayanik, SIAM J. Control Optim. 2008),

    g(e, s) = s phi(e / s) - e (1 - Phi(e / s)),

which is the probability that the choice changes, times what the change then saves. Pairs that exist
teach, too, so an exchange is worth g(e, s of the new pairs) - g(e, s of the old ones) in each later
matching that can use it. What the loss of one pair says of other pairs is not counted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.cooper.colocation import ALONE

if TYPE_CHECKING:
    from walras.numerics.arrays import Bools, Floats, Integers

REUSE = 20.0
"""Number of later matchings that use what an exchange teaches; its cost must be worth as many."""

LEAST_VALUE = 1e-5
"""Least value of an exchange in one later matching, in throughputs of an agent."""

MOST_PAIRS = 400
"""Most pairs of a matching that exchange partners. More are left as they are, to bound the time."""

UPPER_TAIL = (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530)
"""Coefficients of the normal distribution's upper tail over its density (Abramowitz and Stegun,
26.2.17), which they approximate to 1e-7."""

COPIES = 4
"""Most pairs of the same two kinds among them."""


class Exploration(NamedTuple):
    """A matching in which some pairs are made to learn their losses.

    Attributes:
        partner: Partner of each agent, or ``ALONE``, shape (n,).
        cost: Expected loss of each agent less that beside the partner by the policy, shape (n,); it
            may be negative. NaN for agents that keep the policy's partner.
    """

    partner: Integers
    cost: Floats


class Uncertainty(NamedTuple):
    """How much there is to learn of the losses of kinds of agents.

    Attributes:
        beside: Standard deviation of the loss of a kind beside another, shape (K, K); 0 if it is
            known.
        alone: The same for what an agent of a kind teaches that runs alone, shape (K,); 0 if its
            progress alone is known.
    """

    beside: Floats
    alone: Floats


class _Pairs(NamedTuple):
    """Pairs of a matching that may exchange partners.

    Attributes:
        agents: The two agents, shape (P, 2); the second is ``ALONE`` for an agent without partner.
        kinds: Their kinds, the smaller first, shape (P, 2); the last kind stands for no agent.
        single: Whether no other pair of the matching has these kinds, shape (P,).
        lessons: Deviation of what each pair of kinds would teach that the matching does not teach
            already, shape (K + 1, K + 1).
    """

    agents: Integers
    kinds: Integers
    single: Bools
    lessons: Floats


def gain_of_knowing(shortfall: Floats, deviation: Floats) -> Floats:
    """Return what it saves in expectation to learn a quantity before a choice.

    Args:
        shortfall: Expected advantage of one choice over the other, not negative.
        deviation: Standard deviation of what is learned of either choice, not negative.
    """
    uncertain = deviation > 0
    z = np.divide(shortfall, deviation, out=np.full(np.shape(shortfall), np.inf), where=uncertain)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    t = 1 / (1 + 0.2316419 * np.minimum(z, 40.0))
    ratio = np.zeros_like(t)
    for coefficient in UPPER_TAIL:
        ratio = t * (ratio + coefficient)
    return np.asarray(np.maximum(density * (deviation - shortfall * ratio), 0.0), np.float64)


def explore(
    cost: Floats,
    uncertainty: Uncertainty,
    allowed: Bools,
    kind: Integers,
    partner: Integers,
    budget: float,
) -> Exploration:
    """Exchange partners of pairs where that teaches more than it costs.

    Each agent takes part in one exchange at most, and two kinds are paired to learn of them once at
    most. The result depends on nothing but the arguments.

    Args:
        cost: Expected loss of an agent of kind s beside one of kind t, shape (K, K).
        uncertainty: How much there is to learn of the kinds.
        allowed: Whether agents of two kinds may share a processor, shape (K, K), symmetric.
        kind: Kind of each agent, shape (n,).
        partner: Partner of each agent by the policy, or ``ALONE``, shape (n,).
        budget: Most that an agent may be expected to lose by an exchange, as a part of its
            throughput.
    """
    after, spent = partner.copy(), np.full(len(partner), np.nan)
    spread, losses = _spread(uncertainty), _with_nobody(cost)
    pairs = _pairs(kind, partner, spread)
    able = np.pad(allowed, (0, 1), constant_values=True)
    taught: set[tuple[int, int]] = set()
    used: set[int] = set()
    for one, other, turned in _exchanges(losses, spread, able, pairs, budget):
        lessons = {
            (min(each), max(each))
            for each in _exchanged(pairs.kinds[one], pairs.kinds[other], turned=turned)
            if pairs.lessons[each] > 0
        }
        if used.isdisjoint((one, other)) and taught.isdisjoint(lessons):
            used |= {one, other}
            taught |= lessons
            for two in _exchanged(pairs.agents[one], pairs.agents[other], turned=turned):
                _pair(after, *two)
    moved = np.flatnonzero(after != partner)
    spent[moved] = (_lost(cost, kind, after) - _lost(cost, kind, partner))[moved]
    return Exploration(after, spent)


def _exchanged(
    one: Integers, other: Integers, *, turned: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the pairs that (a, b) and (c, d) become: (a, c) and (b, d), or (a, d) and (b, c)."""
    (a, b), (c, d) = one.tolist(), other.tolist()
    return ((a, d), (b, c)) if turned else ((a, c), (b, d))


def _pair(partner: Integers, one: int, other: int) -> None:
    """Make two agents partners, either of which may be ``ALONE``."""
    if one != ALONE:
        partner[one] = other
    if other != ALONE:
        partner[other] = one


def _lost(cost: Floats, kind: Integers, partner: Integers) -> Floats:
    return np.where(partner == ALONE, 0.0, cost[kind, kind[partner]])


def _with_nobody(matrix: Floats) -> Floats:
    """Return a matrix of kinds with one kind more, of 0, which stands for no agent."""
    return np.asarray(np.pad(matrix, (0, 1)), np.float64)


def _spread(uncertainty: Uncertainty) -> Floats:
    """Return the deviation of what each pair of kinds teaches, shape (K + 1, K + 1).

    Two agents of one kind teach one loss, others two.
    """
    beside = uncertainty.beside
    both = np.hypot(beside, beside.T)
    np.fill_diagonal(both, np.diagonal(beside))
    spread = _with_nobody(both)
    spread[-1, :-1] = spread[:-1, -1] = uncertainty.alone
    return spread


def _pairs(kind: Integers, partner: Integers, spread: Floats) -> _Pairs:
    """Return the pairs that may exchange partners, those of the least known kinds first."""
    nobody = len(spread) - 1
    first = np.flatnonzero((partner == ALONE) | (partner > np.arange(len(partner))))
    agents = np.stack([first, partner[first]], axis=1)
    kinds = np.where(agents == ALONE, nobody, kind[agents])
    turned = kinds[:, 0] > kinds[:, 1]
    agents[turned], kinds[turned] = agents[turned, ::-1], kinds[turned, ::-1]
    named, number, count = np.unique(
        kinds @ np.array([nobody + 1, 1]), return_inverse=True, return_counts=True
    )
    lessons = spread.copy()
    one, other = np.divmod(named, nobody + 1)
    lessons[one, other] = lessons[other, one] = 0.0
    order = np.argsort(number.reshape(-1), kind="stable")
    copy = np.empty(len(order), np.int64)
    copy[order] = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    to_learn = lessons.max(axis=1)[kinds].max(axis=1, initial=0.0)
    chosen = np.flatnonzero(copy < COPIES)
    chosen = chosen[np.argsort(-to_learn[chosen], kind="stable")][:MOST_PAIRS]
    single = count[number.reshape(-1)] == 1
    return _Pairs(agents[chosen], kinds[chosen], single[chosen], lessons)


def _exchanges(
    losses: Floats, spread: Floats, allowed: Bools, pairs: _Pairs, budget: float
) -> list[tuple[int, int, bool]]:
    """Return exchanges that are worth their cost, those that are worth most first.

    Each is the numbers of two pairs, and whether the second is turned.
    """
    first, second = pairs.kinds.T
    kept = np.where(pairs.single, spread[first, second], 0.0)
    taught_now = np.hypot(kept[:, None], kept)
    exchanges: list[tuple[float, int, int, bool]] = []
    for turned in (False, True):
        facing, behind = (second, first) if turned else (first, second)
        changes = [
            losses[np.ix_(mine, theirs)] - losses[mine, partner][:, None]
            for mine, theirs, partner in ((first, facing, second), (second, behind, first))
        ]
        changes += [
            (losses[np.ix_(theirs, mine)] - losses[theirs, partner][:, None]).T
            for mine, theirs, partner in ((first, facing, behind), (second, behind, facing))
        ]
        extra, worst = sum(changes), np.maximum.reduce(changes)
        taught = np.hypot(
            pairs.lessons[np.ix_(first, facing)], pairs.lessons[np.ix_(second, behind)]
        )
        shortfall = np.abs(extra)
        value = gain_of_knowing(shortfall, taught) - gain_of_knowing(shortfall, taught_now)
        worth = REUSE * value - np.maximum(extra, 0.0)
        able = allowed[np.ix_(first, facing)] & allowed[np.ix_(second, behind)]
        good = able & (worst <= budget) & (value > LEAST_VALUE) & (worth > 0)
        one, other = np.nonzero(np.triu(good, 1))
        exchanges += [
            (-each, i, j, turned)
            for each, i, j in zip(
                worth[one, other].tolist(), one.tolist(), other.tolist(), strict=True
            )
        ]
    return [(i, j, turned) for _, i, j, turned in sorted(exchanges)]
