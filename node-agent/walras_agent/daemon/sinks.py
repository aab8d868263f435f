"""Apply: reports to those who want a status: a file, and who asks by HTTP."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_agent.daemon.health import status_json
from walras_agent.daemon.report import status_of
from walras_agent.durable import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from walras.resources.node_status import NodeAllocationStatus
    from walras_agent.daemon.report import Report

    Receiver = Callable[[NodeAllocationStatus], None]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Statuses:
    """Makes a status of every report, with the times at which its conditions changed.

    Attributes:
        receivers: Each is given every status.
    """

    receivers: tuple[Receiver, ...]
    _last: NodeAllocationStatus | None = None

    def tell(self, report: Report) -> None:
        """Pass the status on."""
        before = self._last.conditions if self._last else ()
        self._last = status_of(report, before)
        for receive in self.receivers:
            receive(self._last)


@dataclass(slots=True)
class StatusFile:
    """A file that is replaced whenever the status is another.

    Attributes:
        path: Of the file.
    """

    path: Path
    _written: str = ""

    def write(self, status: NodeAllocationStatus) -> None:
        """Write the status as JSON, if it has changed."""
        text = status_json(status)
        if text == self._written:
            return
        try:
            replace_file(self.path, text.encode())
        except OSError as error:
            _log.error("%s: the status cannot be written: %s", self.path, error.strerror)
        else:
            self._written = text
