"""Pure: times in RFC 3339, in UTC and whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from walras_service.times import rfc3339

MAX_CLOCK_SKEW = 60
"""Most seconds by which the clocks of two operators may differ."""


def later(time: str, seconds: int) -> str:
    """Return a time that is some seconds later.

    Raises:
        ValueError: The text is not a time, or the result is out of range.
    """
    try:
        at = datetime.fromisoformat(time) + timedelta(seconds=seconds)
        return rfc3339(at if at.tzinfo else at.replace(tzinfo=UTC))
    except OverflowError as error:
        raise ValueError(f"{time!r} is too late a time") from error


def is_in_future(time: str, now: str) -> bool:
    """Return whether a past time lies in the future, because a clock was wrong."""
    return time > later(now, MAX_CLOCK_SKEW)
