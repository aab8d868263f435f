"""Facts: the plan of this node, as the API server has it and as soon as it has it.

A thread lists and watches one object by its name, again and again: every round begins with a list,
so that nothing depends on what was seen before, and a version that is too old (410 Gone) is only
one of the reasons for another round.

What may be taken for a deletion, which ends all grants: lists that were answered, by a server that
knows the kind, without the object, for as long as `patience`, and not one request between them that
failed. Everything else leaves the last plan in force: an outage, a permission that was taken away,
a CustomResourceDefinition that was removed (its objects are deleted first, then lists answer 404),
an object that is deleted and made again by its operator.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_agent.backoff import Backoff
from walras_agent.daemon.plans import PlanWithdrawn, understood
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walras.resources.allocation import NodeAllocation
    from walras_agent.daemon.api import Api
    from walras_agent.daemon.contact import Contact
    from walras_service.api import Document

_log = logging.getLogger(__name__)

_WATCH = (240.0, 480.0)  # seconds: the nodes' lists are to spread over some minutes
_ROUND = 1.0
"""Seconds that no two lists are closer than."""


@dataclass(frozen=True, slots=True)
class Known:
    """The NodeAllocation as it was last seen.

    Attributes:
        uid: Its own; that of another one with the same name is another.
        listing: Which list it was in, or has been watched since.
        owners: References to what owns it, its Node.
    """

    uid: str
    listing: int
    owners: Sequence[Document]


class Follower:
    """A source of plans (see `agent.PlanSource`).

    Args:
        api: For this alone.
        contact: Is told how it goes.
        wake: Is called when there is something new.
        patience: Seconds for which the NodeAllocation must be missing before its grants are lost.

    Attributes:
        known: The NodeAllocation; None while there is none.
        generation: Of the document that `changed` last gave, whether or not it could be used.
    """

    def __init__(
        self, api: Api, contact: Contact, wake: Callable[[], None], patience: float
    ) -> None:
        self.known: Known | None = None
        self.generation: int | None = None
        self._api, self._contact, self._wake, self._patience = api, contact, wake, patience
        self._latest: Document | None = None
        self._given: object = False  # the state that was last told to whoever asked
        self._missing: float | None = None  # since when
        self._withdrawn = False
        self._listing = 0
        self._backoff = Backoff(first=0.5, longest=30.0)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plan", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """Follow no longer; nobody is woken after this."""
        with self._lock:
            self._stopping.set()
        deadline = time.monotonic() + 2.0
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._api.interrupt()  # again and again: a watch may just be about to begin
            self._thread.join(timeout=0.05)

    def changed(self) -> NodeAllocation | None:
        """The latest plan, if it has changed since the last call; else None.

        Raises:
            PlanError: It has changed, and cannot be used.
            PlanWithdrawn: It is gone; said once.
        """
        with self._lock:
            latest, state = self._latest, self._state()
        if state is False or state == self._given:
            return None
        self._given = state
        if latest is None:
            raise PlanWithdrawn(self._api.node)
        self.generation = latest["metadata"].get("generation")
        return understood(latest)

    def _run(self) -> None:
        while not self._stopping.is_set():
            again = time.monotonic() + _ROUND
            try:
                self._follow()
            except Exception as error:  # noqa: BLE001 - a thread that ends would follow no more
                again = self._failed(error)
            self._contact.restarted()
            self._stopping.wait(max(0.0, again - time.monotonic()))

    def _failed(self, error: Exception) -> float:
        """Tell what went wrong; returns when to try again."""
        now = time.monotonic()
        if not isinstance(error, ApiError):
            _log.error("the watch ended: %r", error, exc_info=error)
            error = ApiError(f"the watch ended: {error!r}", "error")
        if not self._stopping.is_set():
            self._contact.failed("plan", error)
        self._missing = None
        return now + jittered(self._backoff.failed("plan", now))

    def _follow(self) -> None:
        """One round: list, then watch until something ends it."""
        document, version = self._api.latest()
        self._contact.worked("plan")
        self._listing += 1
        self._note(document)
        for event in self._api.changes(version, self._duration()):
            self._contact.worked("plan")
            if event.kind == "DELETED":
                return  # a list must confirm it
            if event.kind != "BOOKMARK":
                self._note(event.document)

    def _duration(self) -> int:
        """Seconds for which to watch."""
        if self._missing is None or self._withdrawn:
            return round(random.uniform(*_WATCH))  # noqa: S311 - no secret
        return max(1, math.ceil(self._missing + self._patience - time.monotonic()))

    def _note(self, document: Document | None) -> None:
        """Take what is there now, and wake whoever is to know."""
        with self._lock:
            before = self._state()
            if document is None:
                self._miss(time.monotonic())
            else:
                self.known = _known(document, self._listing)
                self._latest, self._missing, self._withdrawn = document, None, False
            if self._state() != before and not self._stopping.is_set():
                self._wake()

    def _miss(self, now: float) -> None:
        """Take it that the NodeAllocation is not there, for good if it has been so for long."""
        self.known = None
        if self._missing is None:
            self._missing = now
            text = "there is no NodeAllocation %s; if that stays so for %g s, no pod has a grant"
            _log.warning(text, self._api.node, self._patience, extra={"event": "plan-missing"})
        elif now >= self._missing + self._patience:
            self._latest, self._withdrawn = None, True

    def _state(self) -> object:
        """What is another when there is something to do: not when only the status has changed."""
        if self._latest is None:
            return self._withdrawn
        return self._latest["metadata"]["uid"], self._latest.get("spec")


def _known(document: Document, listing: int) -> Known:
    metadata = document["metadata"]
    return Known(metadata["uid"], listing, metadata.get("ownerReferences", ()))


def jittered(seconds: float) -> float:
    """A wait of half as long up to as long, so that nodes do not all come at once."""
    return random.uniform(seconds / 2, seconds)  # noqa: S311 - no secret
