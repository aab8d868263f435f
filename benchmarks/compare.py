"""Compare the benchmarks of an earlier commit with those of this checkout, by turns.

    python benchmarks/compare.py COMMIT [BENCHMARK ...]

Each side runs its own benchmarks with its own code, the earlier one in a temporary worktree, and
cases are matched by name. Peers are left out. Sides alternate, so that a busy neighbour slows both,
and the least of the medians counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("core", "api", "service", "node-agent", "operator", "profiler", "view", "cli")
BENCHMARKS = (
    "amdahl_market",
    "amdahl_rivals",
    "karma",
    "price_anticipating",
    "abacus",
    "operator_decision",
)

Times = dict[str, float]
"""Milliseconds of each case, by name."""


def harness_cases(benchmark: Path) -> Times:
    """Return the median time of each case of a benchmark that calls `harness.run`."""
    sys.path.insert(0, str(benchmark.parent))
    import harness  # that of the benchmark's own commit

    times: Times = {}

    def run(title: str, cases: Iterable[harness.Case]) -> bool:  # noqa: ARG001
        times.update((each.name, harness.median(each.ours)) for each in cases)
        return True

    harness.run = run
    sys.argv = [str(benchmark)]
    gc.disable()  # as the operator does while it decides
    runpy.run_path(str(benchmark), run_name="__main__")
    return times


def market_cases(benchmark: Path) -> Times:
    """Return the median time for each size of the Amdahl market, and that of a first decision."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        options = ("--peer-repeat=1", f"--json={results}")
        subprocess.run(
            [sys.executable, str(benchmark), *options], check=True, stdout=subprocess.DEVNULL
        )
        read: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
    times = {"first decision of a process": 1e3 * read["first"]["a new process"]["first"]}
    for case in read["cases"]:
        totals = [each["prepare"] + each["solve"] + each["round"] for each in case["ours"]]
        times[f"{case['jobs']:,} jobs, whole cores"] = 1e3 * statistics.median(totals)
    return times


def measure(tree: Path, name: str) -> Times:
    """Run a benchmark of a checkout in a process of its own; return the time of each case."""
    paths = os.pathsep.join(str(tree / package) for package in PACKAGES)
    benchmark = tree / "benchmarks" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, __file__, "--measure", str(benchmark)],
        check=True,
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
    )
    times: Times = json.loads(done.stdout.splitlines()[-1])
    return times


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """Check out a commit in a temporary folder."""
    git = ("git", "-C", str(ROOT), "worktree")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "walras"
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        if (compiler := tree / "tools" / "compile_kernels.py").exists():
            subprocess.run([sys.executable, str(compiler)], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def least(former: Times, times: Times) -> Times:
    """Return the smaller time of each case."""
    return {name: min(each, former.get(name, each)) for name, each in times.items()}


def compare(before: Path, names: Iterable[str], turns: int) -> None:
    """Measure benchmarks of two checkouts by turns, and print a table of each."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    for name in names:
        earlier, now = Times(), Times()
        for _ in range(turns):
            earlier = least(earlier, measure(before, name))
            now = least(now, measure(ROOT, name))
        table = Table("", title=name, title_justify="left")
        for column in ("before", "now", "before / now"):
            table.add_column(column, justify="right", no_wrap=True)
        for case in dict.fromkeys((*earlier, *now)):
            pair = earlier.get(case), now.get(case)
            cells = ["" if each is None else f"{each:.3g} ms" for each in pair]
            ratio = "" if None in pair else f"{earlier[case] / now[case]:.2f}"
            table.add_row(case, *cells, ratio)
        console.print(table)


def main() -> None:
    """Compare, or, in a process that `measure` starts, run one benchmark and print its times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", help="commit to compare with")
    parser.add_argument("benchmarks", nargs="*", default=BENCHMARKS, help="names of benchmarks")
    parser.add_argument("--turns", type=int, default=3, help="runs of each benchmark on each side")
    arguments = parser.parse_args()
    with worktree(arguments.commit) as before:
        compare(before, arguments.benchmarks, arguments.turns)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        chosen = Path(sys.argv[2])
        run = market_cases if chosen.stem == "amdahl_market" else harness_cases
        print(json.dumps(run(chosen)))
    else:
        main()
