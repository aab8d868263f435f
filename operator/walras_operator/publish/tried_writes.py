"""Effects: write the objects of a decision one by one, as long as this operator leads.

What cannot be written after some attempts (`attempts`) does not affect other objects; the next
decision finds it undone and tries again. Failures about objects that belong to one user are no
reason to decide less often: a user can cause them.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from walras_api.contract import MARKET_NAME
from walras_operator.publish.attempts import Attempts, SupersededError
from walras_operator.publish.events import TokenBucket, event_document, namespace_of
from walras_operator.publish.object_writer import ObjectWriter
from walras_operator.publish.placer import Placer
from walras_operator.publish.write_budget import WriteBudget
from walras_operator.watch.cached_objects import CachedAllocation
from walras_service.api_errors import ApiError
from walras_service.kinds import EVENTS
from walras_service.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from walras_operator.decide.world import (
        AutomaticWrite,
        Event,
        NodeWrite,
        Placement,
        ProfileWrite,
        Reference,
        StatusWrite,
    )
    from walras_operator.publish.attempts import Result
    from walras_operator.publish.ledger_parts import LedgerParts
    from walras_operator.publish.stamp import Stamp
    from walras_operator.watch.mirror import Mirror
    from walras_service.api import Api

_OF_USERS = frozenset({"Entitlement", "MarketJob", "SpeedupProfile"})
"""Kinds whose objects each concern one user."""


class TriedWrites:
    """Writes single objects, and returns how that ended; safe for concurrent use.

    Args:
        api: Connections to the API server, as many as threads.
        mirror: Records what the API server returns.
        leads: Returns whether this operator leads and is not ending; called before each request.
        parts: Parts of the ledger.

    Attributes:
        account_dropped: Whether the API server has dropped the account from the Market's status
            that was written last, as it does if the definition of Markets does not know it.
    """

    def __init__(
        self, api: Api, mirror: Mirror, leads: Callable[[], bool], parts: LedgerParts
    ) -> None:
        self._api, self._mirror, self._parts = api, mirror, parts
        self._writer = ObjectWriter(api)
        self._placer = Placer(api, mirror)
        self._bucket = TokenBucket()
        self._bucket_lock = threading.Lock()
        self._budget = WriteBudget(time.monotonic)
        self._attempts = Attempts(leads)
        self.account_dropped = False

    @property
    def unplaceable(self) -> str:
        """Why the API server last forbade a placement; empty if it did not."""
        return self._placer.problem

    def begin(self, wanted: Sequence[Reference]) -> None:
        """Begin a decision.

        Args:
            wanted: Objects that it creates, changes or deletes; empty in its second part.
        """
        if wanted:
            self._budget.begin(wanted)

    def begin_placements(self) -> None:
        """Begin the placements of a decision; permissions may have been granted meanwhile."""
        self._placer.begin()

    def new_parts(self, parts: Mapping[str, str]) -> Result:
        """Create parts of the ledger, given by name."""
        return self._attempts.tried("parts of the ledger", lambda: self._parts.create(parts))

    def delete_parts(self, names: Iterable[str]) -> Result:
        """Delete parts of the ledger that the Market's status does not name."""
        any_version = dict.fromkeys(names, "")
        return self._attempts.tried("superseded parts", lambda: self._parts.delete(any_version))

    def log_problems(self) -> None:
        """Log what was not written since the last call."""
        self._attempts.log_problems()

    def profile(self, write: ProfileWrite, stamp: Stamp) -> Result:
        """Create a SpeedupProfile."""

        def make() -> None:
            made = self._writer.profile(write)
            if made is None:
                raise SupersededError("one of its name exists since the decision")
            stamp.wrote(write.object, made)
            self._mirror.wrote("SpeedupProfile", made)

        return self._within_budget(write.object, make)

    def automatic(self, write: AutomaticWrite, stamp: Stamp, late: Callable[[], bool]) -> Result:
        """Write an object of the operator's own; a failure is no reason to decide less often.

        Args:
            write: The object.
            stamp: Identity of the decision.
            late: Returns whether to leave it to the next decision.
        """
        kind = write.object.kind

        def apply() -> None:
            try:
                answer = self._writer.automatic(write, stamp.version_of(write.object) or "")
            except ApiError as error:
                if error.reason == "conflict":
                    raise SupersededError("it has changed since the decision") from error
                raise
            if answer["kind"] == kind:  # else it was deleted at once
                stamp.wrote(write.object, answer)
                self._mirror.wrote(kind, answer)

        if late():
            return "deferred"
        result = self._within_budget(write.object, apply)
        return "refused" if result == "failed" else result

    def _within_budget(self, object_: Reference, write: Callable[[], object]) -> Result:
        if not self._budget.take(object_):
            return "deferred"
        result = self._attempts.tried(object_.title, write, of_user=True)
        self._budget.ended(object_, refused=result == "refused")
        return result

    def node(self, write: NodeWrite, stamp: Stamp, known: Mapping[str, CachedAllocation]) -> Result:
        """Write a NodeAllocation.

        Args:
            write: The new NodeAllocation.
            stamp: Identity of the decision.
            known: All NodeAllocations when publishing began, by node.
        """
        title = f"NodeAllocation {write.node}"
        last = known.get(write.node)

        def apply() -> None:
            nonlocal last
            try:
                answer = self._writer.allocation(write, stamp.epoch, last)
            except ApiError as error:
                if error.reason == "conflict":
                    last = self._looked(write.node, stamp.epoch)
                raise
            self._mirror.wrote("NodeAllocation", answer)

        return self._attempts.tried(title, apply)

    def _looked(self, node: str, epoch: int) -> CachedAllocation | None:
        """Return the current NodeAllocation of a node after a conflict; None if there is none.

        Raises:
            SupersededError: It contains a plan of a later leader.
            ApiError: The API server cannot be asked, or refuses.
        """
        document = self._writer.read(node)
        if document is None:
            return None
        known = CachedAllocation.read(document)
        if known.epoch >= epoch:
            raise SupersededError(
                f"its epoch {known.epoch} is not older than that of this decision, {epoch}"
            )
        return known

    def status(self, write: StatusWrite, stamp: Stamp, version: str) -> Result:
        """Write a status.

        Args:
            write: The status.
            stamp: Identity of the decision.
            version: The resourceVersion that the object must have; if empty, the one that the
                decision knew.
        """
        status, known = write.status, stamp.version_of(write.object)
        if known is None and not write.object.uid:
            return "deferred"  # this decision could not create it
        version = version or known or ""
        if (write.object.kind, write.object.name) == ("Market", MARKET_NAME):
            epoch = {
                "number": stamp.epoch,
                "time": stamp.time,
                "durationMilliseconds": stamp.milliseconds,
            }
            status = {**status, "leader": stamp.leader, "epoch": epoch}

        def apply() -> None:
            try:
                answer = self._writer.status(write.object, status, version)
            except ApiError as error:
                if version and error.reason == "conflict":
                    raise SupersededError("it has changed since the decision") from error
                raise
            stamp.wrote(write.object, answer)
            if "account" in status:  # no other object has one
                self.account_dropped = "account" not in (answer.get("status") or {})
            if answer.get("status") == status:
                answer["status"] = status  # those of 10 000 pods are 20 MiB; not twice
            self._mirror.wrote(write.object.kind, answer)

        of_user = write.object.kind in _OF_USERS
        return self._attempts.tried(f"status of {write.object.title}", apply, of_user=of_user)

    def event(self, event: Event, stamp: Stamp) -> Result:
        """Create an Event, unless there were too many lately."""
        with self._bucket_lock:
            if not self._bucket.take(time.monotonic()):
                return "dropped"
        now = rfc3339(datetime.now(UTC))
        document = event_document(event, stamp.leader, now)
        path = EVENTS.path(namespace_of(event))
        return self._attempts.tried(
            f"Event about {event.object.title}",
            lambda: self._api.request("POST", path, document),
            of_user=True,
        )

    def placement(self, placement: Placement) -> Result:
        """Place a pod; a failure is no reason to decide less often."""
        done = True

        def place() -> None:
            nonlocal done
            done = self._placer.place(placement)

        result = self._attempts.tried(placement.pod.title, place)
        if result == "failed":
            return "refused"
        return result if done else "gone"
