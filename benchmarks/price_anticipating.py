"""Compare the proportional-share market with the paper's algorithms and general optimisers.

Populations are those of section 7, from `tests/support/share_markets.py`. In our equilibria, nobody
can gain more than 0.001 of their own utility by other bids; the paper's gap is 0.001 of the worth
of all machines to a user, which takes fewer rounds.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness import Case, one_thread, run

one_thread()  # before NumPy is imported
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

import numpy as np  # noqa: E402
from scipy.optimize import linear_sum_assignment, minimize  # noqa: E402

from share_markets import population  # noqa: E402
from walras.mechanisms.price_anticipating._response import largest, swap_machines  # noqa: E402
from walras.mechanisms.price_anticipating.market import ShareMarket  # noqa: E402
from walras.mechanisms.price_anticipating.nash import (  # noqa: E402
    NashEquilibrium,
    find_share_market_equilibrium,
    weight_proportional,
)
from walras_studies.proportional_share.optimum import social_optimum  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

GAP = 1e-3


def equilibrium(market: ShareMarket) -> NashEquilibrium:
    """Solve a market from its arrays, input checks included."""
    again = ShareMarket(market.budgets, market.weights, market.parallelism, market.reserve)
    result = find_share_market_equilibrium(again, tolerance=GAP)
    if not result.converged:
        raise RuntimeError(f"gain {result.gain}")
    return result


def in_turn(
    market: ShareMarket, respond: Callable[[Floats, Floats, float], Floats], rounds: int
) -> Floats:
    """Return bids after users respond in turn, until nobody gains more than `GAP`.

    Args:
        market: The market.
        respond: Best response to weights, others' bids and a budget.
        rounds: Most rounds.
    """
    bids = weight_proportional(market)
    for _ in range(rounds):
        worst = 0.0
        for user, weights in enumerate(market.weights):
            others = market.reserve + bids.sum(axis=0) - bids[user]
            answer = respond(weights, others, market.budgets[user])
            before = weights @ (bids[user] / (bids[user] + others))
            worst = max(worst, weights @ (answer / (answer + others)) / before - 1)
            bids[user] = answer
        if worst <= GAP:
            break
    return bids


def papers_sort(weights: Floats, others: Floats, budget: float) -> Floats:
    """Return a best response by section 6.1.1: sort by w / y, and bid on the largest possible k."""
    order = np.argsort(-weights / others, kind="stable")
    roots = np.sqrt(weights[order] * others[order])
    level = (budget + np.cumsum(others[order])) / np.cumsum(roots)
    last = int(np.flatnonzero(roots * level >= others[order])[-1])
    bids = np.zeros(len(weights))
    inside = order[: last + 1]
    bids[inside] = roots[: last + 1] * level[last] - others[inside]
    return bids


def sequential_quadratic(weights: Floats, others: Floats, budget: float) -> Floats:
    """Return a best response by SciPy's SLSQP, with the gradient."""
    found = minimize(
        lambda bids: -weights @ (bids / (bids + others)),
        np.full(len(weights), budget / len(weights)),
        jac=lambda bids: -weights * others / (bids + others) ** 2,
        bounds=[(0, None)] * len(weights),
        constraints={
            "type": "eq",
            "fun": lambda bids: bids.sum() - budget,
            "jac": lambda _: np.ones(len(weights)),
        },
        method="SLSQP",
    )
    return np.asarray(found.x)


def local_search(roots: Floats, others: Floats, limit: int, bids: Floats) -> None:
    """Run section 6.2 as printed: start from the highest w / y, and swap while that pays."""
    inside = largest(roots / np.sqrt(others), limit)
    swap_machines(roots, others, 1.0, inside, np.inf, bids)


def papers_search(limit: int, weights: Floats, others: Floats, _: float) -> Floats:
    """Return a best response by the local search, its swaps compiled."""
    bids = np.empty(len(weights))
    local_search(np.sqrt(weights), others, limit, bids)
    return bids


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for users, target in ((40, 1), (250, 5)):
        for correlated in (False, True):
            market = population(users, correlated=correlated)
            yield Case(
                f"{users} users x 100, {'correlated' if correlated else 'uniform'}",
                target,
                partial(equilibrium, market),
                "paper's sort, NumPy",
                partial(in_turn, market, papers_sort, 200),
            )
    market = population(250)
    yield Case(
        "250 users x 100, one round",
        1,
        partial(find_share_market_equilibrium, market, max_iterations=1),
        "scipy SLSQP",
        partial(in_turn, market, sequential_quadratic, 1),
    )
    for users, limit, target in ((250, 5, 10), (250, 20, 40)):
        market = population(users, parallelism=limit)
        yield Case(
            f"{users} users x 100, at most {limit} machines",
            target,
            partial(equilibrium, market),
            "paper's search, compiled swaps",
            partial(in_turn, market, partial(papers_search, limit), 200),
            warm_peer=True,
        )
    weights = np.random.default_rng(0).random((500, 1000))
    tight = ShareMarket(np.ones(500), weights, [2] * 500)
    yield Case(
        "social optimum, 500 x 2 of 1,000",
        100,
        partial(social_optimum, tight),
        "scipy assignment",
        partial(linear_sum_assignment, np.repeat(weights, 2, axis=0), maximize=True),
        warm_peer=True,
    )


if __name__ == "__main__":
    run("Proportional-share market: equilibria and optimum", cases())
