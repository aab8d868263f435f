"""Section VI's claims about the mechanisms, on populations drawn as there (see `populations`).

The paper's workloads' parallel fractions, but for four, and all its execution times are not to be
had: fractions are spread over the printed range, and progress is predicted by Amdahl's law, not
measured. Sizes stop at 280 of the paper's 1000 users to keep the tests quick. Margins are a little
wider than what was seen; docstrings say where that differs from what the paper claims.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import numpy as np
import pytest

from populations import sample_populations
from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.best_response import find_nash_equilibrium
from walras.mechanisms.amdahl.equilibrium import find_equilibrium
from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.mechanisms.amdahl.upper_bound import (
    allocate_greedily,
    maximise_progress,
    share_proportionally,
)
from walras.numerics.rounding import round_cores
from walras_studies.amdahl import paper_metrics as amdahl_metrics
from walras_studies.amdahl.paper_bidding import bid

DENSITIES = (4, 8, 12, 16, 20, 24)
COUNT = 8
CLASSES = range(1, 6)


@cache
def populations(density: int) -> list[AmdahlMarket]:
    return sample_populations(COUNT, density, largest=280)


@cache
def real_cores(density: int) -> list[dict[str, np.ndarray]]:
    """Divide the cores of each population by each mechanism, before rounding."""
    return [
        {
            "AB": find_equilibrium(market).cores,
            "BR": find_nash_equilibrium(market).cores,
            "PS": share_proportionally(market),
            "G": allocate_greedily(market).cores,
            "UB": maximise_progress(market, whole=True).cores,
        }
        for market in populations(density)
    ]


@cache
def whole_cores(density: int) -> list[dict[str, np.ndarray]]:
    """Return the same cores rounded by Hamilton's method, as the paper measures them."""
    return [
        {
            name: round_cores(cores, market.capacities, market.by_server).astype(np.float64)
            for name, cores in divided.items()
        }
        for market, divided in zip(populations(density), real_cores(density), strict=True)
    ]


def progress(density: int, name: str) -> np.ndarray:
    """System progress (eq. 10) of every population, over that of proportional sharing."""
    pairs = zip(populations(density), whole_cores(density), strict=True)
    return np.array(
        [
            metrics.system_progress(market, cores[name])
            / metrics.system_progress(market, cores["PS"])
            for market, cores in pairs
        ]
    )


def entitlement_error(density: int, name: str) -> float:
    pairs = zip(populations(density), whole_cores(density), strict=True)
    return float(np.mean([amdahl_metrics.entitlement_error(m, cores[name]) for m, cores in pairs]))


@pytest.mark.parametrize("density", DENSITIES)
def test_the_market_outperforms_proportional_sharing(density: int) -> None:
    """VI-B, Figure 9: in every population."""
    assert (progress(density, "AB") > 1.02).all()
    assert progress(density, "AB").mean() > 1.08


@pytest.mark.parametrize("density", DENSITIES)
def test_the_market_reaches_nine_tenths_of_the_upper_bound(density: int) -> None:
    """VI-B: on average over populations; single small ones fall to .84."""
    share = progress(density, "AB") / progress(density, "UB")
    assert share.mean() > 0.9
    assert (share <= 1).all()


@pytest.mark.parametrize("density", DENSITIES)
def test_price_taking_users_do_as_well_as_anticipating_ones(density: int) -> None:
    """VI-B: AB performs comparably with BR; within 2 % on average."""
    ratio = progress(density, "AB") / progress(density, "BR")
    assert abs(ratio.mean() - 1) < 0.02


def test_price_taking_approaches_anticipating_as_density_grows() -> None:
    """VI-B, measured in cores: the mean difference of a job falls to under a half."""
    difference = [
        np.mean([amdahl_metrics.mean_absolute_error(x["AB"], x["BR"]) for x in real_cores(density)])
        for density in DENSITIES
    ]
    assert difference[-1] < 0.5 * difference[0]
    assert np.polyfit(DENSITIES, difference, 1)[0] < 0


