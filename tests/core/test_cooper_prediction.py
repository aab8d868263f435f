"""The default predictor of disutilities: against the column mean, a plain reference, the paper.

The paper's measured penalties are not public; the worlds of `contention` stand in for them.
"""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from contention import (
    additive,
    cache,
    column_means,
    noisy,
    opposed,
    product,
    sample,
    saturating,
    two_resources,
)
from walras.mechanisms.cooper.prediction import (
    AGENT_MEAN,
    AGENT_VARIANCE,
    CORUNNER_VARIANCE,
    PRIOR_NOISE,
    PRIOR_WEIGHT,
)
from walras.mechanisms.cooper.preference import DisutilityError
from walras_studies.cooper.corunner_filtering import FilteredPrediction, filter_by_corunner
from walras_studies.cooper.prediction import Prediction, predict
from walras_studies.cooper.preferences import preferences_right
from walras_studies.cooper.worlds import JOBS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

WORLDS = [additive, product, noisy, two_resources, cache, saturating]


def right(
    world: Callable[[Generator, int], Floats],
    density: float,
    predictors: list[Callable[[Floats], Floats]],
    populations: int,
    n: int = JOBS,
) -> NDArray[np.float64]:
    """Return the part of preferences right, shape (populations, predictors)."""
    results = []
    for seed in range(populations):
        draw = np.random.default_rng([seed, n])
        truth = np.minimum(world(draw, n), 1)
        measured = sample(draw, truth, density)
        results.append([preferences_right(truth, fill(measured)) for fill in predictors])
    return np.array(results)


def by_default(measured: Floats) -> Floats:
    return predict(measured).disutility


@pytest.mark.long
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("density", "populations", "least"), [(0.05, 60, 0.01), (0.25, 15, 0.04), (0.75, 10, 0.03)]
)
def test_has_more_preferences_right_than_the_column_mean_at_every_density(
    world: Callable[[Generator, int], Floats], density: float, populations: int, least: float
) -> None:
    """The margin is largest in the middle: where little is measured, little can be known."""
    gain = np.diff(right(world, density, [column_means, by_default], populations), axis=1)
    assert gain.mean() > least


@pytest.mark.parametrize(
    ("density", "populations", "least"),
    [(0.02, 300, -0.001), (0.25, 15, 0.25), (0.75, 10, 0.08)],
)
def test_sees_opposed_tastes_once_there_is_enough_to_see(
    density: float, populations: int, least: float
) -> None:
    """Here it is wrong that all agents feel alike, which costs a thousandth at most at 2 %."""
    gain = np.diff(right(opposed, density, [column_means, by_default], populations), axis=1)
    assert gain.mean() > least


@pytest.mark.long
def test_accuracy_rises_with_the_pairs_profiled() -> None:
    """Fig. 12: accuracy improves with more data."""
    for world in [*WORLDS, opposed]:
        accuracy = [right(world, d, [by_default], 10).mean() for d in (0.1, 0.25, 0.5, 0.75, 1.0)]
        assert accuracy == sorted(accuracy)
        assert accuracy[-1] == 1


def test_the_page_for_users_shows_what_is_computed() -> None:
    page = Path(__file__).parents[2] / "docs" / "mechanisms" / "cooper-prediction.md"
    tried = doctest.testfile(str(page), module_relative=False)
    assert tried.attempted >= 6
    assert tried.failed == 0


def test_says_how_much_noise_the_model_leaves() -> None:
    draw = np.random.default_rng(4)
    truth = product(draw, 150)
    measured = sample(draw, truth + draw.normal(0, 0.03, truth.shape), 0.3)
    assert predict(measured).noise == pytest.approx(0.03, rel=0.05)


def plain(measured: Floats, passes: int) -> Floats:
    """The same updates as dense sums and general inverses, one vector at a time, unbounded."""
    known = ~np.isnan(measured)
    centre, scale = measured[known].mean(), measured[known].std()
    value = np.where(known, (measured - centre) / scale, 0)
    agents, corunners = measured.shape
    noise, own, other = PRIOR_NOISE, AGENT_VARIANCE[:2].copy(), CORUNNER_VARIANCE[1:].copy()
    s = np.tile(AGENT_MEAN, (agents, 1))
    s[:, 2:] = 2 * (np.arange(1, agents + 1)[:, None] * np.sqrt([2, 3]) % 1) - 1
    s_squared = np.array([np.outer(v, v) for v in s])
    p, p_squared = np.empty((corunners, 4)), np.empty((corunners, 4, 4))
    for _ in range(passes):
        for y in range(corunners):
            met = known[:, y]
            seen = s_squared[met].sum(axis=0)
            covariance = np.linalg.inv(seen[1:, 1:] / noise + np.diag(1 / other))
            told = (s[met] * value[met, y : y + 1]).sum(axis=0) - seen[0]
            p[y] = [1, *covariance @ told[1:] / noise]
            p_squared[y] = np.outer(p[y], p[y])
            p_squared[y, 1:, 1:] += covariance
        error = 0.0
        variance = np.concatenate([own, [1, 1]])
        for x in range(agents):
            met = known[x]
            seen = p_squared[met].sum(axis=0)
            told = p[met].T @ value[x, met]
            covariance = np.linalg.inv(seen / noise + np.diag(1 / variance))
            s[x] = covariance @ (told / noise + AGENT_MEAN / variance)
            s_squared[x] = covariance + np.outer(s[x], s[x])
            error += value[x] @ value[x] - 2 * s[x] @ told + (s_squared[x] * seen).sum()
        noise = (error + PRIOR_WEIGHT * PRIOR_NOISE) / (known.sum() + PRIOR_WEIGHT)
        spread = [p_squared[:, i, i].sum() for i in (1, 2, 3)]
        other = (spread + PRIOR_WEIGHT * CORUNNER_VARIANCE[1:]) / (corunners + PRIOR_WEIGHT)
        apart = [
            (s_squared[:, i, i] - 2 * s[:, i] * AGENT_MEAN[i] + AGENT_MEAN[i]).sum() for i in (0, 1)
        ]
        own = (apart + PRIOR_WEIGHT * AGENT_VARIANCE[:2]) / (agents + PRIOR_WEIGHT)
    return np.asarray(centre + scale * s @ p.T)


