"""Effects: writes what a study came to into a folder, and reads it back for the page of all."""

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
"""Part of the draws in which a figure must be met for the verdict to be that it is reproduced."""

MOST = 0.9
"""Part of the draws in which a figure must be better for the verdict to be that."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim with what a run says about it: one line of the report.

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
        paper: Paper whose evaluation it repeats.
        stands_in: Synthetic data in place of data that are not available.
        seed: Seed of the run.
        quick: whether it ran at its quick size.
        seconds: Time that it took.
        machine: Machine that it ran on.
        judgements: Judgements of all claims.
        charts: names and titles of the plots.
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
    """Return a finding that is no better than most parts of the draws, and how many agree.

    Nothing is said of what does not depend on draws.
    """
    if len({each.ours for each in parts}) <= 1:
        return found, ""
    so = sum(each.direction for each in parts)
    met = sum(each.direction and each.figure for each in parts)
    spread = f"{so} of {len(parts)}" + (f", figure {met}" if met != so else "")
    if sum(each.better for each in parts) < MOST * len(parts):
        found = replace(found, better=False)
    if found.direction and found.figure and met < ENOUGH * len(parts):
        reason = f"so on average, but in {met} of {len(parts)} draws only"
        found = replace(found, figure=False, reason=reason)
    return found, spread


def _spaced(text: str) -> str:
    """Set a space before each per cent sign that Python has put behind a number."""
    return re.sub(r"(?<=\d)%", " %", text)


def write(study: Study[Any, Any], rows: Any, result: Result, folder: Path) -> None:
    """Write a study's rows as CSV and JSON, its plots as SVG and PNG, and what it came to."""
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
    """Read back what a study came to.

    Raises:
        OSError: the folder has no result.
    """
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    judgements = tuple(Judgement(**each) for each in found.pop("judgements"))
    charts = tuple((name, title) for name, title in found.pop("charts"))
    missing = tuple((where, reason) for where, reason in found.pop("missing"))
    return Result(**found, judgements=judgements, charts=charts, missing=missing)


def machine() -> str:
    """Return the kind of machine this is, and the versions of what computes."""
    cpu = platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            cpu = value.strip()
            break
    cores = len({*_cpus()})
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
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
    """Return a value with None for what JSON has no number for."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
