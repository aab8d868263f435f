"""The economics of Walras: pure functions on values, with no I/O and no clock.

The names that most users need can be imported from here. Their modules load at first use, so that
importing Walras is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walras.analysis.plan_quality import evaluate_plan as evaluate_plan
    from walras.clearing import clear as clear
    from walras.division.sale_units import sell_by_socket as sell_by_socket
    from walras.market.plan import Plan as Plan
    from walras.market.snapshot import Entitlement as Entitlement
    from walras.market.snapshot import Job as Job
    from walras.market.snapshot import MemoryDemand as MemoryDemand
    from walras.market.snapshot import Node as Node
    from walras.market.snapshot import Policy as Policy
    from walras.market.snapshot import Snapshot as Snapshot
    from walras.mechanisms.abacus.auction import Auction as Auction
    from walras.mechanisms.abacus.auction import run_auction as run_auction
    from walras.mechanisms.abacus.estimation import (
        estimate_product_utility as estimate_product_utility,
    )
    from walras.mechanisms.abacus.estimation import estimate_utility as estimate_utility
    from walras.mechanisms.amdahl.best_response import (
        find_nash_equilibrium as find_nash_equilibrium,
    )
    from walras.mechanisms.amdahl.equilibrium import Equilibrium as Equilibrium
    from walras.mechanisms.amdahl.equilibrium import find_equilibrium as find_equilibrium
    from walras.mechanisms.amdahl.market import AmdahlMarket as AmdahlMarket
    from walras.mechanisms.amdahl.upper_bound import allocate_greedily as allocate_greedily
    from walras.mechanisms.amdahl.upper_bound import maximise_progress as maximise_progress
    from walras.mechanisms.amdahl.upper_bound import share_proportionally as share_proportionally
    from walras.mechanisms.cooper.bulk import marry_types as marry_types
    from walras.mechanisms.karma.baselines import share_max_min as share_max_min
    from walras.mechanisms.karma.baselines import share_strictly as share_strictly
    from walras.mechanisms.karma.ledger import Ledger as Ledger
    from walras.mechanisms.price_anticipating.market import ShareMarket as ShareMarket
    from walras.mechanisms.price_anticipating.nash import (
        find_share_market_equilibrium as find_share_market_equilibrium,
    )

_NAMES = {
    "mechanisms.abacus.auction": "Auction run_auction",
    "mechanisms.abacus.estimation": "estimate_product_utility estimate_utility",
    "mechanisms.amdahl.best_response": "find_nash_equilibrium",
    "mechanisms.amdahl.equilibrium": "Equilibrium find_equilibrium",
    "mechanisms.amdahl.market": "AmdahlMarket",
    "mechanisms.amdahl.upper_bound": "allocate_greedily maximise_progress share_proportionally",
    "clearing": "clear",
    "mechanisms.cooper.bulk": "marry_types",
    "mechanisms.karma.baselines": "share_max_min share_strictly",
    "mechanisms.karma.ledger": "Ledger",
    "market.plan": "Plan",
    "analysis.plan_quality": "evaluate_plan",
    "mechanisms.price_anticipating.market": "ShareMarket",
    "mechanisms.price_anticipating.nash": "find_share_market_equilibrium",
    "market.snapshot": "Entitlement Job MemoryDemand Node Policy Snapshot",
    "division.sale_units": "sell_by_socket",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the names are those of the table


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
