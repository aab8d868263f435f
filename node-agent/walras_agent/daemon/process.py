"""Apply: what the agent's process has around its loop: signals, and who is told of every look."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from walras_agent.daemon.changes import ChangeLog
from walras_agent.daemon.metrics import Metrics
from walras_agent.daemon.sinks import Statuses, StatusFile
from walras_service.probes import serve

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from walras_agent.daemon.agent import Agent, Listener
    from walras_agent.daemon.health import Health
    from walras_agent.daemon.node import Node
    from walras_agent.daemon.options import Manner
    from walras_agent.daemon.sinks import Receiver


def ended_by_signals(agent: Agent) -> None:
    """Let SIGTERM and Ctrl-C end the agent after its present look."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())


def told(
    node: Node,
    manner: Manner,
    health: Health,
    *,
    answer: bool = True,
    receivers: tuple[Receiver, ...] = (),
    collectors: tuple[Collector, ...] = (),
) -> tuple[Listener, ...]:
    """Who is told of every look.

    Args:
        node: That is looked at.
        manner: In which the agent runs.
        health: That probes are answered from.
        answer: Whether to answer by HTTP at all.
        receivers: Are given every status besides.
        collectors: Have further metrics.

    Raises:
        BadInput: The address to answer at cannot be had.
    """
    files = () if manner.status_file is None else (StatusFile(manner.status_file).write,)
    always: tuple[Listener, ...] = (ChangeLog(), Statuses((health.tell, *files, *receivers)))
    if manner.listen is None or not answer:
        return always
    metrics = Metrics(node.tree, node.layout)
    for each in collectors:
        metrics.registry.register(each)
    serve(manner.listen, health.pages, metrics.registry)
    return (*always, metrics)
