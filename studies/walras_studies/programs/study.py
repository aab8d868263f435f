"""Study: F and execution times of real programs, predicted from sampled data (section IV)."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from walras.speedup.amdahls_law import karp_flatt
from walras_studies.chart import Chart, bars
from walras_studies.cooper.rank_correlation import spearman
from walras_studies.programs.runs import PROGRAMS, WHOLE, Program, measure, write_data
from walras_studies.study import Claim, Finding, Progress, Study, pick

if TYPE_CHECKING:
    from collections.abc import Callable

QUIET = 0.05
"""Largest part of the CPUs' time that other programs may take on a quiet machine."""

LEAST_CORES = 8
"""Fewest cores on which Karp-Flatt's F is judged: on two, it is a single ratio of two times."""

ELSEWHERE = "this machine has {cores} cores; `walras simulate programs` judges F on eight or more"
"""Reason why F is not judged on this machine."""

SIMULATED_CORES = (2, 4, 8, 12, 16, 24, 48)
"""Numbers of cores for which F is simulated."""


@dataclass(frozen=True, slots=True)
class ProgramSize:
    """Size of the study.

    Attributes:
        programs: Names of the programs to run.
        lines: Number of lines of the text that they work on.
        samples: Parts of the data to predict from, as a list in percent.
        whole: Part of the data to predict for, in percent.
        repeats: Number of runs for each part of the data and number of cores.
    """

    programs: tuple[str, ...]
    lines: int
    samples: str
    whole: str
    repeats: int


@dataclass(frozen=True, slots=True)
class Fraction:
    """A program's parallel fraction.

    Attributes:
        program: Name of the program.
        kind: Description of the computation, with its library.
        sampled: Geometric mean of F over the sampled parts of the data, as the paper estimates it.
        extrapolated: F on all of the data, extrapolated from the samples by our fit of run times:
            lines with a common start-up time.
        measured: F measured on all of the data.
        disturbed: Mean part of the CPUs' time that other programs took during the runs.
    """

    program: str
    kind: str
    sampled: float
    extrapolated: float
    measured: float
    disturbed: float


@dataclass(frozen=True, slots=True)
class Time:
    """Run time of a program on all of the data.

    Attributes:
        program: Name of the program.
        cores: Number of cores.
        predicted: Run time predicted from samples, in seconds.
        measured: Measured run time, in seconds.
        error: Relative error of the prediction.
    """

    program: str
    cores: int
    predicted: float
    measured: float
    error: float


@dataclass(frozen=True, slots=True)
class Simulated:
    """F(x) of a program of equal tasks on a number of cores, which is simulated, not measured.

    Attributes:
        program: Name of the program.
        tasks: Number of its tasks.
        cores: Number of cores, x.
        fraction: Karp-Flatt's F on these cores.
    """

    program: str
    tasks: int
    cores: int
    fraction: float


@dataclass(frozen=True, slots=True)
class ProgramRows:
    """Tables of the study."""

    fractions: tuple[Fraction, ...]
    times: tuple[Time, ...]
    simulated: tuple[Simulated, ...]


def run(seed: int, size: ProgramSize, progress: Progress) -> ProgramRows:
    """Profile every program that is installed, on samples and then on all of the data."""
    programs = [each for each in PROGRAMS if each.name in size.programs and each.installed]
    fractions: list[Fraction] = []
    times: list[Time] = []
    simulated: list[Simulated] = []
    with tempfile.TemporaryDirectory(prefix="walras-") as name:
        folder = Path(name)
        write_data(folder, size.lines, seed)
        for number, program in enumerate(programs):

            def tell(number: int = number, program: Program = program) -> None:
                progress(number / len(programs), program.name)

            sampled = measure(program, folder, size.samples, size.repeats, seed, tell)
            whole = measure(program, folder, size.whole, size.repeats, seed, tell)
            part = float(size.whole.removesuffix("%")) / 100
            fractions.append(
                Fraction(
                    program.name,
                    program.kind,
                    sampled.fit.raw_fraction,
                    sampled.fit.fraction_at(part),
                    whole.fit.raw_fraction,
                    max(sampled.disturbed, whole.disturbed),
                )
            )
            for cores, taken in whole.seconds.items():
                guess = sampled.fit.predict_seconds(cores, part)
                times.append(Time(program.name, cores, guess, taken, guess / taken - 1))
            simulated += simulated_fractions(program, min(max(whole.fit.raw_fraction, 0.0), 1.0))
    progress(1.0, "done")
    return ProgramRows(tuple(fractions), tuple(times), tuple(simulated))


def simulated_fractions(program: Program, fraction: float) -> list[Simulated]:
    """Return F of a program on `SIMULATED_CORES`; its last round of tasks may leave cores idle.

    Args:
        program: Program with equal tasks; the result is empty if it has none.
        fraction: Measured parallel fraction of the program, 0..1.
    """
    rows = []
    for cores in SIMULATED_CORES if program.tasks else ():
        rounds = math.ceil(program.tasks / cores)
        taken = 1 - fraction + fraction * rounds / program.tasks
        value = karp_flatt(1 / taken, float(cores))
        rows.append(Simulated(program.name, program.tasks, cores, value))
    return rows


_WHY = "start-up weighs more in small samples, and these programs run for seconds, not minutes"

_OTHERS = (
    "these are not the paper's programs; on few cores that other programs share, an F near 1 "
    "scatters around 1"
)


