"""Time models: exact recovery, the choice of line or parabola, and what is never predicted."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from walras.speedup.time_model import CRITICAL_F, Form, TimeModel, TimePoint, fit_time_model

PERCENTS = (0.1, 0.2, 0.3, 0.5, 1.0)
growth = st.floats(0.01, 100)


def points(model: TimeModel, sizes: tuple[float, ...] = PERCENTS) -> list[TimePoint]:
    return [TimePoint(size, model.predict(size)) for size in sizes]


def linear(a: float, b: float) -> TimeModel:
    return TimeModel(Form.LINEAR, (a, b), 0.0)


def quadratic(a: float, b: float, c: float) -> TimeModel:
    return TimeModel(Form.QUADRATIC, (a, b, c), 0.0)


@given(st.floats(0, 10), growth)
def test_line_is_recovered_exactly(a: float, b: float) -> None:
    fit = fit_time_model(points(linear(a, b)))
    assert fit.form is Form.LINEAR
    assert fit.coefficients == pytest.approx((a, b), rel=1e-6, abs=1e-9)
    assert fit.residual == pytest.approx(0, abs=1e-9 * (a + b))


@given(st.floats(0, 10), st.floats(0, 10), growth)
def test_parabola_is_recovered_exactly(a: float, b: float, c: float) -> None:
    assume(c > 1e-3 * (a + b))
    fit = fit_time_model(points(quadratic(a, b, c)))
    assert fit.form is Form.QUADRATIC
    assert fit.coefficients == pytest.approx((a, b, c), rel=1e-5, abs=1e-6 * (a + b + c))
    assert fit.predict(2.0) == pytest.approx(a + 2 * b + 4 * c, rel=1e-6)


@given(st.floats(1e-3, 1e9))
def test_unit_of_size_does_not_matter(unit: float) -> None:
    truth = quadratic(1.0, 0.5, 4.0)
    scaled = [TimePoint(p.size * unit, p.seconds) for p in points(truth)]
    fit = fit_time_model(scaled)
    assert fit.form is Form.QUADRATIC
    assert fit.predict(0.7 * unit) == pytest.approx(truth.predict(0.7))


def test_three_sizes_are_too_few_for_a_parabola() -> None:
    fit = fit_time_model(points(quadratic(0, 0, 1), (1, 2, 3)))
    assert fit.form is Form.LINEAR


def test_two_sizes_give_the_line_through_them() -> None:
    fit = fit_time_model([TimePoint(0.2, 1.0), TimePoint(0.4, 1.6)])
    assert fit.coefficients == pytest.approx((0.4, 3.0))
    assert fit.predict(1.0) == pytest.approx(3.4)


def test_noise_on_a_line_is_rarely_taken_for_a_curve() -> None:
    generator = np.random.default_rng(7)
    forms = [
        fit_time_model(
            [TimePoint(d, (1 + 5 * d) * generator.normal(1, 0.02)) for d in PERCENTS]
        ).form
        for _ in range(400)
    ]
    assert forms.count(Form.QUADRATIC) < 0.08 * 400


def test_noise_on_a_parabola_does_not_hide_it() -> None:
    generator = np.random.default_rng(7)
    sizes = (0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
    forms = [
        fit_time_model(
            [TimePoint(d, (0.2 + 5 * d * d) * generator.normal(1, 0.03)) for d in sizes]
        ).form
        for _ in range(200)
    ]
    assert forms.count(Form.QUADRATIC) > 0.95 * 200


@given(st.lists(st.floats(0.01, 100), min_size=4, max_size=8))
def test_predicted_time_never_falls_with_size_nor_below_zero(seconds: list[float]) -> None:
    fit = fit_time_model([TimePoint(i + 1, t) for i, t in enumerate(seconds)])
    predicted = [fit.predict(size / 4) for size in range(80)]
    assert predicted[0] >= 0
    assert predicted == sorted(predicted)


def test_times_that_fall_with_size_are_fitted_as_constant() -> None:
    fit = fit_time_model([TimePoint(1, 3.0), TimePoint(2, 2.0), TimePoint(3, 1.0)])
    assert fit.coefficients == pytest.approx((2.0, 0.0))


@given(st.lists(st.tuples(st.sampled_from(PERCENTS), growth), min_size=3, max_size=8))
def test_weight_counts_as_repeats(measured: list[tuple[float, float]]) -> None:
    assume(len({size for size, _ in measured}) == 3)
    weighted = fit_time_model([TimePoint(d, t, weight=3) for d, t in measured])
    repeated = fit_time_model([TimePoint(d, t) for d, t in measured for _ in range(3)])
    assert weighted.coefficients == pytest.approx(repeated.coefficients, rel=1e-6, abs=1e-6)
    assert weighted.residual == pytest.approx(repeated.residual, rel=1e-6, abs=1e-9)


def test_heavier_points_pull_the_line() -> None:
    measured = [TimePoint(1, 1.0), TimePoint(2, 2.0), TimePoint(3, 6.0, weight=1000)]
    assert fit_time_model(measured).predict(3) == pytest.approx(6.0, abs=0.01)


@pytest.mark.parametrize("measured", [[], [TimePoint(1, 1)], [TimePoint(1, 1), TimePoint(1, 2)]])
def test_fewer_than_two_sizes_are_refused(measured: list[TimePoint]) -> None:
    with pytest.raises(ValueError, match="two data sizes or more"):
        fit_time_model(measured)


def test_table_of_critical_values_is_that_of_the_f_distribution() -> None:
    exact = [float(stats.f.ppf(0.95, 1, n)) for n in range(1, 11)]
    assert exact == pytest.approx(CRITICAL_F, rel=5e-4)
