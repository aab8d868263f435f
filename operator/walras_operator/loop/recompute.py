"""Effects: decide whenever something changes, and at least once an epoch, and publish the outcome.

One thread makes all decisions, so that no two overlap (docs/decisions/one-thread.md). An exception
in a decision is logged and counted, and the thread tries again after a pause.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from walras_api.market import MarketSpec
from walras_operator.decide.credits.quanta import time_at
from walras_operator.lead.lease import next_epoch
from walras_operator.publish.publisher import PublishResult
from walras_operator.publish.stamp import Stamp
from walras_service import collector

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from walras_operator.decide.world import Carried, Decision, World, Writes
    from walras_operator.lead.leadership import Leadership
    from walras_operator.loop.debounce import Debounce
    from walras_operator.loop.gather import Gatherer
    from walras_operator.loop.pool_signals import PoolSignals
    from walras_operator.metrics.operator_metrics import Metrics
    from walras_operator.publish.publisher import Publisher
    from walras_operator.watch.lookups import Ends
    from walras_operator.watch.mirror import Mirror
    from walras_operator.watch.watches import Watches

_log = logging.getLogger(__name__)

T = TypeVar("T")

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
    """

    term: int
    since: float
    carried: Carried | None = None
    again: float | None = None
    matched: float | None = None
    agents: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Stopwatch:
    """Measures the time that a decision takes.

    Attributes:
        seconds: Time spent so far.
    """

    seconds: float = 0.0

    def timed(self, part: Callable[[], T]) -> T:
        """Return what a part of a decision returns."""
        began = time.monotonic()
        try:
            return part()
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
        gatherer: Puts together what the operator knows.
        decide: Decides on a world.
        metrics: Metrics of the process.
        pools: Computes the signals of node pools.
        debounce: Chooses when to react to changes.
        clock: Returns the current time (UTC), by the API server's clock.

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
        gatherer: Gatherer,
        decide: Callable[[World], Decision],
        metrics: Metrics,
        pools: PoolSignals,
        debounce: Debounce,
        clock: Callable[[], datetime],
    ) -> None:
        self.rules = MarketSpec()
        self.completed: float | None = None
        self.succeeded: float | None = None
        self.epoch = 0
        self._mirror, self._watches, self._leadership = mirror, watches, leadership
        self._publisher, self._decide, self._metrics = publisher, decide, metrics
        self._ends, self._gatherer, self._debounce = ends, gatherer, debounce
        self._pools, self._clock = pools, clock
        self._term: _LeaderTerm | None = None
        self._tried: float | None = None
        self._decided = ""  # when a decision last counted, by the API server's clock
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

    def look(self) -> None:
        """Find out at once whether this operator may decide now; safe for concurrent use."""
        with self._wake:
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
                with collector.paused():  # until nodes have their plans
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
                until = now + _TICK if due is None else min(due, now + _TICK)
                self._sleeps_until = 0.0 if due is None else until  # no change makes it a leader
                self._wake.wait(until - now)
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
        began, now = time.monotonic(), self._clock()
        matching = self._matching(current, began)
        grace = self.rules.agent_grace_period_seconds
        led = max(self._decided, self._leadership.led_before())
        world = self._gatherer.world(now, current.carried, grace, led, matching=matching)
        current.agents, current.again = world.agents, None
        outcome, stamp, deciding = PublishResult(), None, _Stopwatch()
        decision = deciding.timed(lambda: self._decide(world))
        if decision.wake.ended is not None:
            self._ends.seek(decision.wake.ended)
        if decision.wake.quantum_ends:
            end = time_at(decision.wake.quantum_ends)
            current.again = began + (end - now).total_seconds()
        rest = decision.rest
        for part in (lambda: decision.first, rest):
            writes = deciding.timed(part)
            if stamp is None and writes:
                stamp = self._stamp(world, deciding.seconds, current.term)
            if stamp is not None:
                outcome += self._published(writes, stamp)
            if outcome.void:
                break
            if writes or part is rest:  # an empty first part may wait for credits in the rest
                self._keep(decision, current, world.now)
                current.matched = began if matching else current.matched
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

    def _keep(self, decision: Decision, current: _LeaderTerm, now: str) -> None:
        """Keep what later decisions and metrics need of one that counts."""
        current.carried, self._decided = decision.carried, now
        self.rules = decision.carried.rules or self.rules
        self._metrics.noted(decision.notes)
        if decision.market is not None:
            cleared = decision.market
            self._pools.decided(cleared.snapshot, cleared.plan, self.rules, cleared.gains)

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
        highest = max((max(each.epoch, each.reported) for each in allocations), default=0)
        self.epoch = next_epoch(term, max(highest, self.epoch))
        return Stamp(
            self.epoch,
            world.now,
            round(1000 * seconds),
            self._leadership.identity,
            dict(world.versions),
        )

    def _published(self, part: Writes, stamp: Stamp) -> PublishResult:
        if part.settlement is not None and part.settlement.record is not None:
            # Log before the write, so that no quantum counts without a record in the log.
            record = part.settlement.record
            text = "quantum %d is settled, if the Market takes its credits"
            _log.info(text, record["quantum"], extra={"event": "quantum", "record": record})
        return self._publisher.publish(part, stamp, self._more_urgent)
