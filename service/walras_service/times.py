"""Pure: times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal


def rfc3339(time: datetime | float, digits: Literal["seconds", "microseconds"] = "seconds") -> str:
    """Return a time in UTC as text, such as 2026-01-31T12:00:00Z; Leases have microseconds.

    Args:
        time: Time with its zone, or seconds since 1970.
        digits: Unit of the last digit; what is smaller is cut off.
    """
    moment = time if isinstance(time, datetime) else datetime.fromtimestamp(time, UTC)
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=digits)}Z"
