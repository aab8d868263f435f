"""Signals that a command handles while it runs, and not after it has returned."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


@contextmanager
def handling(
    handler: Callable[[int, FrameType | None], object], *signals: signal.Signals
) -> Iterator[None]:
    """Handle these signals until the block is left; then their handlers of before are back."""
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, handled in before.items():
            signal.signal(number, handled or signal.SIG_DFL)  # none if it was not set by Python
