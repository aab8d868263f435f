"""Effects: write the objects of a decision, as long as this operator leads.

A thread pool limits concurrent requests. What cannot be written after some attempts (`attempts`)
does not affect other objects; the next decision finds it undone and tries again. Failures about
objects that belong to one user are no reason to decide less often: a user can cause them.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from walras_api.contract import MARKET_NAME
from walras_operator.publish.attempts import Attempts, SupersededError
from walras_operator.publish.events import TokenBucket, event_document, namespace_of
from walras_operator.publish.object_writer import ObjectWriter
from walras_operator.publish.placer import Placer
from walras_operator.publish.write_budget import WriteBudget
from walras_operator.watch.mirror import CachedAllocation
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
        Settlement,
        StatusWrite,
        Writes,
    )
    from walras_operator.publish.attempts import Result
    from walras_operator.publish.ledger_parts import LedgerParts
    from walras_operator.watch.mirror import Mirror
    from walras_service.api import Api, Document

THREADS = 8
"""Most concurrent requests."""

SLICE = 0.5
"""Seconds for which statuses are written in any case: some fifty, and no long wait for a plan."""

Write = TypeVar("Write")

_OF_USERS = frozenset({"Entitlement", "MarketJob", "SpeedupProfile"})
"""Kinds whose objects each concern one user."""


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The results of publishing a decision.

    Attributes:
        results: Number of writes by kind of object and result.
        void: Whether nothing was published because the credits could not be written.
    """

    results: Counter[tuple[str, Result]] = field(default_factory=Counter)
    void: bool = False

    def __add__(self, other: PublishResult) -> PublishResult:
        return PublishResult(self.results + other.results, self.void or other.void)

    def count(self, result: Result) -> int:
        """Return the number of writes with a result."""
        return sum(number for (_, each), number in self.results.items() if each == result)


@dataclass(frozen=True, slots=True)
class Stamp:
    """The identity of a decision: its number, time and author.

    Attributes:
        epoch: Number of the decision.
        time: When it was made (RFC 3339).
        milliseconds: Time that it took.
        leader: Identity of the operator that made it.
        versions: The resourceVersions of the objects that it was made from, by UID, and of those
            that it has written since; objects that it has created by title. An operator that has
            stood still for longer than its Lease, and is no leader any more, must not write what it
            knew of credits, runs and measurements.
    """

    epoch: int
    time: str
    milliseconds: int
    leader: str
    versions: dict[str, str] = field(default_factory=dict)

    def version_of(self, object_: Reference) -> str | None:
        """Return the version on which a write of an object depends; None if it is not known."""
        return self.versions.get(object_.uid or object_.title)

    def wrote(self, object_: Reference, answer: Document) -> None:
        """Note that the object is as this decision has it."""
        self.versions[object_.uid or object_.title] = answer["metadata"]["resourceVersion"]


