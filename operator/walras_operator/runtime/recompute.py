"""Apply: decide whenever something has changed, at least every epoch, and have it published.

One thread, so that no two decisions overlap, and not a process: a decision takes most of its time
in compiled kernels that let other threads run, and a world of 10 000 pods would be copied to a
process, whose interpreter and kernels take another 150 MiB. Whatever goes wrong in it is told and
counted, and it goes on after a pause.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from walras.resources.market import MarketSpec
from walras_operator.quanta import TIME
from walras_operator.runtime import collector
from walras_operator.runtime.lease import next_epoch
from walras_operator.runtime.publisher import Outcome, Stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walras_operator.runtime.debounce import Debounce
    from walras_operator.runtime.ends import Ends
    from walras_operator.runtime.leadership import Leadership
    from walras_operator.runtime.metrics import Metrics
    from walras_operator.runtime.mirror import Mirror
    from walras_operator.runtime.publisher import Publisher
    from walras_operator.runtime.watch import Watches
    from walras_operator.world import Carried, Decision, World

_log = logging.getLogger(__name__)

_TICK = 1.0
_LONGEST_PAUSE = 60.0


@dataclass(slots=True)
class _Reign:
    """What belongs to one term of this operator.

    Attributes:
        term: Which.
        since: When it began.
        carried: From the last decision.
        again: When memory is to be divided again; None if it is not.
        matched: When pods that wait were last paired.
        agents: That lived then.
    """

    term: int
    since: float
    carried: Carried | None = None
    again: float | None = None
    matched: float | None = None
    agents: frozenset[str] = frozenset()


class _Deciding:
    """Makes the parts of a decision as they are asked for; the collector waits meanwhile.

    Attributes:
        seconds: That it took so far.
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
    """Makes decisions and has them published.

    Args:
        mirror: What is known.
        watches: Whether all is known.
        leadership: Whether this operator leads.
        publisher: Writes.
        ends: Asks how pods ended.
        parts: Decides about a world, and yields what is to be written in parts.
        metrics: Are told.
        debounce: When to answer to changes.

    Attributes:
        rules: Of the last decision that could be made.
        succeeded: When a decision was last made and published without a failure; None before.
        epoch: Of the last decision.
    """

    def __init__(
        self,
        mirror: Mirror,
        watches: Watches,
        leadership: Leadership,
        publisher: Publisher,
        ends: Ends,
        parts: Callable[[World], Iterator[Decision]],
        metrics: Metrics,
        debounce: Debounce,
    ) -> None:
        self.rules = MarketSpec()
        self.succeeded: float | None = None
        self.epoch = 0
        self._mirror, self._watches, self._leadership = mirror, watches, leadership
        self._publisher, self._parts, self._metrics = publisher, parts, metrics
        self._ends, self._debounce = ends, debounce
        self._reign: _Reign | None = None
        self._tried: float | None = None
        self._failures = 0
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="recompute", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present decision; what of it is not yet written is left."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(timeout=30)

    def changed(self, *, presses: bool = True) -> None:
        """Something is another; for all threads."""
        with self._wake:
            self._debounce.note(time.monotonic(), presses=presses)
            self._wake.notify()

    @property
    def leading_since(self) -> float | None:
        """When this operator began to lead with all it must know; None if it does not."""
        reign = self._reign
        return None if reign is None else reign.since

    def _run(self) -> None:
        while reign := self._waited():
            self._tried = time.monotonic()
            try:
                outcome = self._round(reign)
            except Exception:  # noqa: BLE001 - whatever it is, the next round may go well
                _log.exception("a decision failed", extra={"event": "crash"})
                self._metrics.crashed()
                self._failures += 1
            else:
                self._note(outcome)

    def _note(self, outcome: Outcome) -> None:
        undone = outcome.count("failed") + outcome.count("superseded")
        self._failures = self._failures + 1 if undone else 0
        if not undone and not outcome.count("unheld"):
            self.succeeded = time.monotonic()

    def _waited(self) -> _Reign | None:
        """Wait until a decision is due; None when the process is to end."""
        with self._wake:
            while not self._stopping:
                now = time.monotonic()
                reign = self._reign = self._present(now)
                due = None if reign is None else self._due(reign, now)
                if due is not None and due <= now:
                    self._debounce.answered()
                    return reign
                self._wake.wait(_TICK if due is None else min(due - now, _TICK))
        return None

    def _present(self, now: float) -> _Reign | None:
        """The term in which to decide; a new one begins with nothing carried over."""
        term = self._leadership.term()
        if term is None or not self._watches.complete:
            return None
        if self._reign is not None and self._reign.term == term:
            return self._reign
        self._tried = None
        return _Reign(term, now)

    def _due(self, reign: _Reign, now: float) -> float:
        """When to decide next."""
        if self._tried is None:
            return now
        if self._failures:
            return self._tried + min(2.0 ** (self._failures - 1), _LONGEST_PAUSE)
        if self._mirror.agents() != reign.agents:
            self._debounce.note(now)
        last = min(self._tried, reign.matched or now)
        due = (last + self.rules.epoch_seconds, reign.again, self._debounce.due())
        return min(each for each in due if each is not None)

    def _round(self, reign: _Reign) -> Outcome:
        began, now = time.monotonic(), datetime.now(UTC)
        known = self._mirror.world(now.strftime(TIME))
        reign.agents = known.agents
        matching = self._matching(reign, began)
        world = replace(
            known,
            carried=reign.carried,
            matching=matching,
            unplaceable=self._publisher.unplaceable,
            ends=self._ends.known,
        )
        reign.again = None
        outcome, stamp = Outcome(), None
        deciding = _Deciding(self._parts(world))
        for part in deciding:
            if part.ended is not None:
                self._ends.seek(part.ended)
            if part.until:
                end = datetime.strptime(part.until, TIME).replace(tzinfo=UTC)
                reign.again = began + (end - now).total_seconds()
            if stamp is None and part.writes:
                stamp = self._stamp(known.now, deciding.seconds, reign.term)
            if stamp is not None:
                outcome += self._published(part, stamp)
            if outcome.void:
                break
            reign.carried = part.carried
            self.rules = part.rules or self.rules
            reign.matched = began if matching else reign.matched
            self._metrics.noted(part.notes)
        # What agents answer can wait as long as a decision takes: a change that is made meanwhile
        # need not wait for the end of one that nobody is in a hurry for.
        self._debounce.pause = deciding.seconds
        self._metrics.decided(deciding.seconds)
        self._metrics.published(outcome, time.monotonic() - began)
        if stamp is not None:
            results = (f"{kind} {result} {n}" for (kind, result), n in outcome.results.items())
            extra = {"event": "published", "epoch": stamp.epoch}
            _log.info("epoch %d: %s", stamp.epoch, ", ".join(results), extra=extra)
        return outcome

    def _hurried(self) -> bool:
        """Whether another decision is due for more than what agents answer to the present one."""
        now = time.monotonic()
        reign = self._reign
        if reign is not None and reign.again is not None and reign.again <= now:
            return True
        with self._wake:
            due = self._debounce.pressing()
        return due is not None and due <= now

    def _matching(self, reign: _Reign, now: float) -> bool:
        """Whether to pair pods that wait: once an epoch, and always where nothing comes of it."""
        if reign.matched is None or self.rules.mode == "observe":
            return True
        return now - reign.matched >= self.rules.epoch_seconds

    def _stamp(self, now: str, seconds: float, term: int) -> Stamp:
        """Return what all parts of a decision are marked with; begins a new epoch."""
        allocations = self._mirror.allocations().values()
        known = max((max(each.epoch, each.reported) for each in allocations), default=0)
        self.epoch = next_epoch(term, max(known, self.epoch))
        return Stamp(self.epoch, now, round(1000 * seconds), self._leadership.identity)

    def _published(self, part: Decision, stamp: Stamp) -> Outcome:
        if part.settlement is not None:
            # Before it is written: an operator that dies in between must not leave a quantum that
            # counts without a record of it.
            record = part.settlement.record
            text = "quantum %d is settled, if the Market takes its credits"
            _log.info(text, record["quantum"], extra={"event": "quantum", "record": record})
        return self._publisher.publish(part, stamp, self._hurried)
