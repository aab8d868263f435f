"""Waiting for conditions that other processes bring about."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


PATIENCE = 600.0
"""Seconds after which what takes a moment will not come any more, on the busiest machine."""


def eventually(
    condition: Callable[[], object], seconds: float = PATIENCE, pause: float = 0.01
) -> bool:
    """Wait until a condition holds; return whether it did in time."""
    deadline = time.monotonic() + seconds
    while not (holds := bool(condition())) and time.monotonic() < deadline:
        time.sleep(pause)
    return holds
