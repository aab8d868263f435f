"""Who shares a processor with whom: the values that every colocation policy takes and gives.

An agent stands for a user and its task (III-B). The disutility of agent i beside agent k,
``disutility[i, k]``, is the throughput that i loses: 1 - throughput beside k / throughput alone.
Only its order decides whom i prefers. A gain, below 0, is possible: the paper measured some.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

ALONE = -1
"""Stands for the partner of an agent that has a processor to itself."""


class ColocationError(ValueError):
    """Numbers that describe no colocation; the message names the array and the first bad entry."""


@dataclass(frozen=True)
class Colocation:
    """What a policy decided.

    Attributes:
        partner: shape (n,); for each agent the one it shares a processor with, or ``ALONE``.
        policy: who decided, by the name that a Market's ``colocation.policy`` uses.
        rejected: the agents whom stable roommates leaves without a partner, in their order; they
            were then paired greedily among themselves. Empty under other policies.
        proposals: how many proposals were made; 0 under policies that know none.
    """

    partner: NDArray[np.int64]
    policy: str
    rejected: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    proposals: int = 0

    @property
    def pairs(self) -> NDArray[np.int64]:
        """Those who share, shape (pairs, 2): the earlier agent first, pairs in its order."""
        first = np.flatnonzero(self.partner > np.arange(len(self.partner)))
        return np.stack([first, self.partner[first]], axis=1)

    @property
    def alone(self) -> NDArray[np.int64]:
        """The agents that have a processor to themselves."""
        return np.flatnonzero(self.partner == ALONE)


def penalties(disutility: ArrayLike, partner: ArrayLike) -> NDArray[np.float64]:
    """Return each agent's disutility beside its partner, shape (n,); 0 for agents alone.

    Raises:
        ColocationError: see ``check_disutility`` and ``check_partner``.
    """
    suffered = check_disutility(disutility)
    return suffered_beside(suffered, check_partner(partner, len(suffered)))


def suffered_beside(
    disutility: NDArray[np.float64], partner: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Do as ``penalties``, for arrays that are checked."""
    return np.where(partner == ALONE, 0.0, disutility[np.arange(len(partner)), partner])


def check_disutility(values: ArrayLike) -> NDArray[np.float64]:
    """Return the disutilities of agents beside agents, contiguous by row.

    No policy reads the diagonal, as no agent sits beside itself: there NaN is allowed, and 0 put.

    Raises:
        ColocationError: the matrix is not square, or another entry is not a finite number.
    """
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim == 2 and np.isnan(np.diagonal(matrix)).any():
        matrix = matrix.copy()
        np.fill_diagonal(matrix, 0.0)
    return check_square("disutility", matrix)


def check_square(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return a square matrix of finite numbers, contiguous by row.

    Raises:
        ColocationError: the matrix is not square, or an entry is not a finite number.
    """
    matrix = check_matrix(name, values)
    if matrix.shape[0] != matrix.shape[1]:
        raise ColocationError(
            f"{name} is {matrix.shape[0]} by {matrix.shape[1]}: as many columns as rows are needed"
        )
    return matrix


def check_matrix(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return a matrix of finite numbers, contiguous by row.

    Raises:
        ColocationError: there are not two dimensions, or an entry is not a finite number.
    """
    matrix = np.asarray(values, dtype=np.float64, order="C")
    if matrix.shape == (0,):
        matrix = matrix.reshape(0, 0)
    if matrix.ndim != 2:
        raise ColocationError(f"{name} has {matrix.ndim} dimensions: a matrix is needed")
    _complain(name, matrix, ~np.isfinite(matrix), "is not a finite number")
    return matrix


def check_intensity(values: ArrayLike, agents: int) -> NDArray[np.float64]:
    """Return one finite number an agent: what it demands of the shared resource, in any unit.

    Raises:
        ColocationError: the number of entries is another, or one is not a finite number.
    """
    intensity = np.asarray(values, dtype=np.float64)
    if intensity.shape != (agents,):
        raise ColocationError(
            f"intensity has shape {intensity.shape}, there are {agents} agents: "
            "one number for each is needed"
        )
    _complain("intensity", intensity, ~np.isfinite(intensity), "is not a finite number")
    return intensity


def check_partner(values: ArrayLike, agents: int) -> NDArray[np.int64]:
    """Return one partner an agent, or ``ALONE``.

    Raises:
        ColocationError: the number of entries is another, one is no agent, or somebody's partner
            has another partner.
    """
    partner = np.asarray(values)
    if partner.size == 0:
        partner = partner.astype(np.int64)
    if partner.shape != (agents,) or partner.dtype.kind not in "iu":
        raise ColocationError(
            f"partner has shape {partner.shape} of {partner.dtype}, there are {agents} agents: "
            "one integer for each is needed"
        )
    partner = partner.astype(np.int64, copy=False)
    bad = (partner < ALONE) | (partner >= agents)
    _complain("partner", partner, bad, f"is outside {ALONE}..{agents - 1}")
    paired = partner != ALONE
    numbers = np.arange(agents)
    one_sided = paired & ((partner[partner] != numbers) | (partner == numbers))
    _complain("partner", partner, one_sided, "does not name this agent as its own partner")
    return partner


def _complain(name: str, array: NDArray[Any], bad: NDArray[np.bool_], complaint: str) -> None:
    if bad.any():
        where = np.unravel_index(int(bad.argmax()), bad.shape)
        index = ", ".join(str(each) for each in where)
        raise ColocationError(f"{name}[{index}] = {array[where]} {complaint}")
