"""Apply: ask an API server again that is busy, restarts, or was not reached for a moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

_PAUSE = 1.0  # seconds between two attempts


def patiently(until: float, ask: Callable[[], Result], tell: Callable[[str], None]) -> Result:
    """Ask until there is an answer, and return it.

    Args:
        until: When to give up, by `time.monotonic`.
        ask: Is called again after errors that pass; so it must be something that may be done twice.
        tell: Is given a line about each of these.

    Raises:
        ApiError: One that does not pass, or the last one.
    """
    while True:
        try:
            return ask()
        except ApiError as error:
            if not error.transient or time.monotonic() >= until:
                raise
            tell(f"trying again: {error}")
            time.sleep(max(_PAUSE, error.retry_after))
