"""Scores of predictions: right errors are told from wrong ones, and wrong ones are widened."""

from __future__ import annotations

import numpy as np
import pytest

from walras.analysis.predictions import MOST_WIDENED, Prediction, score, widening


def drawn(stated: float, true: float = 10.0, number: int = 500) -> list[Prediction]:
    """Predictions of 100 s ahead that err by 10 s, whatever error they state."""
    random = np.random.default_rng(1)
    return [
        Prediction(100.0, 1000.0, stated, 1000.0 + true * float(z))
        for z in random.standard_normal(number)
    ]


def test_right_errors_cover_68_percent_and_are_not_widened() -> None:
    found = score(drawn(10.0))
    assert found is not None
    assert found.number == 500
    assert found.width == pytest.approx(0.1)
    assert found.coverage == pytest.approx(0.683, abs=0.07)
    assert found.crps == pytest.approx(0.1 * 0.5642, rel=0.1)  # sigma / sqrt(pi)
    assert found.widening == pytest.approx(1, abs=0.06)


def test_the_score_is_best_for_the_error_that_is_true() -> None:
    scores = {stated: score(drawn(stated)) for stated in (2.0, 5.0, 10.0, 20.0, 50.0)}
    assert min(scores, key=lambda stated: scores[stated].crps) == 10.0  # type: ignore[union-attr]


def test_errors_that_are_too_small_are_widened_and_the_widened_ones_are_right() -> None:
    factor = widening(drawn(2.5))
    assert factor == pytest.approx(4, rel=0.1)
    again = [each._replace(error=2.5 * factor, widened=factor) for each in drawn(2.5)]
    found = score(again)
    assert found is not None
    assert found.coverage == pytest.approx(0.683, abs=0.07)
    assert found.widening == pytest.approx(factor)


def test_one_surprise_widens_little_and_nothing_widens_without_end() -> None:
    assert widening(drawn(10.0, number=1)) < 1.5
    assert widening(drawn(0.001)) == MOST_WIDENED
    assert widening([]) == 1
    assert score([]) is None
