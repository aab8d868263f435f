"""Study beyond the papers: what pods hold over a month, and what that is worth to their users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import default_rng

from walras_studies.chart import Chart, bars
from walras_studies.held.runs import (
    BUSY,
    KUBERNETES,
    POLICIES,
    QUOTAS,
    SHARES,
    SHORT,
    WALRAS,
    WHOLE,
    BusyMonth,
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
    """Tables of the study.

    Attributes:
        months: What pods hold that all compute, by cluster and policy.
        busy: What users get done while pods compute for a part of the time.
    """

    months: tuple[MonthHeld, ...]
    busy: tuple[BusyMonth, ...]


def run(seed: int, size: HeldSize, progress: Progress) -> HeldRows:
    """Live through a month of every cluster."""
    hours = np.linspace(0, MONTH_HOURS, size.decisions, endpoint=False).tolist()
    months: list[MonthHeld] = []
    busy: list[BusyMonth] = []
    for number in steps(range(size.clusters), progress, "cluster"):
        world, random = draw_month(MONTH_HOURS, [seed, number]), default_rng([seed, number, 1])
        held, at_moments = live_through(world, hours, number, random)
        months += held
        busy += at_moments
    return HeldRows(tuple(months), tuple(busy))


def gains(rows: HeldRows, rival: str, column: str) -> list[float]:
    """Return by what part a column is larger under Walras than under a rival, by cluster."""
    ours, theirs = pick(rows.months, policy=WALRAS), pick(rows.months, policy=rival)
    return [
        getattr(mine, column) / getattr(other, column) - 1
        for mine, other in zip(ours, theirs, strict=True)
    ]


def gains_by_busy(rows: HeldRows, rival: str) -> dict[float, list[float]]:
    """Return the gains in progress over a rival by how busy pods are, by cluster."""
    return {
        busy: [
            mine.progress / other.progress - 1
            for mine, other in zip(
                pick(rows.busy, busy=busy, policy=WALRAS),
                pick(rows.busy, busy=busy, policy=rival),
                strict=True,
            )
        ]
        for busy in BUSY
    }


def _more_however_busy(rival: str) -> Callable[[HeldRows], Finding]:
    def judge(rows: HeldRows) -> Finding:
        found = gains_by_busy(rows, rival)
        means = {busy: float(np.mean(each)) for busy, each in found.items()}
        behind = [f"{busy:.0%}" for busy, each in found.items() if min(each) < 0]
        return Finding(
            ", ".join(f"{busy:.0%}: {gain:+.1%}" for busy, gain in means.items()),
            min(means.values()) > 0,
            not behind,
            reason=f"less in some clusters at {', '.join(behind)}" if behind else "",
        )

    return judge


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
            {rival: sorted_gains(rival) for rival in (KUBERNETES, SHARES, QUOTAS, WHOLE)},
        ),
        Chart(
            "busy",
            "Gain in progress by how busy pods are",
            "time in which pods compute, percent",
            "mean gain, percent",
            {
                rival: tuple(
                    (100 * busy, 100 * float(np.mean(each)))
                    for busy, each in gains_by_busy(rows, rival).items()
                )
                for rival in (KUBERNETES, SHARES, WHOLE)
            },
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
            "progress is higher than under Kubernetes, whatever part of the time pods compute",
            "",
            _more_however_busy(KUBERNETES),
        ),
        Claim(
            "",
            "it is also higher than under weights by shares, which need no market",
            "",
            _more_however_busy(SHARES),
        ),
        Claim(
            "",
            "it is also higher than in whole cores that are lent to nobody",
            "",
            _more_however_busy(WHOLE),
        ),
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