class Publisher:
    """Writes decisions to the API server.

    Args:
        api: Connections to the API server, as many as threads.
        mirror: Records what the API server returns.
        leads: Returns whether this operator leads and is not ending; called before each request.
        parts: Parts of the ledger.
        slice_: Seconds for which statuses of a decision are written even if another is due.

    Attributes:
        account_dropped: Whether the API server has dropped the account from the Market's status
            that was written last, as it does if the definition of Markets does not know it.
    """

    def __init__(
        self,
        api: Api,
        mirror: Mirror,
        leads: Callable[[], bool],
        parts: LedgerParts,
        slice_: float = SLICE,
    ) -> None:
        self._api, self._mirror, self._slice = api, mirror, slice_
        self._parts = parts
        self._writer = ObjectWriter(api)
        self._placer = Placer(api, mirror)
        self._bucket = TokenBucket()
        self._bucket_lock = threading.Lock()
        self._budget = WriteBudget(time.monotonic)
        self._attempts = Attempts(leads)
        self._owed: dict[Reference, int] = {}  # objects whose statuses were deferred, in order
        self._put_off: dict[Reference, int] = {}  # automatic objects of which a write was, in order
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="publish")
        self.account_dropped = False

    def close(self) -> None:
        """Stop once writes in progress have ended."""
        self._pool.shutdown(cancel_futures=True)

    def publish(
        self, writes: Writes, stamp: Stamp, yield_early: Callable[[], bool] = lambda: False
    ) -> PublishResult:
        """Write a decision, or a part of one, and return when all requests have ended.

        The order is:

        1. A settled quantum, because no grant may exist that nobody pays for. If its credits cannot
           be written, nothing else is, except that pods are left to the scheduler.
        2. Profiles and their statuses: the next measurement may replace a report in a
           NodeAllocation that only the profile's status keeps.
        3. NodeAllocations.
        4. Entitlements that follow quotas, and MarketJobs of workloads.
        5. Other statuses, then Events, but none about an object whose status could not be written:
           the next decision has them again.
        6. Placements of pods. If the operator ends meanwhile, the next leader places the others.

        When another decision is due, the remaining statuses are deferred to it, so that nodes need
        not wait for the statuses of a thousand jobs. Each decision writes some, starting with those
        that have waited longest, so none waits forever.

        Args:
            writes: A decision, or a part of one.
            stamp: Identity of the decision.
            yield_early: Returns whether another decision is due.
        """
        known = self._mirror.allocations()
        outcome = PublishResult()
        rest = writes.statuses
        unwritten: set[Reference] = set()
        if writes.settlement is not None:
            market = writes.settlement.market
            settled = [each for each in rest if each.object == market]
            rest = tuple(each for each in rest if each.object != market)
            if not self._settled(outcome, stamp, settled, writes.settlement):
                self._place(outcome, [each for each in writes.placements if not each.node])
                self._attempts.log_problems()
                return replace(outcome, void=True)
        wanted = [
            *(each.object for each in writes.profiles),
            *(each.object for each in (*writes.entitlements, *writes.jobs)),
        ]
        if wanted:  # not the second part of a decision
            self._budget.begin(wanted)
        self._all(
            outcome, "SpeedupProfile", lambda each: self._profile(each, stamp), writes.profiles
        )
        first = [each for each in rest if each.object.kind == "SpeedupProfile"]
        others = [each for each in rest if each.object.kind != "SpeedupProfile"]
        unwritten |= self._statuses(outcome, stamp, first)
        self._all(
            outcome,
            "NodeAllocation",
            lambda each: self._node(each, stamp, known),
            writes.nodes,
        )
        late = self._later(yield_early)
        automatic = [*self._in_turn(writes.entitlements), *self._in_turn(writes.jobs)]
        results = list(self._pool.map(lambda each: self._automatic(each, stamp, late), automatic))
        paired = [(each.object, result) for each, result in zip(automatic, results, strict=True)]
        outcome.results.update((object_.kind, result) for object_, result in paired)
        if automatic:
            deferred = (object_ for object_, result in paired if result == "deferred")
            self._put_off = {each: place for place, each in enumerate(deferred)}
        # Statuses that announce a placement are not deferred: pods are placed only once.
        defer = None if writes.placements else yield_early
        unwritten |= self._statuses(outcome, stamp, others, yield_early=defer)
        events = [each for each in writes.events if each.object not in unwritten]
        self._all(outcome, "Event", lambda each: self._event(each, stamp), events)
        self._place(outcome, writes.placements)
        self._attempts.log_problems()
        return outcome

    def _settled(
        self,
        outcome: PublishResult,
        stamp: Stamp,
        writes: Sequence[StatusWrite],
        settlement: Settlement,
    ) -> bool:
        """Write the credits of a quantum; return whether they count now."""
        if settlement.parts:
            result = self._attempts.tried(
                "parts of the ledger", lambda: self._parts.create(settlement.parts)
            )
            outcome.results["ConfigMap", result] += 1
            if result != "written":
                return False
        if self._statuses(outcome, stamp, writes, settlement.version):
            return False
        if settlement.superseded:
            superseded = dict.fromkeys(settlement.superseded, "")
            # If that fails, they are only litter.
            self._attempts.tried("superseded parts", lambda: self._parts.delete(superseded))
        return True

    @property
    def unplaceable(self) -> str:
        """Why the API server last forbade a placement; empty if it did not."""
        return self._placer.problem

    def _place(self, outcome: PublishResult, placements: Sequence[Placement]) -> None:
        if not placements:
            return  # the last finding stands
        self._placer.begin()
        self._all(outcome, "Pod", self._placement, placements)

    def _statuses(
        self,
        outcome: PublishResult,
        stamp: Stamp,
        writes: Sequence[StatusWrite],
        version: str = "",
        yield_early: Callable[[], bool] | None = None,
    ) -> set[Reference]:
        """Write statuses; return the objects whose status could not be written.

        Args:
            outcome: Results, which are added to.
            stamp: Identity of the decision.
            writes: Statuses to write.
            version: The resourceVersion that the objects must have; empty for any.
            yield_early: Returns whether to defer the rest; None to write all.
        """
        late = None if yield_early is None else self._later(yield_early)

        def write(each: StatusWrite) -> Result:
            return "deferred" if late is not None and late() else self._status(each, stamp, version)

        if yield_early is not None:
            writes = sorted(writes, key=lambda each: self._owed.get(each.object, len(self._owed)))
        results = list(self._pool.map(write, writes))
        paired = list(zip(writes, results, strict=True))
        if yield_early is not None and writes:
            deferred = (write.object for write, result in paired if result == "deferred")
            self._owed = {each: place for place, each in enumerate(deferred)}
        outcome.results.update((write.object.kind, result) for write, result in paired)
        return {write.object for write, result in paired if result != "written"}

    def _later(self, yield_early: Callable[[], bool]) -> Callable[[], bool]:
        """Return a function that returns whether what is left waits for the next decision."""
        end = time.monotonic() + self._slice
        return lambda: time.monotonic() > end and yield_early()

    def _in_turn(self, writes: Sequence[AutomaticWrite]) -> list[AutomaticWrite]:
        """Return writes with those first that were put off longest, after new Entitlements.

        Where everything changes all the time, as shares do while queues borrow, the last would
        otherwise never be written. A new Entitlement may be the parent of others.
        """

        def turn(write: AutomaticWrite) -> tuple[bool, int]:
            is_new = write.object.kind == "Entitlement" and not write.object.uid
            return not is_new, self._put_off.get(write.object, len(self._put_off))

        return sorted(writes, key=turn)

    def _all(
        self,
        outcome: PublishResult,
        kind: str,
        do: Callable[[Write], Result],
        writes: Iterable[Write],
    ) -> None:
        outcome.results.update((kind, result) for result in self._pool.map(do, writes))

    def _profile(self, write: ProfileWrite, stamp: Stamp) -> Result:
        def make() -> None:
            made = self._writer.profile(write)
            if made is None:
                raise SupersededError("one of its name exists since the decision")
            stamp.wrote(write.object, made)
            self._mirror.wrote("SpeedupProfile", made)

        return self._within_budget(write.object, make)

    def _automatic(self, write: AutomaticWrite, stamp: Stamp, late: Callable[[], bool]) -> Result:
        """Write an object of the operator's own; a failure is no reason to decide less often."""
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

    def _node(
        self, write: NodeWrite, stamp: Stamp, known: Mapping[str, CachedAllocation]
    ) -> Result:
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

    def _status(self, write: StatusWrite, stamp: Stamp, version: str) -> Result:
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

    def _event(self, event: Event, stamp: Stamp) -> Result:
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

    def _placement(self, placement: Placement) -> Result:
        """Place a pod; a failure is no reason to decide less often."""
        done = True

        def place() -> None:
            nonlocal done
            done = self._placer.place(placement)

        result = self._attempts.tried(placement.pod.title, place)
        if result == "failed":
            return "refused"
        return result if done else "gone"
