"""Measure Cooper's predictors: time for 1000 agents, and share of correct preferences.

The paper's penalties are not public; synthetic ones (`tests/support/contention.py`) replace them.
Peers are the column mean, and straightforward item-based filtering in NumPy.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import combinations
from math import factorial
from pathlib import Path
from typing import TYPE_CHECKING

from harness import Case, one_thread, run

one_thread()  # before NumPy is imported
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from scipy import stats  # noqa: E402

from contention import column_means, noisy, product, sample, saturating  # noqa: E402
from walras_studies.cooper.corunner_filtering import filter_by_corunner  # noqa: E402
from walras_studies.cooper.prediction import predict  # noqa: E402
from walras_studies.cooper.preferences import preferences_right  # noqa: E402
from walras_studies.cooper.rank_correlation import kendall  # noqa: E402
from walras_studies.cooper.shapley import shapley_exact  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def plain_filtering(measured: Floats) -> Floats:
    """Fill unknown penalties by item-based filtering, weighted by the similarity of all items."""
    filled = measured.copy()
    for _ in range(3):
        unknown = np.isnan(filled)
        if not unknown.any():
            break
        known = (~unknown).astype(float)
        level = np.nanmean(filled, axis=1, keepdims=True)
        above = np.where(unknown, 0, filled - level)
        length = np.maximum(np.linalg.norm(above, axis=0), 1e-12)
        alike = np.maximum(above.T @ above / np.outer(length, length), 0)
        np.fill_diagonal(alike, 0)
        weights = known @ alike
        guess = level + above @ alike / np.where(weights > 0, weights, np.nan)
        filled = np.where(unknown, guess, filled)
    return filled


def shapley_by_definition(penalty: Floats) -> list[float]:
    """Return Shapley values by equation 1, coalition by coalition."""
    agents = len(penalty).bit_length() - 1
    shares = []
    for i in range(agents):
        share = 0.0
        others = [agent for agent in range(agents) if agent != i]
        for size in range(agents):
            weight = factorial(size) * factorial(agents - size - 1) / factorial(agents)
            for members in combinations(others, size):
                without = sum(1 << agent for agent in members)
                share += weight * (penalty[without | 1 << i] - penalty[without])
        shares.append(share)
    return shares


def cases() -> Iterator[Case]:
    """Yield all cases."""
    draw = np.random.default_rng(1)
    truth = noisy(draw, 1000)
    for density in (0.05, 0.25, 0.75):
        measured = sample(draw, truth, density)
        name = f"1000 x 1000, {density:.0%}: "
        yield Case(
            name + "default",
            100,
            partial(predict, measured),
            "column mean",
            partial(column_means, measured),
        )
        yield Case(
            name + "filtering",
            100 if density >= 0.25 else 250,
            partial(filter_by_corunner, measured),
            "plain filtering",
            partial(plain_filtering, measured),
        )
    small = sample(draw, saturating(draw, 20), 0.25)
    yield Case("20 x 20, 25%: default", 10, lambda: predict(small))
    guess = column_means(measured)
    yield Case("preferences right, 1000 x 1000", 300, lambda: preferences_right(truth, guess))
    penalty = draw.random(1 << 12)
    yield Case(
        "Shapley, 12 agents",
        1,
        lambda: shapley_exact(penalty),
        "by definition",
        lambda: shapley_by_definition(penalty),
    )
    x, y = draw.random(100_000), draw.random(100_000)
    yield Case(
        "Kendall, 100k agents",
        60,
        lambda: kendall(x, y),
        "scipy",
        lambda: stats.kendalltau(x, y),
    )


def accuracy(n: int, populations: int) -> Table:
    """Return a table of correct preferences by density, world and predictor."""
    title = f"Preferences right, {n} jobs, mean of {populations} populations"
    table = Table("", title=title, title_justify="left")
    densities = (0.05, 0.25, 0.5, 0.75)
    for density in densities:
        table.add_column(f"{density:.0%}", justify="right")
    predictors: dict[str, Callable[[Floats], Floats]] = {
        "column mean": column_means,
        "filtering": lambda measured: filter_by_corunner(measured).disutility,
        "default": lambda measured: predict(measured).disutility,
    }
    for world in (product, noisy, saturating):
        for name, fill in predictors.items():
            right = [mean_right(world, n, density, fill, populations) for density in densities]
            table.add_row(f"{world.__name__}: {name}", *(f"{share:.1%}" for share in right))
    return table


def mean_right(
    world: Callable[[Generator, int], Floats],
    n: int,
    density: float,
    fill: Callable[[Floats], Floats],
    populations: int,
) -> float:
    """Return the mean share of correct preferences; all predictors see the same populations."""
    shares = []
    for seed in range(populations):
        draw = np.random.default_rng([seed, n])
        truth = world(draw, n)
        shares.append(preferences_right(truth, fill(sample(draw, truth, density))))
    return float(np.mean(shares))


def main() -> None:
    """Measure and print."""
    run("Cooper, prediction and fairness; one thread", cases())
    for n, populations in ((20, 50), (1000, 1)):
        Console(width=100).print(accuracy(n, populations))


if __name__ == "__main__":
    main()
