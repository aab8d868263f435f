"""Effects: the command ``walras-agent``: run, cluster, restore and show."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from walras_agent.daemon.agent import Agent, stop_on_signals
from walras_agent.daemon.cluster import cluster
from walras_agent.daemon.inotify import ChangeWaiter
from walras_agent.daemon.listeners import open_listeners
from walras_agent.daemon.node import NodeComponents
from walras_agent.daemon.options import cli_errors, node_options, run_options, state_option
from walras_agent.daemon.plans import PlanError, PlanFile, node_plan, read_plan
from walras_agent.daemon.show import inspect_node
from walras_agent.daemon.state import open_state
from walras_agent.journal import Journal
from walras_agent.open_file_tree import raise_file_limit
from walras_agent.restore import restore as restore_files
from walras_agent.topology import possible_cpus
from walras_api.contract import AGENT
from walras_service.failures import Failure

if TYPE_CHECKING:
    from walras_agent.daemon.node import HostPaths
    from walras_agent.daemon.options import RunOptions
    from walras_agent.daemon.report import ReconcileReport

EXIT_PENDING = 3
"""Exit code when something is still pending, and a later attempt may complete it."""


@click.group(name=AGENT, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="walras", prog_name=AGENT)
def main() -> None:
    """Enforce grants of cores and memory on the pods of this node.

    The agent writes cgroup files of containers: the CPUs that they may use, their CPU weights and
    quotas, and their memory limits. It keeps the original values on disk, and restores them when a
    grant ends or by `walras-agent restore`.
    """
    raise_file_limit()


main.add_command(cluster)


@main.command(short_help="Enforce a plan from a file.")
@click.argument("plan", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--once", is_flag=True, help="Reconcile once and exit: 0 if all is enforced, 3 if not yet."
)
@click.option(
    "--dry-run", is_flag=True, help="Print the writes that the agent would make, and exit."
)
@run_options
@state_option
@node_options
def run(
    paths: HostPaths,
    options: RunOptions,
    plan: Path,
    state_folder: Path,
    *,
    once: bool,
    dry_run: bool,
) -> None:
    """Enforce PLAN, a file with one NodeAllocation, and follow its changes.

    SIGTERM or Ctrl-C ends the process and leaves the pods as they are, so that it can be replaced
    without affecting them. To restore the original settings, run `walras-agent restore` afterwards.

    \b
    Example of a plan:
      apiVersion: walras.dev/v1alpha1
      kind: NodeAllocation
      metadata: {name: node-1}
      spec:
        epoch: 1              # later plans have later epochs
        grants:
        - podUID: 0d9c7e1e-52f0-4f3c-9f1a-6a1f0c9c7a55
          namespace: vision
          name: train-0
          cores: "3.5"        # three exclusive cores, half of a shared one
          memory: 12Gi
    """  # noqa: D301 - the backspace keeps click from filling the lines
    with cli_errors(), ExitStack() as stack:
        if dry_run:
            click.echo(_dry_run(paths, plan, state_folder))
            return
        state = stack.enter_context(open_state(state_folder))
        waiter = stack.enter_context(ChangeWaiter(plan))
        node = NodeComponents.open(paths, state.journal, waiter)
        listeners = open_listeners(node, options, options.health(), stack, listen=not once)
        agent = Agent(node, PlanFile(plan), state, waiter, listeners, options.period, options.mode)
        stack.enter_context(stop_on_signals(agent))
        agent.resume()
        report = agent.reconcile()
        if report.problems and (once or report.node.epoch is None):
            raise PlanError(*report.problems)
        if once:
            sys.exit(_exit_code(report))
        agent.run()


@main.command(short_help="Restore the original cgroup settings.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Seconds to keep trying while memory limits wait for memory use to fall.",
)
@state_option
@node_options
def restore(paths: HostPaths, state_folder: Path, wait: float) -> None:
    """Restore the original value of every cgroup file that the agent has written.

    Stop the agent first: the two exclude each other. Exits with 0 when all values are restored
    (deleted containers need nothing), 3 while memory limits wait for memory use to fall, 1 when
    the kernel refuses a write; run it again for the rest.
    """
    with cli_errors(), open_state(state_folder) as state:
        tree, _ = paths.pods()
        state.forget_plan()
        state.forget_measurement()
        possible = possible_cpus(paths.host)
        until = time.monotonic() + wait
        while True:
            done = restore_files(state.journal, tree, possible=possible)
            if not done.pending or time.monotonic() >= until:
                break
            click.echo(f"{len(done.pending)} memory limits wait for memory use to fall", err=True)
            time.sleep(1)
    click.echo(
        f"{len(done.restored)} files restored, {len(done.gone)} of deleted containers skipped"
    )
    for setting, reason in done.pending.items():
        click.echo(f"walras-agent: {setting}: pending: {reason}", err=True)
    if done.failed:
        raise Failure(*map(str, done.failed.values()))
    if done.pending:
        sys.exit(EXIT_PENDING)


@main.command(short_help="Show CPUs, pods and changed cgroup files.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Format of the output.",
)
@state_option
@node_options
def show(paths: HostPaths, state_folder: Path, output: Literal["table", "json"]) -> None:
    """Show the node's CPUs, the CPUs of each pod, and the files that the agent has changed.

    The command writes nothing, and works while the agent runs.
    """
    with cli_errors():
        inspection = inspect_node(paths, Journal.open(state_folder / "journal.json"))
    click.echo(inspection.table() if output == "table" else inspection.json())


def _dry_run(paths: HostPaths, plan: Path, state_folder: Path) -> str:
    """Return the writes that a plan would cause, a line of file and value each."""
    node = NodeComponents.open(paths, Journal.open(state_folder / "journal.json"))
    allocation = read_plan(plan)
    status = node.reconciler.preview(node_plan(allocation), time.monotonic())
    if status.refused:
        raise Failure(f"the agent must not write here: {status.refused}")
    lines = [f"{setting} = {value}" for setting, value in status.writes]
    return (
        "\n".join(lines) or f"nothing to write: the node matches the plan of epoch {status.epoch}"
    )


def _exit_code(report: ReconcileReport) -> int:
    """Return 0 if the plan is enforced, 1 if it cannot be, 3 if it is still pending."""
    node = report.node
    if node.mode == "observe" or node.is_enforced:
        return 0
    for pod in node.pods:
        if pod.state in {"Failed", "Pending"}:
            click.echo(f"walras-agent: {pod.title}: {pod.state}: {pod.reason}", err=True)
    if node.refused:
        raise Failure(f"cgroups are not written: {node.refused}")
    return 1 if any(pod.state == "Failed" for pod in node.pods) else EXIT_PENDING
