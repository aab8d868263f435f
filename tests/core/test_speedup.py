"""Amdahl's law and Karp-Flatt: worked numbers of the paper, and the laws that tie them together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.speedup.amdahls_law import (
    MIN_FRACTION,
    karp_flatt,
    market_fraction,
    speedup,
)

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


@given(st.floats(0.0, 500), st.floats(0.1, 500), st.floats(0.01, 1.0))
def test_speedup_rises_with_cores_at_a_falling_rate(x: float, more: float, f: float) -> None:
    once, twice = speedup(x + more, f), speedup(x + 2 * more, f)
    assert once > speedup(x, f)
    assert twice - once <= once - speedup(x, f) + 1e-9


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
