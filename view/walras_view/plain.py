"""What plain Kubernetes would give the pods of a market, as values."""

from __future__ import annotations

from dataclasses import dataclass

from walras_view.documents import Shown


@dataclass(frozen=True, slots=True)
class PlainUser(Shown):
    """The part of an Entitlement on plain Kubernetes.

    Attributes:
        name: Name of the Entitlement.
        held: Cores of its pods.
        utility: Mean speedup of its pods, weighted by work.
    """

    name: str
    held: float
    utility: float


@dataclass(frozen=True, slots=True)
class PlainDivision(Shown):
    """What plain Kubernetes would give today's pods by their requests and limits, all of them busy.

    Attributes:
        users: Entitlements with pods.
        starving: Number of pods that would have less than a tenth of a core.
    """

    users: tuple[PlainUser, ...]
    starving: int
