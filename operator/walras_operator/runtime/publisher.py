"""Apply: write what a decision wants, object by object, as long as this operator leads.

So many requests at a time as there are threads; the client has no limit of its own. What fails for
the moment is tried again a few times; what fails for good is told, hinders nothing else, and is
tried again with the next decision, since that finds it undone.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeVar

from walras_operator.runtime.apply import Applier
from walras_operator.runtime.events import Bucket, event_document, namespace_of
from walras_operator.runtime.mirror import Known
from walras_operator.runtime.placer import Placer
from walras_service.api_errors import ApiError
from walras_service.kinds import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from walras_operator.runtime.mirror import Mirror
    from walras_operator.world import (
        Decision,
        Event,
        NodeWrite,
        Placement,
        ProfileWrite,
        Reference,
        StatusWrite,
    )
    from walras_service.api import Api

_log = logging.getLogger(__name__)

THREADS = 8
"""Requests at a time."""

SLICE = 0.5
"""Seconds: long enough for some fifty statuses, and not long to wait for a plan."""

Write = TypeVar("Write")

_PAUSES = (0.2, 0.5, 1.0, 2.0)
_LONGEST_PAUSE = 5.0
_TOLD = 5  # problems of one decision that the log has a line for

Result = Literal[
    "written", "gone", "failed", "unheld", "superseded", "dropped", "refused", "deferred"
]
"""How a write ended: `unheld` if this operator led no longer, `superseded` if another leader's plan
was found in place, `dropped` if there were too many, `refused` if a pod could not be placed,
`deferred` if it was left to the next decision, which was due."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How publishing a decision went.

    Attributes:
        results: By kind of object and result.
        void: Whether nothing of the decision was published, since its credits could not be.
    """

    results: Counter[tuple[str, Result]] = field(default_factory=Counter)
    void: bool = False

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(self.results + other.results, self.void or other.void)

    def count(self, result: Result) -> int:
        """How many ended so."""
        return sum(number for (_, each), number in self.results.items() if each == result)


class SupersededError(Exception):
    """There is a plan of a later leader, or the Market is another than was decided from."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a decision is marked with.

    Attributes:
        epoch: Its number.
        time: When it was made (RFC 3339).
        milliseconds: That it took.
        leader: Who made it.
    """

    epoch: int
    time: str
    milliseconds: int
    leader: str


class Publisher:
    """Writes decisions.

    Args:
        api: With as many connections as there are threads.
        mirror: Is told what the API server answers.
        leads: Whether this operator leads, and is not about to end; asked before each request.
        slice_: Seconds that statuses have of every decision, whatever is due meanwhile.
    """

    def __init__(
        self, api: Api, mirror: Mirror, leads: Callable[[], bool], slice_: float = SLICE
    ) -> None:
        self._api, self._mirror, self._leads, self._slice = api, mirror, leads, slice_
        self._applier = Applier(api)
        self._placer = Placer(api, mirror)
        self._bucket = Bucket()
        self._bucket_lock = threading.Lock()
        self._problems: list[str] = []  # of the present decision
        self._owed: dict[Reference, int] = {}  # whose statuses the last one left, in their order
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="publish")

    def close(self) -> None:
        """End, when what has begun has ended."""
        self._pool.shutdown(cancel_futures=True)

    def publish(
        self, decision: Decision, stamp: Stamp, hurried: Callable[[], bool] = lambda: False
    ) -> Outcome:
        """Write all of a decision, or of a part, and return when all is done or given up.

        A settled quantum comes before everything else, as grants that nobody pays for must not be:
        if its credits cannot be written, nothing is, and pods are let go only. Then come profiles:
        what a node is asked to measure next may replace a report in its NodeAllocation that only
        the profile's status keeps. Events come after statuses, none about an object whose status
        could not be written: the next decision has them again. Pods are placed last, and so are
        already told of: who follows an operator that ended among them finds some placed, and places
        the others.

        Statuses are left to the next decision when that is due, so that nodes need not wait until a
        thousand jobs are told of the last one's prices. It finds them undone. Each decision writes
        some, beginning with those that have waited longest: none waits for ever, however often
        something changes.

        Args:
            decision: To write.
            stamp: That it is marked with.
            hurried: Whether another decision is due.
        """
        known = self._mirror.allocations()
        outcome = Outcome()
        rest = decision.statuses
        untold: set[Reference] = set()
        if decision.settlement is not None:
            market = decision.settlement.market
            settled = [each for each in rest if each.object == market]
            rest = tuple(each for each in rest if each.object != market)
            if self._statuses(outcome, stamp, settled, decision.settlement.version):
                self._place(outcome, [each for each in decision.placements if not each.node])
                self._complain()
                return replace(outcome, void=True)
        self._all(outcome, "SpeedupProfile", self._profile, decision.profiles)
        first = [each for each in rest if each.object.kind == "SpeedupProfile"]
        others = [each for each in rest if each.object.kind != "SpeedupProfile"]
        untold |= self._statuses(outcome, stamp, first)
        self._all(
            outcome,
            "NodeAllocation",
            lambda each: self._node(each, stamp, known),
            decision.nodes,
        )
        told_before = bool(decision.placements)  # they are made only once
        untold |= self._statuses(outcome, stamp, others, hurried=None if told_before else hurried)
        events = [each for each in decision.events if each.object not in untold]
        self._all(outcome, "Event", lambda each: self._event(each, stamp), events)
        self._place(outcome, decision.placements)
        self._complain()
        return outcome

    @property
    def unplaceable(self) -> str:
        """Why pods may not be placed, as was found last; empty if they may."""
        return self._placer.problem

    def _place(self, outcome: Outcome, placements: Sequence[Placement]) -> None:
        if not placements:
            return  # what was found last stands
        self._placer.begin()
        self._all(outcome, "Pod", self._placement, placements)

    def _statuses(
        self,
        outcome: Outcome,
        stamp: Stamp,
        writes: Sequence[StatusWrite],
        version: str = "",
        hurried: Callable[[], bool] | None = None,
    ) -> set[Reference]:
        """Write statuses; return the objects whose status is as it was.

        Args:
            outcome: Is added to.
            stamp: Of the decision.
            writes: To make.
            version: That the objects must have; empty for any.
            hurried: Whether to leave the rest; None to write them all.
        """
        end = time.monotonic() + self._slice

        def write(each: StatusWrite) -> Result:
            if hurried is not None and time.monotonic() > end and hurried():
                return "deferred"
            return self._status(each, stamp, version)

        if hurried is not None:
            writes = sorted(writes, key=lambda each: self._owed.get(each.object, len(self._owed)))
        results = list(self._pool.map(write, writes))
        paired = list(zip(writes, results, strict=True))
        if hurried is not None and writes:
            deferred = (write.object for write, result in paired if result == "deferred")
            self._owed = {each: place for place, each in enumerate(deferred)}
        outcome.results.update((write.object.kind, result) for write, result in paired)
        return {write.object for write, result in paired if result != "written"}

    def _all(
        self,
        outcome: Outcome,
        kind: str,
        do: Callable[[Write], Result],
        writes: Iterable[Write],
    ) -> None:
        outcome.results.update((kind, result) for result in self._pool.map(do, writes))

    def _complain(self) -> None:
        for problem in self._problems[:_TOLD]:
            _log.error("not published: %s", problem, extra={"event": "publish-failed"})
        if len(self._problems) > _TOLD:
            _log.error("not published: %d others", len(self._problems) - _TOLD)
        self._problems.clear()

    def _profile(self, write: ProfileWrite) -> Result:
        def make(*, again: bool) -> None:  # noqa: ARG001 - it is there or it is not
            self._mirror.wrote("SpeedupProfile", self._applier.profile(write))

        return self._tried(write.object.title, make)

    def _node(self, write: NodeWrite, stamp: Stamp, known: Mapping[str, Known]) -> Result:
        title = f"NodeAllocation {write.node}"
        last = known.get(write.node)

        def apply(*, again: bool) -> None:
            nonlocal last
            if again:
                last = self._looked(write.node, stamp.epoch)
            answer = self._applier.allocation(write, stamp.epoch, last)
            self._mirror.wrote("NodeAllocation", answer)

        return self._tried(title, apply)

    def _looked(self, node: str, epoch: int) -> Known | None:
        """A NodeAllocation as it is now, after it was found to be another one.

        Raises:
            SupersededError: It has a plan of a later leader.
            ApiError: It is not known.
        """
        found = self._applier.read(node)
        if found is None:
            return None
        known = Known.read(found)
        if known.epoch >= epoch:
            raise SupersededError(f"it is of epoch {known.epoch}, and this decision of {epoch}")
        return known

    def _status(self, write: StatusWrite, stamp: Stamp, version: str) -> Result:
        status = write.status
        if write.object.kind == "Market":
            epoch = {
                "number": stamp.epoch,
                "time": stamp.time,
                "durationMilliseconds": stamp.milliseconds,
            }
            status = {**status, "leader": stamp.leader, "epoch": epoch}

        def apply(*, again: bool) -> None:
            if again and version:
                raise SupersededError("it is another than was decided from")
            answer = self._applier.status(write.object, status, version)
            if answer.get("status") == status:
                answer["status"] = status  # those of 10 000 pods are 20 MiB; not twice
            self._mirror.wrote(write.object.kind, answer)

        return self._tried(f"status of {write.object.title}", apply)

    def _event(self, event: Event, stamp: Stamp) -> Result:
        with self._bucket_lock:
            if not self._bucket.take(time.monotonic()):
                return "dropped"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        document = event_document(event, stamp.leader, now)

        def tell(*, again: bool) -> None:  # noqa: ARG001 - it does not matter to an Event
            self._api.request("POST", EVENTS.path(namespace_of(event)), document)

        return self._tried(f"Event about {event.object.title}", tell)

    def _placement(self, placement: Placement) -> Result:
        """Place a pod; that it cannot be done is no reason to decide less often."""
        done = True

        def place(*, again: bool) -> None:  # noqa: ARG001 - it is there or it is not
            nonlocal done
            done = self._placer.place(placement)

        result = self._tried(placement.pod.title, place)
        if result == "failed":
            return "refused"
        return result if done else "gone"

    def _tried(self, title: str, write: Callable[..., None]) -> Result:
        again = False
        for pause in (*_PAUSES, None):
            if not self._leads():
                return "unheld"
            try:
                write(again=again)
            except ApiError as error:
                if error.reason in {"missing", "expired"}:
                    return "gone"
                if pause is None or not (error.transient or error.reason == "conflict"):
                    self._problems.append(f"{title}: {error}")
                    return "failed"
                again = error.reason == "conflict"
                wait = min(max(pause, error.retry_after), _LONGEST_PAUSE)
                time.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - nothing secret about it
            except SupersededError as error:
                self._problems.append(f"{title}: left alone: {error}")
                return "superseded"
            else:
                return "written"
        raise RuntimeError("the last pause is None")
