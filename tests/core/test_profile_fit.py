"""Fitting profiles: programs of known parallel fraction and time are recovered and predicted."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.speedup.amdahls_law import MIN_FRACTION, karp_flatt
from walras.speedup.profile import Sample, SpeedupFit, fit_profile, merge_samples
from walras.speedup.time_model import Form

CORES = (1, 2, 4, 8)
SIZES = (0.1, 0.2, 0.4, 0.5)


def true_seconds(cores: float, size: float, f: float, a: float = 1.0, b: float = 20.0) -> float:
    return (a + b * size) * (1 - f + f / cores)


def profile(
    f: float, cores: Sequence[int] = CORES, sizes: Sequence[float] = SIZES
) -> tuple[Sample, ...]:
    return tuple(Sample(x, d, (true_seconds(x, d, f),) * 3) for x in cores for d in sizes)


def times(by_cores: dict[int, float], size: float = 1.0) -> SpeedupFit:
    return fit_profile(Sample(cores, size, (seconds,)) for cores, seconds in by_cores.items())


@given(st.floats(0.01, 1.0))
def test_program_that_obeys_amdahl_is_recovered_exactly(f: float) -> None:
    fit = fit_profile(profile(f))
    assert fit.raw_fraction == pytest.approx(f, abs=1e-9)
    assert fit.fraction == pytest.approx(f, abs=1e-9)
    assert fit.variance == pytest.approx(0, abs=1e-12)
    assert list(fit.by_cores) == [2, 4, 8]
    assert {model.form for model in fit.time_models.values()} == {Form.LINEAR}


@given(st.floats(0.01, 1.0), st.integers(1, 64), st.floats(0.05, 3.0))
def test_unmeasured_cores_and_sizes_are_predicted_exactly(f: float, x: int, d: float) -> None:
    fit = fit_profile(profile(f))
    assert fit.predict_seconds(x, d) == pytest.approx(true_seconds(x, d, f), rel=1e-6)
    assert fit.speedup(x) == pytest.approx(x / (f + (1 - f) * x), rel=1e-6)


def test_worked_example() -> None:
    # s(2) = 10/6, s(4) = 2.5: F(2) = 0.4 / 0.5 = 0.8, F(4) = 0.6 / 0.75 = 0.8.
    fit = times({1: 10.0, 2: 6.0, 4: 4.0})
    assert fit.by_cores == pytest.approx({2: 0.8, 4: 0.8})
    assert fit.fraction == pytest.approx(0.8)
    assert fit.predict_seconds(8, 1.0) == pytest.approx(3.0)
    assert fit.time_models == {}


def test_fraction_is_the_geometric_mean_over_sizes_and_the_mean_over_cores() -> None:
    samples = [*profile(0.4, sizes=[0.1]), *profile(0.9, sizes=[0.2])]
    fit = fit_profile(samples)
    assert [size.mean for size in fit.sizes] == pytest.approx([0.4, 0.9])
    assert fit.raw_fraction == pytest.approx(math.sqrt(0.4 * 0.9))
    assert fit.by_cores == pytest.approx(dict.fromkeys((2, 4, 8), 0.65))


def test_variance_is_that_of_the_population_of_core_counts() -> None:
    # F(2) = 1.0 and F(4) = 0.8: mean 0.9, variance 0.01.
    fit = times({1: 10.0, 2: 5.0, 4: 4.0})
    assert fit.raw_fraction == pytest.approx(0.9)
    assert fit.variance == pytest.approx(0.01)
    assert fit.sizes[0].variance == pytest.approx(0.01)


def test_median_keeps_one_disturbed_run_from_counting() -> None:
    fit = fit_profile([Sample(1, 1.0, (10.0, 10.0, 90.0)), Sample(2, 1.0, (6.0, 6.0, 6.0))])
    assert fit.fraction == pytest.approx(0.8)


def test_slow_down_is_reported_raw_clamped_for_the_market_and_predicted_as_measured() -> None:
    fit = times({1: 4.0, 2: 5.0})
    assert fit.raw_fraction == pytest.approx(-0.5)
    assert fit.fraction == MIN_FRACTION
    assert fit.speedup(2) == pytest.approx(0.8)
    assert fit.predict_seconds(2, 1.0) == pytest.approx(5.0)


def test_sizes_of_mixed_sign_are_averaged_arithmetically() -> None:
    fit = fit_profile(
        [
            Sample(1, 0.1, (4.0,)),
            Sample(2, 0.1, (5.0,)),
            Sample(1, 0.2, (10.0,)),
            Sample(2, 0.2, (6.0,)),
        ]
    )
    assert fit.raw_fraction == pytest.approx((-0.5 + 0.8) / 2)


def test_super_linear_program_is_reported_raw_and_predicted_as_linear() -> None:
    fit = times({1: 10.0, 2: 4.0})
    assert fit.raw_fraction == pytest.approx(1.2)
    assert fit.fraction == 1.0
    assert fit.speedup(100) == pytest.approx(100)
    assert fit.predict_seconds(2, 1.0) == pytest.approx(4.0)
    assert fit.predict_seconds(4, 1.0) == pytest.approx(2.0)


def test_prediction_starts_from_the_nearest_measured_core_count() -> None:
    # F(2) = 1, F(4) = 0.8, so F = 0.9 fits neither count; the nearest count's own time is kept.
    fit = times({1: 10.0, 2: 5.0, 4: 4.0})
    assert fit.predict_seconds(2, 1.0) == pytest.approx(5.0)
    assert fit.predict_seconds(4, 1.0) == pytest.approx(4.0)
    assert fit.predict_seconds(8, 1.0) == pytest.approx(4.0 * fit.speedup(4) / fit.speedup(8))
    assert fit.predict_seconds(3, 1.0) == pytest.approx(4.0 * fit.speedup(4) / fit.speedup(3))


@given(st.floats(0.05, 1.0), st.integers(1, 63))
def test_predicted_time_falls_with_cores(f: float, x: int) -> None:
    fit = fit_profile(profile(f))
    assert fit.predict_seconds(x + 1, 0.3) < fit.predict_seconds(x, 0.3)


def test_other_size_than_the_only_one_measured_is_refused() -> None:
    fit = times({1: 10.0, 2: 6.0}, size=0.1)
    assert fit.predict_seconds(2, 0.1) == pytest.approx(6.0)
    with pytest.raises(ValueError, match="measure two sizes or more"):
        fit.predict_seconds(2, 1.0)


def test_samples_of_one_cell_are_taken_together() -> None:
    parts = [Sample(2, 0.1, (3.0,)), Sample(1, 0.1, (1.0,)), Sample(2, 0.1, (4.0, 5.0))]
    assert merge_samples(parts) == (Sample(1, 0.1, (1.0,)), Sample(2, 0.1, (3.0, 4.0, 5.0)))


@pytest.mark.parametrize(
    ("samples", "complaint"),
    [
        ([], "no samples"),
        ([Sample(2, 1.0, (1.0,))], "data size 1 has no time on one core"),
        ([Sample(1, 0.5, (1.0,))], r"data size 0\.5 has times on one core only"),
        ([*profile(0.5, sizes=[0.1]), Sample(1, 0.2, (1.0,))], r"data size 0\.2"),
    ],
)
def test_samples_that_show_no_speedup_are_refused(samples: list[Sample], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        fit_profile(samples)


@pytest.mark.parametrize(
    ("cores", "size", "seconds"),
    [
        (0, 1.0, (1.0,)),
        (1, 0.0, (1.0,)),
        (1, math.nan, (1.0,)),
        (1, 1.0, ()),
        (1, 1.0, (0.0,)),
        (1, 1.0, (1.0, math.inf)),
    ],
)
def test_impossible_samples_are_refused(
    cores: int, size: float, seconds: tuple[float, ...]
) -> None:
    with pytest.raises(ValueError, match="sample"):
        Sample(cores, size, seconds)


def test_start_up_does_not_hide_how_parallel_the_whole_is() -> None:
    """Half a second of start-up and ten of work of which nine tenths are parallel."""
    samples = [
        Sample(cores, size, (0.5 + 10 * size * (0.1 + 0.9 / cores),))
        for size in (0.02, 0.05, 0.1)
        for cores in (1, 2, 4)
    ]
    fit = fit_profile(samples)
    whole = 10.5 / (0.5 + 10 * (0.1 + 0.9 / 4))
    expected = (1 - 1 / whole) / (1 - 1 / 4)
    assert fit.fraction < 0.6
    assert fit.fraction_at(1.0) == pytest.approx(expected, abs=1e-9)


def test_the_whole_is_judged_rightly_where_time_grows_with_the_square_of_data() -> None:
    samples = [
        Sample(cores, size, (40 * size**2 * (0.3 + 0.7 / cores),))
        for size in (0.05, 0.1, 0.15, 0.2)
        for cores in (1, 2, 4)
    ]
    fit = fit_profile(samples)
    assert fit.time_models[1].form is Form.QUADRATIC
    assert fit.fraction_at(1.0) == pytest.approx(0.7, abs=1e-9)


def test_one_start_up_for_all_core_counts_withstands_noise() -> None:
    """Four samples of 3 to 12 % of the data, on one core and on two, 8 % of noise, 500 times."""
    random = np.random.default_rng(0)
    shared, apart = [], []
    for _ in range(500):
        samples = []
        for cores in (1, 2):
            for size in (0.03, 0.06, 0.09, 0.12):
                true = 0.06 + 6 * size * (0.2 + 0.8 / cores)
                noise = np.exp(0.08 * np.abs(random.standard_normal(3)))
                noise[random.random(3) < 0.1] *= 1.5
                samples.append(Sample(cores, size, tuple(true * noise)))
        fit = fit_profile(samples)
        shared.append(fit.fraction_at(1.0))
        alone, both = (fit.time_models[cores].predict(1.0) for cores in (1, 2))
        apart.append(min(max(karp_flatt(alone / both, 2), 0.0), 1.0))
    assert np.std(shared) < 0.08
    assert np.std(shared) < np.std(apart) / 2
    assert np.mean(shared) == pytest.approx(0.8, abs=0.03)


def test_without_time_models_the_whole_is_taken_to_be_like_the_sample() -> None:
    fit = fit_profile([Sample(1, 0.1, (1.0,)), Sample(2, 0.1, (0.6,))])
    assert fit.fraction_at(1.0) == fit.fraction
