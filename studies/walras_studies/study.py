"""A study: a function that returns rows for a seed and a size, and claims judged by these rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from walras_studies.chart import Chart

Size = TypeVar("Size")
Rows = TypeVar("Rows")
Item = TypeVar("Item")

DRAWS = 20
"""Number of parts, each with its own seeds, into which a study's draws are divided to judge each
claim in every part."""

Progress = Callable[[float, str], None]
"""Function to call with the part of the work that is done, 0..1, and the name of the next step."""

Verdict = Literal["reproduced", "better", "direction only", "not reproduced", "not judged"]
"""Verdicts on a paper's claim."""

IN_PLAIN_WORDS: dict[Verdict, str] = {
    "reproduced": "holds",
    "better": "holds",
    "direction only": "holds in part",
    "not reproduced": "does not hold",
    "not judged": "not judged",
}
"""Verdict on a question that no paper asks, for each verdict on a paper's claim."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The judgement of a claim by the rows of one run.

    Attributes:
        ours: Our figure, in words.
        direction: Whether the claim is true here, even if our figure differs from the paper's.
        figure: Whether our figure is the printed one, within the error of reading it to either side
            (`as_printed`), or better; True if none is printed.
        better: Whether our figure is better than the printed one.
        reason: Reason why the claim is not true, or why our figure differs; empty if neither is so.
        judged: Whether this run can judge the claim at all.
    """

    ours: str
    direction: bool
    figure: bool = True
    better: bool = False
    reason: str = ""
    judged: bool = True

    @property
    def verdict(self) -> Verdict:
        """The verdict that follows from the finding."""
        if not self.judged:
            return "not judged"
        if not self.direction:
            return "not reproduced"
        if self.better:
            return "better"
        return "reproduced" if self.figure else "direction only"


@dataclass(frozen=True, slots=True)
class Claim(Generic[Rows]):
    """A claim of a paper, or a question that no paper asks.

    Attributes:
        where: Section and figure of the paper; empty for a question that no paper asks.
        claim: Text of the claim.
        paper: Figure that the paper prints, or its words if it prints none.
        judge: Function that judges the claim by the rows of a run.
        of_spread: Whether the claim is about the spread of the draws, so that it can be judged only
            by all draws together.
    """

    where: str
    claim: str
    paper: str
    judge: Callable[[Rows], Finding]
    of_spread: bool = False


@dataclass(frozen=True, slots=True)
class Study(Generic[Size, Rows]):
    """A study that repeats or extends a paper's evaluation.

    Attributes:
        title: Subject of the study.
        paper: Paper whose evaluation it repeats; empty if the study goes beyond the papers.
        stands_in: Description of the synthetic data that replace data which are not available, and
            of the assumptions.
        run: Function that does the work. It takes a seed, a size and a function to report progress
            to, and returns a dataclass whose fields are tables: tuples of flat dataclasses. The
            same seed and size give the same rows, to the bit.
        full: Size of the paper's evaluation.
        quick: Smaller size for tests, at which every claim is true or false as at the full size.
        claims: Claims that are judged.
        charts: Function that returns the plots of the rows.
        measured: Whether rows contain measured times, and so differ from run to run.
        missing: Figures of the paper that are not repeated, each with the reason.
    """

    title: str
    paper: str
    stands_in: str
    run: Callable[[int, Size, Progress], Rows]
    full: Size
    quick: Size
    claims: tuple[Claim[Rows], ...]
    charts: Callable[[Rows], tuple[Chart, ...]]
    measured: bool = False
    missing: tuple[tuple[str, str], ...] = ()


def as_printed(ours: float, printed: float, reading: float) -> bool:
    """Return whether a figure is the printed one, which is read off with an error to either side.

    Args:
        ours: Our figure.
        printed: Printed figure, above 0.
        reading: Relative error with which it is read off a plot or out of words.
    """
    return abs(ours / printed - 1) <= reading


def silent(part: float, doing: str) -> None:
    """Ignore a report of progress."""


def steps(items: Sequence[Item], progress: Progress, name: str) -> Iterator[Item]:
    """Yield items, and report before each which part of them is done."""
    for number, item in enumerate(items):
        progress(number / len(items), f"{name} {item}")
        yield item
    progress(1.0, "done")


def tables(rows: Any) -> dict[str, tuple[Any, ...]]:
    """Return the tables of a study's rows, by name of the field."""
    return {each.name: getattr(rows, each.name) for each in fields(rows)}


def draws(rows: Any) -> list[Any]:
    """Return a study's rows divided into `DRAWS` parts; an empty list if there are too few draws.

    The column ``number`` of a table holds the number of the draw. Tables without this column are
    in every part whole.
    """
    found = tables(rows)
    counts = [
        len({row.number for row in table})
        for table in found.values()
        if table and hasattr(table[0], "number")
    ]
    if not counts or min(counts) < DRAWS:
        return []
    return [
        replace(rows, **{name: _of_draw(table, part) for name, table in found.items()})
        for part in range(DRAWS)
    ]


def _of_draw(table: tuple[Any, ...], part: int) -> tuple[Any, ...]:
    if not hasattr(table[0], "number"):
        return table
    return tuple(row for row in table if row.number % DRAWS == part)


def pick(rows: Iterable[Item], **wanted: object) -> list[Item]:
    """Return the rows with the given values in the named columns."""
    return [
        row
        for row in rows
        if all(getattr(row, column) == value for column, value in wanted.items())
    ]


def mean(rows: Iterable[Any], column: str, **wanted: object) -> float:
    """Return the mean of a column over the rows that `pick` returns; NaN if there are none."""
    values = [float(getattr(row, column)) for row in pick(rows, **wanted)]
    return sum(values) / len(values) if values else float("nan")
