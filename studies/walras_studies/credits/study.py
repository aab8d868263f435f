"""Study beyond the papers: credits for lent cores, and credits for memory that fade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras_studies.chart import Chart
from walras_studies.credits.runs import (
    AWAY,
    BUSY,
    HALF_LIFE_HOURS,
    MAX_MIN,
    MOST,
    AwayRow,
    BusyRow,
    HidingRow,
    away_rows,
    busy_rows,
    demand_lies,
    hiding_rows,
    spread,
)
from walras_studies.study import Claim, Finding, Progress, Study, mean, pick, steps

if TYPE_CHECKING:
    from walras_studies.lying.runs import Lie


@dataclass(frozen=True, slots=True)
class CreditsSize:
    """Size of the study.

    Attributes:
        clusters: Number of drawn clusters of each kind.
        busy_users: Number of users who nearly always have jobs.
        busy_hours: Length of a simulation of these users, in hours.
        away_users: Number of users who come and go.
        away_hours: Length of a simulation of these users, in hours.
        hiding_users: Number of users of whom one hides its jobs, or lies about its demand.
        hiding_hours: Length of a simulation with hidden jobs, in hours.
        quanta: Number of quanta of memory in which one lies about its demand.
    """

    clusters: int
    busy_users: int
    busy_hours: int
    away_users: int
    away_hours: int
    hiding_users: int
    hiding_hours: int
    quanta: int


@dataclass(frozen=True, slots=True)
class CreditsRows:
    """Tables of the study."""

    busy: tuple[BusyRow, ...]
    away: tuple[AwayRow, ...]
    hiding: tuple[HidingRow, ...]
    demands: tuple[Lie, ...]


def run(seed: int, size: CreditsSize, progress: Progress) -> CreditsRows:
    """Simulate the same drawn clusters under every policy, and let some users lie."""
    busy: list[BusyRow] = []
    away: list[AwayRow] = []
    hiding: list[HidingRow] = []
    demands: list[Lie] = []
    for number in steps(range(size.clusters), progress, "cluster"):
        busy += busy_rows(size.busy_users, size.busy_users // 4, size.busy_hours, number, seed)
        away += away_rows(size.away_users, size.away_users // 4, size.away_hours, number, seed)
        hiding += hiding_rows(size.hiding_users, size.hiding_hours, number, seed)
        demands += demand_lies(size.hiding_users, size.quanta, number, 2, seed)
    return CreditsRows(tuple(busy), tuple(away), tuple(hiding), tuple(demands))


def _column(
    rows: tuple[BusyRow, ...] | tuple[AwayRow, ...], column: str, policy: str
) -> list[float]:
    return [float(getattr(row, column)) for row in pick(rows, policy=policy)]


def _worst(rows: CreditsRows, policy: str) -> Finding:
    ours, fair = (_column(rows.busy, "worst", name) for name in (policy, "fair share"))
    reached = float(np.mean(np.array(ours) >= np.array(fair)))
    enough = float(np.mean(ours)) >= float(np.mean(fair))
    return Finding(
        f"{spread(ours)}, fair share {spread(fair)}; in {reached:.0%} of the clusters",
        enough,
        reason="" if enough else "these users never lend cores; what they lack is memory",
    )


def _max_min_lifts(rows: CreditsRows) -> Finding:
    return _worst(rows, MAX_MIN)


def _core_credits_lift_nobody(rows: CreditsRows) -> Finding:
    return _worst(rows, "core credits")


def _fading_lifts(rows: CreditsRows) -> Finding:
    return _worst(rows, "memory fades in 6 h")


def _both_lift(rows: CreditsRows) -> Finding:
    return _worst(rows, "both")


def _costs(rows: CreditsRows) -> Finding:
    before = mean(rows.busy, "progress", policy="Walras")
    change = {
        name: mean(rows.busy, "progress", policy=name) / before - 1
        for name in BUSY
        if name not in {"fair share", "Walras", MAX_MIN}
    }
    return Finding(
        ", ".join(f"{name} {value:+.2%}" for name, value in change.items()),
        min(change.values()) >= -0.01,
    )


def _away(rows: CreditsRows) -> Finding:
    found = {name: _column(rows.away, "worst", name) for name in AWAY}
    least = float(np.mean(np.array(found["core credits"]) >= np.array(found["market"])))
    return Finding(
        ", ".join(f"{name} {spread(values)}" for name, values in found.items())
        + f"; not less in {least:.0%} of the clusters",
        float(np.mean(found["core credits"])) > float(np.mean(found["market"])),
    )


def _even(rows: CreditsRows) -> Finding:
    found = {name: _column(rows.away, "spread", name) for name in AWAY}
    return Finding(
        ", ".join(f"{name} {spread(values)}" for name, values in found.items()),
        float(np.mean(found["core credits"])) < float(np.mean(found["market"])),
    )


def _costs_when_away(rows: CreditsRows) -> Finding:
    before = mean(rows.away, "progress", policy="market")
    change = {
        name: mean(rows.away, "progress", policy=name) / before - 1
        for name in AWAY
        if name != "market"
    }
    return Finding(
        ", ".join(f"{name} {value:+.2%}" for name, value in change.items()),
        min(change.values()) >= -0.01,
    )


def _hiding(rows: CreditsRows) -> Finding:
    most = sorted({row.most for row in rows.hiding})
    gains = {each: [row.gain for row in pick(rows.hiding, most=each)] for each in most}
    tried = sum(row.tried for row in rows.hiding)
    told = ", ".join(
        f"up to {each:.0%}: {np.mean(values):.2%} on average, {max(values):.2%} at most"
        for each, values in gains.items()
    )
    none = max(max(values) for values in gains.values()) <= 0
    return Finding(
        f"of {tried} ways, the best of each user gains, with budgets that change by {told}",
        max(gains[MOST]) < 0.01,
        none,
        reason=""
        if none
        else "an hour in which many jobs share a node is worth little, and its credit more later",
    )


def _over_reporting(rows: CreditsRows) -> Finding:
    over = [row.gain for row in rows.demands if row.lie != "half the demand"]
    return Finding(
        f"the best of {len(over)} lies gains {max(0.0, *over):.2%}; mean loss "
        f"{abs(float(np.mean(over))):.1%}",
        max(over) <= 0,
        reason="" if max(over) <= 0 else "a lie pays if it happens to save credits",
    )


def _under_reporting(rows: CreditsRows) -> Finding:
    under = [row.gain for row in rows.demands if row.lie == "half the demand"]
    return Finding(f"{np.mean(under):+.1%} on average, at best {max(under):+.1%}", max(under) <= 0)


def _charts(rows: CreditsRows) -> tuple[Chart, ...]:
    def sorted_worst(policy: str) -> tuple[tuple[float, float], ...]:
        values = sorted(_column(rows.busy, "worst", policy))
        return tuple((float(place), value) for place, value in enumerate(values))

    return (
        Chart(
            "worst",
            "Utility of the worst-off twentieth, clusters in order",
            "cluster",
            "utility",
            {policy: sorted_worst(policy) for policy in BUSY},
        ),
    )


STUDY = Study(
    title="Credits for lent cores, and credits for memory that fade",
    paper="",
    stands_in=(
        "Clusters are small ones of `month`. Core credits halve in "
        f"{HALF_LIFE_HOURS} hours and change budgets by up to {100 * MOST:g} %. Busy users nearly "
        "always have jobs; users who come and go have jobs for two days on average and then none, "
        "and divide only cores. A user hides its jobs in those spells of six hours that a search "
        "finds best, while all others are honest. Demands for memory are those of `lying`, and "
        "Karma's credits halve in 24 or in 6 quanta."
    ),
    run=run,
    full=CreditsSize(20, 40, 168, 24, 168, 8, 72, 150),
    quick=CreditsSize(2, 12, 48, 8, 72, 4, 24, 60),
    claims=(
        Claim(
            "",
            "with core credits, the worst-off twentieth of busy users have at least what fair "
            "share gives",
            "",
            _core_credits_lift_nobody,
        ),
        Claim(
            "",
            "with credits for memory that halve in 6 hours, they have at least what fair share "
            "gives",
            "",
            _fading_lifts,
        ),
        Claim(
            "",
            "with the market for cores and max-min fair memory, they have at least what fair share "
            "gives",
            "",
            _max_min_lifts,
        ),
        Claim("", "with both, they have at least what fair share gives", "", _both_lift),
        Claim("", "none of these costs more than 1 % of system progress", "", _costs),
        Claim(
            "",
            "with core credits, the worst-off twentieth of users who come and go hold a larger "
            "part of their entitled core-hours",
            "",
            _away,
        ),
        Claim("", "with core credits, these parts are more even among users", "", _even),
        Claim(
            "",
            "core credits cost users who come and go no more than 1 % of progress",
            "",
            _costs_when_away,
        ),
        Claim("", "hiding jobs to earn core credits gains less than 1 %", "", _hiding),
        Claim(
            "",
            "reporting more than the true demand never pays under Karma with credits that fade",
            "",
            _over_reporting,
        ),
        Claim("", "reporting less than the true demand does not pay there", "", _under_reporting),
    ),
    charts=_charts,
)
