"""Estimates of utilities from runs, and the least squares and quantiles below them (section 5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls
from scipy.stats import t as student

from examples import examples
from walras.mechanisms.abacus.auction import AuctionError
from walras.mechanisms.abacus.estimation import (
    estimate_product_utility,
    estimate_utility,
    fit_non_negative,
    student_quantile,
)


@examples(300)
@given(st.integers(1, 10), st.integers(1, 8), st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_least_squares_are_scipys(rows: int, columns: int, seed: int, kind: int) -> None:
    random = np.random.default_rng(seed)
    matrix = random.standard_normal((rows, columns))
    if kind == 1:
        matrix = np.round(2 * random.random((rows, columns)))  # equal and empty columns
    elif kind == 2:
        matrix *= 10.0 ** random.integers(-9, 9, columns)
    target = random.standard_normal(rows)
    ours = fit_non_negative(matrix, target)
    assert ours.converged
    assert (ours.solution >= 0).all()
    assert ours.residual == pytest.approx(np.linalg.norm(matrix @ ours.solution - target), abs=1e-9)
    if kind != 2:  # scipy does not scale
        assert ours.residual == pytest.approx(nnls(matrix, target)[1], abs=1e-9)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30, 999])
def test_quantiles_are_scipys(freedom: int) -> None:
    for probability in (0.6, 0.9, 0.975, 0.995):
        expected = student.ppf(probability, freedom)
        assert student_quantile(probability, freedom) == pytest.approx(expected, rel=1e-10)


def test_products_in_an_unknown_unit_give_their_powers() -> None:
    """Section 5 with logarithms: the unit of a run's utility is the only thing not identified."""
    random = np.random.default_rng(0)
    shares = random.uniform(0.05, 0.6, (6, 3))
    weights = np.array([0.6, 0.1, 0.25])
    for unit in (1e-3, 1.0, 1e6):
        found = estimate_product_utility(shares, unit * np.prod(shares**weights, axis=1))
        np.testing.assert_allclose(found.weights, weights, rtol=1e-9)
        np.testing.assert_allclose(found.upper, weights, rtol=1e-6)
        assert found.distinct


def test_intervals_of_powers_hold_the_truth_as_often_as_they_say() -> None:
    """The free unit costs a degree of freedom: without that, intervals would be too narrow."""
    random = np.random.default_rng(4)
    shares = random.uniform(0.05, 0.6, (5, 2))
    weights = np.array([0.7, 0.3])
    inside = np.zeros(2)
    trials = 1000
    for _ in range(trials):
        noise = np.exp(0.05 * random.standard_normal(5))
        measured = 0.01 * np.prod(shares**weights, axis=1) * noise
        found = estimate_product_utility(shares, measured, confidence=0.9)
        inside += (found.lower <= weights) & (weights <= found.upper)
    assert (inside / trials >= 0.87).all()
    assert (inside / trials).max() <= 0.93


@pytest.mark.parametrize(
    ("shares", "distinct"),
    [
        ([[0.5, 0.2], [0.2, 0.5], [0.7, 0.3], [0.3, 0.7]], True),
        ([[0.5, 0.2], [0.5, 0.5], [0.5, 0.3], [0.5, 0.7]], False),  # cores never change
        ([[0.2, 0.1], [0.4, 0.2], [0.6, 0.3], [0.8, 0.4]], False),  # both change in step
        ([[0.2, 0.1], [0.4, 0.2]], False),
    ],
)
def test_powers_are_told_apart_only_where_shares_differ_in_their_own_ways(
    shares: list[list[float]], *, distinct: bool
) -> None:
    found = estimate_product_utility(shares, np.prod(shares, axis=1))
    assert found.distinct is distinct


def test_weights_that_would_be_negative_are_zero() -> None:
    shares = np.array([[0.1, 0.5], [0.3, 0.4], [0.6, 0.1], [0.5, 0.3]])
    found = estimate_utility(shares, shares @ [1.0, -0.5])
    assert found.weights[1] == 0
    assert found.lower[1] == 0
    assert found.weights[0] > 0


def test_too_few_or_too_similar_runs_leave_intervals_open() -> None:
    for shares in ([[0.5, 0.2], [0.2, 0.5]], [[0.4, 0.2], [0.2, 0.1], [0.6, 0.3]]):
        found = estimate_utility(shares, np.array(shares) @ [1, 1])
        assert np.isinf(found.upper).all()
        assert not found.lower.any()
        assert np.isnan(found.deviation)
        np.testing.assert_allclose(np.array(shares) @ found.weights, np.array(shares).sum(axis=1))


@pytest.mark.parametrize(
    ("shares", "utilities", "options", "message"),
    [
        ([[0.5]], [np.nan], {}, r"utilities\[0\] = nan is not a finite number"),
        ([[1.5]], [1], {}, r"shares\[0, 0\] = 1\.5 is outside 0\.\.1"),
        ([[0.5]], [1, 2], {}, r"shares has shape \(1, 1\): 2 x any entries are needed"),
        (np.zeros((0, 2)), [], {}, r"utilities has no entries"),
        ([[0.5, 0]], [1], {"logarithmic": True}, r"shares\[0, 1\] = 0 has no logarithm"),
        ([[0.5]], [1], {"confidence": 1.0}, r"confidence = 1\.0 is outside 0\.\.1"),
    ],
)
def test_senseless_runs_are_refused(
    shares: Any, utilities: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(AuctionError, match=message):
        estimate_utility(shares, utilities, **options)


@pytest.mark.parametrize(
    ("shares", "utilities", "message"),
    [
        ([[0.5]], [0], r"utilities\[0\] = 0 has no logarithm"),
        ([[0.5, 0]], [1], r"shares\[0, 1\] = 0 has no logarithm"),
    ],
)
def test_a_product_has_no_zeros(shares: Any, utilities: Any, message: str) -> None:
    with pytest.raises(AuctionError, match=message):
        estimate_product_utility(shares, utilities)
