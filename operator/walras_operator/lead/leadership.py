"""Effects: acquire and renew the Lease by which one of several operators leads (see `lease`).

A thread of its own renews the Lease, so that nothing else in the process can delay that. The
leader's last request may start just before its deadline, and ends at most `duration - deadline`
seconds later (see `lease.Times`), when no other operator can have the Lease yet. If the API server
handles it even later, it refuses it because of its resourceVersion.

The Lease changes every few seconds, so it is also where a restored etcd shows first.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING

from walras_operator.lead.lease import LeaderCandidate, Times
from walras_operator.lead.lease_object import LeaseObject
from walras_service.api import PATIENCE
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from walras_service.api import Api

_log = logging.getLogger(__name__)


class Leadership:
    """Takes part in the election of a leader.

    Args:
        api: Connection that nothing else uses.
        namespace: Namespace of the Lease.
        name: Name of the Lease.
        identity: Unique identity of this process.
        times: Durations of the Lease.
        clock: Returns the current time.
        changed: Called when leadership is won or lost.
        restored: Called when the API server has older data than before.

    Attributes:
        tried: When the last attempt to get or renew the Lease ended, by `time.monotonic`.
        answered: When the last attempt ended that the API server answered.
        problem: Why the last attempt failed; empty if it did not.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        times: Times,
        clock: Callable[[], datetime],
        changed: Callable[[], None],
        restored: Callable[[], None],
    ) -> None:
        self.tried = self.answered = time.monotonic()
        self.problem = ""
        self._lease = LeaseObject(api, namespace, name)
        self._clock, self._changed, self._restored = clock, changed, restored
        self._candidate = LeaderCandidate(identity, times)
        self._led = False
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def identity(self) -> str:
        """Identity of this process."""
        return self._candidate.identity

    def start(self) -> None:
        """Start to take part."""
        self._thread.start()

    def stop(self) -> None:
        """Stop leading, and release the Lease so that another operator can lead at once."""
        self._stopping.set()
        self._thread.join(timeout=2 * PATIENCE)
        with self._lock:
            record = self._candidate.released()
        if record is not None:
            try:
                self._lease.write(record)
            except ApiError as error:
                _log.warning("the lease is not released and must run out: %s", error)
            else:
                _log.info("released the lease", extra={"event": "released"})

    def leads(self) -> bool:
        """Return whether this operator leads now."""
        with self._lock:
            return self._candidate.leads(time.monotonic()) and not self._stopping.is_set()

    def term(self) -> int | None:
        """Return the leader term of this operator; None if it does not lead."""
        with self._lock:
            return self._candidate.term if self._candidate.leads(time.monotonic()) else None

    def since(self) -> float | None:
        """Return when this operator began to lead; None if it does not lead."""
        with self._lock:
            return self._candidate.since if self._candidate.leads(time.monotonic()) else None

    def led_before(self) -> str:
        """Return when the Lease had been renewed before this operator led; empty if never."""
        with self._lock:
            return self._candidate.led_before

    def holder(self) -> str:
        """Return the identity of the leader as last seen; empty if nobody leads."""
        with self._lock:
            return self._candidate.seen.holder if self._candidate.seen else ""

    def _run(self) -> None:
        times = self._candidate.times
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._attempt()
            except ApiError as error:
                self._note_problem(error)
            except Exception:  # noqa: BLE001 - a thread that ends would renew no more
                _log.exception("an attempt at the lease went wrong", extra={"event": "crash"})
            else:
                self.problem = ""
            self.tried = time.monotonic()
            self._note_leadership()
            pause = times.retry * random.uniform(0.9, 1.1)  # noqa: S311 - nothing secret about it
            self._stopping.wait(max(0.1, began + pause - time.monotonic()))

    def _attempt(self) -> None:
        """Renew the Lease, or acquire it if it is free."""
        if not self.leads():
            self._look()
        asked = time.monotonic()
        with self._lock:
            record = self._candidate.wanted(asked, self._clock())
        if record is None:
            return
        try:
            answer = self._lease.write(record)
        except ApiError as error:
            if error.reason != "conflict" and not (record.version and error.reason == "missing"):
                raise
            self._look()  # somebody was faster, or has deleted it
            return
        with self._lock:
            self._candidate.renewed(answer, asked)
        self.answered = time.monotonic()

    def _look(self) -> None:
        record = self._lease.read()
        self.answered = time.monotonic()
        with self._lock:
            before = self._candidate.seen
            self._candidate.see(record, self.answered)
        if before is not None and record.is_older_than(before):
            self._restored()

    def _note_leadership(self) -> None:
        leads = self.leads()
        if leads != self._led:
            self._led = leads
            with self._lock:
                term = self._candidate.term
            if leads:
                _log.info("leading, term %d", term, extra={"event": "leading", "term": term})
            else:
                _log.warning("leading no longer", extra={"event": "lost"})
            self._changed()

    def _note_problem(self, error: ApiError) -> None:
        if self.problem != str(error):
            _log.warning("the lease cannot be had: %s", error, extra={"event": "lease"})
        self.problem = str(error)
