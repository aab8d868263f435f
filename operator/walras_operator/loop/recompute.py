"""Effects: decide whenever something changes, and at least once an epoch, and publish the outcome.

One thread makes all decisions, so that no two overlap (docs/decisions/one-thread.md). An exception
in a decision is logged and counted, and the thread tries again after a pause.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from walras_api.market import MarketSpec
from walras_operator.decide.credits.parts import part_names
from walras_operator.decide.credits.quanta import TIME
from walras_operator.decide.last_decision import status_of_market
from walras_operator.interpreter import collector
from walras_operator.lead.lease import next_epoch
from walras_operator.publish.publisher import PublishResult, Stamp
from walras_operator.watch.lookups import FIRST_WAIT, WAIT
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walras_operator.decide.world import Carried, Decision, World
    from walras_operator.lead.leadership import Leadership
    from walras_operator.loop.debounce import Debounce
    from walras_operator.loop.pool_signals import PoolSignals
    from walras_operator.metrics.operator_metrics import Metrics
    from walras_operator.publish.ledger_parts import LedgerParts
    from walras_operator.publish.publisher import Publisher
    from walras_operator.watch.lookups import Ends, Owners
    from walras_operator.watch.mirror import Mirror
    from walras_operator.watch.watches import Watches

_log = logging.getLogger(__name__)

_TICK = 1.0
_LONGEST_PAUSE = 60.0


@dataclass(slots=True)
class _LeaderTerm:
    """State that belongs to one leader term of this operator.

    Attributes:
        term: Number of the term.
        since: When it began.
        carried: State from the last decision.
        again: When memory is divided again; None if it is not.
        matched: When waiting pods were last paired.
        agents: Nodes with a live agent at the last decision.
        swept: Whether parts of the ledger that nobody needs were deleted.
    """

    term: int
    since: float
    carried: Carried | None = None
    again: float | None = None
    matched: float | None = None
    agents: frozenset[str] = frozenset()
    swept: bool = False


class _TimedParts:
    """An iterator over the parts of a decision that pauses the collector and measures time.

    Attributes:
        seconds: Time spent so far.
    """

    def __init__(self, parts: Iterator[Decision]) -> None:
        self.seconds = 0.0
        self._parts = parts

    def __iter__(self) -> Iterator[Decision]:
        return self

    def __next__(self) -> Decision:
        began = time.monotonic()
        try:
            with collector.paused():
                return next(self._parts)
        finally:
            self.seconds += time.monotonic() - began


class Recompute:
    """Makes decisions and publishes them.

    Args:
        mirror: Cache of the cluster.
        watches: Watches that fill the mirror.
        leadership: Part in the election of a leader.
        publisher: Writes decisions.
        ends: Looks up how pods ended.
        owners: Looks up the controllers of the owners of pods.
        ledger_parts: Parts of the ledger.
        parts: Decides on a world, and yields the parts of the decision.
        metrics: Metrics of the process.
        pools: Computes the signals of node pools.
        debounce: Chooses when to react to changes.

    Attributes:
        rules: Rules of the last decision that could be made.
        completed: When a decision last ended while this operator led, whether or not everything
            could be written; None before.
        succeeded: When a decision was last published without a failure; None before.
        epoch: Epoch of the last decision; 0 before.
    """

    def __init__(
        self,
        mirror: Mirror,
        watches: Watches,
        leadership: Leadership,
        publisher: Publisher,
        ends: Ends,
        owners: Owners,
        ledger_parts: LedgerParts,
        parts: Callable[[World], Iterator[Decision]],
        metrics: Metrics,
        pools: PoolSignals,
        debounce: Debounce,
    ) -> None:
        self.rules = MarketSpec()
        self.completed: float | None = None
        self.succeeded: float | None = None
        self.epoch = 0
        self._mirror, self._watches, self._leadership = mirror, watches, leadership
        self._publisher, self._parts, self._metrics = publisher, parts, metrics
        self._ends, self._owners, self._debounce = ends, owners, debounce
        self._ledger_parts, self._pools = ledger_parts, pools
        self._term: _LeaderTerm | None = None
        self._tried: float | None = None
        self._failures = 0
        self._wake = threading.Condition()
        self._sleeps_until = 0.0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="recompute", daemon=True)

    def start(self) -> None:
        """Start to decide."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current decision; writes that have not begun are skipped."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(timeout=30)

    def changed(self, *, urgent: bool = True) -> None:
        """Note that something has changed; safe for concurrent use."""
        with self._wake:
            self._debounce.note(time.monotonic(), urgent=urgent)
            due = self._debounce.due()
            if due is not None and due < self._sleeps_until:  # not for every change of a burst
                self._wake.notify()

    @property
    def leading_since(self) -> float | None:
        """When this operator began to lead with a complete mirror; None if it does not."""
        current = self._term
        return None if current is None else current.since

    def _run(self) -> None:
        while current := self._wait_until_due():
            self._tried = time.monotonic()
            try:
                outcome = self._round(current)
            except Exception:  # noqa: BLE001 - the next decision may succeed
                _log.exception("a decision failed", extra={"event": "crash"})
                self._metrics.crashed()
                self._failures += 1
            else:
                self._note(outcome)

    def _note(self, outcome: PublishResult) -> None:
        undone = outcome.count("failed") + outcome.count("superseded")
        self._failures = self._failures + 1 if undone else 0
        if outcome.count("superseded") or outcome.count("unheld"):
            return  # another leader decides, or the cache of the cluster is old
        self.completed = time.monotonic()
        if not undone:
            self.succeeded = self.completed

    def _wait_until_due(self) -> _LeaderTerm | None:
        """Wait until a decision is due; return None when the process is to end."""
        with self._wake:
            while not self._stopping:
                now = time.monotonic()
                current = self._term = self._current_term(now)
                due = None if current is None else self._due(current, now)
                if due is not None and due <= now:
                    self._debounce.answered()
                    return current
                self._sleeps_until = now + _TICK if due is None else min(due, now + _TICK)
                self._wake.wait(self._sleeps_until - now)
        return None

    def _current_term(self, now: float) -> _LeaderTerm | None:
        """Return the leader term in which to decide; a new one starts without any state."""
        term = self._leadership.term()
        if term is None or not self._watches.complete:
            return None
        if self._term is not None and self._term.term == term:
            return self._term
        self._tried = None
        self._pools.leads(term)
        return _LeaderTerm(term, now)

    def _due(self, current: _LeaderTerm, now: float) -> float:
        """Return when to decide next."""
        if self._tried is None:
            return now
        if self._failures:
            return self._tried + min(2.0 ** min(self._failures - 1, 6), _LONGEST_PAUSE)
        if self._mirror.agents() != current.agents:
            self._debounce.note(now)
        last = min(self._tried, current.matched or now)
        due = last + self.rules.epoch_seconds, current.again, self._debounce.due()
        return min(each for each in due if each is not None)

    def _round(self, current: _LeaderTerm) -> PublishResult:
        began, now = time.monotonic(), datetime.now(UTC)
        known = self._mirror.world(now.strftime(TIME), self.rules.agent_grace_period_seconds)
        current.agents = known.agents
        controllers = self._owners.controllers(
            known.objects,
            every_namespace=_takes_all(known),
            wait=FIRST_WAIT if current.carried is None else WAIT,
        )
        known = replace(known, objects=replace(known.objects, controllers=controllers))
        matching = self._matching(current, began)
        world = replace(
            known,
            carried=current.carried,
            matching=matching,
            unplaceable=self._publisher.unplaceable,
            ends=self._ends.known,
            ledger_parts=self._read_ledger_parts(current, known, now),
            node_pools=self._pools.reports,
            namespace=self._leadership.namespace,
        )
        current.again = None
        outcome, stamp = PublishResult(), None
        deciding = _TimedParts(self._parts(world))
        for part in deciding:
            if part.ended is not None:
                self._ends.seek(part.ended)
            if part.until:
                end = datetime.strptime(part.until, TIME).replace(tzinfo=UTC)
                current.again = began + (end - now).total_seconds()
            if stamp is None and part.has_writes:
                stamp = self._stamp(known, deciding.seconds, current.term)
            if stamp is not None:
                outcome += self._published(part, stamp)
            if outcome.void:
                break
            current.carried = part.carried
            self.rules = part.rules or self.rules
            current.matched = began if matching else current.matched
            self._metrics.noted(part.notes)
            if part.plan is not None and part.snapshot is not None:
                self._pools.decided(part.snapshot, part.plan, self.rules)
        # Reports of agents wait for as long as a decision takes, so that an urgent change need not
        # wait for the end of a decision that is not urgent.
        self._debounce.pause = deciding.seconds
        self._metrics.decided(deciding.seconds)
        self._metrics.published(outcome, time.monotonic() - began)
        if stamp is not None:
            results = (f"{kind} {result} {n}" for (kind, result), n in outcome.results.items())
            extra = {"event": "published", "epoch": stamp.epoch}
            _log.info("epoch %d: %s", stamp.epoch, ", ".join(results), extra=extra)
        return outcome

    def _read_ledger_parts(
        self, current: _LeaderTerm, world: World, now: datetime
    ) -> dict[str, str]:
        """Return the parts of a large ledger; delete litter at the first decision of a term."""
        names = part_names(status_of_market(world))
        if not current.swept:
            current.swept = True
            try:
                self._ledger_parts.sweep(names, now)
            except ApiError as error:
                _log.warning("parts of the ledger that nobody needs are left: %s", error)
        return self._ledger_parts.read(names)

    def _more_urgent(self) -> bool:
        """Return whether another decision is due for an urgent reason."""
        now = time.monotonic()
        current = self._term
        if current is not None and current.again is not None and current.again <= now:
            return True
        with self._wake:
            due = self._debounce.urgent_due()
        return due is not None and due <= now

    def _matching(self, current: _LeaderTerm, now: float) -> bool:
        """Return whether to pair waiting pods: once an epoch, and always in mode observe."""
        if current.matched is None or self.rules.mode == "observe":
            return True
        return now - current.matched >= self.rules.epoch_seconds

    def _stamp(self, world: World, seconds: float, term: int) -> Stamp:
        """Start a new epoch; return the identity of the decision."""
        allocations = self._mirror.allocations().values()
        known = max((max(each.epoch, each.reported) for each in allocations), default=0)
        self.epoch = next_epoch(term, max(known, self.epoch))
        return Stamp(
            self.epoch,
            world.now,
            round(1000 * seconds),
            self._leadership.identity,
            world.version,
        )

    def _published(self, part: Decision, stamp: Stamp) -> PublishResult:
        if part.settlement is not None and part.settlement.record is not None:
            # Log before the write, so that no quantum counts without a record in the log.
            record = part.settlement.record
            text = "quantum %d is settled, if the Market takes its credits"
            _log.info(text, record["quantum"], extra={"event": "quantum", "record": record})
        return self._publisher.publish(part, stamp, self._more_urgent)


def _takes_all(world: World) -> bool:
    """Return whether workloads take part in the market without a label."""
    return any(each.spec.jobs.create == "Entitled" for each in world.markets)
