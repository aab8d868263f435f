"""Text of docs/reproduction.md, made from the results of the studies."""

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

Each line below is a claim of one of the five papers, with the paper's figure and ours, or a
question that we added. Each study runs from a seed: `walras simulate STUDY` repeats one, and
`make reproduce` repeats all and writes this page. The same seed gives the same tables to the bit,
except for measured times. `--out DIR` keeps the tables as CSV and JSON.

Most of the papers' data are not public. Each study says at its head what replaces them; none of
it was chosen to make a figure agree. Verdicts:

- **reproduced**: the claim is true here, and our figure is at least as good as the printed one,
  if there is one;
- **better**: the same, and our figure is better;
- **direction only**: the claim is true here, but our figure does not reach the printed one; the
  reason is given;
- **not reproduced**: the claim is not true here; the reason is given;
- **not judged**: this run cannot tell, because times were measured on a busy machine, or on one
  with too few cores;
- **holds**, **holds in part**, **does not hold**: answers to questions that no paper asks.

Random draws have a spread. The column *draws* says in how many of 20 parts of the draws, each
from its own seeds, the claim is true, and in how many the printed figure is reached, if that
differs. A verdict is **better** only if our figure is better in nine tenths of the parts, and
**reproduced** only if the printed figure is reached in three quarters of them. The column is
missing where nothing was drawn, where times were measured, and in `month`, which has a single
world because twenty would take most of an hour.
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
    yield f"Of {total} claims and questions: {parts}."
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
    """Return the columns of a study's table; those of papers and draws only if it has any."""
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
