"""The economics of Walras: pure functions on values, with no I/O and no clock.

What most users need is importable from here; it is loaded when it is first asked for, so that
importing Walras costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walras.amdahl.bidding import bid as bid
    from walras.amdahl.equilibrium import Equilibrium as Equilibrium
    from walras.amdahl.equilibrium import find_equilibrium as find_equilibrium
    from walras.amdahl.market import Market as Market
    from walras.amdahl.proportional import share_proportionally as share_proportionally
    from walras.clearing import clear as clear
    from walras.plan import Plan as Plan
    from walras.rounding import round_cores as round_cores
    from walras.snapshot import Entitlement as Entitlement
    from walras.snapshot import Job as Job
    from walras.snapshot import Node as Node
    from walras.snapshot import Policy as Policy
    from walras.snapshot import Snapshot as Snapshot

_HOMES = {
    "Entitlement": "snapshot",
    "Equilibrium": "amdahl.equilibrium",
    "Job": "snapshot",
    "Market": "amdahl.market",
    "Node": "snapshot",
    "Plan": "plan",
    "Policy": "snapshot",
    "Snapshot": "snapshot",
    "bid": "amdahl.bidding",
    "clear": "clearing",
    "find_equilibrium": "amdahl.equilibrium",
    "round_cores": "rounding",
    "share_proportionally": "amdahl.proportional",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the names are those of the table


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
