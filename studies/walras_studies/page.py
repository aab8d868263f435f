"""Chooses: docs/reproduction.md from what the studies came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from walras_studies.results import Judgement, Result

IMAGES = "images/reproduction"

HEAD = """\
# What the papers report, and what Walras does

<!-- Made by `make reproduce`: change the studies in studies/walras_studies, not this page. -->

Every line below is a claim of one of the five papers, with the figure that it prints and ours. Each
study runs from a seed: `walras simulate STUDY` repeats it, `make reproduce` repeats all and writes
this page. The same seed gives the same tables to the bit, but for what is measured; `--out DIR`
keeps them as CSV and JSON.

The papers' data are mostly not to be had. What stands in for them is said at the head of each
study; none of it was chosen to make a figure agree. Verdicts:

- **reproduced**: it is so here, and our figure is as good as the printed one where one is printed;
- **better**: and ours is better;
- **direction only**: it is so here, but the printed figure is not met, with the reason;
- **not reproduced**: it is not so here, with the reason;
- **not judged**: the run cannot tell, with the reason: times were measured on a busy machine, or
  on one with too few cores;
- **holds**, **holds in part**, **does not hold**: of what no paper claims, and we asked ourselves.

What is drawn has a spread: the column *draws* says in how many of 20 parts of the draws, each from
seeds of its own, the claim is so, and in how many the printed figure is met, if that differs. A
verdict is **better** only if our figure is so in nine tenths of them, and **reproduced** only if it
is in three quarters of them. Where this column is missing, nothing was drawn, times were measured,
or, in `month`, there is one world only: twenty would take most of an hour.
"""


def page(results: Sequence[Result]) -> str:
    """Return the page in Markdown."""
    return "\n".join(
        [HEAD, *_summary(results), *(line for each in results for line in _study(each))]
    )


def image(result: Result, chart: str) -> str:
    """Return the name of a plot's file on the page."""
    return f"{result.study}-{chart}.svg"


def _summary(results: Sequence[Result]) -> Iterator[str]:
    count = Counter(each.verdict for result in results for each in result.judgements)
    total = sum(count.values())
    parts = ", ".join(f"{number} {verdict}" for verdict, number in count.most_common())
    yield f"Of {total} claims: {parts}."
    yield ""
    yield "| study | what it is about | claims | takes |"
    yield "|---|---|---|---|"
    for each in results:
        yield (
            f"| [`{each.study}`](#{each.study}) | {each.title} | {len(each.judgements)} | "
            f"{each.seconds:.0f} s |"
        )
    yield ""


def _study(result: Result) -> Iterator[str]:
    yield f"## {result.study}"
    yield ""
    yield f"{result.title}." + (f" Paper: *{result.paper}*." if result.paper else "")
    yield ""
    yield result.stands_in
    yield ""
    yield (
        f"`walras simulate {result.study} --seed {result.seed}`"
        f"{' `--quick`' if result.quick else ''}, {result.seconds:.0f} s on {result.machine}."
    )
    yield ""
    heads = _heads(result)
    yield f"| {' | '.join('draws' if head == 'spread' else head for head in heads)} |"
    yield "|---" * len(heads) + "|"
    for each in result.judgements:
        yield _row(each, heads)
    yield ""
    if result.missing:
        yield "Not repeated:"
        yield ""
        yield from (f"- {where}: {reason}." for where, reason in result.missing)
        yield ""
    for name, title in result.charts:
        yield f"![{title}]({IMAGES}/{image(result, name)})"
        yield ""


def _heads(result: Result) -> tuple[str, ...]:
    """Return the columns of a study's claims: without papers or draws if it has none."""
    heads: tuple[str, ...] = ("claim", "ours", "verdict")
    if result.paper:
        heads = ("where", "claim", "paper", "ours", "verdict")
    return (*heads, "spread") if any(each.spread for each in result.judgements) else heads


def _row(each: Judgement, heads: tuple[str, ...]) -> str:
    told = asdict(each) | {
        "verdict": f"**{each.verdict}**" + (f": {each.reason}" if each.reason else "")
    }
    cells = [told[head] for head in heads]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
