"""Effects: take over the operator's Lease, so that no operator decides meanwhile.

The operator gives way when it next reads its Lease (`lead.leadership`). Until then it may go on
to decide; it certainly stops when its last renewal would have expired.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from walras_operator.lead.lease import LeaseRecord
from walras_service.api_errors import ApiError
from walras_service.times import rfc3339

if TYPE_CHECKING:
    from walras_operator.lead.lease_object import LeaseObject

DURATION = 30
"""Seconds after the last renewal after which operators may lead again."""

_ATTEMPTS = 10


@dataclass(slots=True)
class LeaseTakeover:
    """A Lease that is taken from whoever holds it.

    Attributes:
        lease: The Lease.
        identity: Identity of the new holder.
        alone: When the former leader has certainly stopped, by `time.monotonic`.
    """

    lease: LeaseObject
    identity: str
    alone: float = field(default=0.0, init=False)
    _record: LeaseRecord = field(default_factory=LeaseRecord)

    def take(self) -> int:
        """Take the Lease; return the leader term.

        Raises:
            ApiError: The Lease is unchanged.
        """
        for attempt in range(_ATTEMPTS):
            seen, now = self.lease.read(), _now()
            wanted = LeaseRecord(
                self.identity, DURATION, now, now, seen.transitions + 1, seen.version
            )
            try:
                self._record = self.lease.write(wanted)
            except ApiError as error:
                if error.reason != "conflict" or attempt == _ATTEMPTS - 1:
                    raise
            else:
                self.alone = time.monotonic() + (seen.duration if seen.holder else 0)
                break
        return self._record.transitions

    def renew(self) -> None:
        """Renew the Lease.

        Raises:
            ApiError: It may not be renewed; a conflict if somebody else has taken it.
        """
        try:
            self._record = self.lease.write(replace(self._record, renewed=_now()))
        except ApiError as error:
            seen = self.lease.read() if error.reason == "conflict" else None
            if seen is None or seen.holder != self.identity:
                raise
            # The last renewal was made, and its answer was lost.
            self._record = self.lease.write(replace(seen, renewed=_now()))

    def give_back(self) -> None:
        """Release the Lease, so that operators lead at once; do nothing if it is not ours.

        The Lease is read first: a takeover that was interrupted may have succeeded unseen.

        Raises:
            ApiError: Operators lead once the Lease has expired.
        """
        for attempt in range(_ATTEMPTS):
            seen = self.lease.read()
            if seen.holder != self.identity:
                break
            try:
                self._record = self.lease.write(replace(seen, holder="", duration=1))
            except ApiError as error:
                if error.reason != "conflict" or attempt == _ATTEMPTS - 1:
                    raise


def _now() -> str:
    return rfc3339(datetime.now(UTC), "microseconds")
