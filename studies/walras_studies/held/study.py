"""Study beyond the papers: what pods hold over a month, and what that is worth to their users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras_studies.chart import Chart, bars
from walras_studies.held.runs import (
    KUBERNETES,
    POLICIES,
    QUOTAS,
    SHORT,
    WALRAS,
    WHOLE,
    MonthHeld,
    live_through,
)
from walras_studies.held.worlds import STANDS_IN, draw_month
from walras_studies.study import Claim, Finding, Progress, Study, mean, pick, steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_studies.chart import Point

MONTH_HOURS = 720


@dataclass(frozen=True, slots=True)
class HeldSize:
    """Size of the study.

    Attributes:
        clusters: Number of clusters.
        decisions: Number of decisions for each of them, in equal steps over the month.
    """

    clusters: int
    decisions: int


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Tables of the study."""

    months: tuple[MonthHeld, ...]


def run(seed: int, size: HeldSize, progress: Progress) -> HeldRows:
    """Live through a month of every cluster."""
    hours = np.linspace(0, MONTH_HOURS, size.decisions, endpoint=False).tolist()
    months: list[MonthHeld] = []
    for number in steps(range(size.clusters), progress, "cluster"):
        months += live_through(draw_month(MONTH_HOURS, [seed, number]), hours, number)
    return HeldRows(tuple(months))


def gains(rows: HeldRows, rival: str, column: str) -> list[float]:
    """Return by what part a column is larger under Walras than under a rival, by cluster."""
    ours, theirs = pick(rows.months, policy=WALRAS), pick(rows.months, policy=rival)
    return [
        getattr(mine, column) / getattr(other, column) - 1
        for mine, other in zip(ours, theirs, strict=True)
    ]


def _more(rival: str, column: str = "progress") -> Callable[[HeldRows], Finding]:
    def judge(rows: HeldRows) -> Finding:
        found = gains(rows, rival, column)
        least = min(found)
        return Finding(
            f"{np.mean(found):+.1%} ({least:+.1%} to {max(found):+.1%})",
            float(np.mean(found)) > 0,
            least >= 0,
            reason="" if least >= 0 else "in some clusters it is less",
        )

    return judge


def _by_policy(rows: HeldRows, column: str) -> str:
    return ", ".join(
        f"{policy} {mean(rows.months, column, policy=policy):.1%}" for policy in POLICIES
    )


def _nobody_short(rows: HeldRows) -> Finding:
    ours = pick(rows.months, policy=WALRAS)
    worst = min(row.worst for row in ours)
    return Finding(
        f"{_by_policy(rows, 'short')} of users' hours; the worst hour has {worst:.3f}",
        not any(row.short for row in ours),
    )


def _nobody_starves(rows: HeldRows) -> Finding:
    return Finding(
        f"{_by_policy(rows, 'starved')} of pods' hours",
        not any(row.starved for row in pick(rows.months, policy=WALRAS)),
    )


def _charts(rows: HeldRows) -> tuple[Chart, ...]:
    def sorted_gains(rival: str) -> tuple[Point, ...]:
        found = sorted(100 * each for each in gains(rows, rival, "progress"))
        return tuple((float(rank), gain) for rank, gain in enumerate(found, 1))

    shares = [100 * mean(rows.months, "short", policy=policy) for policy in POLICIES]
    return (
        Chart(
            "gains",
            "Gain in progress over other policies",
            "clusters, by gain",
            "gain, percent",
            {rival: sorted_gains(rival) for rival in (KUBERNETES, QUOTAS, WHOLE)},
        ),
        Chart(
            "short",
            f"Users below {SHORT} of what their share alone could give",
            "policy",
            "hours, percent",
            {"users' hours": bars(shares)},
            categories=POLICIES,
        ),
    )


STUDY = Study(
    title="What pods hold over a month",
    paper="",
    stands_in=STANDS_IN,
    run=run,
    full=HeldSize(20, 240),
    quick=HeldSize(3, 8),
    claims=(
        Claim(
            "",
            "progress, by shares, is higher than under Kubernetes with weights by requests",
            "",
            _more(KUBERNETES),
        ),
        Claim("", "progress, by shares, is higher than under static quotas", "", _more(QUOTAS)),
        Claim("", "progress, by shares, is higher than in whole cores", "", _more(WHOLE)),
        Claim(
            "",
            "the mean speed of pods, whoever they belong to, is higher than under Kubernetes",
            "",
            _more(KUBERNETES, "speed"),
        ),
        Claim(
            "",
            "no user gets less than 0.99 of what its share alone could give, in any hour",
            "",
            _nobody_short,
        ),
        Claim(
            "",
            "no pod has less than a tenth of a core, or of its equal part of its user's share of "
            "the node",
            "",
            _nobody_starves,
        ),
    ),
    charts=_charts,
)
