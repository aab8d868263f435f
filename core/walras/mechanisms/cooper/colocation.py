"""Colocations of agents on processors, and checks of the arrays that describe them.

An agent stands for a user and its task (III-B). The disutility of agent i beside agent k,
``disutility[i, k]``, is the throughput that i loses: 1 - throughput beside k / throughput alone.
Only its order decides whom i prefers. A gain, below 0, is possible: the paper measured some.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from walras.numerics.checks import numbers, refuse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, Integers

ALONE = -1
"""Stands for the partner of an agent that has a processor to itself."""


class ColocationError(ValueError):
    """Invalid arrays for a colocation; the message names the array and its first bad entry."""


@dataclass(frozen=True)
class Colocation:
    """Pairs that a policy made.

    Attributes:
        partner: Agent that shares each agent's processor, or ``ALONE``, shape (n,).
        policy: Name of the policy, as in a Market's ``colocation.policy``.
        rejected: Agents whom stable roommates leaves without a partner, in their order; they were
            then paired greedily among themselves. Empty under other policies.
        proposals: Number of proposals; 0 under policies without any.
    """

    partner: Integers
    policy: str
    rejected: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    proposals: int = 0

    @property
    def pairs(self) -> Integers:
        """Agents that share, shape (pairs, 2): the earlier agent first, pairs in its order."""
        first = np.flatnonzero(self.partner > np.arange(len(self.partner)))
        return np.stack([first, self.partner[first]], axis=1)

    @property
    def alone(self) -> Integers:
        """Agents that have a processor to themselves, in their order."""
        return np.flatnonzero(self.partner == ALONE)


def check_disutility(values: ArrayLike) -> Floats:
    """Return the disutilities of agents beside agents, contiguous by row.

    No policy reads the diagonal, as no agent is its own partner: NaN there is replaced by 0.

    Raises:
        ColocationError: The matrix is not square, or another entry is not a finite number.
    """
    matrix = numbers("disutility", values, ColocationError, copy=None)
    if matrix.ndim == 2 and np.isnan(np.diagonal(matrix)).any():
        matrix = matrix.copy()
        np.fill_diagonal(matrix, 0.0)
    return check_square(matrix)


def check_square(disutility: ArrayLike) -> Floats:
    """Return disutilities, a square matrix of finite numbers, contiguous by row.

    Raises:
        ColocationError: The matrix is not square, or an entry is not a finite number.
    """
    matrix = check_matrix("disutility", disutility)
    if matrix.shape[0] != matrix.shape[1]:
        raise ColocationError(
            f"disutility is {matrix.shape[0]} by {matrix.shape[1]}: "
            "as many columns as rows are needed"
        )
    return matrix


def check_matrix(name: str, values: ArrayLike) -> Floats:
    """Return a matrix of finite numbers, contiguous by row.

    Raises:
        ColocationError: There are not two dimensions, or an entry is not a finite number.
    """
    matrix = numbers(name, values, ColocationError, copy=None)
    if matrix.shape == (0,):
        matrix = matrix.reshape(0, 0)
    if matrix.ndim != 2:
        raise ColocationError(f"{name} has {matrix.ndim} dimensions: a matrix is needed")
    refuse(name, matrix, ~np.isfinite(matrix), "is not a finite number", ColocationError)
    return matrix


def check_intensity(values: ArrayLike, agents: int) -> Floats:
    """Return each agent's demand for the shared resource, in any unit, shape (n,).

    Raises:
        ColocationError: The array has the wrong shape, or an entry is not a finite number.
    """
    intensity = numbers("intensity", values, ColocationError, copy=None)
    if intensity.shape != (agents,):
        raise ColocationError(
            f"intensity has shape {intensity.shape}, there are {agents} agents: "
            "one number for each is needed"
        )
    refuse(
        "intensity", intensity, ~np.isfinite(intensity), "is not a finite number", ColocationError
    )
    return intensity


def check_partner(values: ArrayLike, agents: int) -> Integers:
    """Return each agent's partner, or ``ALONE``, shape (n,).

    Raises:
        ColocationError: The array has the wrong shape, an entry is no agent, or an agent's partner
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
    refuse("partner", partner, bad, f"is outside {ALONE}..{agents - 1}", ColocationError)
    paired = partner != ALONE
    numbers = np.arange(agents)
    one_sided = paired & ((partner[partner] != numbers) | (partner == numbers))
    complaint = "does not name this agent as its own partner"
    refuse("partner", partner, one_sided, complaint, ColocationError)
    return partner


def dispatch(partner: ArrayLike, processors: int) -> Integers:
    """Send pairs, and agents alone, to processors in the order of each pair's earlier agent.

    Where there are fewer processors than pairs, they come in batches (IV-D, V).

    Args:
        partner: Partner of each agent, as from a policy, shape (n,).
        processors: Number of processors, at least 1.

    Returns:
        Batch of each task, shape (n,): those of batch 0 start at once, those of batch 1 when it is
        done.

    Raises:
        ColocationError: There is no processor; or see ``check_partner``.
    """
    if processors < 1:
        raise ColocationError(f"processors = {processors}: at least 1 is needed")
    partners = check_partner(partner, np.size(partner))
    agents = np.arange(len(partners))
    earlier = np.where(partners == ALONE, agents, np.minimum(agents, partners))
    _, turn = np.unique(earlier, return_inverse=True)
    return turn.astype(np.int64) // processors
