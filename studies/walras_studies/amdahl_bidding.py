"""Study: how long bidding takes, and how wrong its prices are when it stops (fig. 13)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from walras import metrics
from walras.amdahl.equilibrium import find_equilibrium
from walras_studies.amdahl_populations import STANDS_IN, draw_population
from walras_studies.chart import Chart
from walras_studies.procedures import amdahl_metrics
from walras_studies.procedures.amdahl_bidding import bid
from walras_studies.study import Claim, Finding, Progress, Study, mean, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras.amdahl.market import AmdahlMarket

STEPS = (1e-1, 1e-2, 1e-3)
"""Thresholds at which bidding stops; the paper does not print its own."""

PAPERS_STEP = 1e-2
"""The one that takes about the paper's ten iterations."""

USERS, SERVERS_PER_USER, DENSITY = 520, 1.0, 12
"""The middle of each range, at which the others are varied."""


@dataclass(frozen=True, slots=True)
class AmdahlBiddingSize:
    """How many populations of each kind, and what is varied."""

    populations: int
    users: tuple[int, ...]
    servers_per_user: tuple[float, ...]
    densities: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """A row about bidding that stopped at a threshold, compared with the certified solver.

    Attributes:
        varied: Which parameter is varied: users, servers or density.
        users: how many there are.
        servers_per_user: servers over users.
        density: most jobs of a server.
        number: Number of the population.
        step: relative change of prices at which bidding stopped.
        iterations: Iterations of bidding.
        price_error: largest relative error of its prices.
        core_error: mean absolute error of a job's cores.
        progress_lost: part of system progress that it is short of the equilibrium's.
        passes: Passes of the certified solver.
        proven: its own proven price error.
    """

    varied: str
    users: int
    servers_per_user: float
    density: int
    number: int
    step: float
    iterations: int
    price_error: float
    core_error: float
    progress_lost: float
    passes: int
    proven: float


@dataclass(frozen=True, slots=True)
class AmdahlBiddingRows:
    """All tables of the study."""

    stops: tuple[Stop, ...]


def run(seed: int, size: AmdahlBiddingSize, progress: Progress) -> AmdahlBiddingRows:
    """Vary users, servers and density one at a time."""
    cases = list(product(_kinds(size), range(size.populations)))
    rows: list[Stop] = []
    for (varied, users, servers, density), number in steps(cases, progress, "case"):
        draw_seed = [seed, users, int(4 * servers), density, number]
        market = draw_population(users, servers, density, draw_seed)
        rows += (Stop(varied, users, servers, density, number, *stop) for stop in _stops(market))
    return AmdahlBiddingRows(tuple(rows))


def _kinds(size: AmdahlBiddingSize) -> Iterator[tuple[str, int, float, int]]:
    for users in size.users:
        yield "users", users, SERVERS_PER_USER, DENSITY
    middle = min(USERS, max(size.users))
    for servers in size.servers_per_user:
        yield "servers", middle, servers, DENSITY
    for density in size.densities:
        yield "density", middle, SERVERS_PER_USER, density


def _stops(market: AmdahlMarket) -> Iterator[tuple[float, int, float, float, float, int, float]]:
    right = find_equilibrium(market, tolerance=1e-9)
    best = metrics.system_progress(market, right.cores)
    busy = right.prices > 0
    for step in STEPS:
        stopped = bid(market, step=step)
        error = np.abs(stopped.prices[busy] / right.prices[busy] - 1).max()
        yield (
            step,
            stopped.iterations,
            float(error),
            amdahl_metrics.mean_absolute_error(stopped.cores, right.cores),
            1 - metrics.system_progress(market, stopped.cores) / best,
            right.iterations,
            right.price_error,
        )


def _means(
    rows: AmdahlBiddingRows, varied: str, step: float, column: str = "iterations"
) -> list[float]:
    name = {"users": "users", "servers": "servers_per_user", "density": "density"}[varied]
    values = sorted({getattr(row, name) for row in rows.stops if row.varied == varied})
    return [mean(rows.stops, column, varied=varied, step=step, **{name: value}) for value in values]


def _points(rows: AmdahlBiddingRows, varied: str, step: float) -> tuple[tuple[float, float], ...]:
    name = {"users": "users", "servers": "servers_per_user", "density": "density"}[varied]
    values = sorted({getattr(row, name) for row in rows.stops if row.varied == varied})
    return tuple(zip(values, _means(rows, varied, step), strict=True))


