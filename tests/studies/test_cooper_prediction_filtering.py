"""The paper's predictor, item-based collaborative filtering, against a plain one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from walras_studies.cooper.corunner_filtering import filter_by_corunner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def measure(seed: int, shape: tuple[int, int], density: float) -> Floats:
    """Draw penalties as sensitivity times pressure, and keep a part of the entries as measured."""
    draw = np.random.default_rng(seed)
    truth = np.outer(draw.uniform(0.1, 1, shape[0]), draw.uniform(0.02, 0.5, shape[1]))
    truth += draw.normal(0, 0.02, shape)
    return np.asarray(np.where(draw.random(shape) < density, truth, np.nan))


def plain_round(measured: Floats, neighbours: int) -> Floats:
    """Return the matrix after one round of filtering, computed entry by entry."""
    known = ~np.isnan(measured)
    level = np.nanmean(measured, axis=1)
    above = np.where(known, measured - level[:, None], 0)
    filled = measured.copy()
    for y in range(measured.shape[1]):
        cosine = np.zeros(measured.shape[1])
        for other in range(measured.shape[1]):
            lengths = np.linalg.norm(above[:, y]) * np.linalg.norm(above[:, other])
            if other != y and lengths > 0:
                cosine[other] = max(above[:, y] @ above[:, other] / lengths, 0)
        near = np.argsort(-cosine, kind="stable")[:neighbours]
        for x in np.flatnonzero(~known[:, y]):
            weight = cosine[near] * known[x, near]
            if weight.sum() > 0:
                loss = level[x] + (weight * above[x, near]).sum() / weight.sum()
                filled[x, y] = np.clip(loss, np.nanmin(measured, initial=0), 1)
    return filled


@pytest.mark.parametrize(("shape", "neighbours"), [((20, 20), 30), ((40, 25), 10), ((30, 50), 3)])
def test_agrees_with_a_plain_implementation(shape: tuple[int, int], neighbours: int) -> None:
    """But for cosines, which are rounded to about 1 / 4096."""
    measured = measure(1, shape, 0.8)
    reference = plain_round(measured, neighbours)
    assert np.isnan(measured).sum() > 50
    reached = ~np.isnan(reference)
    assert reached.mean() > 0.98
    result = filter_by_corunner(measured, neighbours)
    np.testing.assert_allclose(result.disutility[reached], reference[reached], atol=2e-3)


def test_draws_on_the_most_similar_corunner() -> None:
    """Co-runners 0 and 1 cost all agents alike, co-runner 2 the other way round."""
    nan = np.nan
    measured = [[0.1, 0.1, 0.4], [0.4, 0.4, 0.1], [0.1, 0.1, 0.4], [0.5, nan, 0.1]]
    result = filter_by_corunner(measured)
    assert result.disutility[3, 1] == pytest.approx(0.5)
    assert (result.rounds, result.unreached) == (1, 0)


def test_what_no_round_reaches_is_told_and_takes_the_means() -> None:
    """Nobody measured co-runner 3; agent 4 measured nobody."""
    measured = np.array([0.1, 0.2, 0.3, 0.2, np.nan])[:, None] + np.array([0.0, 0.1, 0.2, np.nan])
    result = filter_by_corunner(measured)
    assert (result.rounds, result.unreached) == (0, 8)
    np.testing.assert_allclose(result.disutility[:4, 3], [0.2, 0.3, 0.4, 0.3])
    np.testing.assert_allclose(result.disutility[4], [0.2, 0.3, 0.4, 0.3])


def test_counts_predictions_as_measured_in_the_next_round() -> None:
    measured = measure(5, (20, 20), 0.25)
    result = filter_by_corunner(measured)
    assert result.rounds == 3
    assert result.unreached == 0
    reference = plain_round(plain_round(plain_round(measured, 30), 30), 30)
    np.testing.assert_allclose(result.disutility, reference, atol=2e-3)


def test_needs_a_neighbour() -> None:
    with pytest.raises(ValueError, match="neighbours is 0: at least 1 is needed"):
        filter_by_corunner([[0.1]], neighbours=0)


DIGEST = """
import hashlib, numpy as np
from walras_studies.cooper.corunner_filtering import filter_by_corunner
from walras_studies.cooper.prediction import predict
draw = np.random.default_rng(0)
truth = draw.random((400, 400))
truth[draw.random(truth.shape) > 0.3] = np.nan
for fill in (predict, filter_by_corunner):
    print(hashlib.sha256(fill(truth).disutility.tobytes()).hexdigest())
"""


@pytest.mark.system
def test_no_bit_depends_on_the_number_of_threads() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(digests) == 1
    assert len(digests.pop().split()) == 2
