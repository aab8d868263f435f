"""Solvers say what is wrong with what they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from walras import (
    AmdahlMarket,
    ShareMarket,
    find_equilibrium,
    find_nash_equilibrium,
    find_share_market_equilibrium,
)

if TYPE_CHECKING:
    from collections.abc import Callable

AMDAHL = AmdahlMarket([1, 1], [4], [0, 1], [0, 0], [0.9, 0.5])
SHARES = ShareMarket([1, 1], [[1, 2], [2, 1]])

SOLVERS: list[tuple[Callable[..., Any], Any, str]] = [
    (find_equilibrium, AMDAHL, "max_passes"),
    (find_nash_equilibrium, AMDAHL, "max_iterations"),
    (find_share_market_equilibrium, SHARES, "max_iterations"),
]


@pytest.mark.parametrize(("solve", "market", "rounds"), SOLVERS)
def test_wrong_input_is_told(solve: Callable[..., Any], market: Any, rounds: str) -> None:
    assert solve(market, tolerance=1e-3, **{rounds: 1000}).converged
    with pytest.raises(
        TypeError, match=f"market is of type int: give one of {type(market).__name__}"
    ):
        solve(3)
    for tolerance in (-1, 0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"tolerance = {tolerance} is not positive and finite"):
            solve(market, tolerance=tolerance)
    with pytest.raises(ValueError, match="0 rounds are not enough: allow at least one"):
        solve(market, **{rounds: 0})
