"""Compare the Amdahl market, from arrays to whole cores, with the paper's own bidding.

Populations are drawn as in section VI of Zahedi, Llull and Lee (HPCA 2018). Ours and the peer are
both compiled, and run on the same population, in the same process, on one CPU with one thread.
`--json` writes all times to a file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

CASE = Path(__file__).with_name("amdahl_case.py")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
TARGETS = {8_000: 3.0, 80_000: 30.0, 1_000_000: 450.0}
"""Target milliseconds by number of jobs, on one core of 2.5 GHz, to a price error of 1e-6."""


def run_case(*arguments: str, **environment: str) -> Any:
    """Run one case in a new process, and return its JSON output."""
    command = [sys.executable, str(CASE), *arguments]
    done = subprocess.run(
        command,
        env={**os.environ, **ONE_THREAD, **environment},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def machine() -> dict[str, str]:
    """Return a description of this machine: CPU, clock if known, and versions."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    facts = {name: re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE) for name in _CPU_FACTS}
    known = {name: found[1] for name, found in facts.items() if found}
    return {
        "CPU": known.get("model name", platform.machine()),
        "CPU family, model": f"{known.get('cpu family', '?')}, {known.get('model', '?')}",
        "MHz now": known.get("cpu MHz", "unknown"),
        "CPUs": str(os.cpu_count()),
        "Python": platform.python_version(),
        "numpy": version("numpy"),
    }


_CPU_FACTS = ("model name", "cpu family", "model", "cpu MHz")


def load() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]


def totals(times: list[dict[str, float]]) -> list[float]:
    """Return the milliseconds of each whole decision."""
    return [1e3 * (each["prepare"] + each["solve"] + each["round"]) for each in times]


def summary(case: dict[str, Any]) -> dict[str, str]:
    """Return the column of a case, by row title."""
    ours, peer = totals(case["ours"]), totals(case["peer"])
    cpu = [each["cpu"] for each in case["ours"]]
    bidding = min(peer) - 1e3 * case["certificate"]
    target = TARGETS.get(case["jobs"])
    phases = (
        f"{1e3 * min(each[phase] for each in case['ours']):.2f}"
        for phase in ("prepare", "solve", "round")
    )
    return {
        "users = servers": f"{case['users']:,}",
        "ours, median": f"{statistics.median(ours):.2f} ms",
        "ours, least": f"{min(ours):.2f} ms",
        "ours, median CPU time": f"{1e3 * statistics.median(cpu):.2f} ms",
        "target": f"{target:g} ms" if target else "",
        "  prepare + solve + round": " + ".join(phases),
        "passes": str(case["passes"]),
        "price error, proven": f"{case['price_error']:.1e}",
        "memory, peak": f"{case['peak_memory'] / 2**20:.0f} MiB",
        "  of which before the market": f"{case['base_memory'] / 2**20:.0f} MiB",
        "bidding, least": f"{bidding:.1f} ms",
        "bidding, iterations": str(case["peer_iterations"]),
        "bidding, price error, proven": f"{case['peer_price_error']:.1e}",
        "bidding / ours (least)": f"{bidding / min(ours):.1f}",
    }


def split(case: dict[str, Any]) -> dict[str, str]:
    """Return the time of each part of our fastest decision, by row title."""
    parts = {name: 1e3 * seconds for name, seconds in case["split"].items()}
    users, servers = (case["passes"] * parts[name] for name in ("users", "servers"))
    inside = parts["alternate"]
    rest = inside - users - servers - parts["certify"]
    solve, prepare, rounding = (
        1e3 * min(each[phase] for each in case["ours"]) for phase in ("solve", "prepare", "round")
    )
    outside = solve - inside - parts["layout"] - parts["cores"]
    shares = {
        f"users answer prices, {case['passes']} x {parts['users']:.3f} ms": users,
        f"servers answer users, {case['passes']} x {parts['servers']:.3f} ms": servers,
        "repeated sweeps, acceleration, logarithms": rest,
        "one certificate": parts["certify"],
        "layout of the jobs by user and by server": parts["layout"],
        "cores of the jobs": parts["cores"],
        "rest of the solver, memory included": outside,
        "prepare (check and sort)": prepare,
        "round": rounding,
    }
    whole = sum(shares.values())
    return {name: f"{ms:.2f} ms, {ms / whole:.0%}" for name, ms in shares.items()}


def table(title: str, columns: dict[str, dict[str, str]]) -> Table:
    """Return a table of columns that have the same rows."""
    result = Table("", title=title, title_justify="left")
    for name in columns:
        result.add_column(name, justify="right")
    for row in next(iter(columns.values())):
        result.add_row(row, *(column[row] for column in columns.values()))
    return result


def first_decisions() -> dict[str, dict[str, float]]:
    """Return times of a process's first decision."""
    return {"a new process": run_case("--first")}


def report(result: dict[str, Any]) -> None:
    """Print tables of all results."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(
        ", ".join(f"{name} {value}" for name, value in result["machine"].items()), soft_wrap=True
    )
    console.print(
        f"load average {result['load'][0]:.1f} before and {result['load'][1]:.1f} after "
        f"on {result['machine']['CPUs']} CPUs; a quiet machine shows about 1 after"
    )
    cases = {f"{case['jobs']:,} jobs": case for case in result["cases"]}
    work = "log-normal work" if result["spread_work"] else "equal work"
    console.print(
        table(
            f"Amdahl market, {work}; arrays in, whole cores out, one thread",
            {name: summary(case) for name, case in cases.items()},
        )
    )
    for name, case in cases.items():
        console.print(table(f"{name}: where the time goes", {"least": split(case)}))
    first = {
        kind: {
            "import walras": f"{1e3 * times['package']:.1f} ms",
            "then clear and NumPy": f"{times['import']:.2f} s",
            "first decision": f"{times['first']:.2f} s",
            "second decision": f"{1e3 * times['second']:.1f} ms",
        }
        for kind, times in result["first"].items()
    }
    console.print(table("A new process; 24 jobs", first))


def main() -> None:
    """Measure all sizes, print tables, and write the results to a file if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=list(TARGETS), help="market sizes")
    parser.add_argument("--repeat", type=int, default=15, help="decisions of ours for each size")
    parser.add_argument(
        "--peer-repeat", type=int, default=3, help="decisions of the peer for each size"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the populations")
    parser.add_argument(
        "--spread-work",
        action="store_true",
        help="draw work log-normally; without it, all is 1",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to FILE")
    arguments = parser.parse_args()
    if min([*arguments.jobs, 8 * arguments.repeat, 8 * arguments.peer_repeat]) < 8:
        parser.error("--jobs must be at least 8, --repeat and --peer-repeat at least 1")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # children inherit it
    before = load()
    first = first_decisions()
    flags = ["--spread-work"] if arguments.spread_work else []
    numbers = {name: getattr(arguments, name) for name in ("repeat", "peer_repeat", "seed")}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in numbers.items()]
    result = {
        "machine": machine(),
        "spread_work": arguments.spread_work,
        "first": first,
        "cases": [run_case(f"--jobs={jobs}", *options, *flags) for jobs in arguments.jobs],
        "load": (before, load()),
    }
    report(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
