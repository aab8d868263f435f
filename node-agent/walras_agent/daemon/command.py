"""The command ``walras-agent``."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from walras_agent.daemon.agent import Agent
from walras_agent.daemon.cluster import cluster
from walras_agent.daemon.node import Node
from walras_agent.daemon.options import explained, manner_options, node_options, state_option
from walras_agent.daemon.plans import PlanError, PlanFile, node_plan, read_plan
from walras_agent.daemon.process import ended_by_signals, told
from walras_agent.daemon.report import holds
from walras_agent.daemon.sight import look_around
from walras_agent.daemon.state import open_state
from walras_agent.daemon.wake import Wake
from walras_agent.journal import Journal
from walras_agent.restore import restore as put_back
from walras_agent.topology import possible_cpus
from walras_service.failures import Failure

if TYPE_CHECKING:
    from walras_agent.daemon.node import Whereabouts
    from walras_agent.daemon.options import Manner
    from walras_agent.daemon.report import Report

NOT_YET = 3
"""Exit code when something is left to be done, and the agent would try again."""


@click.group(name="walras-agent", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="walras", prog_name="walras-agent")
def main() -> None:
    """Hold the pods of this node to the cores and memory that they were granted.

    The agent writes cgroup files of containers: which CPUs they may use, their CFS quota, and how
    much memory they may keep. What a file said before is kept on disk, and put back when a grant
    is lost or by `walras-agent restore`.
    """


main.add_command(cluster)


@main.command()
@click.argument("plan", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--once", is_flag=True, help="Look once and exit: 0 if all holds, 3 if not yet.")
@click.option(
    "--dry-run", is_flag=True, help="Write nothing at all; print what would be written, and exit."
)
@manner_options
@state_option
@node_options
def run(
    where: Whereabouts,
    manner: Manner,
    plan: Path,
    state_folder: Path,
    *,
    once: bool,
    dry_run: bool,
) -> None:
    """Hold the node to PLAN, a file with one NodeAllocation, and follow its changes.

    The process ends on SIGTERM or Ctrl-C and leaves the pods as they are, so that it can be
    replaced without their noticing. To put everything back, run `walras-agent restore` then.

    \b
    An example of a plan:
      apiVersion: walras.dev/v1alpha1
      kind: NodeAllocation
      metadata: {name: node-1}
      spec:
        epoch: 1              # later plans have later epochs
        grants:
        - podUID: 0d9c7e1e-52f0-4f3c-9f1a-6a1f0c9c7a55
          namespace: vision
          name: train-0
          cores: "3.5"        # three of its own, half of a shared one
          memory: 12Gi
    """  # noqa: D301 - the backspace keeps click from filling the lines
    with explained(), ExitStack() as stack:
        if dry_run:
            click.echo(_rehearsed(where, plan, state_folder))
            return
        state = stack.enter_context(open_state(state_folder))
        wake = stack.enter_context(Wake(plan))
        node = Node.open(where, state.journal, wake)
        listeners = told(node, manner, manner.health(), answer=not once)
        agent = Agent(node, PlanFile(plan), state, wake, listeners, manner.period, manner.mode)
        ended_by_signals(agent)
        agent.resume()
        report = agent.look()
        if report.problems and (once or report.node.epoch is None):
            raise PlanError(*report.problems)
        if once:
            sys.exit(_exit_code(report))
        agent.run()


@main.command()
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Seconds to try for, while limits on memory wait for less to be in use.",
)
@state_option
@node_options
def restore(where: Whereabouts, state_folder: Path, wait: float) -> None:
    """Put every cgroup file back to what it said before the agent first wrote to it.

    Stop the agent first: the two exclude each other. Exits with 0 when all is back (containers
    that are gone need nothing), 3 when limits on memory wait for less to be in use, 1 when the
    kernel refused something; run it again for what is left.
    """
    with explained(), open_state(state_folder) as state:
        tree, _ = where.pods()
        state.forget_plan()
        possible = possible_cpus(where.host)
        until = time.monotonic() + wait
        while True:
            done = put_back(state.journal, tree, possible=possible)
            if not done.pending or time.monotonic() >= until:
                break
            click.echo(f"{len(done.pending)} limits wait for less memory in use", err=True)
            time.sleep(1)
    click.echo(f"{len(done.restored)} files put back, {len(done.gone)} of containers that are gone")
    for setting, reason in done.pending.items():
        click.echo(f"walras-agent: {setting}: pending: {reason}", err=True)
    if done.failed:
        raise Failure(*map(str, done.failed.values()))
    if done.pending:
        sys.exit(NOT_YET)


@main.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@state_option
@node_options
def show(where: Whereabouts, state_folder: Path, output: Literal["table", "json"]) -> None:
    """Show this node's CPUs, which of them each pod may use, and what the agent has changed.

    Nothing is written, and the agent may run meanwhile.
    """
    with explained():
        seen = look_around(where, Journal.open(state_folder / "journal.json"))
    click.echo(seen.table() if output == "table" else seen.json())


def _rehearsed(where: Whereabouts, plan: Path, state_folder: Path) -> str:
    """The writes that a plan would bring, as lines of file and value."""
    node = Node.open(where, Journal.open(state_folder / "journal.json"))
    allocation = read_plan(plan)
    status = node.reconciler.preview(node_plan(allocation), time.monotonic())
    if status.refused:
        raise Failure(f"nothing may be written: {status.refused}")
    lines = [f"{setting} = {value}" for setting, value in status.writes]
    return "\n".join(lines) or f"nothing: the node is as the plan of epoch {status.epoch} says"


def _exit_code(report: Report) -> int:
    """0 if the plan holds, 1 if it cannot, 3 if it will take another look."""
    node = report.node
    if node.mode == "observe" or holds(node):
        return 0
    for pod in node.pods:
        if pod.state in {"Failed", "Pending"}:
            click.echo(f"walras-agent: {pod.title}: {pod.state}: {pod.reason}", err=True)
    if node.refused:
        raise Failure(f"nothing is written: {node.refused}")
    return 1 if any(pod.state == "Failed" for pod in node.pods) else NOT_YET
