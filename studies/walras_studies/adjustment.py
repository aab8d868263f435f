"""Study beyond the papers: bids adjusted by what they bring, against measured speedups."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from walras_studies.adjustment_runs import (
    ADJUSTED,
    LONGER,
    MEASURED,
    METHODS,
    MOMENTS,
    AdjustmentRow,
    rows_of,
)
from walras_studies.adjustment_worlds import AMDAHL, LINEAR, OVERHEADS, PROGRAMS, THREADS
from walras_studies.chart import Chart
from walras_studies.study import Claim, Finding, Progress, Study, mean, pick, steps

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT, SMALL, LARGE = 0.0, 0.02, 0.1
"""Errors of readings over 30 s."""

HOUR, END = MOMENTS[-2:]


@dataclass(frozen=True, slots=True)
class AdjustmentSize:
    """How many clusters are drawn of each kind of programs and each error of readings."""

    clusters: int


@dataclass(frozen=True, slots=True)
class AdjustmentRows:
    """All tables of the study."""

    clusters: tuple[AdjustmentRow, ...]


def run(seed: int, size: AdjustmentSize, progress: Progress) -> AdjustmentRows:
    """Let users of every cluster bid for four hours by each method."""
    rows: list[AdjustmentRow] = []
    cases = list(product(range(size.clusters), PROGRAMS, (EXACT, SMALL, LARGE)))
    for number, programs, noise in steps(cases, progress, "cluster"):
        rows += rows_of(programs, noise, number, seed)
    return AdjustmentRows(tuple(rows))


def _at_end(
    rows: AdjustmentRows, method: str, programs: str, noise: float, column: str = "done"
) -> float:
    return mean(rows.clusters, column, method=method, programs=programs, noise=noise, minutes=END)


def _ahead(
    more: str, less: str, kinds: tuple[str, ...], noise: float, reason: str = ""
) -> Callable[[AdjustmentRows], Finding]:
    """Return a judge of whether one method brings each kind of programs more than another."""

    def judge(rows: AdjustmentRows) -> Finding:
        pairs = {
            kind: (_at_end(rows, more, kind, noise), _at_end(rows, less, kind, noise))
            for kind in kinds
        }
        told = ", ".join(f"{kind} {a:.3f} and {b:.3f}" for kind, (a, b) in pairs.items())
        holds = all(a > b for a, b in pairs.values())
        return Finding(
            f"{told}, of even bids", holds, reason="" if holds else reason or "not for every kind"
        )

    return judge


def _close(rows: AdjustmentRows) -> Finding:
    ratios = {
        kind: _at_end(rows, ADJUSTED, kind, SMALL) / _at_end(rows, MEASURED, kind, SMALL) - 1
        for kind in PROGRAMS
    }
    return Finding(
        "adjustment brings " + ", ".join(f"{kind} {gain:+.1%}" for kind, gain in ratios.items()),
        max(map(abs, ratios.values())) < 0.02,
        reason="" if max(map(abs, ratios.values())) < 0.02 else "one of them is ahead by more",
    )


def _beats_even(method: str, reason: str) -> Callable[[AdjustmentRows], Finding]:
    def judge(rows: AdjustmentRows) -> Finding:
        least = {
            noise: min(_at_end(rows, method, kind, noise) for kind in PROGRAMS)
            for noise in (EXACT, SMALL, LARGE)
        }
        told = ", ".join(
            f"{value:.3f} with errors of {noise:.0%}" for noise, value in least.items()
        )
        holds = min(least.values()) > 1
        return Finding(
            f"the kind that gains least has {told}", holds, reason="" if holds else reason
        )

    return judge


def _settles(rows: AdjustmentRows) -> Finding:
    def gain(minutes: int) -> float:
        return mean(rows.clusters, "rate", method=ADJUSTED, minutes=minutes) - 1

    parts = {minutes: gain(minutes) / gain(END) for minutes in MOMENTS[:-1]}
    return Finding(
        ", ".join(f"{part:.0%} after {minutes} minutes" for minutes, part in parts.items()),
        parts[HOUR] >= 0.9,
    )


def _worst_off(rows: AdjustmentRows) -> Finding:
    told, holds = [], True
    for noise in (EXACT, LARGE):
        adjusted, measured = (
            mean(rows.clusters, "worst", method=method, noise=noise, minutes=END)
            for method in (ADJUSTED, MEASURED)
        )
        told.append(f"{adjusted:.3f} and {measured:.3f} with errors of {noise:.0%}")
        holds &= adjusted > measured
    return Finding(", ".join(told) + ", of its own by even bids", holds)


def _charts(rows: AdjustmentRows) -> tuple[Chart, ...]:
    def chart(name: str, title: str, noise: float) -> Chart:
        chosen = pick(rows.clusters, noise=noise)
        series = {
            method: tuple(
                (float(minutes), mean(chosen, "rate", method=method, minutes=minutes))
                for minutes in MOMENTS
            )
            for method in METHODS
        }
        return Chart(name, title, "minutes", "progress, of even bids", series, log_x=True)

    return (
        chart("exact", "Progress of all kinds of programs, counters being exact", EXACT),
        chart("noisy", "Progress of all kinds of programs, errors of 10 % in 30 s", LARGE),
    )


STUDY = Study(
    title="Bids adjusted by what they bring, against measured speedups",
    paper="",
    stands_in=(
        "Eight users with budgets of 1 to 5 have a job each on six of eight servers of 24 cores; "
        "all jobs start at once and stay for four hours. *Amdahl* programs have parallel fractions "
        "as in the Amdahl study, *linear* ones gain by every core, those of *fixed threads* have "
        "2, 4 or 8 threads, and *overheads* of half a per cent of the time on one core come with "
        "every core. Progress is read from counters with white noise: an error of 10 % in 30 s is "
        "one of 39 % in 2 s. *Adjustment* moves a hundredth of each user's budget every half a "
        "minute, all users at once. *Measuring* follows the operator: F is assumed to be 0.9, a "
        "job on each server is measured at a time, three samples on each number of cores; samples "
        "that leave F uncertain by more than 0.1 are repeated after ever longer pauses, and jobs "
        "are checked every ten minutes and measured again if they depart by a quarter. Users then "
        "bid by best responses. Cores are whole, with pools for less. Hysteresis and rounding "
        "credits play no part; neither does the cost of moving cores, of which adjustment moves "
        "more. Figures are progress in four hours, relative to that of even bids."
    ),
    run=run,
    full=AdjustmentSize(20),
    quick=AdjustmentSize(1),
    claims=(
        Claim(
            "",
            "with exact counters, measuring (first figure) brings Amdahl and linear programs more "
            "than adjustment",
            "",
            _ahead(MEASURED, ADJUSTED, (AMDAHL, LINEAR), EXACT),
        ),
        Claim(
            "",
            "with exact counters, adjustment (first figure) brings programs of fixed threads more "
            "than measuring",
            "",
            _ahead(ADJUSTED, MEASURED, (THREADS,), EXACT),
        ),
        Claim(
            "",
            "with exact counters, adjustment (first figure) brings programs whose overheads grow "
            "more than measuring",
            "",
            _ahead(
                ADJUSTED,
                MEASURED,
                (OVERHEADS,),
                EXACT,
                "F is measured on up to the cores that a job holds, and includes its overheads "
                "there",
            ),
        ),
        Claim("", "with errors of 2 %, neither is ahead by 2 %", "", _close),
        Claim(
            "",
            "with errors of 10 %, adjustment (first figure) brings all kinds more than measuring",
            "",
            _ahead(ADJUSTED, MEASURED, PROGRAMS, LARGE),
        ),
        Claim(
            "",
            "with errors of 10 %, it also brings all kinds more than measuring by samples of 30 s",
            "",
            _ahead(ADJUSTED, LONGER, PROGRAMS, LARGE),
        ),
        Claim(
            "",
            "with exact counters, measuring by samples of 30 s (first figure) brings Amdahl and "
            "linear programs more than adjustment",
            "",
            _ahead(
                LONGER,
                ADJUSTED,
                (AMDAHL, LINEAR),
                EXACT,
                "a measurement then takes up to nine minutes, in which the job has few cores",
            ),
        ),
        Claim(
            "",
            "adjustment brings all kinds more than even bids, whatever the errors",
            "",
            _beats_even(ADJUSTED, "not every kind gains"),
        ),
        Claim(
            "",
            "measuring brings all kinds more than even bids, whatever the errors",
            "",
            _beats_even(
                MEASURED,
                "most jobs are never measured, and where three noisy samples agree by chance, F is "
                "wrong",
            ),
        ),
        Claim("", "adjustment has nine tenths of its gain within an hour", "", _settles),
        Claim(
            "",
            "the user who fares worst against even bids fares better by adjustment (first figure) "
            "than by measuring",
            "",
            _worst_off,
        ),
    ),
    charts=_charts,
)
