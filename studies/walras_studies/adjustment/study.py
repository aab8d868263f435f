"""Study beyond the papers: bids adjusted by progress, compared with measured speedups."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from walras_studies.adjustment.runs import (
    ADJUSTED,
    LONGER,
    MEASURED,
    METHODS,
    MOMENTS,
    AdjustmentRow,
    rows_of,
)
from walras_studies.adjustment.worlds import AMDAHL, LINEAR, OVERHEADS, PROGRAMS, THREADS
from walras_studies.chart import Chart
from walras_studies.study import Claim, Finding, Progress, Study, mean, pick, steps

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT, SMALL, LARGE = 0.0, 0.02, 0.1
"""Standard deviations of a reading of progress over 30 s, relative to the progress."""

HOUR, END = MOMENTS[-2:]
"""Minutes after the start: an hour, and the end."""


@dataclass(frozen=True, slots=True)
class AdjustmentSize:
    """Size of the study.

    Attributes:
        clusters: Number of clusters drawn for each kind of programs and each error of readings.
    """

    clusters: int


@dataclass(frozen=True, slots=True)
class AdjustmentRows:
    """Tables of the study."""

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
    """Return a judge of whether one method gives each kind of programs more progress than another.

    Args:
        more: Method that is claimed to give more progress.
        less: Method that it is compared with.
        kinds: Kinds of programs.
        noise: Error of readings over 30 s, as a part.
        reason: Reason if the claim is not true for every kind.
    """

    def judge(rows: AdjustmentRows) -> Finding:
        pairs = {
            kind: (_at_end(rows, more, kind, noise), _at_end(rows, less, kind, noise))
            for kind in kinds
        }
        told = ", ".join(f"{kind} {a:.3f} and {b:.3f}" for kind, (a, b) in pairs.items())
        holds = all(a > b for a, b in pairs.values())
        return Finding(
            told,
            holds,
            reason="" if holds else reason or "not true for every kind",
        )

    return judge


def _close(rows: AdjustmentRows) -> Finding:
    ratios = {
        kind: _at_end(rows, ADJUSTED, kind, SMALL) / _at_end(rows, MEASURED, kind, SMALL) - 1
        for kind in PROGRAMS
    }
    return Finding(
        "adjustment relative to measuring: "
        + ", ".join(f"{kind} {gain:+.1%}" for kind, gain in ratios.items()),
        max(map(abs, ratios.values())) < 0.02,
        reason="" if max(map(abs, ratios.values())) < 0.02 else "one method is ahead by more",
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
        return Finding(f"kind that gains least: {told}", holds, reason="" if holds else reason)

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
    return Finding(
        ", ".join(told),
        holds,
        reason="" if holds else "measuring is ahead where counters are exact",
    )


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
    title="Bids adjusted by progress, compared with measured speedups",
    paper="",
    stands_in=(
        "Eight users with budgets of 1 to 5 have one job on each of six of eight servers of 24 "
        "cores, for four hours. *Amdahl* programs have the fractions of `amdahl`; *linear* ones "
        "speed up in proportion to cores; those of *fixed threads* have 2, 4 or 8; with "
        "*overheads*, each further core costs half a percent of the time on one. Errors of "
        "counters are those over 30 s; over 2 s, they are four times as large. *Adjustment* moves "
        "a hundredth of each budget every half minute. *Measuring* follows the operator, with best "
        "responses and without hysteresis. Figures are progress in four hours, relative to even "
        "bids."
    ),
    run=run,
    full=AdjustmentSize(20),
    quick=AdjustmentSize(1),
    claims=(
        Claim(
            "",
            "with exact counters, measuring (first figure) gives Amdahl and linear programs more "
            "progress than adjustment",
            "",
            _ahead(MEASURED, ADJUSTED, (AMDAHL, LINEAR), EXACT),
        ),
        Claim(
            "",
            "with exact counters, adjustment (first figure) gives programs of fixed threads more "
            "progress than measuring",
            "",
            _ahead(
                ADJUSTED,
                MEASURED,
                (THREADS,),
                EXACT,
                "F is measured on up to the cores that a job holds, and so is lower where these "
                "are more than its threads",
            ),
        ),
        Claim(
            "",
            "with exact counters, adjustment (first figure) gives programs with overheads more "
            "progress than measuring",
            "",
            _ahead(
                ADJUSTED,
                MEASURED,
                (OVERHEADS,),
                EXACT,
                "F is measured on at most the cores that a job holds, and so includes its "
                "overheads on them",
            ),
        ),
        Claim("", "with errors of 2 %, neither method is ahead by 2 %", "", _close),
        Claim(
            "",
            "with errors of 10 %, adjustment (first figure) gives all kinds more progress than "
            "measuring",
            "",
            _ahead(ADJUSTED, MEASURED, PROGRAMS, LARGE),
        ),
        Claim(
            "",
            "with errors of 10 %, adjustment (first figure) also gives all kinds more progress "
            "than measuring with samples of 30 s",
            "",
            _ahead(ADJUSTED, LONGER, PROGRAMS, LARGE),
        ),
        Claim(
            "",
            "with exact counters, measuring with samples of 30 s (first figure) gives Amdahl and "
            "linear programs more progress than adjustment",
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
            "adjustment gives all kinds more progress than even bids, whatever the errors",
            "",
            _beats_even(ADJUSTED, "not every kind gains"),
        ),
        Claim(
            "",
            "measuring gives all kinds more progress than even bids, whatever the errors",
            "",
            _beats_even(
                MEASURED,
                "most jobs are never measured, and where three noisy samples agree by chance, F is "
                "wrong",
            ),
        ),
        Claim("", "adjustment reaches nine tenths of its gain within an hour", "", _settles),
        Claim(
            "",
            "the user with the least progress relative to even bids has more under adjustment "
            "(first figure) than under measuring",
            "",
            _worst_off,
        ),
    ),
    charts=_charts,
)
