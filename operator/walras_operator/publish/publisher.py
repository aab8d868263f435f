"""Effects: write a decision in the order in which its objects depend on each other.

A thread pool limits concurrent requests. What cannot be written does not affect other objects.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from walras_operator.publish.tried_writes import TriedWrites

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from walras_operator.decide.world import (
        AutomaticWrite,
        Placement,
        Reference,
        StatusWrite,
        Writes,
    )
    from walras_operator.publish.attempts import Result
    from walras_operator.publish.ledger_parts import LedgerParts
    from walras_operator.publish.stamp import Stamp
    from walras_operator.watch.cached_objects import CachedAllocation
    from walras_operator.watch.mirror import Mirror
    from walras_service.api import Api

THREADS = 8
"""Most concurrent requests."""

SLICE = 0.5
"""Seconds for which statuses are written in any case: some fifty, and no long wait for a plan."""

Write = TypeVar("Write")


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


class Publisher:
    """Writes decisions to the API server.

    Args:
        api: Connections to the API server, as many as threads.
        mirror: Records what the API server returns.
        leads: Returns whether this operator leads and is not ending; called before each request.
        parts: Parts of the ledger.
        slice_: Seconds for which statuses of a decision are written even if another is due.
    """

    def __init__(
        self,
        api: Api,
        mirror: Mirror,
        leads: Callable[[], bool],
        parts: LedgerParts,
        slice_: float = SLICE,
    ) -> None:
        self._mirror, self._slice = mirror, slice_
        self._writes = TriedWrites(api, mirror, leads, parts)
        self._owed: dict[Reference, int] = {}  # objects whose statuses were deferred, in order
        self._put_off: dict[Reference, int] = {}  # automatic objects of which a write was, in order
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="publish")

    @property
    def unplaceable(self) -> str:
        """Why the API server last forbade a placement; empty if it did not."""
        return self._writes.unplaceable

    @property
    def account_dropped(self) -> bool:
        """Whether the API server has dropped the account from the Market's last status."""
        return self._writes.account_dropped

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
        if self._settled(outcome, writes, stamp):
            self._rest(outcome, writes, stamp, known, yield_early)
        else:
            self._place(outcome, [each for each in writes.placements if not each.node])
            outcome = replace(outcome, void=True)
        self._writes.log_problems()
        return outcome

    def _rest(
        self,
        outcome: PublishResult,
        writes: Writes,
        stamp: Stamp,
        known: Mapping[str, CachedAllocation],
        yield_early: Callable[[], bool],
    ) -> None:
        """Write all of a decision except its settled quantum."""
        settled = writes.settlement and writes.settlement.market
        statuses = [each for each in writes.statuses if each.object != settled]
        created = [each.object for each in writes.profiles]
        automatic = [each.object for each in (*writes.entitlements, *writes.jobs)]
        self._writes.begin([*created, *automatic])
        self._all(
            outcome,
            "SpeedupProfile",
            lambda each: self._writes.profile(each, stamp),
            writes.profiles,
        )
        first = [each for each in statuses if each.object.kind == "SpeedupProfile"]
        others = [each for each in statuses if each.object.kind != "SpeedupProfile"]
        unwritten = self._statuses(outcome, stamp, first)
        self._all(
            outcome,
            "NodeAllocation",
            lambda each: self._writes.node(each, stamp, known),
            writes.nodes,
        )
        self._automatic(outcome, writes, stamp, self._later(yield_early))
        # Statuses that announce a placement are not deferred: pods are placed only once.
        defer = None if writes.placements else yield_early
        unwritten |= self._statuses(outcome, stamp, others, yield_early=defer)
        events = [each for each in writes.events if each.object not in unwritten]
        self._all(outcome, "Event", lambda each: self._writes.event(each, stamp), events)
        self._place(outcome, writes.placements)

    def _settled(self, outcome: PublishResult, writes: Writes, stamp: Stamp) -> bool:
        """Write the credits of a quantum, if one has ended; return whether grants may follow."""
        settlement = writes.settlement
        if settlement is None:
            return True
        if settlement.parts:
            result = self._writes.new_parts(settlement.parts)
            outcome.results["ConfigMap", result] += 1
            if result != "written":
                return False
        market = [each for each in writes.statuses if each.object == settlement.market]
        if self._statuses(outcome, stamp, market, settlement.version):
            return False
        if settlement.superseded:  # if that fails, they are only litter
            self._writes.delete_parts(settlement.superseded)
        return True

    def _automatic(
        self, outcome: PublishResult, writes: Writes, stamp: Stamp, late: Callable[[], bool]
    ) -> None:
        """Write Entitlements that follow quotas, and MarketJobs of workloads."""
        automatic = [*self._in_turn(writes.entitlements), *self._in_turn(writes.jobs)]
        if not automatic:
            return

        def write(each: AutomaticWrite) -> Result:
            return self._writes.automatic(each, stamp, late)

        results = list(self._pool.map(write, automatic))
        paired = list(zip((each.object for each in automatic), results, strict=True))
        outcome.results.update((object_.kind, result) for object_, result in paired)
        deferred = (object_ for object_, result in paired if result == "deferred")
        self._put_off = {each: place for place, each in enumerate(deferred)}

    def _place(self, outcome: PublishResult, placements: Sequence[Placement]) -> None:
        if not placements:
            return  # the last finding stands
        self._writes.begin_placements()
        self._all(outcome, "Pod", self._writes.placement, placements)

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
            return (
                "deferred"
                if late is not None and late()
                else self._writes.status(each, stamp, version)
            )

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
