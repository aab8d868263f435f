"""No thread that follows a cluster outlives its test: it would connect during the next one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLLOWING = ("feed-", "world", "_collect", "_look_at_")
"""How the names of threads of `walras_dashboard.live` begin."""


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    """Wait until all threads of the test's live sources have ended."""
    yield
    assert eventually(lambda: not _following(), pause=0.02), _following()


def _following() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith(FOLLOWING)]
