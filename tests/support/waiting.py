"""Waiting for what other processes bring about."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def eventually(
    condition: Callable[[], object], seconds: float = 120.0, pause: float = 0.01
) -> bool:
    """Wait until a condition holds; return whether it did in time."""
    deadline = time.monotonic() + seconds
    while not (holds := bool(condition())) and time.monotonic() < deadline:
        time.sleep(pause)
    return holds
