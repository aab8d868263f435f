"""Apply: the log of the agent, one line for each change."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walras_agent.daemon.report import Report
    from walras_agent.status import PodStatus

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ChangeLog:
    """Tells what is different from the look before."""

    _pods: dict[str, PodStatus] = field(default_factory=dict)
    _epoch: int | None = None
    _refused: str = ""

    def tell(self, report: Report) -> None:
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
            self._tell_refusal(node.refused)
        for pod in node.pods:
            before = self._pods.get(pod.pod)
            if before is None or pod != replace(before, demand=pod.demand):
                _tell_pod(pod, before, node.epoch)
        now = {pod.pod: pod for pod in node.pods}
        for uid in self._pods.keys() - now.keys():
            gone = self._pods[uid]
            _log.info(
                "%s: grant lost; as it was before",
                gone.title,
                extra={"event": "released", "pod": gone.title, "uid": uid, "epoch": node.epoch},
            )
        self._pods, self._epoch, self._refused = now, node.epoch, node.refused

    def _tell_refusal(self, refused: str) -> None:
        if refused:
            _log.error("nothing is written: %s", refused, extra={"event": "refused"})
        else:
            _log.info("the reason not to write is gone", extra={"event": "resumed"})


def _tell_pod(pod: PodStatus, before: PodStatus | None, epoch: int | None) -> None:
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
