"""The command ``walras-agent cluster``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from walras_agent.daemon.agent import Agent
from walras_agent.daemon.node import Node
from walras_agent.daemon.options import explained, manner_options, node_options, state_option
from walras_agent.daemon.process import ended_by_signals, told
from walras_agent.daemon.state import open_state
from walras_agent.daemon.wake import Wake
from walras_service.failures import BadInput
from walras_service.options import kubeconfig_option, namespace_option

if TYPE_CHECKING:
    from pathlib import Path

    from walras_agent.daemon.api import Api
    from walras_agent.daemon.node import Whereabouts
    from walras_agent.daemon.options import Manner


@click.command()
@click.option(
    "--node-name",
    envvar="NODE_NAME",
    show_envvar=True,
    help="Name of this node in the cluster; by the downward API spec.nodeName.",
)
@namespace_option("Where the agent has its Lease.")
@kubeconfig_option
@click.option(
    "--release-after",
    type=click.FloatRange(min=1, max=3600),
    default=30.0,
    show_default=True,
    help="Seconds for which the NodeAllocation must be gone before its grants are put back.",
)
@manner_options
@state_option
@node_options
def cluster(
    where: Whereabouts,
    manner: Manner,
    state_folder: Path,
    node_name: str | None,
    namespace: str,
    kubeconfig: str | None,
    release_after: float,
) -> None:
    """Hold the node to its NodeAllocation in the cluster, and write that one's status.

    Without the API server the last plan stays in force, also when the agent is started again.
    The process ends on SIGTERM or Ctrl-C and leaves the pods as they are. To put everything back,
    delete the NodeAllocation and wait, or run `walras-agent restore` when the agent has ended.
    """
    # Not for those who follow a file: these load the Kubernetes client, of 10 MiB.
    from walras_agent.daemon.contact import Contact
    from walras_agent.daemon.follow import Follower
    from walras_agent.daemon.publish import Publisher

    with explained(), ExitStack() as stack:
        plans_api, status_api = (_api(node_name, kubeconfig) for _ in range(2))
        state = stack.enter_context(open_state(state_folder))
        wake = stack.enter_context(Wake())
        node = Node.open(where, state.journal, wake)
        health, contact = manner.health(), Contact()
        plans = Follower(plans_api, contact, wake.call, release_after)
        publisher = Publisher(status_api, contact, plans, health.lives, namespace)
        listeners = told(node, manner, health, receivers=(publisher.write,), collectors=(contact,))
        agent = Agent(node, plans, state, wake, listeners, manner.period, manner.mode)
        ended_by_signals(agent)
        agent.resume()
        for thread in (plans, publisher):
            thread.start()
            stack.callback(thread.stop)
        agent.run()


def _api(node: str | None, kubeconfig: str | None) -> Api:
    """A connection for one thread.

    Raises:
        BadInput: It is not known to what, or for which node.
    """
    from walras_agent.daemon.api import Api
    from walras_service.api import settings
    from walras_service.api_errors import ApiError

    if not node:
        raise BadInput(
            "which node is this? Give --node-name, or NODE_NAME from the field spec.nodeName "
            "of the pod"
        )
    try:
        return Api(settings(kubeconfig), node)
    except ApiError as error:
        raise BadInput(str(error)) from error