def test_greedy_falls_behind_as_density_grows() -> None:
    """VI-B: entitlements matter more where cores are scarce."""
    greedy = [progress(density, "G").mean() for density in DENSITIES]
    assert greedy[-1] < greedy[0] - 0.05
    assert np.polyfit(DENSITIES, greedy, 1)[0] < 0


@pytest.mark.parametrize("density", DENSITIES)
def test_every_entitlement_class_gains_by_the_market(density: int) -> None:
    """VI-C, Figure 10, before rounding: AB and BR over PS, mean utility of each class.

    After rounding, at a density of 20 and more, the lowest class loses by 10 %: jobs worth less
    than half a core get none. (The operator's shared pools, `walras.apportion`, avoid that.)
    """
    gains: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for market, cores in zip(populations(density), real_cores(density), strict=True):
        utility = {name: metrics.user_progress(market, x) for name, x in cores.items()}
        for level in CLASSES:
            members = market.budgets == level
            for name in ("AB", "BR"):
                gains[name, level].append(
                    utility[name][members].mean() / utility["PS"][members].mean()
                )
    assert all(np.mean(gain) > 1.02 for gain in gains.values())


def test_greedy_favours_low_classes_and_the_upper_bound_high_ones() -> None:
    """VI-C, at a density of 24."""
    market, cores = populations(24)[0], whole_cores(24)[0]
    low, high = market.budgets == 1, market.budgets == 5
    base = metrics.user_progress(market, cores["PS"])
    greedy = metrics.user_progress(market, cores["G"])
    best = metrics.user_progress(market, cores["UB"])
    assert greedy[low].mean() > base[low].mean()
    assert greedy[high].mean() < base[high].mean()
    assert best[low].mean() < base[low].mean()
    assert best[high].mean() > base[high].mean()


@pytest.mark.parametrize("density", DENSITIES)
def test_markets_come_nearer_to_entitlements_than_their_rivals(density: int) -> None:
    """VI-D, Figure 11: MAPE of AB and BR below that of PS, of G and UB above."""
    error = {name: entitlement_error(density, name) for name in ("AB", "BR", "PS", "G", "UB")}
    assert max(error["AB"], error["BR"]) < error["PS"]
    assert error["PS"] < min(error["G"], error["UB"])


def test_entitlement_errors_of_the_market_fall_with_density() -> None:
    """VI-D: the ability to trade increases with density."""
    errors = [entitlement_error(density, "AB") for density in DENSITIES]
    assert errors[-1] < 0.5 * errors[0]


@pytest.mark.parametrize("density", [12, 16])
@pytest.mark.parametrize("percent", [5, 10, 15])
def test_overestimated_parallel_fractions_move_a_core_or_two(density: int, percent: int) -> None:
    """VI-E, Figure 12: a random user's F is really lower; mean change of its jobs' cores."""
    moved = []
    for market in populations(density):
        mine = market.user == np.random.default_rng(percent).integers(len(market.budgets))
        fraction = np.where(mine, market.fraction * (1 - percent / 100), market.fraction)
        lower = AmdahlMarket(
            market.budgets, market.capacities, market.user, market.server, fraction
        )
        known = find_equilibrium(market)
        cores = find_equilibrium(lower, start=known.prices).cores
        moved.append(amdahl_metrics.mean_absolute_error(cores[mine], known.cores[mine]))
    assert 0.05 < np.mean(moved) < 2


@pytest.mark.parametrize("density", DENSITIES)
def test_bidding_stops_after_about_ten_iterations_at_a_step_of_a_percent(density: int) -> None:
    """VI-F: "often within ten iterations", with an unstated threshold; at 1 % 6 to 18."""
    iterations = [bid(market, step=1e-2).iterations for market in populations(density)]
    assert 5 <= np.mean(iterations) <= 20
