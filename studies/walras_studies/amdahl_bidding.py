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
    from collections.abc import Callable, Iterator

    from walras.amdahl.market import AmdahlMarket

STEPS = (1e-1, 1e-2, 1e-3)
"""Thresholds at which bidding stops; the paper does not print its own."""

PAPERS_STEP = 1e-2
"""The relative one that takes about the paper's ten iterations."""

ABSOLUTE_STEP = 3e-3
"""The same as a change of a price itself, in units of budget for a core."""

RULES = {**{f"relative {step:g}": step for step in STEPS}, "absolute": ABSOLUTE_STEP}
"""Stopping rules by name. The paper stops when prices "change by less than a small threshold"."""

RELATIVE = f"relative {PAPERS_STEP:g}"

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
        varied: Name of the varied parameter: users, servers or density.
        users: Number of users.
        servers_per_user: Number of servers for each user.
        density: Largest number of jobs of a server.
        number: Number of the population.
        rule: Stopping rule, of `RULES`.
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
    rule: str
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


def _stops(market: AmdahlMarket) -> Iterator[tuple[str, int, float, float, float, int, float]]:
    right = find_equilibrium(market, tolerance=1e-9)
    best = metrics.system_progress(market, right.cores)
    busy = right.prices > 0
    for rule, step in RULES.items():
        stopped = bid(market, step=step, absolute=rule == "absolute")
        error = np.abs(stopped.prices[busy] / right.prices[busy] - 1).max()
        yield (
            rule,
            stopped.iterations,
            float(error),
            amdahl_metrics.mean_absolute_error(stopped.cores, right.cores),
            1 - metrics.system_progress(market, stopped.cores) / best,
            right.iterations,
            right.price_error,
        )


def _means(
    rows: AmdahlBiddingRows, varied: str, rule: str, column: str = "iterations"
) -> list[float]:
    name = {"users": "users", "servers": "servers_per_user", "density": "density"}[varied]
    values = sorted({getattr(row, name) for row in rows.stops if row.varied == varied})
    return [mean(rows.stops, column, varied=varied, rule=rule, **{name: value}) for value in values]


def _points(rows: AmdahlBiddingRows, varied: str, rule: str) -> tuple[tuple[float, float], ...]:
    name = {"users": "users", "servers": "servers_per_user", "density": "density"}[varied]
    values = sorted({getattr(row, name) for row in rows.stops if row.varied == varied})
    return tuple(zip(values, _means(rows, varied, rule), strict=True))


def _ten(rows: AmdahlBiddingRows) -> Finding:
    told, parts, averages = [], {}, {}
    for rule in ("absolute", RELATIVE):
        count = [row.iterations for row in rows.stops if row.rule == rule]
        parts[rule] = float(np.mean([each <= 10 for each in count]))
        averages[rule] = float(np.mean(count))
        told.append(f"{rule}: mean {averages[rule]:.1f}, {parts[rule]:.0%} within ten")
    return Finding(
        "; ".join(told),
        averages["absolute"] < 20,
        parts["absolute"] >= 0.5,
        reason="" if parts["absolute"] >= 0.5 else "the paper's threshold is not printed",
    )


def _two_rules(
    rows: AmdahlBiddingRows,
    varied: str,
    holds: Callable[[list[float]], bool],
    why_not: str,
    *,
    ends: bool = True,
) -> Finding:
    """Judge how iterations change by the absolute rule, and show them by the relative one, too."""
    told = []
    for rule in ("absolute", RELATIVE):
        count = _means(rows, varied, rule)
        shown = " to ".join(f"{each:.1f}" for each in (count[0], count[-1]))
        listed = ", ".join(f"{each:.1f}" for each in count)
        told.append(f"{rule}: {shown if ends else listed}")
    so = holds(_means(rows, varied, "absolute"))
    return Finding("; ".join(told), so, reason="" if so else why_not)


def _by_users(rows: AmdahlBiddingRows) -> Finding:
    return _two_rules(
        rows,
        "users",
        lambda count: count[-1] > count[0],
        "the worst of more prices counts, but no more than that",
    )


def _by_servers(rows: AmdahlBiddingRows) -> Finding:
    return _two_rules(
        rows,
        "servers",
        lambda count: count[-1] < count[0],
        "the change of prices does not become smaller with bids",
    )


def _by_density(rows: AmdahlBiddingRows) -> Finding:
    return _two_rules(
        rows,
        "density",
        lambda count: 0 < count.index(max(count)) < len(count) - 1,
        "iterations fall or rise throughout",
        ends=False,
    )


def _beyond(rows: AmdahlBiddingRows) -> Finding:
    error = mean(rows.stops, "price_error", rule=RELATIVE)
    cores = mean(rows.stops, "core_error", rule=RELATIVE)
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
            {rule: _points(rows, varied, rule) for rule in RULES},
            log_x=logarithmic,
            log_y=True,
        )
        for varied, (label, logarithmic) in axes.items()
    )


STUDY = Study(
    title="Amdahl Bidding: iterations, and what its stopping rule leaves undone",
    paper="Amdahl's Law in the Datacenter Era: A Market for Fair Processor Allocation, VI-F",
    stands_in=STANDS_IN
    + " The paper stops when prices change by less than a small threshold, which is not printed: "
    f"{ABSOLUTE_STEP:g}, in units of budget for a core, is judged, and relative changes of 0.1, "
    "0.01 and 0.001 are shown beside it. By a relative rule, more servers would take more "
    "iterations, since small prices count like large ones.",
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
