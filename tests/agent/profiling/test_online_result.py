"""The agent's part of the way from samples to the parallel fraction; the core has its own tests."""

from __future__ import annotations

import pytest

from walras.speedup.amdahls_law import speedup
from walras_agent.profiling.request import ProgressSample
from walras_agent.profiling.samples import fit_samples, memory_bandwidth


def samples(*counted: tuple[int, float]) -> list[ProgressSample]:
    """Return samples of two seconds each."""
    return [ProgressSample(cores, 2.0, progress) for cores, progress in counted]


def test_fractions_are_karp_flatts_and_their_mean_and_variance_the_papers() -> None:
    found = fit_samples(samples((1, 100.0), (2, 160.0), (4, 200.0)))
    assert found is not None
    # (1 - 1/s) / (1 - 1/x): (1 - 1/1.6) / (1/2) = 0.75, (1 - 1/2) / (3/4) = 2/3
    assert found.by_cores == pytest.approx({2: 0.75, 4: 2 / 3})
    assert found.mean == pytest.approx((0.75 + 2 / 3) / 2)
    assert found.variance == pytest.approx((0.75 - 2 / 3) ** 2 / 4)


@pytest.mark.parametrize("counted", [[], [(1, 5.0)], [(2, 5.0), (4, 6.0)]])
def test_without_one_core_or_more_there_is_no_fraction(counted: list[tuple[int, float]]) -> None:
    assert fit_samples(samples(*counted)) is None


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        pytest.param([(1, 10.0), (2, 8.0)], "slower on 2 cores", id="slower"),
        pytest.param(
            [(1, 10.0), (2, 24.0)], "speeds up more than 2-fold on 2 cores", id="super-linear"
        ),
        pytest.param([(1, 10.0), (1, 18.0), (2, 10.0), (2, 34.0)], "uncertain by", id="unsteady"),
        pytest.param(
            [(1, 10.0), (2, 10 * speedup(2, 0.95)), (8, 10 * speedup(8, 0.6))],
            "F falls",
            id="overhead",
        ),
    ],
)
def test_doubtful_results_are_called_so(counted: list[tuple[int, float]], said: str) -> None:
    found = fit_samples(samples(*counted))
    assert found is not None
    assert any(said in warning for warning in found.warnings), found.warnings


def test_bandwidth_is_the_mean_on_most_cores() -> None:
    few = ProgressSample(1, 2.0, 1.0, memory_bytes=5.0)
    most = [
        ProgressSample(4, 2.0, 1.0, memory_bytes=20.0),
        ProgressSample(4, 4.0, 1.0, memory_bytes=80.0),
    ]
    assert memory_bandwidth([few, *most, ProgressSample(4, 2.0, 1.0)]) == 15
    assert memory_bandwidth([few, ProgressSample(4, 2.0, 1.0)]) is None
    assert memory_bandwidth([]) is None