@pytest.mark.parametrize("shape", [(12, 12), (7, 15), (30, 4)])
def test_agrees_with_a_plain_implementation(shape: tuple[int, int]) -> None:
    draw = np.random.default_rng(5)
    truth = 0.5 + draw.uniform(0, 0.1, (shape[0], 3)) @ draw.uniform(0, 1, (3, shape[1]))
    measured = sample(draw, truth, 0.4)
    prediction = predict(measured)
    reference = plain(measured, prediction.iterations)
    guessed = np.isnan(measured)
    np.testing.assert_allclose(prediction.disutility[guessed], reference[guessed], rtol=1e-9)


matrices = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7),
    elements=st.one_of(
        st.just(np.nan), st.floats(-1, 1), st.sampled_from([-1e12, -1e-12, 0.0, 1e-12, 0.5, 1.0])
    ),
).filter(lambda matrix: not bool(np.isnan(matrix).all()))


@pytest.mark.parametrize("fill", [predict, filter_by_corunner])
@given(matrices)
def test_keeps_what_is_measured_and_predicts_finite_disutilities(
    fill: Callable[[Floats], Prediction | FilteredPrediction], measured: Floats
) -> None:
    result = fill(measured)
    guessed = np.isnan(measured)
    np.testing.assert_array_equal(result.disutility[~guessed], measured[~guessed])
    assert np.isfinite(result.disutility).all()
    assert (result.disutility <= 1).all()
    assert (result.disutility >= np.nanmin(measured, initial=0.0)).all()
    assert not result.disutility.flags.writeable
    if isinstance(result, Prediction):
        assert np.isfinite(result.noise)
        assert 1 <= result.iterations <= 60
    else:
        assert 0 <= result.rounds <= 10
        assert 0 <= result.unreached <= guessed.sum()


@pytest.mark.parametrize("magnitude", [1e-12, 1e-3, 1.0])
def test_the_unit_of_measurement_does_not_matter(magnitude: float) -> None:
    draw = np.random.default_rng(6)
    measured = sample(draw, product(draw, JOBS), 0.3)
    scaled = predict(measured * magnitude).disutility
    np.testing.assert_allclose(scaled / magnitude, predict(measured).disutility, rtol=1e-6)


def test_says_when_it_stopped_early(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(9)
    measured = sample(draw, cache(draw, JOBS), 0.3)
    assert predict(measured).converged
    monkeypatch.setattr("walras.mechanisms.cooper.prediction.MAX_PASSES", 3)
    prediction = predict(measured)
    assert (prediction.converged, prediction.iterations) == (False, 3)


def test_an_agent_without_measurements_feels_corunners_as_the_average_agent() -> None:
    draw = np.random.default_rng(8)
    truth = product(draw, 40)
    measured = sample(draw, truth, 0.6)
    measured[5] = np.nan
    guess = predict(measured).disutility[5]
    assert preferences_right(truth[5:6], guess[None]) > 0.97
    np.testing.assert_allclose(guess, truth.mean(axis=0), atol=0.03)


def test_a_corunner_without_measurements_costs_each_agent_its_own_level() -> None:
    measured = np.array([0.1, 0.2, 0.3, 0.4])[:, None] + np.zeros(6)
    measured[:, 2] = np.nan
    guess = predict(measured).disutility[:, 2]
    np.testing.assert_allclose(guess, [0.1, 0.2, 0.3, 0.4], atol=0.01)


@pytest.mark.parametrize("value", [0.0, 0.3, -0.2])
def test_equal_measurements_predict_the_same_everywhere(value: float) -> None:
    measured = np.full((6, 5), np.nan)
    measured[0, 1] = measured[2, 3] = measured[4, 4] = value
    assert predict(measured).disutility == pytest.approx(value)


@pytest.mark.parametrize(
    ("measured", "complaint"),
    [
        ([0.1, 0.2], "measured has 1 dimensions: a matrix, agents by co-runners, is needed"),
        ([[0.1, np.inf]], r"measured\[0, 1\] = inf is not finite; NaN says not measured"),
        ([[0.1], [1.5]], r"measured\[1, 0\] = 1.5 is above 1"),
        ([[-2e16]], r"measured\[0, 0\] = -2e\+16 is below -1e\+12"),
        ([[np.nan, np.nan]], "measured has no entry among 2 that is not NaN"),
    ],
)
def test_says_what_is_wrong_with_measurements(measured: list[float], complaint: str) -> None:
    with pytest.raises(DisutilityError, match=complaint):
        predict(measured)
    with pytest.raises(DisutilityError, match=complaint):
        filter_by_corunner(measured)
