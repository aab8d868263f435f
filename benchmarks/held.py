"""Judge how a node divides its CPUs among pods, always busy or not, on real kernels.

    python benchmarks/held.py [--machine 6.12:8] [--before REV] [ROW ...]

Ways to divide are measured by turns, row by row: plain weights (what Kubernetes does for pods that
request what they bought), the agent of this checkout, and with ``--before`` that of a commit. The
medians of ``--runs`` are printed, and what the agent misses; then the exit status is 1.

Results are kept in build/held: what was measured once, of the same code, is not measured again, so
that an interrupted run goes on where it was. It must be root. All pods are in one cgroup of the
largest weight, so other programs of the machine have next to nothing meanwhile; what they took, and
what the kernel did for them, is in the column "outside".

What the agent itself takes on a node of 110 pods, ``benchmarks/agent.py --rest`` measures.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holding.machines import (
    HERE,
    ROOT,
    Machine,
    MachineError,
    carry_out,
    copy_checkout,
    copy_program,
    fingerprint,
)
from holding.measure import Measurement, Order, Rival
from holding.programs import SOURCE, CompilerError, compile_programs
from holding.rows import ROWS
from holding.verdict import BEFORE, PLAIN, THIS, Outcome, disturbed, missed, outcome
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holding.measure import Found
    from holding.rows import Row

KEPT = ROOT / "build" / "held"
MOST_MINUTES = 150
BETWEEN = 6.0
"""Seconds from one measurement to the next, on a slow machine."""
TRIES = 3
"""Times that a machine may fail, one after the other, before a measurement is done."""


class Planned(NamedTuple):
    """A measurement, and the key under which its result is kept, which tells what was measured."""

    row: Row
    rival: str
    run: int
    settle: float
    window: float
    key: str

    def asked(self) -> Measurement:
        """Return it as measure.py is asked for it."""
        return Measurement(
            row=self.row.name,
            rival=self.rival,
            run=self.run,
            settle=self.settle,
            window=self.window,
        )


class Results:
    """What was found so far on one kind of machine, in a file to which every result is added."""

    def __init__(self, folder: Path, machine: Machine, *, fresh: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"{machine.kernel}-{machine.cpus}.jsonl"
        if fresh:
            self._file.unlink(missing_ok=True)
        self.found: dict[str, Found] = {}
        self.machine = ""
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                self._take(json.loads(line))

    def add(self, key: str, found: Found) -> None:
        """Keep a result."""
        self._keep({"key": key, "found": found})

    def name(self, machine: str) -> None:
        """Keep the description of the machine."""
        if machine != self.machine:
            self._keep({"machine": machine})

    def _keep(self, entry: dict[str, Any]) -> None:
        with self._file.open("a") as file:
            print(json.dumps(entry), file=file)
        self._take(entry)

    def _take(self, entry: dict[str, Any]) -> None:
        self.machine = entry.get("machine", self.machine)
        if "key" in entry:
            self.found[entry["key"]] = entry["found"]


def options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="parts of rows' names")
    parser.add_argument(
        "--machine",
        default=HERE,
        help="KERNEL:CPUS for an emulated one: 6.1, 6.12 or newest, and 2, 8 or 16  [this one]",
    )
    parser.add_argument("--before", metavar="REV", help="a commit whose agent is measured, too")
    parser.add_argument("--runs", type=int, default=3, help="measurements of which medians count")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--quick", action="store_true", help="a few rows, once, in three minutes")
    parser.add_argument("--small", action="store_true", help="a part of the rows")
    parser.add_argument(
        "--gentle",
        action="store_true",
        help="leave other programs their part of this machine, which disturb the measurement then",
    )
    parser.add_argument("--results", type=Path, default=KEPT, help="folder  [%(default)s]")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser.parse_args()


def rows_of(asked: argparse.Namespace, machine: Machine) -> list[Row]:
    """Return the rows that are asked for."""
    rows = [row for row in ROWS if row.cpus == machine.cpus]
    if asked.rows:
        return [row for row in rows if any(part in row.name for part in asked.rows)]
    if asked.quick:
        return [row for row in rows if row.size == "quick"]
    if asked.small:
        return [row for row in rows if row.size in {"quick", "small"}]
    return [row for row in rows if row.size != "more"]


def rivals_of(asked: argparse.Namespace, folder: Path) -> dict[str, Rival]:
    """Copy the checkouts that are compared into a folder, and return the ways to divide."""
    ours = copy_checkout(folder / "this")
    rivals = {PLAIN: Rival(way="weights", path=ours["path"]), THIS: ours}
    if asked.before:
        rivals[BEFORE] = copy_checkout(folder / "before", asked.before)
    return rivals


def plan(asked: argparse.Namespace, rows: Sequence[Row], rivals: dict[str, Rival]) -> list[Planned]:
    """Return all measurements in order, with the keys of their results."""
    code = {
        name: "" if name == PLAIN else fingerprint(*sorted(Path(rival["path"][0]).rglob("*.py")))
        for name, rival in rivals.items()
    }
    load = fingerprint(Path(__file__).parent / "holding" / SOURCE)
    planned = []
    for row in rows:
        settle, window = (10.0, 10.0) if asked.quick else (row.settle, row.window)
        for run in range(1 if asked.quick else asked.runs):
            for name in rivals:
                of = repr((row.pods, settle, window, asked.gentle, load, code[name], run))
                key = f"{row.name}, {name}: {hashlib.sha256(of.encode()).hexdigest()[:12]}"
                planned.append(Planned(row, name, run, settle, window, key))
    return planned


def measure_all(
    order: Order, machine: Machine, planned: Sequence[Planned], results: Results, folder: Path
) -> None:
    """Measure what has no result yet; a machine that fails is started again.

    Raises:
        MachineError: It failed several times without a result in between.
    """
    failures = 0
    while left := [each for each in planned if each.key not in results.found]:
        had = len(results.found)
        try:
            _measure(order, machine, left, results, folder)
        except MachineError as error:
            failures = 1 if len(results.found) > had else failures + 1
            if failures == TRIES:
                raise
            print(f"{error}; trying again", file=sys.stderr)


def _measure(
    order: Order, machine: Machine, left: Sequence[Planned], results: Results, folder: Path
) -> None:
    """Measure in one start of the machine, and keep each result as it comes."""
    order["measurements"] = [each.asked() for each in left]
    coming = iter(enumerate(left, 1))
    for line in carry_out(machine, folder, order):
        if "machine" in line:
            results.name(line["machine"])
        elif "begun" in line:
            number, current = next(coming)
            minutes = _seconds(left[number - 1 :]) / 60
            what = f"{current.row.name} | {current.rival} | run {current.run + 1}"
            print(f"{number}/{len(left)} {what} | {minutes:.0f} min left", file=sys.stderr)
        else:
            results.add(current.key, line["found"])


def _seconds(planned: Sequence[Planned]) -> float:
    return sum(each.settle + each.window + BETWEEN for each in planned)


def outcomes(planned: Sequence[Planned], results: Results) -> dict[str, dict[str, Outcome]]:
    """Return the outcomes by names of row and way."""
    runs: dict[tuple[str, str], list[Found]] = {}
    rows = {each.row.name: each.row for each in planned}
    for each in planned:
        runs.setdefault((each.row.name, each.rival), []).append(results.found[each.key])
    by_row: dict[str, dict[str, Outcome]] = {}
    for (row, rival), found in runs.items():
        by_row.setdefault(row, {})[rival] = outcome(rows[row], found)
    return by_row


COLUMNS = {
    "error, %": ("error", ".1f"),
    "worst 5 s, %": ("swing", ".1f"),
    "CPUs": ("cpus", ".2f"),
    "outside": ("outside", ".2f"),
    "steady": ("steady", ".3f"),
    "p50, ms": ("p50", ".1f"),
    "p99, ms": ("p99", ".1f"),
    "writes/s": ("writes", ".2f"),
    "fsyncs/s": ("fsyncs", ".2f"),
    "agent, %": ("agent", ".2f"),
}


def as_table(title: str, by_row: dict[str, dict[str, Outcome]]) -> Table:
    """Return a table with a line for each way of each row."""
    table = Table("", "way", title=title, title_justify="left")
    for column in (*COLUMNS, "work"):
        table.add_column(column, justify="right", no_wrap=True)
    for row, ways in by_row.items():
        for way, found in ways.items():
            figures = (getattr(found, field) for field, _ in COLUMNS.values())
            formats = (form for _, form in COLUMNS.values())
            cells = [
                "" if f is None else f"{f:{form}}" for f, form in zip(figures, formats, strict=True)
            ]
            work = f"{found.work / ways[PLAIN].work:.2f}"
            table.add_row(row if way == PLAIN else "", way, *cells, work)
        table.add_section()
    return table


def main() -> int:
    """Measure, print, and return the exit status."""
    asked = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left
    try:
        machine = Machine.parse(asked.machine)
    except ValueError:
        print(f"--machine {asked.machine}: not KERNEL:CPUS, such as 6.12:8", file=sys.stderr)
        return 2
    rows = rows_of(asked, machine)
    if not rows:
        print(f"no row for {machine.cpus} CPUs with this name", file=sys.stderr)
        return 2
    results = Results(asked.results, machine, fresh=asked.fresh)
    try:
        with tempfile.TemporaryDirectory(prefix="walras-held-") as temporary:
            planned = judge(asked, machine, rows, results, Path(temporary))
    except (MachineError, CompilerError) as error:
        print(error, file=sys.stderr)
        return 2
    by_row = outcomes(planned, results)
    misses = [miss for row in rows for miss in missed(row, by_row[row.name], machine.kernel)]
    disturbances = [each for row in rows for each in disturbed(row, by_row[row.name])]
    show(asked.output, results.machine, by_row, misses)
    for each in disturbances:
        print(f"disturbed: {each}", file=sys.stderr)
    return 1 if misses else 0


def judge(
    asked: argparse.Namespace, machine: Machine, rows: Sequence[Row], results: Results, folder: Path
) -> list[Planned]:
    """Measure all rows, on copies in a folder, and return what was measured."""
    copy_program(folder)
    compile_programs(folder / "holding" / SOURCE, folder / "load")
    rivals = rivals_of(asked, folder)
    planned = plan(asked, rows, rivals)
    left = [each for each in planned if each.key not in results.found]
    minutes = _seconds(left) / 60
    print(f"{len(left)} of {len(planned)} to measure: {minutes:.0f} minutes", file=sys.stderr)
    if minutes > MOST_MINUTES:
        print(
            f"That is more than {MOST_MINUTES}: --small, --runs or names of rows", file=sys.stderr
        )
    order = Order(load=str(folder / "load"), gentle=asked.gentle, rivals=rivals, measurements=[])
    measure_all(order, machine, planned, results, folder)
    return planned


def show(
    form: str, machine: str, by_row: dict[str, dict[str, Outcome]], misses: Sequence[str]
) -> None:
    """Print the outcomes as a table or as JSON."""
    if form == "json":
        rows = {
            row: {way: dataclasses.asdict(found) for way, found in ways.items()}
            for row, ways in by_row.items()
        }
        print(json.dumps({"machine": machine, "rows": rows, "missed": misses}, indent=2))
        return
    Console(width=150).print(as_table(machine, by_row))
    for miss in misses:
        print(f"missed: {miss}")


if __name__ == "__main__":
    sys.exit(main())
