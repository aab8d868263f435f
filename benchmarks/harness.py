"""Time cases and their peers on one CPU with one thread, and print a table.

A case is a function of ours and, if there is one, a peer that solves the same problem in the same
process. The first call of ours loads what it needs, and is not counted; further ones are repeated
for about a second, and their median counts. A peer is timed once.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PATIENCE_SECONDS = 1.0
LEAST_RUNS = 5


@dataclass(frozen=True)
class Case:
    """A problem of a certain size.

    Attributes:
        name: Problem and size.
        target_ms: Most milliseconds for ours, on one core of about 2.5 GHz.
        ours: Function that solves the problem once.
        peer_name: Name of the peer; empty if there is none.
        peer: Peer's function, which solves the same problem once; None if there is no peer.
        warm_peer: Whether the peer runs once before it is timed.
    """

    name: str
    target_ms: float
    ours: Callable[[], object]
    peer_name: str = ""
    peer: Callable[[], object] | None = None
    warm_peer: bool = False


def one_thread() -> None:
    """Pin this process to one CPU and one thread; call this before NumPy is imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def milliseconds(action: Callable[[], object]) -> float:
    """Return the wall time of one call, in milliseconds."""
    begin = time.perf_counter()
    action()
    return 1e3 * (time.perf_counter() - begin)


def median(action: Callable[[], object]) -> float:
    """Return the median milliseconds of several calls, after one that is not counted."""
    action()
    times = [milliseconds(action) for _ in range(LEAST_RUNS)]
    while sum(times) < 1e3 * PATIENCE_SECONDS and len(times) < 1000:
        times.append(milliseconds(action))
    return statistics.median(times)


def run(title: str, cases: Iterable[Case]) -> bool:
    """Measure all cases, print a table, and return whether all cases meet their targets."""
    table = Table("", title=title, title_justify="left")
    for column in ("ours, median", "target", "peer", "peer's time", "peer / ours"):
        table.add_column(column, justify="right", no_wrap=True)
    met = True
    for case in cases:
        ours = median(case.ours)
        met = met and ours <= case.target_ms
        table.add_row(case.name, f"{ours:.3g} ms", f"{case.target_ms:g} ms", *_peer(case, ours))
    Console(width=120).print(table)
    return met


def _peer(case: Case, ours: float) -> tuple[str, str, str]:
    if case.peer is None:
        return "", "", ""
    if case.warm_peer:
        case.peer()
    theirs = milliseconds(case.peer)
    return case.peer_name, f"{theirs:.3g} ms", f"{theirs / ours:.3g}"
