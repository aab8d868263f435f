"""`walras profile`: options to a campaign, a campaign to a report; all else is the profiler's."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from walras_api.contract import MOST_REPEATS
from walras_cli.options import output_option
from walras_service.failures import BadInput, Failure, Interrupted

if TYPE_CHECKING:
    from walras_profiler.campaign import Measurement, Runner, Trial, TrialObserver
    from walras_profiler.profile_tables import ProfileReport
    from walras_profiler.session import ProfileRequest

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@click.command(
    short_help="Measure how a program's run time depends on cores and data size.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--cores", metavar="LIST", help="Core counts, including 1. [default: 1,2,4,... and all]"
)
@click.option("--sizes", metavar="LIST", help="Data sizes, such as 10%,20%,50% or 1000,2000.")
@click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(1, MOST_REPEATS),
    default=3,
    show_default=True,
    help="Runs at each core count and data size.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A folder or text file; {data} is the path of a random sample of its files or lines.",
)
@click.option("--image", metavar="IMAGE", help="Run the command in a container of this image.")
@click.option("--network", metavar="MODE", help="The container's network mode. [default: none]")
@click.option(
    "--pin",
    type=click.Choice(["auto", "cgroup", "affinity"]),
    help="How to pin runs to their cores. [default: auto: cgroup if permitted, else affinity]",
)
@click.option(
    "--name", metavar="NAME", help="metadata.name of the document. [default: the program's name]"
)
@click.option(
    "--namespace",
    metavar="NS",
    default="default",
    show_default=True,
    help="metadata.namespace of the document.",
)
@output_option("Output format; json and yaml print a SpeedupProfile document.")
@click.option(
    "--plot/--no-plot", default=None, help="Draw the speedup curve. [default: with -o table]"
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed for samples and the order of runs."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of each run.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def profile(
    *,
    command: tuple[str, ...],
    name: str | None,
    namespace: str,
    output: str,
    plot: bool | None,
    **options: Any,
) -> None:
    """Measure how COMMAND's run time depends on cores and data size.

    Runs COMMAND at several core counts and data sizes, pinned to its cores from the first
    instruction, and fits the parallel fraction F of Amdahl's law: at F = 0, more cores bring
    nothing; at F = 1, twice the cores halve the run time.

    In COMMAND, {threads} and {cores} stand for the run's numbers of CPUs and cores, {percent}
    and {fraction} for its data size (10, 0.1), {size} for a data size given as a number,
    and {data} for the path of a random sample of --data. COMMAND runs without a shell.

    \b
    Examples:
      walras profile -- sort --parallel={threads} big.txt
      walras profile --cores 1,2,4 --repeat 5 -- ./simulate -t {threads}
      walras profile --sizes 10%,20%,30%,50% --data images/ -- ./train {data}
      walras profile --sizes 1000,2000,4000 -- ./solve --n {size}
      walras profile --image registry/app:1 -- app --threads {threads}
      walras profile -o yaml --name solve -- ./solve > solve.yaml

    Exit codes: 0 success, 1 COMMAND or the measurement failed, 2 invalid input, 130 interrupted.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    from walras_profiler.session import ProfileRequest

    request = ProfileRequest(argv=command, **options)
    title = name or default_name(request.image or (command[0] if command else ""))
    check_names(title, namespace)
    drawn = output == "table" if plot is None else plot
    if drawn:  # before anything is measured, since its library may be missing
        from walras_profiler.speedup_plot import speedup_plot
    report = measure(request)
    if output == "table":
        from walras_cli.output import console_of
        from walras_profiler.profile_tables import render

        console_of().print(render(report))
    else:
        write_document(report, title, namespace, output)
    if drawn:
        click.echo("\n" + speedup_plot(report.fit), err=output != "table")


def measure(request: "ProfileRequest") -> "ProfileReport":
    """Carry the request out, with its progress on standard error.

    Raises:
        Failure: Bad input, or a run that failed.
    """
    from walras_agent.topology import Topology
    from walras_profiler.campaign import MeasurementError
    from walras_profiler.session import RequestError, carry_out, prepare

    try:
        return carry_out(prepare(request, Topology.read()), CampaignProgress())
    except RequestError as error:
        raise BadInput(str(error)) from error
    except MeasurementError as error:
        raise Failure(str(error)) from error
    except KeyboardInterrupt:
        raise Interrupted("interrupted; all runs were stopped and cleaned up") from None


class CampaignProgress:
    """How a campaign goes, on standard error: a bar on a terminal, a line per run elsewhere."""

    @contextmanager
    def begin(self, runner: "Runner", runs: int) -> Iterator["TrialObserver"]:
        """Say how runs are held to their cores, then report each run."""
        click.echo(f"Runs are pinned to their cores by {runner.description}.", err=True)
        for note in runner.notes:
            click.echo(f"Note: {note}.", err=True)
        if not sys.stderr.isatty():
            yield _print_line
            return
        from rich.progress import Progress as Bar

        from walras_cli.output import console_of

        with Bar(console=console_of(stderr=True), transient=True) as bar:
            task = bar.add_task("warm-up", total=runs)

            def show(trial: "Trial", measurement: "Measurement | None") -> None:
                bar.update(task, description=str(trial), advance=0 if measurement is None else 1)

            yield show


def _print_line(trial: "Trial", measurement: "Measurement | None") -> None:
    if measurement is not None:
        run = f"run {trial.repeat}" if trial.repeat else "warm-up"
        click.echo(f"{trial}, {run}: {measurement.seconds:.3f} s", err=True)


def write_document(report: "ProfileReport", name: str, namespace: str, form: str) -> None:
    """Write the SpeedupProfile document to standard output as JSON or YAML."""
    from walras_cli.output import encoded
    from walras_profiler.document import profile_document

    document = profile_document(name, namespace, report.measurements, report.fit, report.findings)
    click.echo(encoded(document, form), nl=False)


def default_name(program: str) -> str:
    """A valid object name after a program or an image."""
    base = program.rsplit("/", maxsplit=1)[-1].partition(":")[0].lower()
    return re.sub(r"[^a-z0-9.-]+", "-", base)[:63].strip("-.") or "profile"


def check_names(name: str, namespace: str) -> None:
    """Refuse names that Kubernetes would refuse.

    Raises:
        Failure: Not a DNS subdomain (name) or label (namespace), RFC 1123.
    """
    if not _NAME.fullmatch(name):
        raise BadInput(f"--name {name!r}: use only lowercase letters, digits, '-' and '.'")
    if not _NAMESPACE.fullmatch(namespace):
        raise BadInput(f"--namespace {namespace!r}: use only lowercase letters, digits and '-'")
