"""The paper's own predictor: item-based collaborative filtering (Cooper, section IV-A).

"A co-runner affects similar agents similarly." Co-runners are similar if the agents that measured
them lost alike, each against its own mean. What an agent would lose beside a co-runner is the
mean of what it lost beside the most similar ones, weighted by similarity. The paper ran R's
recommenderlab, whose choices these are: losses centred by agent, cosine similarity, the 30 most
similar. Predictions count as measured in the next round, until the matrix is full.

This is here to compare with; ``walras.cooper.prediction.predict`` has more preferences right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._jit import kernel
from walras._segments import read_only
from walras.cooper.preference import check_measured

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

MAX_ROUNDS = 10
FINE = 2.0**12
"""Losses are compared in steps of 1 / FINE of their column's length, so that the sum of products
of two columns is a whole number of steps squared, exact in single precision (24 bits) in whatever
order, or on however many threads, a machine adds them up."""


@dataclass(frozen=True)
class Filtered:
    """A full matrix of disutilities.

    Attributes:
        disutility: shape (agents, co-runners), all finite, read-only; measured entries as they
            were, the others at most 1 and not below both 0 and the least that was measured.
        rounds: how many rounds filled it; the paper sees one to three.
        unreached: entries that no round could fill, for want of similar co-runners; they are the
            agent's mean plus what the co-runner costs others, on average, above theirs.
    """

    disutility: Floats
    rounds: int
    unreached: int


def filter_by_corunner(measured: ArrayLike, neighbours: int = 30) -> Filtered:
    """Predict the disutilities that were not measured, by the paper's collaborative filtering.

    Args:
        measured: shape (agents, co-runners), 1 - throughput together / throughput alone; NaN where
            not measured.
        neighbours: how many of the most similar co-runners to draw on, at least 1.

    Raises:
        DisutilityError: see ``check_measured``.
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
    return Filtered(read_only(filled), rounds, unreached)


class _Losses(NamedTuple):
    """What is known so far.

    Attributes:
        level: shape (agents,); the mean of what each agent loses, or of all that agents lose.
        above: shape (agents, co-runners); losses above that level, 0 where unknown.
    """

    level: Floats
    above: Floats


def _centre(filled: Floats, unknown: NDArray[np.bool_]) -> _Losses:
    losses = np.where(unknown, 0.0, filled)
    total, count = losses.sum(axis=1), np.count_nonzero(~unknown, axis=1)
    level = np.where(count, total / np.maximum(count, 1), total.sum() / count.sum())
    losses -= level[:, None]
    losses *= ~unknown
    return _Losses(level, losses)


def _most_similar(
    above: Floats, wanted: NDArray[np.int64], neighbours: int
) -> tuple[NDArray[np.uint32], Floats]:
    """Return the co-runners most similar to each one wanted, and their cosines if above 0.

    Both have shape (wanted, neighbours or fewer), and are sorted. Equally similar ones: the
    earlier first. A cosine and an index are packed into one number so that no two are equal, and
    the choice is the same whichever way the partition goes about it.
    """
    corunners = above.shape[1]
    count = min(neighbours, corunners)
    length = np.sqrt(np.einsum("xy,xy->y", above, above))
    steps = above * (FINE / np.where(length, length, 1.0))
    whole = np.trunc(steps, out=steps).astype(np.float32)
    some = whole if len(wanted) == corunners else whole[:, wanted]
    alike = some.T @ whole  # of all with all, half as many products
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
    filled: Floats,
    level: Floats,
    above: Floats,
    wanted: NDArray[np.int64],
    near: NDArray[np.uint32],
    weight: Floats,
    lowest: float,
) -> None:
    """Replace NaN by what agents lose beside similar co-runners, where they are known."""
    known = np.empty(filled.shape[1])
    for x in range(len(filled)):
        for y in range(len(known)):
            known[y] = 0.0 if np.isnan(filled[x, y]) else 1.0
        for place in range(len(wanted)):
            y = wanted[place]
            if known[y] == 0.0:
                total, weights = 0.0, 0.0
                for slot in range(near.shape[1]):
                    other = near[place, slot]
                    weights += weight[place, slot] * known[other]
                    total += weight[place, slot] * above[x, other]
                if weights > 0.0:
                    filled[x, y] = min(max(level[x] + total / weights, lowest), 1.0)
