"""Effects: judges a study's claims, and writes its result to a folder and reads it back."""

from __future__ import annotations

import csv
import json
import math
import platform
import re
from dataclasses import asdict, astuple, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walras_studies.study import IN_PLAIN_WORDS, draws, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_studies.study import Finding, Study

ENOUGH = 0.75
"""Part of the draws in which the printed figure must be reached for the verdict "reproduced"."""

MOST = 0.9
"""Part of the draws in which our figure must be better for the verdict "better"."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim with its verdict: one line of the report.

    Attributes:
        where: Section and figure of the paper.
        claim: Text of the claim.
        paper: Printed figure.
        ours: Our figure, in words.
        verdict: Verdict on all draws.
        reason: Reason why the verdict is not a better one.
        spread: Number of parts of the draws with the same verdict; empty if nothing was drawn.
    """

    where: str
    claim: str
    paper: str
    ours: str
    verdict: str
    reason: str
    spread: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a study.

    Attributes:
        study: Name of the study.
        title: Subject of the study.
        paper: Paper whose evaluation it repeats; empty if it goes beyond the papers.
        stands_in: Description of the synthetic data and of the assumptions.
        seed: Seed of the run.
        quick: Whether the study ran at its quick size.
        seconds: Time that the run took.
        machine: Description of the machine that the study ran on.
        judgements: Judgements of all claims.
        charts: Names and titles of the plots.
        missing: Figures that are not repeated, each with the reason.
    """

    study: str
    title: str
    paper: str
    stands_in: str
    seed: int
    quick: bool
    seconds: float
    machine: str
    judgements: tuple[Judgement, ...]
    charts: tuple[tuple[str, str], ...]
    missing: tuple[tuple[str, str], ...] = ()


def judge(study: Study[Any, Any], rows: Any) -> tuple[Judgement, ...]:
    """Judge every claim of a study by its rows, and by each part of its draws."""
    parts = [] if study.measured else draws(rows)
    judgements = []
    for claim in study.claims:
        judged = [] if claim.of_spread else [claim.judge(each) for each in parts]
        found, spread = _spread(claim.judge(rows), judged)
        verdict = found.verdict if study.paper else IN_PLAIN_WORDS[found.verdict]
        judgements.append(
            Judgement(
                claim.where,
                claim.claim,
                claim.paper,
                _spaced(found.ours),
                verdict,
                _spaced(found.reason),
                spread,
            )
        )
    return tuple(judgements)


def _spread(found: Finding, parts: Sequence[Finding]) -> tuple[Finding, str]:
    """Lower a finding to what most parts of the draws support, and count the parts that agree.

    Args:
        found: Finding by all draws together.
        parts: Finding by each part of the draws.

    Returns:
        The finding, and the number of parts in which the claim is true, in words; no words if the
        finding does not depend on the draws.
    """
    if len({each.ours for each in parts}) <= 1:
        return found, ""
    so = sum(each.direction for each in parts)
    met = sum(each.direction and each.figure for each in parts)
    spread = f"{so} of {len(parts)}" + (f", figure {met}" if met != so else "")
    if sum(each.better for each in parts) < MOST * len(parts):
        found = replace(found, better=False)
    if found.direction and found.figure and met < ENOUGH * len(parts):
        reason = f"true on average, but in only {met} of {len(parts)} parts of the draws"
        found = replace(found, figure=False, reason=reason)
    return found, spread


def _spaced(text: str) -> str:
    """Return a text with a space between each number and a percent sign that follows it."""
    return re.sub(r"(?<=\d)%", " %", text)


def write(study: Study[Any, Any], rows: Any, result: Result, folder: Path) -> None:
    """Write a study's rows as CSV and JSON, its plots as SVG and PNG, and its result as JSON."""
    from walras_studies import plot

    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables(rows).items():
        if table:
            _write_table(folder / f"{name}.csv", table)
    _write_json(folder / "rows.json", asdict(rows))
    for chart in study.charts(rows):
        plot.write(chart, folder)
    _write_json(folder / "result.json", asdict(result))


def read(folder: Path) -> Result:
    """Read the result of a study from a folder that `write` has filled.

    Raises:
        OSError: The folder has no result.
    """
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    judgements = tuple(Judgement(**each) for each in found.pop("judgements"))
    charts = tuple((name, title) for name, title in found.pop("charts"))
    missing = tuple((where, reason) for where, reason in found.pop("missing"))
    return Result(**found, judgements=judgements, charts=charts, missing=missing)


def machine() -> str:
    """Return the processor of this machine, and the versions of Python and of the libraries."""
    cpu = platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            cpu = value.strip()
            break
    cores = len({*_cpus()})
    libraries = f"numpy {version('numpy')}"
    return f"{cpu}, {cores} CPUs, Python {platform.python_version()}, {libraries}"


def _cpus() -> set[int]:
    import os

    return os.sched_getaffinity(0)


def _write_table(path: Path, table: tuple[Any, ...]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(each.name for each in fields(table[0]))
        writer.writerows(astuple(row) for row in table)


def _write_json(path: Path, value: Any) -> None:
    text = json.dumps(_finite(value), indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    """Return a value with None in place of NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
