"""Facts: the objects that a what-if starts from, read from the cluster and kept for a while."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from walras_cli.cluster.live import world_of
from walras_service.api_errors import ApiError
from walras_service.failures import Failure

if TYPE_CHECKING:
    from walras_cli.cluster.connection import Cluster
    from walras_operator.decide.world import World

RENEWAL_SECONDS = 20.0
"""Age from which the objects are read anew while the old ones are used."""

LONGEST_SECONDS = 120.0
"""Age above which they are used no more."""

REFUSAL_SECONDS = 5.0
"""Time for which a missing right to them is remembered."""


class KeptWorld:
    """What the operator decides from, which is large, and slow to read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world: tuple[float, World] | None = None
        self._refusal: tuple[float, str] | None = None
        self._lock = threading.Lock()

    def get(self) -> World:
        """Return it, at most `LONGEST_SECONDS` old.

        Raises:
            Failure: It may not be read.
            ApiError: The cluster cannot be asked.
        """
        with self._lock:
            kept = self._world
            age = time.monotonic() - kept[0] if kept else LONGEST_SECONDS
            if kept is None or age >= LONGEST_SECONDS:
                return self._read()
        if age >= RENEWAL_SECONDS:
            threading.Thread(target=self._renew, name="world", daemon=True).start()
        return kept[1]

    def forget_if_old(self) -> None:
        """Let go of its memory if it would not be used any more."""
        kept = self._world
        if kept is not None and time.monotonic() - kept[0] >= LONGEST_SECONDS:
            self._world = None

    def _renew(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                with suppress(ApiError, Failure):  # whoever asks next reads it, and gets the error
                    self._read()
            finally:
                self._lock.release()

    def _read(self) -> World:
        if self._refusal and time.monotonic() - self._refusal[0] < REFUSAL_SECONDS:
            raise Failure(self._refusal[1])
        try:
            world = world_of(self._cluster)
        except Failure as error:
            self._refusal = (time.monotonic(), error.format_message())
            raise
        self._world = (time.monotonic(), world)
        return world
