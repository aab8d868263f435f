"""How a local run goes, on standard error: a live table on a terminal, else a line an event."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from walras_cli.local.state import FractionSource, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras_cli.local.loop import View
    from walras_cli.local.state import JobState

RECENT = 5
REFRESH_SECONDS = 0.5


class Lines:
    """Writes every event as a line."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def event(self, now: float, text: str) -> None:
        """Write one line."""
        self._console.print(f"[{now:6.1f} s] {text}", markup=False, highlight=False, soft_wrap=True)

    def refresh(self, now: float, jobs: Mapping[str, JobState]) -> None:
        """Lines do not move."""


class Screen:
    """Draws a table of the jobs and the latest events, over and over."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._events: list[str] = []
        self._drawn = -REFRESH_SECONDS

    def event(self, now: float, text: str) -> None:
        """Put one line under the table."""
        self._events = [*self._events, f"{now:6.1f} s  {text}"][-RECENT:]

    def refresh(self, now: float, jobs: Mapping[str, JobState]) -> None:
        """Draw, if the last time is long enough ago."""
        if now - self._drawn < REFRESH_SECONDS:
            return
        self._drawn = now
        events = Text("\n".join(self._events), style="dim")
        self._live.update(Group(_jobs_table(now, jobs), events))


@contextmanager
def open_view(console: Console) -> Iterator[View]:
    """Choose by what standard error is."""
    if not console.is_terminal:
        yield Lines(console)
        return
    with Live(console=console, transient=True, auto_refresh=True, refresh_per_second=4) as live:
        yield Screen(live)


def _jobs_table(now: float, jobs: Mapping[str, JobState]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("job", "user", "state", "F", "cores", "CPUs", "CPU s", "elapsed", "progress"):
        table.add_column(column, justify="left" if column in {"job", "user", "state"} else "right")
    for state in jobs.values():
        alone = state.seconds_alone
        done = 1.0 if state.phase is Phase.DONE else 0.0
        if alone is not None and state.phase is Phase.RUNNING:
            done = min(0.99, state.progress_seconds / alone)
        table.add_row(
            state.job.title,
            state.job.spec.entitlement,
            state.phase.value,
            f"{state.fraction:.3f}" + ("?" if state.source is FractionSource.ASSUMED else ""),
            f"{state.held:.2f}",
            str(state.cpus) if state.cpus is not None else "",
            f"{state.cpu_seconds:.1f}",
            f"{state.elapsed(now):.1f}" if state.phase is not Phase.WAITING else "",
            ProgressBar(total=1.0, completed=done, width=20),
        )
    return table
