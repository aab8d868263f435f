"""Apply: lead in the place of the operator, so that it decides nothing meanwhile.

The operator gives way when it next finds its Lease changed (`runtime.leadership`). Until then it
may go on to decide, and overrule what it sees; it surely does so no longer when the Lease, as it
last renewed it, would have run out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from walras_operator.runtime.lease import LeaseRecord
from walras_service.api_errors import ApiError
from walras_service.kinds import LEASES

if TYPE_CHECKING:
    from walras_service.api import Api

DURATION = 30
"""Seconds after the last renewal at which operators lead again, if there still are any."""

_ATTEMPTS = 10


@dataclass(slots=True)
class Takeover:
    """A Lease that is taken, whoever has it.

    Attributes:
        api: To the API server.
        namespace: Of the Lease.
        name: Of the Lease.
        identity: Who takes it.
        alone: When nobody else takes itself for the leader any more, by `time.monotonic`.
    """

    api: Api
    namespace: str
    name: str
    identity: str
    alone: float = field(default=0.0, init=False)
    _record: LeaseRecord = field(default_factory=LeaseRecord)

    def take(self) -> int:
        """Lead from now on; the term.

        Raises:
            ApiError: Whoever led does so still.
        """
        for attempt in range(_ATTEMPTS):
            seen, now = self._look(), _now()
            wanted = LeaseRecord(
                self.identity, DURATION, now, now, seen.transitions + 1, seen.version
            )
            try:
                self._write(wanted)
            except ApiError as error:
                if error.reason != "conflict" or attempt == _ATTEMPTS - 1:
                    raise
            else:
                self.alone = time.monotonic() + (seen.duration if seen.holder else 0)
                break
        return self._record.transitions

    def renew(self) -> None:
        """Go on to lead.

        Raises:
            ApiError: That is not sure; a conflict if somebody else has taken the Lease.
        """
        try:
            self._write(replace(self._record, renewed=_now()))
        except ApiError as error:
            seen = self._look() if error.reason == "conflict" else None
            if seen is None or seen.holder != self.identity:
                raise
            # The last renewal was made, and its answer was lost.
            self._write(replace(seen, renewed=_now()))

    def give_back(self) -> None:
        """Let operators lead at once; nothing to do if this one does not lead.

        The Lease itself is asked who does: whoever is interrupted while taking or renewing it has
        done so, and has not seen the answer.

        Raises:
            ApiError: They will, when the Lease has run out.
        """
        for attempt in range(_ATTEMPTS):
            seen = self._look()
            if seen.holder != self.identity:
                break
            try:
                self._write(replace(seen, holder="", duration=1))
            except ApiError as error:
                if error.reason != "conflict" or attempt == _ATTEMPTS - 1:
                    raise

    def _look(self) -> LeaseRecord:
        found = self.api.find(LEASES.path(self.namespace, self.name))
        return LeaseRecord() if found is None else LeaseRecord.read(found)

    def _write(self, record: LeaseRecord) -> None:
        metadata = {"name": self.name, "namespace": self.namespace}
        document = {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": metadata,
            "spec": record.spec(),
        }
        if record.version:
            metadata["resourceVersion"] = record.version
            path = LEASES.path(self.namespace, self.name)
            self._record = LeaseRecord.read(self.api.request("PUT", path, document))
        else:
            path = LEASES.path(self.namespace)
            self._record = LeaseRecord.read(self.api.request("POST", path, document))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