def _if_quiet(judge: Callable[[ProgramRows], Finding]) -> Callable[[ProgramRows], Finding]:
    """Return a judge that gives no verdict if the machine was busy during the measurements."""

    def judged(rows: ProgramRows) -> Finding:
        busy = max(row.disturbed for row in rows.fractions)
        if busy <= QUIET:
            return judge(rows)
        reason = f"the machine was busy: other programs took up to {busy:.0%} of its CPUs' time"
        return replace(judge(rows), judged=False, reason=reason)

    return judged


def _if_wide(judge: Callable[[ProgramRows], Finding]) -> Callable[[ProgramRows], Finding]:
    """Return a judge that gives no verdict if the machine was busy or has too few cores for F."""

    def judged(rows: ProgramRows) -> Finding:
        cores = max(row.cores for row in rows.times)
        if cores >= LEAST_CORES:
            return _if_quiet(judge)(rows)
        return replace(judge(rows), judged=False, reason=ELSEWHERE.format(cores=cores))

    return judged


def _fractions(rows: ProgramRows) -> Finding:
    errors = {row.program: row.sampled - row.measured for row in rows.fractions}
    ours = {row.program: row.extrapolated - row.measured for row in rows.fractions}
    worst = max(errors, key=lambda name: abs(errors[name]))
    average = float(np.mean(np.abs(list(errors.values()))))
    return Finding(
        f"mean error {average:.3f}, largest {errors[worst]:+.3f} ({worst}); extrapolated to all of "
        f"the data {float(np.mean(np.abs(list(ours.values())))):.3f}",
        average < 0.1,
        reason="" if average < 0.1 else _WHY,
    )


def _order(rows: ProgramRows) -> Finding:
    rank = spearman(
        [row.sampled for row in rows.fractions], [row.measured for row in rows.fractions]
    )
    return Finding(
        f"rank correlation {rank:.2f} over {len(rows.fractions)} programs",
        rank > 0.5,
        reason="" if rank > 0.5 else _WHY,
    )


def _span(rows: ProgramRows) -> Finding:
    values = {row.program: row.measured for row in rows.fractions}
    told = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
    within = min(values.values()) > 0.5 and max(values.values()) > 0.9
    return Finding(told, within, reason="" if within else _OTHERS)


def _seconds(rows: ProgramRows) -> Finding:
    errors = [abs(row.error) for row in rows.times]
    average, worst = float(np.mean(errors)), max(errors)
    close = average <= 0.15 and worst <= 0.3
    return Finding(
        f"error of {average:.0%} on average, {worst:.0%} in the worst case",
        average < 0.3,
        close,
        better=average < 0.05,
        reason="" if close else _WHY,
    )


def _few_tasks(rows: ProgramRows) -> Finding:
    told, falls = [], []
    for name in sorted({row.program for row in rows.simulated}):
        values = [row.fraction for row in pick(rows.simulated, program=name)]
        told.append(f"{name} {values[0]:.3f} on 2 cores, {values[-1]:.3f} on 48")
        falls.append(values[-1] < values[0])
    return Finding(
        ", ".join(told),
        any(falls),
        reason="simulated, since this machine does not have so many cores",
    )


def _charts(rows: ProgramRows) -> tuple[Chart, ...]:
    names = tuple(row.program for row in rows.fractions)
    largest = max(row.cores for row in rows.times)
    on_all = pick(rows.times, cores=largest)
    return (
        Chart(
            "fractions",
            "Parallel fraction from samples and measured (fig. 6)",
            "program",
            "F",
            {
                "sampled": bars(row.sampled for row in rows.fractions),
                "extrapolated": bars(row.extrapolated for row in rows.fractions),
                "measured": bars(row.measured for row in rows.fractions),
            },
            names,
        ),
        Chart(
            "times",
            f"Seconds on all of the data, {largest} cores (fig. 8)",
            "program",
            "seconds",
            {
                "predicted": bars(row.predicted for row in on_all),
                "measured": bars(row.measured for row in on_all),
            },
            names,
        ),
    )


STUDY = Study(
    title="F and execution times of real programs, predicted from sampled data",
    paper="Amdahl's Law in the Datacenter Era: A Market for Fair Processor Allocation, section IV",
    stands_in=(
        "Six programs of Debian and Python replace Spark and PARSEC; this machine replaces a "
        "server of 24 cores. F on more cores is simulated for programs of equal tasks, without "
        "memory and caches. Samples are 10, 20 and 30 % of the data. On eight cores or more, the "
        "study takes about an hour."
    ),
    run=run,
    full=ProgramSize(tuple(each.name for each in PROGRAMS), 3_000_000, "10%,20%,30%", WHOLE, 3),
    quick=ProgramSize(("sort", "hash"), 60_000, "5%,10%", "15%", 1),
    claims=(
        Claim(
            "IV-C, fig. 6",
            "F from sampled data is close to F on all of it",
            "errors are small",
            _if_wide(_fractions),
        ),
        Claim(
            "IV-C, fig. 6",
            "estimates track measurements across programs",
            "relative accuracy",
            _if_wide(_order),
        ),
        Claim("IV, fig. 2", "parallel fractions of programs", ".55 to .99", _if_wide(_span)),
        Claim(
            "IV-C, fig. 8",
            "execution times on all of the data, predicted from samples",
            "5-15 % on average, 30 % at worst",
            _if_quiet(_seconds),
        ),
        Claim(
            "IV, fig. 1",
            "F falls with the number of cores if there are few tasks",
            "falls",
            _if_quiet(_few_tasks),
        ),
    ),
    charts=_charts,
    measured=True,
)
