"""Measure the time from a changed Entitlement to a container's cpuset, on a real node.

The operator's debounce is included. The benchmark needs root and the prerequisites of the tests on
a node (tests/e2e/conftest.py). It installs Walras by its chart next to four programs, and removes
it at the end.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from cluster_tools import Node, api, apply
from installed import Installed
from shared_node import entitlement, job
from waiting import eventually

if TYPE_CHECKING:
    from shared_node import Shared

TARGET_MS = 2_000
CHANGES = 20
ENTITLEMENT = "/apis/walras.dev/v1alpha1/entitlements/speech"


def main() -> None:
    """Change an entitlement back and forth, and print the times."""
    with tempfile.TemporaryDirectory() as folder:
        installed = Installed(Path(folder), Node())
        try:
            installed.install()
            apply(entitlement("vision", 3), entitlement("speech", 1))
            apply(job("vision", "train", work="2"), job("vision", "index"))
            apply(job("speech", "decode", work="2"), job("speech", "align"))
            settle(installed.shared)
            times = [change(installed.shared, (27, 1)[turn % 2]) for turn in range(CHANGES)]
        finally:
            installed.close()
    print_table(times)


def settle(shared: Shared) -> None:
    """Wait until all grants are enforced."""
    if not eventually(lambda: not shared.amiss(), 180, pause=0.1):
        sys.exit(f"grants are not enforced in time: {shared.amiss()}")


def change(shared: Shared, shares: int) -> float:
    """Change the entitlement; return the milliseconds until a cpuset changes."""
    before = shared.cpus()
    groups = shared.groups()
    began = time.perf_counter()
    api().call("PATCH", ENTITLEMENT, {"spec": {"shares": shares}})
    cpus = shared.node.cgroups.cpus
    while all(cpus(group) == before[program] for program, group in groups.items()):
        time.sleep(0.001)
    took = 1e3 * (time.perf_counter() - began)
    settle(shared)
    return took


def print_table(times: list[float]) -> None:
    """Print a table of the times."""
    table = Table(title=f"on {os.cpu_count()} CPUs, Linux {platform.release()}")
    for heading in ("Entitlement to cpuset", "median ms", "worst ms", "target ms"):
        table.add_column(heading, justify="left" if "to" in heading else "right")
    middle, worst = statistics.median(times), max(times)
    table.add_row(f"{len(times)} changes", f"{middle:.0f}", f"{worst:.0f}", f"{TARGET_MS}")
    Console().print(table)


if __name__ == "__main__":
    main()