def _ten(rows: AmdahlBiddingRows) -> Finding:
    count = [row.iterations for row in rows.stops if row.step == PAPERS_STEP]
    within = np.mean([each <= 10 for each in count])
    average = float(np.mean(count))
    return Finding(
        f"mean {average:.1f}, {within:.0%} within ten, at a threshold of 1 %; mean "
        f"{mean(rows.stops, 'iterations', step=1e-3):.0f} at 0.1 %",
        average < 20,
        bool(within >= 0.5),
        reason="" if within >= 0.5 else "the paper's threshold is not printed",
    )


def _by_users(rows: AmdahlBiddingRows) -> Finding:
    count = _means(rows, "users", PAPERS_STEP)
    grows = count[-1] > count[0]
    return Finding(
        f"{count[0]:.1f} rising to {count[-1]:.1f} iterations"
        if grows
        else f"{count[0]:.1f} to {count[-1]:.1f} iterations",
        grows,
        reason="" if grows else "the worst of more prices counts, but no more than that",
    )


def _by_servers(rows: AmdahlBiddingRows) -> Finding:
    count = _means(rows, "servers", PAPERS_STEP)
    falls = count[-1] < count[0]
    return Finding(
        f"{count[0]:.1f} at a quarter server a user, {count[-1]:.1f} at four",
        falls,
        reason="" if falls else "the relative change of prices does not become smaller with bids",
    )


def _by_density(rows: AmdahlBiddingRows) -> Finding:
    count = _means(rows, "density", PAPERS_STEP)
    peak = count.index(max(count))
    inside = 0 < peak < len(count) - 1
    return Finding(
        f"{', '.join(f'{each:.1f}' for each in count)} iterations by density",
        inside,
        reason="" if inside else "iterations fall or rise throughout",
    )


def _beyond(rows: AmdahlBiddingRows) -> Finding:
    error = mean(rows.stops, "price_error", step=PAPERS_STEP)
    cores = mean(rows.stops, "core_error", step=PAPERS_STEP)
    proven = max(row.proven for row in rows.stops)
    return Finding(
        f"bidding stops with prices {error:.0%} off and {cores:.2f} cores a job; the certified "
        f"solver takes {mean(rows.stops, 'passes'):.0f} passes to a proven {proven:.0e}",
        proven <= 1e-9 and error > PAPERS_STEP,
        better=True,
    )


def _charts(rows: AmdahlBiddingRows) -> tuple[Chart, ...]:
    axes = {
        "users": ("users", False),
        "servers": ("servers over users", True),
        "density": ("most jobs of a server", False),
    }
    return tuple(
        Chart(
            f"by-{varied}",
            f"Iterations of bidding by {varied} (fig. 13)",
            label,
            "iterations",
            {f"stop at {step:g}": _points(rows, varied, step) for step in STEPS},
            log_x=logarithmic,
            log_y=True,
        )
        for varied, (label, logarithmic) in axes.items()
    )


STUDY = Study(
    title="Amdahl Bidding: iterations, and what its stopping rule leaves undone",
    paper="Amdahl's Law in the Datacenter Era: A Market for Fair Processor Allocation, VI-F",
    stands_in=STANDS_IN
    + " The threshold at which the paper stops is not printed: three are tried.",
    run=run,
    full=AmdahlBiddingSize(
        20, (40, 120, 280, 520, 760, 1000), (0.25, 0.5, 1.0, 2.0, 4.0), (2, 4, 8, 12, 16, 24, 48)
    ),
    quick=AmdahlBiddingSize(3, (40, 200), (0.25, 4.0), (2, 8, 24)),
    claims=(
        Claim("VI-F", "prices converge, often within ten iterations", "often ≤ 10", _ten),
        Claim("VI-F, fig. 13", "iterations grow with users", "grow", _by_users),
        Claim("VI-F, fig. 13", "more servers, fewer iterations", "fall", _by_servers),
        Claim("VI-F, fig. 13", "density: first more, then fewer", "non-monotonic", _by_density),
        Claim(
            "V-E",
            "the bids it stops at are the equilibrium's",
            "prices change by less than ε",
            _beyond,
        ),
    ),
    charts=_charts,
)
