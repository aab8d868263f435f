"""The economics of Walras: pure functions on values, with no I/O and no clock.

The names that most users need can be imported from here. Their modules load at first use, so that
importing Walras is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walras.abacus.auction import Auction as Auction
    from walras.abacus.auction import run_auction as run_auction
    from walras.abacus.estimation import estimate_product_utility as estimate_product_utility
    from walras.abacus.estimation import estimate_utility as estimate_utility
    from walras.abacus.slo import run_pool_auction as run_pool_auction
    from walras.amdahl.best_response import find_nash_equilibrium as find_nash_equilibrium
    from walras.amdahl.equilibrium import Equilibrium as Equilibrium
    from walras.amdahl.equilibrium import find_equilibrium as find_equilibrium
    from walras.amdahl.market import AmdahlMarket as AmdahlMarket
    from walras.amdahl.upper_bound import allocate_greedily as allocate_greedily
    from walras.amdahl.upper_bound import maximise_progress as maximise_progress
    from walras.amdahl.upper_bound import share_proportionally as share_proportionally
    from walras.clearing import clear as clear
    from walras.cooper.blocking import advise as advise
    from walras.cooper.blocking import blocking_pairs as blocking_pairs
    from walras.cooper.bulk import marry_types as marry_types
    from walras.cooper.policies import colocate as colocate
    from walras.cooper.prediction import predict as predict
    from walras.cooper.preference import preferences_right as preferences_right
    from walras.karma.baselines import share_max_min as share_max_min
    from walras.karma.baselines import share_strictly as share_strictly
    from walras.karma.ledger import Ledger as Ledger
    from walras.plan import Plan as Plan
    from walras.plan_quality import evaluate_plan as evaluate_plan
    from walras.price_anticipating.market import ShareMarket as ShareMarket
    from walras.price_anticipating.nash import find_nash as find_nash
    from walras.rounding import round_cores as round_cores
    from walras.sale_units import sell_by_socket as sell_by_socket
    from walras.snapshot import Entitlement as Entitlement
    from walras.snapshot import Job as Job
    from walras.snapshot import MemoryDemand as MemoryDemand
    from walras.snapshot import Node as Node
    from walras.snapshot import Policy as Policy
    from walras.snapshot import Snapshot as Snapshot

_NAMES = {
    "abacus.auction": "Auction run_auction",
    "abacus.estimation": "estimate_product_utility estimate_utility",
    "abacus.slo": "run_pool_auction",
    "amdahl.best_response": "find_nash_equilibrium",
    "amdahl.equilibrium": "Equilibrium find_equilibrium",
    "amdahl.market": "AmdahlMarket",
    "amdahl.upper_bound": "allocate_greedily maximise_progress share_proportionally",
    "clearing": "clear",
    "cooper.blocking": "advise blocking_pairs",
    "cooper.bulk": "marry_types",
    "cooper.policies": "colocate",
    "cooper.prediction": "predict",
    "cooper.preference": "preferences_right",
    "karma.baselines": "share_max_min share_strictly",
    "karma.ledger": "Ledger",
    "plan": "Plan",
    "plan_quality": "evaluate_plan",
    "price_anticipating.market": "ShareMarket",
    "price_anticipating.nash": "find_nash",
    "rounding": "round_cores",
    "snapshot": "Entitlement Job MemoryDemand Node Policy Snapshot",
    "sale_units": "sell_by_socket",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the names are those of the table


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
