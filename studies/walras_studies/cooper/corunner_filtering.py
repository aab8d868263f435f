"""The paper's own predictor: item-based collaborative filtering (Cooper, section IV-A).

"A co-runner affects similar agents similarly." Co-runners are similar if the agents that measured
them lost alike, each relative to its own mean. An agent's predicted loss beside a co-runner is the
mean of its losses beside the most similar ones, weighted by similarity. The paper ran R's
recommenderlab, whose choices these are: losses centred by agent, cosine similarity, the 30 most
similar. Predictions count as measured in the next round, until the matrix is full.

This is for comparison; ``walras_studies.cooper.prediction.predict`` has more preferences right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.cooper.preference import check_measured
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Bools, Floats, FloatTable, IndexTable, Indices, Integers

MAX_ROUNDS = 10
"""Largest number of rounds."""

FINE = 2.0**12
"""Steps per length of a column in which losses are compared, so that the sum of products of two
columns is a whole number of steps squared, exact in single precision (24 bits) in whatever
order, or on however many threads, a machine adds them up."""


@dataclass(frozen=True)
class FilteredPrediction:
    """A full matrix of disutilities.

    Attributes:
        disutility: Disutilities, shape (agents, co-runners), all finite, read-only. Measured
            entries are unchanged; the others are at most 1, and not below both 0 and the least
            measured one.
        rounds: Number of rounds that filled the matrix; one to three in the paper.
        unreached: Number of entries that no round could fill for lack of similar co-runners. They
            are the agent's mean plus the co-runner's average excess over other agents' means.
    """

    disutility: Floats
    rounds: int
    unreached: int


def filter_by_corunner(measured: ArrayLike, neighbours: int = 30) -> FilteredPrediction:
    """Predict the disutilities that were not measured, by the paper's collaborative filtering.

    Args:
        measured: 1 - throughput together / throughput alone, shape (agents, co-runners); NaN where
            not measured.
        neighbours: Number of most similar co-runners to draw on, at least 1.

    Raises:
        DisutilityError: See ``check_measured``.
        ValueError: ``neighbours`` is below 1.
    """
    if neighbours < 1:
        raise ValueError(f"neighbours is {neighbours}: at least 1 is needed")
    filled = check_measured(measured).copy()
    lowest = float(np.nanmin(filled, initial=0.0))
    rounds, unknown = 0, np.isnan(filled)
    while unknown.any() and rounds < MAX_ROUNDS:
        losses = _centre(filled, unknown)
        wanted = np.flatnonzero(unknown.any(axis=0))
        _fill(filled, *losses, wanted, *_most_similar(losses.above, wanted, neighbours), lowest)
        before, unknown = unknown, np.isnan(filled)
        if (unknown == before).all():
            break
        rounds += 1
    unreached = int(np.count_nonzero(unknown))
    if unreached:
        losses = _centre(filled, unknown)
        above = losses.above.sum(axis=0) / np.maximum(np.count_nonzero(~unknown, axis=0), 1)
        means = np.clip(losses.level[:, None] + above, lowest, 1.0)
        filled = np.where(unknown, means, filled)
    return FilteredPrediction(read_only(filled), rounds, unreached)


class _CentredLosses(NamedTuple):
    """Known losses, relative to each agent's mean.

    Attributes:
        level: Mean loss of each agent, or of all agents where it has none, shape (agents,).
        above: Losses above that level, 0 where unknown, shape (agents, co-runners).
    """

    level: Floats
    above: Floats


def _centre(filled: Floats, unknown: Bools) -> _CentredLosses:
    """Return the known losses relative to each agent's mean."""
    losses = np.where(unknown, 0.0, filled)
    total, count = losses.sum(axis=1), np.count_nonzero(~unknown, axis=1)
    level = np.where(count, total / np.maximum(count, 1), total.sum() / count.sum())
    losses -= level[:, None]
    losses *= ~unknown
    return _CentredLosses(level, losses)


def _most_similar(above: Floats, wanted: Integers, neighbours: int) -> tuple[Indices, Floats]:
    """Return the co-runners most similar to each wanted one, and their cosines, 0 if not positive.

    Both have shape (wanted, neighbours or fewer), and are sorted; among equals the earlier
    co-runner comes first. A cosine and an index are packed into one number so that no two are
    equal, and the choice does not depend on how the partition proceeds.
    """
    corunners = above.shape[1]
    count = min(neighbours, corunners)
    length = np.sqrt(np.einsum("xy,xy->y", above, above))
    steps = above * (FINE / np.where(length, length, 1.0))
    whole = np.trunc(steps, out=steps).astype(np.float32)
    some = whole if len(wanted) == corunners else whole[:, wanted]
    alike = some.T @ whole  # for all with all, NumPy computes only half of this product
    alike[np.arange(len(wanted)), wanted] = 0.0
    np.maximum(alike, 0.0, out=alike)
    packed = np.multiply(alike, float(corunners), dtype=np.float64)
    packed += np.arange(corunners)[::-1]
    packed.partition(corunners - count, axis=1)
    best = -np.sort(-packed[:, corunners - count :])
    products, index = np.divmod(best, corunners)
    return (corunners - 1 - index).astype(np.uint32), products / FINE**2


@kernel
def _fill(
    filled: FloatTable,
    level: Floats,
    above: FloatTable,
    wanted: Integers,
    near: IndexTable,
    weight: FloatTable,
    lowest: float,
) -> None:
    """Replace NaN by the weighted mean of known losses beside similar co-runners."""
    known = np.empty(filled.shape[1])
    for x in range(len(filled)):
        for y in range(len(known)):
            known[y] = 0.0 if np.isnan(filled[x, y]) else 1.0
        for slot_wanted in range(len(wanted)):
            y = wanted[slot_wanted]
            if known[y] == 0.0:
                total, weights = 0.0, 0.0
                for slot in range(near.shape[1]):
                    other = near[slot_wanted, slot]
                    weights += weight[slot_wanted, slot] * known[other]
                    total += weight[slot_wanted, slot] * above[x, other]
                if weights > 0.0:
                    filled[x, y] = min(max(level[x] + total / weights, lowest), 1.0)
