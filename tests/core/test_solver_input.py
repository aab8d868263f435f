"""Solvers say what is wrong with what they are given."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import walras
from walras import (
    AmdahlMarket,
    Auction,
    Entitlement,
    Job,
    Node,
    Policy,
    ShareMarket,
    Snapshot,
    clear,
    find_equilibrium,
    find_nash_equilibrium,
    find_share_market_equilibrium,
)
from walras.numerics.segments import Grouping, group
from walras_studies.abacus import pool_auction
from walras_studies.amdahl import whole_cores, without_bounds
from walras_studies.amdahl.whole_cores import round_cores
from walras_studies.cooper import blocking, policies, prediction, preferences

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

AMDAHL = AmdahlMarket([1, 1], [4], [0, 1], [0, 0], [0.9, 0.5])
SHARES = ShareMarket([1, 1], [[1, 2], [2, 1]])

SOLVERS: list[tuple[Callable[..., Any], Any, str]] = [
    (find_equilibrium, AMDAHL, "max_passes"),
    (without_bounds.find_equilibrium, AMDAHL, "max_passes"),
    (find_nash_equilibrium, AMDAHL, "max_iterations"),
    (find_share_market_equilibrium, SHARES, "max_iterations"),
]


@pytest.mark.parametrize(("solve", "market", "rounds"), SOLVERS)
def test_wrong_input_is_told(solve: Callable[..., Any], market: Any, rounds: str) -> None:
    assert solve(market, tolerance=1e-3, **{rounds: 1000}).converged
    with pytest.raises(
        TypeError, match=f"market is of type int: give one of {type(market).__name__}"
    ):
        solve(3)
    for tolerance in (-1, 0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"tolerance = {tolerance} is not positive and finite"):
            solve(market, tolerance=tolerance)
    with pytest.raises(ValueError, match=f"{rounds} = 0 is not a whole number of at least 1"):
        solve(market, **{rounds: 0})


AUCTION = Auction([1, 1], [[1, 2], [2, 1]])
APART = [[0, 0.1, 0.2, 0.3], [0.1, 0, 0.3, 0.2], [0.2, 0.3, 0, 0.1], [0.3, 0.2, 0.1, 0]]
SHARES_OF = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.1], [0.2, 0.7]]
JOBS_OF_ONE = group(np.array([0, 0]), 1)

HOMES: dict[str, ModuleType] = {
    "round_cores": whole_cores,
    "run_pool_auction": pool_auction,
    "colocate": policies,
    "advise": blocking,
    "blocking_pairs": blocking,
    "predict": prediction,
    "preferences_right": preferences,
}
"""Where functions are that only studies run."""

RIGHT: dict[str, dict[str, Any]] = {
    "AmdahlMarket": {
        "budgets": [1, 1],
        "capacities": [4],
        "user": [0, 1],
        "server": [0, 0],
        "fraction": [0.9, 0.5],
        "work": [1, 1],
    },
    "ShareMarket": {
        "budgets": [1, 1],
        "weights": [[1, 2], [2, 1]],
        "parallelism": [1, 1],
        "reserve": [1, 1],
    },
    "Auction": {"budgets": [1, 1], "weights": [[1, 2], [2, 1]], "alpha": 0.5, "limits": 1.0},
    "find_equilibrium": {
        "market": AMDAHL,
        "kept": [0, 0],
        "minimum": [0, 0],
        "maximum": [4, 4],
        "tolerance": 1e-6,
        "max_passes": 100,
    },
    "find_nash_equilibrium": {
        "market": AMDAHL,
        "reserve": 1e-3,
        "tolerance": 1e-6,
        "max_iterations": 100,
        "start": [1, 1],
    },
    "find_share_market_equilibrium": {
        "market": SHARES,
        "tolerance": 1e-3,
        "max_iterations": 100,
        "start": [[0.5, 0.5], [0.5, 0.5]],
    },
    "allocate_greedily": {"market": AMDAHL, "minimum": [0, 0], "maximum": [4, 4]},
    "maximise_progress": {"market": AMDAHL, "minimum": [0, 0], "maximum": [4, 4]},
    "share_proportionally": {"market": AMDAHL, "maximum": [4, 4]},
    "sell_by_socket": {"market": AMDAHL, "sockets": [[2, 2]], "minimum": [0, 0], "maximum": [4, 4]},
    "round_cores": {
        "cores": [1.5, 2.5],
        "capacity": [4],
        "groups": JOBS_OF_ONE,
        "minimum": [0, 0],
        "maximum": [4, 4],
    },
    "run_auction": {
        "auction": AUCTION,
        "tolerance": 1e-6,
        "max_iterations": 100,
        "start": [[1, 1], [1, 1]],
    },
    "run_pool_auction": {
        "auction": AUCTION,
        "minima": [0.1, 0.1],
        "seed": 0,
        "tolerance": 1e-6,
        "max_iterations": 100,
    },
    "estimate_utility": {
        "shares": SHARES_OF,
        "utilities": [0.2, 0.5, 0.4, 0.6],
        "confidence": 0.95,
    },
    "estimate_product_utility": {
        "shares": SHARES_OF,
        "utilities": [0.2, 0.5, 0.4, 0.6],
        "confidence": 0.95,
    },
    "share_max_min": {"demands": [3, 4], "capacity": 5, "weights": [1, 1]},
    "share_strictly": {"demands": [3, 4], "capacity": 5, "weights": [1, 1]},
    "colocate": {
        "policy": "StableMarriagePartition",
        "disutility": APART,
        "intensity": [1, 2, 3, 4],
        "seed": 0,
    },
    "advise": {"disutility": APART, "partner": [1, 0, 3, 2]},
    "blocking_pairs": {"disutility": APART, "partner": [1, 0, 3, 2]},
    "marry_types": {
        "disutility": APART,
        "proposers": [1, 1, 0, 0],
        "receivers": [0, 0, 1, 1],
    },
    "predict": {"measured": [[1, 0.5, np.nan], [0.4, 1, 0.6], [0.3, 0.2, 1]]},
    "preferences_right": {"true": APART, "predicted": APART},
}
"""Arguments that each function of the library takes."""


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_what_is_no_number_is_told_by_the_name_of_the_argument(name: str) -> None:
    function, right = getattr(HOMES.get(name, walras), name), RIGHT[name]
    function(**right)
    for argument in right:
        for wrong in (object(), "x", float("nan"), -(10**400), ["a", "b"]):
            with pytest.raises((ValueError, TypeError), match=argument):
                function(**{**right, argument: wrong})


def test_rounding_reads_nothing_outside_of_its_arrays() -> None:
    """Compiled loops look nothing up twice."""
    right = RIGHT["round_cores"]
    with pytest.raises(ValueError, match="groups name job 7"):
        round_cores(**{**right, "groups": Grouping(JOBS_OF_ONE.start, JOBS_OF_ONE.order + 6)})
    with pytest.raises(ValueError, match="groups are those of 2 jobs on 1 servers: there are 3"):
        round_cores(**{**right, "cores": [1, 1, 1], "minimum": None, "maximum": None})
    with pytest.raises(ValueError, match=r"groups begin at \[0, 9\]"):
        round_cores(**{**right, "groups": Grouping(np.array([0, 9]), JOBS_OF_ONE.order)})


CLUSTER = Snapshot(
    (Entitlement("a", 1, namespaces=frozenset("x")), Entitlement("b", 1)),
    (Node("n", 4),),
    (Job("x", "j", "a", "n", 0.9),),
)


@pytest.mark.parametrize(
    ("field", "values", "message"),
    [
        ("fraction", (-1, 2, float("nan"), "x", None), "Job x/j: fraction = .* not from 0 to 1"),
        ("work", (-1, 0, float("inf"), "x"), "Job x/j: work = .* is not positive and finite"),
        ("min_cores", (-1, float("nan"), "x"), "Job x/j: min_cores = .* not finite and at least 0"),
        ("max_cores", (-1, 0, float("nan"), "x"), "Job x/j: max_cores = .* is not positive, or"),
        ("requested", (-1, float("inf"), "x"), "Job x/j: requested = .* not finite and at least 0"),
        ("floor", (-1, float("nan"), "x"), "Job x/j: floor = .* is not finite and at least 0"),
    ],
)
def test_a_job_that_cannot_be_cleared_is_named(
    field: str, values: tuple[Any, ...], message: str
) -> None:
    for value in values:
        job = replace(CLUSTER.jobs[0], **{field: value})
        with pytest.raises(ValueError, match=message):
            clear(replace(CLUSTER, jobs=(job,)))


@pytest.mark.parametrize("shares", [-1, 0, float("nan"), 1.5, "x", None, True])
def test_shares_are_whole_numbers(shares: Any) -> None:
    wrong = replace(CLUSTER.entitlements[0], shares=shares)
    with pytest.raises(ValueError, match=r"Entitlement a: shares = .* not a whole number of at"):
        clear(replace(CLUSTER, entitlements=(wrong,)))


@pytest.mark.parametrize("cores", [float("nan"), float("inf"), -1, "x", None])
def test_cores_of_nodes_are_finite(cores: Any) -> None:
    with pytest.raises(ValueError, match=r"Node n: cores = .* is not finite and at least 0"):
        clear(replace(CLUSTER, nodes=(Node("n", cores),)))


@pytest.mark.parametrize("field", ["cores", "memory", "sold_by", "colocation"])
def test_an_unknown_mechanism_is_told(field: str) -> None:
    with pytest.raises(ValueError, match=f"Policy: {field} = 'Magic' is none of "):
        clear(CLUSTER, replace(Policy(), **{field: "Magic"}))  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["hysteresis", "least_part", "core_half_life", "most_credit"])
def test_a_parameter_of_a_policy_is_an_amount(field: str) -> None:
    for value in (-1, float("nan"), "x"):
        with pytest.raises(ValueError, match=f"Policy: {field} = .* not finite and at least 0"):
            clear(CLUSTER, replace(Policy(), **{field: value}))  # type: ignore[arg-type]


def test_what_is_no_snapshot_or_policy_is_told() -> None:
    with pytest.raises(TypeError, match="snapshot is of type int: give one of Snapshot"):
        clear(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="policy is of type int: give one of Policy"):
        clear(CLUSTER, 0)  # type: ignore[arg-type]
