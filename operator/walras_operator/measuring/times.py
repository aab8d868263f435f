"""Pure: moments as records have them (RFC 3339 in UTC, whole seconds)."""

from __future__ import annotations

from datetime import datetime, timedelta

STRAY = 60
"""Seconds by which the clocks of two operators may differ."""


def later(time: str, seconds: int) -> str:
    """Return a time that is so much later.

    Raises:
        ValueError: it is no time, or there is none so late.
    """
    try:
        at = datetime.fromisoformat(time) + timedelta(seconds=seconds)
    except OverflowError as error:
        raise ValueError(f"{time!r} is too late a time") from error
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def is_to_come(time: str, now: str) -> bool:
    """Whether a time that should have been is not to be believed: a clock was wrong then."""
    return time > later(now, STRAY)
