"""A study: a pure function of a seed and a size to rows, and claims judged by the rows."""

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
"""Parts of the draws of a study, each from seeds of its own, over which verdicts are spread."""

Progress = Callable[[float, str], None]
"""Function that takes the part of the work that is done, 0..1, and the name of the next step."""

Verdict = Literal["reproduced", "better", "direction only", "not reproduced", "not judged"]

IN_PLAIN_WORDS: dict[Verdict, str] = {
    "reproduced": "holds",
    "better": "holds",
    "direction only": "holds in part",
    "not reproduced": "does not hold",
    "not judged": "not judged",
}
"""Verdicts on what no paper claims."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The judgement of a claim by the rows of a run.

    Attributes:
        ours: our figure, in words.
        direction: whether what is claimed is so, whatever the figure.
        figure: whether our figure is as good as the printed one; True where none is printed.
        better: whether it is better than the printed one.
        reason: why a direction or a figure differs; empty where none does.
        judged: whether the run can tell at all.
    """

    ours: str
    direction: bool
    figure: bool = True
    better: bool = False
    reason: str = ""
    judged: bool = True

    @property
    def verdict(self) -> Verdict:
        """The finding in a word or two."""
        if not self.judged:
            return "not judged"
        if not self.direction:
            return "not reproduced"
        if self.better:
            return "better"
        return "reproduced" if self.figure else "direction only"


@dataclass(frozen=True, slots=True)
class Claim(Generic[Rows]):
    """Something that a paper says.

    Attributes:
        where: section and figure of the paper; empty for what no paper claims.
        claim: Text of the claim.
        paper: the printed figure, or what is said in its place.
        judge: the finding of a run.
        of_spread: whether it is about the spread of draws itself, which a part of them cannot tell.
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
        paper: Paper whose evaluation it repeats; empty for what goes beyond the papers.
        stands_in: Synthetic data in place of data that are not available, and assumptions.
        run: the work: of a seed, a size and whom to tell of progress, a dataclass whose fields are
            tuples of rows, themselves flat dataclasses. The same seed and size give the same rows,
            to the bit.
        full: the paper's size.
        quick: a size for tests, on which every claim has the same direction.
        claims: Claims of the paper.
        charts: plots of the rows.
        measured: whether rows have measured times, and so differ from run to run.
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


def silent(part: float, doing: str) -> None:
    """Take note of progress, and keep it to oneself."""


def steps(items: Sequence[Item], progress: Progress, name: str) -> Iterator[Item]:
    """Yield items, and tell of the part that is done."""
    for number, item in enumerate(items):
        progress(number / len(items), f"{name} {item}")
        yield item
    progress(1.0, "done")


def tables(rows: Any) -> dict[str, tuple[Any, ...]]:
    """Return the tables of a study's rows by name."""
    return {each.name: getattr(rows, each.name) for each in fields(rows)}


def draws(rows: Any) -> list[Any]:
    """Return the rows of each of `DRAWS` parts of the draws; none if there are too few draws.

    Draws are numbered in the column ``number``. Tables without it are in every part.
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
    """Return the rows whose columns have these values."""
    return [
        row
        for row in rows
        if all(getattr(row, column) == value for column, value in wanted.items())
    ]


def mean(rows: Iterable[Any], column: str, **wanted: object) -> float:
    """Return the mean of a column over the rows with these values; NaN if there is none."""
    values = [float(getattr(row, column)) for row in pick(rows, **wanted)]
    return sum(values) / len(values) if values else float("nan")
