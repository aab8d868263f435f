"""What another number of nodes changes, as values that can be read without solving a market."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walras.market.snapshot import CoreMechanism

WITHOUT_VALUES: frozenset[CoreMechanism] = frozenset({"Auction", "Greedy"})
"""Mechanisms under which more cores have no value that could be computed: auctions have no
equilibrium in cores alone, and Greedy ignores entitlements, in which the value is counted."""


@dataclass(frozen=True, slots=True)
class UserChange:
    """Change of one user's utility.

    Attributes:
        user: Name of the entitlement.
        utility: Relative change of its utility.
        part: Its part of what all users that change in the same direction gain or lose, counted
            with their budgets.
    """

    user: str
    utility: float
    part: float


@dataclass(frozen=True, slots=True)
class NodesEffect:
    """Effect of more or fewer nodes.

    Attributes:
        progress: Relative change of system progress.
        speedup: Change of total speedup.
        gaining: Users that gain most, at most `MOST_USERS`.
        losing: Users that lose most, at most `MOST_USERS`.
    """

    progress: float
    speedup: float
    gaining: tuple[UserChange, ...] = ()
    losing: tuple[UserChange, ...] = ()
