"""Beliefs about penalties: what is sensible with nothing known, and how sure they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.mechanisms.cooper.beliefs import PRIOR_DEVIATION, PRIOR_LOSS, believe
from walras.mechanisms.cooper.preference import DisutilityError
from walras_studies.cooper.prediction import predict
from walras_studies.cooper.preferences import preferences_right
from walras_studies.cooper.worlds import BANDWIDTH, JOBS, WORLDS, losses

NOTHING = np.full((JOBS, JOBS), np.nan)


def some_of(truth: np.ndarray, part: float, seed: int) -> np.ndarray:
    kept = np.random.default_rng(seed).permutation(truth.size) < round(part * truth.size)
    return np.where(kept.reshape(truth.shape), truth, np.nan)


def test_with_nothing_known_all_pairs_are_alike_and_unsure() -> None:
    found = believe(NOTHING)
    assert (found.mean == PRIOR_LOSS).all()
    assert found.deviation.min() == found.deviation.max()
    assert found.deviation[0, 0] == pytest.approx(PRIOR_DEVIATION, rel=0.05)


@pytest.mark.parametrize("world", WORLDS)
def test_bandwidth_alone_gets_most_preferences_right(world: str) -> None:
    """The paper reports as many for a quarter of all pairs measured (83 %, VI-C)."""
    found = believe(NOTHING, BANDWIDTH).mean
    right = [
        preferences_right(losses(world, np.random.default_rng(number)), found)
        for number in range(20)
    ]
    assert np.mean(right) > 0.78


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("part", "better"), [(0.05, 0.08), (0.1, 0.04), (0.5, -0.015)])
def test_bandwidth_helps_where_little_is_measured_and_hardly_hurts_where_much_is(
    world: str, part: float, better: float
) -> None:
    gains = []
    for number in range(20):
        truth = losses(world, np.random.default_rng(number))
        measured = some_of(truth, part, number)
        ours, plain = believe(measured, BANDWIDTH).mean, predict(measured).disutility
        gains.append(preferences_right(truth, ours) - preferences_right(truth, plain))
    assert np.mean(gains) > better


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("bandwidth", [None, BANDWIDTH])
@pytest.mark.parametrize("part", [0.1, 0.25, 0.5])
def test_beliefs_are_as_unsure_as_they_are_wrong(
    world: str, bandwidth: np.ndarray | None, part: float
) -> None:
    """The errors are about as large as their deviations say, neither half nor twice."""
    squares = []
    for number in range(20):
        truth = losses(world, np.random.default_rng(number))
        measured = some_of(truth, part, number)
        found, unknown = believe(measured, bandwidth), np.isnan(measured)
        errors = (found.mean - truth)[unknown] / found.deviation[unknown]
        squares.append((errors**2).mean())
    assert 0.6 < np.sqrt(np.mean(squares)) < 1.6


def test_what_is_known_of_a_program_is_expected_of_it_elsewhere_less_as_less_is_known() -> None:
    """Shrinkage: one bad measurement says less than three, and both less than they show."""
    expected = []
    for count in (0, 1, 3):
        measured = np.full((6, 6), np.nan)
        measured[0, 1 : 1 + count] = 0.3
        measured[4, 1:4] = measured[5, 1:4] = 0.02
        expected.append(believe(measured).mean[0, 4])
    assert 0 < expected[0] < expected[1] < expected[2] < 0.3


def test_nobody_changes_what_is_believed_of_others_by_an_enormous_bandwidth() -> None:
    drawn = np.array([1.0, 5.0, 10.0, 20.0, 25.0])
    nothing = np.full((5, 5), np.nan)
    honest = believe(nothing, drawn).mean
    drawn[4] = 1e12
    claimed = believe(nothing, drawn).mean
    np.testing.assert_array_equal(claimed[:4, :4], honest[:4, :4])
    assert claimed.max() <= 0.11


@given(
    st.integers(0, 6),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.2, 1.0]),
    st.sampled_from([1e-9, 0.1, 1.0, 1e6]),
)
def test_beliefs_are_finite_keep_what_is_measured_and_are_repeated_to_the_bit(
    programs: int, seed: int, part: float, size: float
) -> None:
    random = np.random.default_rng(seed)
    values = np.minimum(size * random.standard_normal((programs, programs)), 1.0)
    measured = np.where(random.random(values.shape) < part, values, np.nan)
    bandwidth = np.where(random.random(programs) < 0.5, random.uniform(0, 30, programs), np.nan)
    found = believe(measured, bandwidth)
    known = ~np.isnan(measured)
    np.testing.assert_array_equal(found.mean[known], measured[known])
    assert not found.deviation[known].any()
    assert np.isfinite(found.mean).all()
    assert (found.mean <= 1).all()
    assert (found.deviation[~known] > 0).all()
    again = believe(measured, bandwidth)
    assert found.mean.tobytes() == again.mean.tobytes()
    assert found.deviation.tobytes() == again.deviation.tobytes()


def test_senseless_arrays_are_refused() -> None:
    with pytest.raises(DisutilityError, match=r"measured\[0, 0\] = 2 is above 1"):
        believe([[2.0]])
    with pytest.raises(DisutilityError, match="bandwidth has shape"):
        believe([[0.5]], [1.0, 2.0])
