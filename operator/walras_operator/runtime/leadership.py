"""Apply: hold the Lease by which one of several operators leads (`lease` chooses).

A thread of its own, so that nothing else that the process does makes a renewal late. The leader's
last request may begin just before it stops to believe in its lease, and ends `Times.margin` later
at most: then the lease still is not anybody else's. A request that a server answers even later is
refused for its resourceVersion.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from walras_operator.runtime.lease import Candidate, Record, Times
from walras_service.api import PATIENCE
from walras_service.api_errors import ApiError
from walras_service.kinds import LEASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_service.api import Api, Document

_log = logging.getLogger(__name__)


class Leadership:
    """Whether this operator leads.

    Args:
        api: For this alone.
        namespace: Of the Lease.
        name: Of the Lease.
        identity: Of this process, and of no other ever.
        times: Of the Lease.
        changed: Is called when leadership is won or lost.

    Attributes:
        tried: When the last attempt to renew or to win the lease ended, by `time.monotonic`.
        answered: When the last one ended that the API server answered.
        problem: Why the last one failed; empty if it did not.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        times: Times,
        changed: Callable[[], None],
    ) -> None:
        self.tried = self.answered = time.monotonic()
        self.problem = ""
        self._api, self._namespace, self._name = api, namespace, name
        self._changed = changed
        self._candidate = Candidate(identity, times)
        self._led = False
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def identity(self) -> str:
        """Of this process."""
        return self._candidate.identity

    def start(self) -> None:
        """Begin to try."""
        self._thread.start()

    def stop(self) -> None:
        """Lead no longer, and let others lead at once."""
        self._stopping.set()
        self._thread.join(timeout=2 * PATIENCE)
        with self._lock:
            record = self._candidate.released()
        if record is not None:
            try:
                self._write(record)
            except ApiError as error:
                _log.warning("the lease is not released and must run out: %s", error)
            else:
                _log.info("released the lease", extra={"event": "released"})

    def leads(self) -> bool:
        """Whether this operator leads at this moment."""
        with self._lock:
            return self._candidate.leads(time.monotonic()) and not self._stopping.is_set()

    def term(self) -> int | None:
        """The term in which this operator leads; None if it does not."""
        with self._lock:
            return self._candidate.term if self._candidate.leads(time.monotonic()) else None

    def holder(self) -> str:
        """Who leads, as far as is known."""
        with self._lock:
            return self._candidate.seen.holder if self._candidate.seen else ""

    def _run(self) -> None:
        times = self._candidate.times
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._attempt()
            except ApiError as error:
                self._complain(error)
            except Exception:  # noqa: BLE001 - a thread that ends would renew no more
                _log.exception("an attempt at the lease went wrong", extra={"event": "crash"})
            else:
                self.problem = ""
            self.tried = time.monotonic()
            self._tell()
            pause = times.retry * random.uniform(0.9, 1.1)  # noqa: S311 - nothing secret about it
            self._stopping.wait(max(0.1, began + pause - time.monotonic()))

    def _attempt(self) -> None:
        """Renew the lease, or take it if it may be had."""
        if not self.leads():
            self._look()
        asked = time.monotonic()
        with self._lock:
            record = self._candidate.wanted(asked, datetime.now(UTC))
        if record is None:
            return
        try:
            answer = self._write(record)
        except ApiError as error:
            if error.reason != "conflict" and not (record.version and error.reason == "missing"):
                raise
            self._look()  # somebody was faster, or has deleted it
            return
        with self._lock:
            self._candidate.renewed(Record.read(answer), asked)
        self.answered = time.monotonic()

    def _look(self) -> None:
        found = self._api.find(LEASES.path(self._namespace, self._name), PATIENCE)
        self.answered = time.monotonic()
        with self._lock:
            self._candidate.see(Record() if found is None else Record.read(found), self.answered)

    def _write(self, record: Record) -> Document:
        document: Document = {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": record.spec(),
        }
        if not record.version:
            return self._api.request("POST", LEASES.path(self._namespace), document)
        document["metadata"]["resourceVersion"] = record.version
        return self._api.request("PUT", LEASES.path(self._namespace, self._name), document)

    def _tell(self) -> None:
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

    def _complain(self, error: ApiError) -> None:
        if self.problem != str(error):
            _log.warning("the lease cannot be had: %s", error, extra={"event": "lease"})
        self.problem = str(error)
