"""``walras simulate``: runs studies, prints their verdicts, and writes their tables and plots."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from walras_cli.options import Form, output_option
from walras_service.failures import BadInput, Interrupted
from walras_studies.registry import STUDIES, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_studies.results import Result
    from walras_studies.study import Progress


@click.command("simulate", short_help="Repeat the studies of the papers, from a seed.")
@click.argument("names", nargs=-1, required=True, metavar="STUDY...")
@click.option("--quick", is_flag=True, help="Smaller sizes: seconds in place of minutes.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Seed of all random draws.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write tables (CSV, JSON) and plots (SVG, PNG) to DIR/STUDY.",
)
@output_option()
def simulate(
    *, names: tuple[str, ...], quick: bool, seed: int, out: Path | None, output: Form
) -> None:
    """Run each STUDY, or all, and say which of the papers' claims are true here.

    The same seed gives the same tables to the bit, except for measured times. The study programs
    takes about an hour on a server, and judges parallel fractions only on eight cores or more.

    \b
    Studies:
      amdahl              the market for cores, compared with other policies
      amdahl-bidding      iterations of bidding, and its error when it stops
      karma               memory divided by credits, for users with bursty demands
      proportional-share  users who foresee their effect on prices, with linear utilities
      abacus              auctions: iterations, truthfulness, deadlines, estimated utilities
      cooper              pairs of jobs that share a processor
      month               a month of a cluster: cores by market and memory by credits together
      held                what pods hold in a month, beside Kubernetes, quotas and whole cores
      demand              thread counts that the market learns from what pods use
      lying               what a user gains by lying, by mechanism and number of users
      credits             credits for lent cores, and credits for memory that fade
      adjustment          bids adjusted by progress, compared with measured speedups
      overheads           how long decisions take
      programs            F and run times of real programs, predicted from samples of their data

    \b
    Examples:
      walras simulate karma
      walras simulate amdahl --quick -o json
      walras simulate all --out results

    Exit codes: 0 done, whatever the verdicts, 2 bad input, 130 interrupted.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    for name in names:
        if name != "all" and name not in STUDIES:
            raise BadInput(f"STUDY {name!r} is none of {', '.join(STUDIES)}; or say all")
    if out is not None:
        import walras_studies.plot  # noqa: F401 - fails before the work if matplotlib is missing
    chosen = list(STUDIES) if "all" in names else list(dict.fromkeys(names))
    try:
        results = [carry_out(name, seed, out, quick=quick) for name in chosen]
    except KeyboardInterrupt:
        raise Interrupted("interrupted; the studies before this one are written") from None
    show(results, output)


def carry_out(name: str, seed: int, out: Path | None, *, quick: bool) -> Result:
    """Run a study, with its progress on standard error, and write its result to ``out``, if any."""
    from walras_studies.results import Result, judge, machine, write

    study = load(name)
    started = time.monotonic()
    with _progress(name) as progress:
        rows = study.run(seed, study.quick if quick else study.full, progress)
    result = Result(
        name,
        study.title,
        study.paper,
        study.stands_in,
        seed,
        quick,
        round(time.monotonic() - started, 1),
        machine(),
        judge(study, rows),
        tuple((chart.name, chart.title) for chart in study.charts(rows)),
        study.missing,
    )
    if out is not None:
        write(study, rows, result, out / name)
    return result


@contextmanager
def _progress(name: str) -> Iterator[Progress]:
    """Show a progress bar on a terminal; elsewhere, print a line for each tenth of the work."""
    if not sys.stderr.isatty():
        last = -1

        def tell(part: float, doing: str) -> None:
            nonlocal last
            if int(10 * part) > last:
                last = int(10 * part)
                click.echo(f"{name}: {part:.0%}, {doing}", err=True)

        yield tell
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=1.0)
        yield lambda part, doing: bar.update(task, completed=part, description=f"{name}: {doing}")


def show(results: list[Result], output: Form) -> None:
    """Print the verdicts as tables, or as JSON or YAML for scripts."""
    if output == "table":
        _print_tables(results)
        return
    document: dict[str, Any] = {"studies": [asdict(result) for result in results]}
    if output == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    import yaml

    click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


def _print_tables(results: list[Result]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    for result in results:
        table = Table(
            "where",
            "claim",
            "paper",
            "ours",
            "verdict",
            "draws",
            title=result.title,
            title_justify="left",
        )
        for each in result.judgements:
            verdict = each.verdict + (f": {each.reason}" if each.reason else "")
            cells = (each.where, each.claim, each.paper, each.ours, verdict, each.spread)
            table.add_row(*(Text(cell) for cell in cells))
        console.print(table)
        console.print(Text(f"{result.stands_in}\n"))
        for where, reason in result.missing:
            console.print(Text(f"not repeated: {where}: {reason}"))
