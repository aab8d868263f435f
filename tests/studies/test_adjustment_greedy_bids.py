"""Local greedy adjustment by users who only observe prices, shares and progress (6.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from walras.mechanisms.price_anticipating.market import ShareMarket, ShareMarketError
from walras_studies.adjustment.greedy_bids import (
    AMOUNT,
    PROBE,
    adjust_bids,
    even_bids,
    move_money,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from walras_studies.adjustment.greedy_bids import AdjustmentState

    Floats = NDArray[np.float64]
    Progress = Callable[[Floats], Floats]

FOUR = np.ones((1, 4), np.bool_)


def play(
    market: ShareMarket,
    progress: Progress,
    steps: int,
    noise: float = 0.0,
    missing: float = 0.0,
    amount: float = AMOUNT,
) -> AdjustmentState:
    """Let all users adjust their bids at the same time to what they observe."""
    random = np.random.default_rng(5)
    usable = market.weights > 0
    state = even_bids(market.budgets, usable)
    for _ in range(steps):
        shares = market.shares(state.bids)
        seen = progress(shares) * (1 + noise * random.standard_normal(shares.shape))
        seen[random.random(shares.shape) < missing] = np.nan
        prices = market.reserve + state.bids.sum(axis=0)
        state = adjust_bids(state, prices, shares, seen, market.budgets, usable, amount=amount)
    np.testing.assert_allclose(state.bids.sum(axis=1), market.budgets)
    assert (state.bids[~usable] == 0).all()
    assert (state.bids[usable] > 0).all()
    return state


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_concave_utilities_leave_little_to_gain_by_any_other_bids(noise: float) -> None:
    random = np.random.default_rng(3)
    market = ShareMarket(np.ones(4), random.uniform(0.5, 2, (4, 5)))

    def progress(shares: Floats) -> Floats:
        return np.asarray(market.weights * np.sqrt(shares))

    state = play(market, progress, 600, noise)
    for user in range(4):
        has = progress(market.shares(state.bids))[user].sum()
        for other in random.dirichlet(np.ones(5), 500):
            tried = state.bids.copy()
            tried[user] = other
            assert progress(market.shares(tried))[user].sum() <= 1.03 * has


def test_the_slope_is_learnt_where_the_share_moves_and_linear_where_it_does_not() -> None:
    state = even_bids([1.0], FOUR[:, :2])
    for step in range(40):
        shares = np.array([[0.5 + 0.1 * (-1) ** step, 0.5]])
        state = adjust_bids(state, [2, 2], shares, np.sqrt(shares), [1.0], FOUR[:, :2])
    moved, still = state.slopes[0]
    assert moved == pytest.approx(0.5 / np.sqrt(0.5), rel=0.25)
    assert still == pytest.approx(np.sqrt(0.5) / 0.5)


def test_money_moves_from_the_worst_machine_with_money_to_the_best() -> None:
    moved = move_money(
        np.array([[0.5, 0.1, 0.4, 0.0]]), np.array([[2.0, 1.0, 3.0, 0.5]]), np.array([0.05])
    )
    np.testing.assert_allclose(moved, [[0.5, 0.05, 0.45, 0.0]])


def test_no_more_money_moves_than_there_is() -> None:
    moved = move_money(np.array([[0.5, 0.1, 0.4]]), np.array([[2.0, 1.0, 3.0]]), np.array([0.3]))
    np.testing.assert_allclose(moved, [[0.5, 0.0, 0.5]])


def test_money_rests_where_margins_are_equal() -> None:
    bids = np.array([[0.5, 0.5, 0.0]])
    moved = move_money(bids, np.array([[1.0, 1.0, 0.9]]), np.array([0.1]))
    assert moved.tolist() == bids.tolist()


def test_servers_that_nobody_observed_neither_give_nor_get_money() -> None:
    start = even_bids([1.0], FOUR)
    seen = np.array([[2.0, np.nan, 1.0, -1.0]])
    state = adjust_bids(start, np.ones(4), np.full((1, 4), 0.25), seen, [1.0], FOUR)
    np.testing.assert_allclose(state.bids, [[0.26, 0.25, 0.24, 0.25]])
    assert np.isnan(state.slopes).tolist() == [[False, True, False, True]]
    nothing = np.full((1, 4), np.nan)
    unseen = adjust_bids(start, np.ones(4), np.full((1, 4), 0.25), nothing, [1.0], FOUR)
    np.testing.assert_allclose(unseen.bids, start.bids)


def test_a_server_without_progress_keeps_a_probe_and_gets_money_back_by_progress() -> None:
    usable = FOUR[:, :2]
    state = even_bids([1.0], usable)
    for step in range(300):
        progress = np.array([[0.0 if step < 100 else 5.0, 1.0]]) * state.bids / 2
        state = adjust_bids(state, [2, 2], state.bids / 2, progress, [1.0], usable)
        if step == 99:
            assert state.bids[0, 0] == pytest.approx(PROBE / 2)
    assert state.bids[0, 0] > 0.9


def test_budgets_and_servers_may_change_between_steps() -> None:
    state = even_bids([1.0, 2.0], np.ones((2, 4), np.bool_))
    usable = np.array([[True, False, True, False], [False] * 4])
    shares = np.full((2, 4), 0.25)
    state = adjust_bids(state, np.ones(4), shares, shares, [3.0, 2.0], usable)
    assert state.bids[0].tolist() == pytest.approx([1.5, 0, 1.5, 0], abs=0.031)
    assert state.bids[1].tolist() == [0] * 4
    assert state.bids.sum(axis=1).tolist() == pytest.approx([3.0, 0.0])
    usable[:] = True
    state = adjust_bids(state, np.ones(4), shares, shares, [3.0, 2.0], usable)
    assert (state.bids > 0).all()
    assert state.bids.sum(axis=1).tolist() == pytest.approx([3.0, 2.0])


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"amount": 0}, "amount = 0: a part of the budget from above 0 to 1 is needed"),
        ({"amount": float("nan")}, "amount = nan"),
        ({"budgets": [0.0]}, r"budgets\[0\] = 0 is not positive"),
        ({"prices": [1, 1, 0, 1]}, r"prices\[2\] = 0 is not positive"),
        ({"shares": [[1, 1]]}, r"shares has shape \(1, 2\): 1 x 4 entries are needed"),
        ({"progress": [[1, 1]]}, r"progress has shape \(1, 2\): 1 x 4 entries are needed"),
    ],
)
def test_numbers_out_of_range_are_refused(changed: dict[str, object], complaint: str) -> None:
    given: dict[str, object] = {
        "prices": np.ones(4),
        "shares": np.full((1, 4), 0.25),
        "progress": np.ones((1, 4)),
        "budgets": [1.0],
        **changed,
    }
    with pytest.raises(ShareMarketError, match=complaint):
        adjust_bids(even_bids([1.0], FOUR), usable=FOUR, **given)  # type: ignore[arg-type]
