"""Amdahl's law and Karp-Flatt: worked numbers of the paper, and the laws that tie them together."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.speedup import (
    MIN_FRACTION,
    cores_for_speedup,
    karp_flatt,
    marginal_speedup,
    market_fraction,
    speedup,
)

fractions = st.floats(0.001, 1.0)
cores = st.floats(1.01, 1024)


@pytest.mark.parametrize(
    ("x", "f", "s"),
    [
        (1, 0.5, 1.0),
        (2, 2 / 3, 1.5),
        (10, 0.53, 1.91205),  # dedup
        (24, 0.96, 12.5),  # x264 on the paper's server
        (8, 1.0, 8.0),
        (8, 0.0, 1.0),
        (0, 0.5, 0.0),
    ],
)
def test_speedup_gives_the_worked_numbers(x: float, f: float, s: float) -> None:
    assert speedup(x, f) == pytest.approx(s, rel=1e-5)


@pytest.mark.parametrize(
    ("s", "x", "f"),
    [
        (1.5, 2, 2 / 3),
        (12.5, 24, 0.96),
        (1.0, 4, 0.0),
        (0.8, 2, -0.5),  # slower on two cores
        (2.5, 2, 1.2),  # super-linear
    ],
)
def test_karp_flatt_gives_the_worked_numbers_raw(s: float, x: float, f: float) -> None:
    assert karp_flatt(s, x) == pytest.approx(f)


@given(cores, st.floats(-2.0, 1.0))
def test_karp_flatt_recovers_the_fraction_from_the_speedup(x: float, f: float) -> None:
    assert karp_flatt(speedup(x, f), x) == pytest.approx(f, abs=1e-9)


@given(cores, st.floats(0.05, 1.0))
def test_speedup_recovers_the_measurement_from_the_fraction(x: float, efficiency: float) -> None:
    measured = x * efficiency
    assert speedup(x, karp_flatt(measured, x)) == pytest.approx(measured, rel=1e-6)


@given(st.floats(0.0, 1024), fractions)
def test_cores_for_speedup_inverts_speedup(x: float, f: float) -> None:
    # Near the limit 1 / (1 - f) the speedup carries few digits of the cores.
    digits_left = 1e-12 * (1 + x * (1 - f) / f) ** 2
    assert cores_for_speedup(speedup(x, f), f) == pytest.approx(x, rel=max(1e-9, digits_left))


@pytest.mark.parametrize(("s", "f"), [(2.0, 0.5), (3.0, 0.5), (1.5, 0.1)])
def test_no_number_of_cores_reaches_amdahls_limit(s: float, f: float) -> None:
    assert cores_for_speedup(s, f) == math.inf


@given(st.floats(0.0, 500), st.floats(0.01, 500), st.floats(0.01, 1.0))
def test_speedup_rises_with_cores_at_a_falling_rate(x: float, more: float, f: float) -> None:
    assert speedup(x + more, f) > speedup(x, f)
    assert marginal_speedup(x + more, f) <= marginal_speedup(x, f)


@given(st.floats(0.5, 100), st.floats(0.01, 1.0))
def test_marginal_speedup_is_the_derivative(x: float, f: float) -> None:
    step = 1e-4 * x
    slope = (speedup(x + step, f) - speedup(x - step, f)) / (2 * step)
    assert marginal_speedup(x, f) == pytest.approx(slope, rel=1e-5, abs=1e-9)


@given(st.floats(-1e6, 1e6))
def test_market_fraction_lies_in_its_bounds_and_keeps_what_does(raw: float) -> None:
    clamped = market_fraction(raw)
    assert MIN_FRACTION <= clamped <= 1
    if MIN_FRACTION <= raw <= 1:
        assert clamped == raw


@pytest.mark.parametrize(("s", "x"), [(1.0, 1.0), (1.0, 0.5), (0.0, 2.0), (-1.0, 2.0)])
def test_karp_flatt_refuses_what_it_is_not_defined_for(s: float, x: float) -> None:
    with pytest.raises(ValueError, match=r"more than one core|ratio of times"):
        karp_flatt(s, x)


def test_arrays_give_what_their_elements_give() -> None:
    x, f = np.array([2.0, 4.0, 8.0]), np.array([0.5, 0.9, 1.0])
    s = speedup(x, f)
    assert s.tolist() == [speedup(a, b) for a, b in zip(x, f, strict=True)]
    assert karp_flatt(s, x) == pytest.approx(f)
    assert cores_for_speedup(s, f) == pytest.approx(x)
    assert marginal_speedup(x, 0.9).shape == (3,)
    assert market_fraction(np.array([-1.0, 0.5, 2.0])).tolist() == [MIN_FRACTION, 0.5, 1.0]
    assert isinstance(market_fraction(0.5), float)
    assert isinstance(cores_for_speedup(1.5, 0.5), float)
