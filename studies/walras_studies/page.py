"""Text of docs/reproduction.md, made from the results of the studies."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from walras_studies.results import Judgement, Result

IMAGES = "images/reproduction"

SAID_BY_DRAWS = "true on average, but in only "
"""Start of a reason that the column of draws gives, too."""

HEAD = """\
# What the papers report, and what Walras does

<!-- Made by `make reproduce`: change the studies in studies/walras_studies, not this page. -->

Claims of the five papers, and questions that no paper asks. Each study repeats from its seed, to
the bit except for measured times; `make reproduce` repeats all, and writes this page. Most of the
papers' data are not public; each study says what replaces them.

- **reproduced**: true here, with the printed figures, within the error of reading them;
- **better**: true here, and our figure is better than the printed one;
- **direction only**: true here, but our figure does not reach the printed one;
- **not reproduced**: not true here;
- **not judged**: nothing is printed to compare with, or the machine was busy or too small;
- **holds**, **holds in part**, **does not hold**: answers to our own questions.

*draws*: in how many of 20 parts of the draws the claim is true, and the printed figure reached, if
not in all. **Better** takes nine tenths, **reproduced** the printed figure in three quarters.
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
    yield "| study | what it is about | claims |"
    yield "|---|---|---|"
    for each in results:
        yield f"| [`{each.study}`](#{each.study}) | {each.title} | {len(each.judgements)} |"
    yield ""


def _study(result: Result) -> Iterator[str]:
    yield f"## {result.study}"
    yield ""
    yield (f"*{result.paper}*. " if result.paper else "") + result.stands_in
    yield ""
    yield (
        f"`walras simulate {result.study} --seed {result.seed}`"
        f"{' `--quick`' if result.quick else ''}, {result.seconds:.0f} s on "
        f"{result.machine.partition(', Python')[0]}."
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
    reason = "" if each.reason.startswith(SAID_BY_DRAWS) else each.reason
    told = asdict(each) | {
        "verdict": f"**{each.verdict}**" + (f": {reason}" if reason else ""),
        "spread": each.spread.replace(" of 20", ""),
    }
    cells = [told[head] for head in heads]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
