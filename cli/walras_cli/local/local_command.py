"""``walras local run``: options to a run, a run to a report; all else is the modules' beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from walras_cli.options import Form, output_option
from walras_service.failures import BadInput, Failure, Interrupted
from walras_service.signals import handling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from rich.console import Console

    from walras_cli.local.documents import FileWatch, LocalMarket
    from walras_cli.local.host import Pin, SoldCpus
    from walras_cli.local.loop import Loop
    from walras_cli.local.measure import Measured, Measurements


THIS_PROGRAM = (sys.executable, "-P", "-m", "walras_cli")
"""Command that starts ``walras``; without ``-P``, it would run modules of the current folder."""


@click.group()
def local() -> None:
    """Run a market on this machine, without a cluster."""


@local.command(short_help="Run the jobs of FILE... on this machine, under a market.")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE..."
)
@click.option(
    "--pin",
    type=click.Choice(["auto", "cgroup", "affinity"]),
    default="auto",
    show_default=True,
    help="How to pin jobs to their CPUs; auto uses cgroups if permitted, else affinity.",
)
@click.option("--compare", is_flag=True, help="Run all jobs again under proportional sharing.")
@click.option("--keep-going", is_flag=True, help="Continue the other jobs when one fails.")
@click.option(
    "--logs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the jobs' output in this folder. [default: discard it at the end]",
)
@click.option(
    "--save-profiles",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Save reliable measured SpeedupProfiles; pass FILE to the next run to skip measuring.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Keep a record of the run in FILE, for `walras dashboard -f FILE`.",
)
@click.option(
    "--dashboard", is_flag=True, help="Show the run in the browser while it goes on; prints a URL."
)
@output_option()
def run(
    *,
    files: tuple[Path, ...],
    pin: Pin,
    compare: bool,
    keep_going: bool,
    logs: Path | None,
    save_profiles: Path | None,
    record: Path | None,
    dashboard: bool,
    output: Form,
) -> None:
    """Run the jobs of FILE... on this machine and divide its cores by the market.

    The files contain Entitlement, MarketJob and Market documents, as for a cluster, but each
    MarketJob has a command. Jobs without a known speedup are first profiled on parts of their data,
    and once more if the machine was busy or the runs were too short; if that does not help, their
    speedup is assumed. Then all jobs start, pinned to the cores that the market gives them. The
    market is cleared again when a job ends, when a file changes (jobs may be added, removed or
    edited), and at the latest after epochSeconds of the Market (30 by default).

    The report shows each user's entitlement and cores, predicted and measured speedups, and run
    times under proportional sharing (predicted, or measured with --compare).

    \b
    Examples:
      walras local run examples/one-machine/market.yaml
      walras local run --compare -o json market.yaml jobs/*.yaml
      walras local run --dashboard market.yaml
      walras local run --save-profiles profiles.yaml market.yaml
      walras local run market.yaml profiles.yaml

    Exit codes: 0 all jobs succeeded, 1 a job or its profiling failed, 2 invalid input,
    130 interrupted. No process or cgroup of a job is left behind in any case, except, with CPU
    affinity, a process that has left its parent, session and environment at once.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    from walras_agent.local.placement import PlacementError
    from walras_cli.documents import InputError
    from walras_cli.local.documents import FileWatch, load
    from walras_cli.local.loop import JobFailedError
    from walras_cli.local.profiling import profile_missing
    from walras_cli.output import console_of, say

    errors = console_of(stderr=True)
    try:
        with _termination_as_interrupt():
            watch = FileWatch(files)
            market = load(files)
            _check_outputs(logs, save_profiles)
            sold = _sold(market, files)
            _check_least(market, sold)
            measured = profile_missing(market, sold, pin, errors)
            if measured.made and save_profiles is not None:  # whatever becomes of the run
                _save(market, measured.made, save_profiles, errors)
            with _recorded(record, show=dashboard) as file:
                loop, placement = _run(
                    market,
                    sold,
                    pin,
                    errors,
                    measured,
                    watch=watch,
                    logs=logs,
                    keep_going=keep_going,
                    record=file,
                )
            rival = _run_rival(loop, pin, errors, measured) if compare else None
    except InputError as error:
        raise BadInput(*error.problems) from error
    except JobFailedError as error:
        raise Failure(str(error)) from error
    except PlacementError as error:
        raise BadInput(f"--pin {pin}: {error}") from error
    except KeyboardInterrupt:
        raise Interrupted("interrupted; all jobs were stopped and cleaned up") from None
    _report(loop, placement, rival, output)
    if save_profiles is not None:
        during = [state.measured for state in loop.jobs.values() if state.measured is not None]
        _save(loop.market, [*measured.made, *during], save_profiles, errors)
    if record is not None:
        say(errors, f"to see the run in the browser: {_program()} dashboard -f {record}")
    failed = [state.job.title for state in loop.jobs.values() if state.phase.value == "failed"]
    if failed:
        raise Failure(f"failed: {', '.join(failed)}; the errors are above")


def _check_outputs(logs: Path | None, save_profiles: Path | None) -> None:
    """Refuse folders that cannot be written before jobs run for hours.

    Raises:
        BadInput: A folder cannot be made, or is missing.
    """
    if logs is not None:
        try:
            logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"--logs {logs}: cannot be made: {error.strerror}") from error
    if save_profiles is not None and not os.access(save_profiles.parent, os.W_OK):
        raise BadInput(f"--save-profiles {save_profiles}: its folder cannot be written; make it")
    if save_profiles is not None and save_profiles.is_symlink():
        raise BadInput(f"--save-profiles {save_profiles}: is a link; name the file itself")


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Make SIGTERM and SIGHUP (unless nohup ignores it) end the run cleanly, as Ctrl-C does."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    ends = (signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in ends if signal.getsignal(number) != signal.SIG_IGN]
    with handling(interrupt, *heard):
        yield


def _program() -> str:
    """Return how this program was called, if by a relative path: it may not be on the PATH then."""
    called = Path(sys.argv[0])
    return "walras" if called.is_absolute() or len(called.parts) == 1 else str(called)


@contextmanager
def _recorded(record: Path | None, *, show: bool) -> Iterator[Path | None]:
    """Find a file for the record, if there is to be one, and let a dashboard follow it.

    The dashboard is a process of its own, so that it cannot delay the run.
    """
    if not show:
        yield record
        return
    with tempfile.TemporaryDirectory(prefix="walras-record-") as folder:
        file = record or Path(folder) / "run.json"
        with suppress(OSError):  # the run says that it cannot write it
            file.parent.mkdir(parents=True, exist_ok=True)
        options = ["--follow", "-f", str(file), "--port", "0"]
        shown = subprocess.Popen([*THIS_PROGRAM, "dashboard", *options])
        try:
            yield file
        finally:
            shown.terminate()
            shown.wait()


def _sold(market: LocalMarket, files: Sequence[Path]) -> SoldCpus:
    from walras_agent.topology import Topology
    from walras_cli.documents import InputError
    from walras_cli.local.host import SoldCpus

    try:
        return SoldCpus.of(Topology.read(), market.rules.cores)
    except ValueError as error:
        names = ", ".join(map(str, files))
        raise InputError([f"{names}: Market default: {error}"]) from error


def _check_least(market: LocalMarket, sold: SoldCpus) -> None:
    """Refuse jobs that need more cores than there are.

    Raises:
        InputError: Lists them.
    """
    from walras_cli.documents import InputError

    most = len(sold.units)
    if problems := [
        f"{job.origin}: spec.minCores: is {job.spec.min_cores}; this machine sells {most} "
        f"{sold.unit}(s), so it could never start; lower it"
        for job in market.jobs
        if (job.spec.min_cores or 0) > most
    ]:
        raise InputError(problems)


def _run(
    market: LocalMarket,
    sold: SoldCpus,
    pin: Pin,
    console: Console,
    measured: Measurements,
    *,
    watch: FileWatch | None,
    logs: Path | None,
    keep_going: bool,
    record: Path | None = None,
) -> tuple[Loop, str]:
    from walras_cli.local.host import open_host
    from walras_cli.local.loop import Loop
    from walras_cli.local.state import JobState
    from walras_cli.local.view import open_view

    with open_host(sold, pin, logs) as host, open_view(console) as view:
        loop = Loop(market, host, view, pin, watch, keep_going)
        loop.jobs = {job.key: JobState.of(job) for job in market.jobs}
        for each in measured.made:
            if (state := loop.jobs.get(each.job.key)) is not None:  # else removed meanwhile
                state.take_measured(each)
        for key, problem in measured.held_up.items():
            if (state := loop.jobs.get(key)) is not None:
                state.take_failure(problem)
        if record is None:
            loop.run()
        else:
            from walras_cli.local.record import Recording

            recording = Recording(view, loop, record)
            loop.view = recording
            try:
                loop.run()
            finally:
                recording.close()
        return loop, host.description


def _run_rival(loop: Loop, pin: Pin, console: Console, measured: Measurements) -> dict[str, float]:
    """Run the jobs once more under proportional sharing; return their seconds by key."""
    from walras_cli.local.loop import under

    console.print("running the same jobs under proportional sharing:", highlight=False)
    market = under(loop.market, "ProportionalSharing")
    other, _ = _run(
        market, loop.sold, pin, console, measured, watch=None, logs=None, keep_going=loop.keep_going
    )
    return {key: state.elapsed(other.now) for key, state in other.jobs.items()}


def _save(market: LocalMarket, measured: Sequence[Measured], file: Path, console: Console) -> None:
    """Write all reliable profiles to a file, read and measured, and say which are left out."""
    import yaml

    from walras_cli.local.measure import saved
    from walras_cli.output import say

    text = yaml.safe_dump_all(saved(market.profiles, measured), sort_keys=False)
    try:
        # Another user may have made a link of this name in a shared folder meanwhile.
        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(file, "w", encoding="utf-8", opener=lambda path, _: os.open(path, write)) as into:
            into.write(text)
    except OSError as error:
        raise Failure(f"{file}: cannot be written: {error.strerror}") from error
    if unsaved := dict.fromkeys(each.job.title for each in measured if each.doubts):
        names = ", ".join(unsaved)
        say(console, f"{file}: has no profile of {names}, which the next run measures again")


def _report(
    loop: Loop,
    placement: str,
    rival: dict[str, float] | None,
    output: str,
) -> None:
    from walras_cli.local.run_report import document, render, result_of

    result = result_of(loop, placement, rival)
    if output == "table":
        from walras_cli.output import console_of

        console_of().print(render(result))
    else:
        from walras_cli.output import encoded

        click.echo(encoded(document(result), output), nl=False)
