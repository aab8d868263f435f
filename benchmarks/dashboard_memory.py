"""Measure the memory of the dashboard in a cluster, by the number of its viewers.

Each viewer sees the same 1 000 nodes and 10 000 jobs by watches of its own. The API server is a
simulated one in another process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
from kubernetes.client import Configuration
from rich.console import Console
from rich.table import Table
from starlette.requests import Request

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from walras_dashboard.in_cluster import ClusterViewers, TokenIdentities, connections

VIEWERS = 8
NODES, JOBS = 1_000, 10_000

SERVER = f"""
import sys
from dashboard_clusters import large
from played_api import PlayedApi
print(PlayedApi(large({NODES}, {JOBS})).url, flush=True)
sys.stdin.read()
"""


def mebibytes() -> int:
    """Return the resident memory of this process, in MiB."""
    return round(psutil.Process().memory_info().rss / 2**20)


def measure(url: str) -> list[tuple[str, int]]:
    """Return what was done and the memory afterwards, line by line."""
    viewers = ClusterViewers(TokenIdentities(), connections(Configuration(host=url), "default"))
    found = [("no viewer", mebibytes())]
    for number in range(1, VIEWERS + 1):
        token = f"Bearer viewer-{number}".encode()
        request = Request({"type": "http", "headers": [(b"authorization", token)]})
        source = viewers.viewer(request).source
        jobs = source.state().facts.jobs
        if len(jobs) != JOBS:
            raise SystemExit(f"viewer {number} sees {len(jobs)} jobs instead of {JOBS}")
        time.sleep(2)  # the watches start, and repeat what the lists said
        found.append((f"{number} viewer{'s' * (number > 1)}", mebibytes()))
    source.world()
    found.append(("one of them tries what-ifs", mebibytes()))
    return found


def main() -> None:
    """Start the API server, measure, and print a table."""
    support = str(Path(__file__).parents[1] / "tests" / "support")
    known = os.environ | {"PYTHONPATH": os.pathsep.join([support, *sys.path])}
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env=known,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = "" if server.stdout is None else server.stdout.readline().strip()
        title = f"Memory of the dashboard: {NODES} nodes, {JOBS} jobs"
        table = Table("", "MiB", title=title, title_justify="left")
        for what, amount in measure(address):
            table.add_row(what, str(amount))
        Console(width=100).print(table)
    finally:
        server.kill()
    os._exit(0)  # the threads of the watches never end


if __name__ == "__main__":
    main()
