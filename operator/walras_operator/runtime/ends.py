"""Facts: look up how pods ended, which the watch does not show: it leaves out ended pods.

A pod is looked up by a list with its name as field selector, so that the operator needs no right
beyond listing pods. Threads of their own make the requests, so that no decision waits for them. An
answer is kept as long as decisions ask for it, that is until a status that contains it is written.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from walras_operator.recording.lifetimes import read_end
from walras_service.api_errors import ApiError
from walras_service.kinds import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from walras_operator.world import Lifetime, Reference
    from walras_service.api import Api

_log = logging.getLogger(__name__)

ASKING = 2
"""Most concurrent requests."""

PAUSE = 5.0
"""Seconds before a lookup that gave no answer is repeated."""


class Ends:
    """Looks up how pods ended.

    Args:
        api: Connections to the API server, as many as concurrent requests.
        changed: Called when an end has become known.
        pause: Seconds before a lookup is repeated.
    """

    def __init__(self, api: Api, changed: Callable[[], None], pause: float = PAUSE) -> None:
        self._api, self._changed, self._pause = api, changed, pause
        self._wanted: frozenset[str] = frozenset()
        self._known: dict[str, Lifetime | None] = {}
        self._asked: dict[str, float] = {}  # when each may be asked for again
        self._problem = ""
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(ASKING, thread_name_prefix="ends")

    @property
    def known(self) -> Mapping[str, Lifetime | None]:
        """Lifetimes of ended pods, by UID; None for pods that leave no run."""
        with self._lock:
            return dict(self._known)

    def seek(self, pods: Iterable[Reference]) -> None:
        """Look up these pods, and forget all others.

        Args:
            pods: All ended pods whose end no status shows yet.
        """
        now, wanted = time.monotonic(), {each.uid: each for each in pods}
        with self._lock:
            self._wanted = frozenset(wanted)
            for kept in (self._known, self._asked):
                for uid in kept.keys() - wanted.keys():
                    del kept[uid]
            due = [
                each
                for uid, each in wanted.items()
                if uid not in self._known and self._asked.get(uid, now) <= now
            ]
            self._asked.update((each.uid, float("inf")) for each in due)
        for each in due:
            self._pool.submit(self._ask, each)

    def close(self) -> None:
        """Stop looking up pods."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, pod: Reference) -> None:
        if pod.uid not in self._wanted:
            return
        try:
            query = {"fieldSelector": f"metadata.name={pod.name}"}
            found = self._api.request("GET", PODS.path(pod.namespace), query=query)["items"]
            end = read_end(found[0] if found else None, pod.uid)
        except (ApiError, KeyError, TypeError) as error:
            self._later(pod, f"{pod.title}: {error}")
            return
        if not end.over:
            self._later(pod)
            return
        with self._lock:
            if pod.uid in self._wanted:
                self._known[pod.uid] = end.lifetime
        self._changed()

    def _later(self, pod: Reference, problem: str = "") -> None:
        with self._lock:
            self._asked[pod.uid] = time.monotonic() + self._pause
            logged, self._problem = self._problem, problem
        if problem and problem != logged:
            _log.warning("a run is not recorded yet: %s", problem, extra={"event": "ends"})
