"""Effects: the command ``walras-agent cluster``, which enforces the NodeAllocation of the node."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from walras_agent.daemon.agent import Agent, stop_on_signals
from walras_agent.daemon.inotify import ChangeWaiter
from walras_agent.daemon.listeners import open_listeners
from walras_agent.daemon.node import NodeComponents
from walras_agent.daemon.options import cli_errors, node_options, run_options, state_option
from walras_agent.daemon.state import open_state
from walras_api.contract import AGENT
from walras_service.failures import BadInput
from walras_service.options import authorize_option, kubeconfig_option, namespace_option

if TYPE_CHECKING:
    from pathlib import Path

    from walras_agent.daemon.api import AgentClient
    from walras_agent.daemon.node import HostPaths
    from walras_agent.daemon.options import RunOptions
    from walras_service.api import Api
    from walras_service.authorization import AccessReview


@click.command(short_help="Enforce the NodeAllocation of this node.")
@click.option(
    "--node-name",
    envvar="NODE_NAME",
    show_envvar=True,
    help="Name of this node in the cluster; set it from the pod's field spec.nodeName.",
)
@namespace_option("Namespace of the agent's Lease.")
@kubeconfig_option
@click.option(
    "--release-after",
    type=click.FloatRange(min=1, max=3600),
    default=30.0,
    show_default=True,
    help="Seconds that the NodeAllocation must be missing before its grants end.",
)
@authorize_option
@run_options
@state_option
@node_options
def cluster(
    paths: HostPaths,
    options: RunOptions,
    state_folder: Path,
    node_name: str | None,
    namespace: str,
    kubeconfig: str | None,
    release_after: float,
    authorize: bool,
) -> None:
    """Enforce the NodeAllocation of this node, and report in its status.

    While the API server cannot be reached the last plan stays in force, even if the agent restarts.
    SIGTERM or Ctrl-C ends the process and leaves the pods as they are. To restore the original
    settings, delete the NodeAllocation and wait, or stop the agent and run `walras-agent restore`.
    """
    # Imported here: `run` does not need the Kubernetes client, which takes 10 MiB.
    from walras_agent.daemon.api_monitor import ApiMonitor
    from walras_agent.daemon.informer import AllocationInformer
    from walras_agent.daemon.publish import StatusPublisher

    with cli_errors(), ExitStack() as stack:
        client, plan_api = _client(node_name, kubeconfig), _api(kubeconfig)
        state = stack.enter_context(open_state(state_folder))
        waiter = stack.enter_context(ChangeWaiter())
        node = NodeComponents.open(replace(paths, in_cluster=True), state.journal, waiter)
        health, monitor = options.health(), ApiMonitor()
        plans = AllocationInformer(plan_api, client.node, monitor, waiter.wake, release_after)
        publisher = StatusPublisher(client, monitor, plans, health.lives, namespace)
        listeners = open_listeners(
            node,
            options,
            health,
            stack,
            receivers=(publisher.write,),
            collectors=(monitor,),
            review=_review(kubeconfig) if authorize else None,
        )
        agent = Agent(node, plans, state, waiter, listeners, options.period, options.mode)
        stack.enter_context(stop_on_signals(agent))
        agent.resume()
        for thread in (plans, publisher):
            thread.start()
            stack.callback(thread.stop)
        agent.run()


def _review(kubeconfig: str | None) -> AccessReview:
    """Return what decides who may read the agent's pages."""
    from walras_service.authorization import AccessReview

    return AccessReview(_api(kubeconfig, connections=4))


def _api(kubeconfig: str | None, connections: int = 1) -> Api:
    """Return a client of the API server."""
    from walras_service.api import Api, settings

    return Api(settings(kubeconfig), AGENT, connections)


def _client(node: str | None, kubeconfig: str | None) -> AgentClient:
    """Return a client of the API server for one thread.

    Raises:
        BadInput: The name of the node or the address of the API server is unknown.
    """
    from walras_agent.daemon.api import AgentClient
    from walras_service.api import settings
    from walras_service.api_errors import ApiError

    if not node:
        raise BadInput(
            "the name of this node is unknown: give --node-name, or set NODE_NAME from the pod's "
            "field spec.nodeName"
        )
    try:
        return AgentClient(settings(kubeconfig), node)
    except ApiError as error:
        raise BadInput(str(error)) from error
