"""Effects: what happens after every reconcile pass: log lines, the status, metrics.

A listener is notified of every report. Each writes only what has changed since the last one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING

from walras_agent.atomic_file import replace_file
from walras_agent.daemon.health import status_json
from walras_agent.daemon.metrics import AgentMetrics
from walras_agent.daemon.report import status_of
from walras_service.probes import serve

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from http import HTTPStatus
    from pathlib import Path

    from prometheus_client.registry import Collector

    from walras_agent.daemon.agent import Listener
    from walras_agent.daemon.health import Health
    from walras_agent.daemon.node import NodeComponents
    from walras_agent.daemon.options import RunOptions
    from walras_agent.daemon.report import ReconcileReport
    from walras_agent.status import PodStatus
    from walras_api.node_allocation_status import NodeAllocationStatus

    StatusReceiver = Callable[[NodeAllocationStatus], None]

_log = logging.getLogger(__name__)


def open_listeners(
    node: NodeComponents,
    options: RunOptions,
    health: Health,
    stack: ExitStack,
    *,
    listen: bool = True,
    receivers: tuple[StatusReceiver, ...] = (),
    collectors: tuple[Collector, ...] = (),
    review: Callable[[str, str], HTTPStatus] | None = None,
) -> tuple[Listener, ...]:
    """Return the agent's listeners, and begin to serve HTTP.

    Args:
        node: Components of the node that the agent reconciles.
        options: Options of the command.
        health: State that probes are answered from.
        stack: Ends to serve when it is left.
        listen: Whether to serve metrics and probes by HTTP.
        receivers: Further receivers of every status.
        collectors: Further collectors of metrics.
        review: Decides who may read metrics and the status (`walras_service.probes.serve`).

    Raises:
        BadInput: The process cannot listen on the address in ``options``, or the certificate
            cannot be used.
    """
    files = () if options.status_file is None else (StatusFile(options.status_file).write,)
    always: tuple[Listener, ...] = (
        ChangeLog(),
        StatusReporter((health.update, *files, *receivers)),
    )
    if options.listen is None or not listen:
        return always
    metrics = AgentMetrics(node.tree, node.layout)
    for each in collectors:
        metrics.registry.register(each)
    pages = dict(health.pages)
    if review is None and not _is_loopback(options.listen[0]):
        del pages["/status"]  # it names all pods of the node
    stack.enter_context(
        serve(options.listen, pages, metrics.registry, tls_folder=options.tls_folder, review=review)
    )
    return (*always, metrics)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


@dataclass(slots=True)
class StatusReporter:
    """Makes a status of every report, with the times at which its conditions changed.

    Attributes:
        receivers: Functions that are called with every status.
    """

    receivers: tuple[StatusReceiver, ...]
    _last: NodeAllocationStatus | None = None

    def notify(self, report: ReconcileReport) -> None:
        """Pass the status of a report to all receivers."""
        before = self._last.conditions if self._last else ()
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._last = status_of(report, now, before)
        for receive in self.receivers:
            receive(self._last)


@dataclass(slots=True)
class StatusFile:
    """A JSON file with the status, replaced whenever the status changes.

    Attributes:
        path: Path of the file.
    """

    path: Path
    _written: str = ""

    def write(self, status: NodeAllocationStatus) -> None:
        """Write the status if it has changed; failures are logged."""
        text = status_json(status)
        if text == self._written:
            return
        try:
            replace_file(self.path, text.encode())
        except OSError as error:
            _log.error("%s: the status cannot be written: %s", self.path, error.strerror)
        else:
            self._written = text


@dataclass(slots=True)
class ChangeLog:
    """Logs one line for every change since the report before."""

    _pods: dict[str, PodStatus] = field(default_factory=dict)
    _epoch: int | None = None
    _refused: str = ""

    def notify(self, report: ReconcileReport) -> None:
        """Log what has changed."""
        node = report.node
        for setting, value in node.writes if node.mode == "enforce" else ():
            _log.debug("%s: wrote %s", setting, value, extra={"file": str(setting), "value": value})
        if node.epoch != self._epoch:
            _log.info(
                "plan of epoch %s: %d grants, mode %s",
                node.epoch,
                len(node.pods),
                node.mode,
                extra={"event": "plan", "epoch": node.epoch, "mode": node.mode},
            )
        if node.refused != self._refused:
            self._log_refusal(node.refused)
        for pod in node.pods:
            before = self._pods.get(pod.pod)
            if before is None or pod != replace(before, demand=pod.demand):
                _log_pod(pod, before, node.epoch)
        now = {pod.pod: pod for pod in node.pods}
        for uid in self._pods.keys() - now.keys():
            gone = self._pods[uid]
            _log.info(
                "%s: grant ended, original settings restored",
                gone.title,
                extra={"event": "released", "pod": gone.title, "uid": uid, "epoch": node.epoch},
            )
        self._pods, self._epoch, self._refused = now, node.epoch, node.refused

    def _log_refusal(self, refused: str) -> None:
        if refused:
            _log.error("cgroups are not written: %s", refused, extra={"event": "refused"})
        else:
            _log.info("cgroups are written again", extra={"event": "resumed"})


def _log_pod(pod: PodStatus, before: PodStatus | None, epoch: int | None) -> None:
    were = "" if before is None or before.cpus == pod.cpus else f" (were {before.cpus or 'none'})"
    memory = "" if pod.memory is None else f", memory {pod.memory}"
    reason = f": {pod.reason}" if pod.reason else ""
    _log.log(
        logging.ERROR if pod.state == "Failed" else logging.INFO,
        "%s: %s%s, CPUs %s%s%s",
        pod.title,
        pod.state,
        reason,
        pod.cpus or "none",
        were,
        memory,
        extra={
            "event": pod.state.lower(),
            "pod": pod.title,
            "uid": pod.pod,
            "cpus": None if pod.cpus is None else str(pod.cpus),
            "memory": pod.memory,
            "epoch": epoch,
        },
    )
