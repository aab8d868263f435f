"""Effects: keep the history of the market while this operator leads.

A thread of its own takes a sample of the cached statuses every minute, and writes what is new every
ten minutes and when the operator ends. No decision waits for it. What cannot be written is tried
again with the next write; samples that are too old by then are lost, which a metric and the log
say. A leader that is killed loses what it has not written yet.

Two leaders never lose what the other one wrote: each reads the part that it continues, and writes
on condition that nobody has changed it since. Sums must not be counted twice, so a write whose
answer was lost counts as made if the part bears its identifier. If that cannot be known any more,
it is left out, and shows as a gap.

An operator whose clock is wrong would take the present for another time, and delete or replace what
is not too old. It keeps no history while its clock differs from the API server's. What another one
has written for a time to come, which nobody whose clock is right does, is deleted or replaced.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.outcome.blocks import CorruptBlockError
from walras.outcome.history import KINDS, SLOT, STEP, Part, part_of, place_of, samples_of, slot_of
from walras.outcome.hourly_accounts import (
    DAY,
    PLACES,
    Day,
    continued,
    observed,
    read_day,
    stored_day,
)
from walras_api.contract import accounts_part, history_part
from walras_operator.history.config_maps import StoredPart
from walras_operator.metrics.market_sample import sample_of
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walras.outcome.history import MarketSample
    from walras_api.market import HistoryPolicy
    from walras_operator.decide.world import World
    from walras_operator.history.config_maps import HistoryParts
    from walras_operator.metrics.market_sample import Use
    from walras_operator.metrics.operator_metrics import Metrics

_log = logging.getLogger(__name__)

WRITE = 600
"""Seconds between two writes: a killed leader loses no more than the samples of this time."""

USERS = "user"
"""Key of a day's block in its ConfigMap."""

SKEW = 300
"""Most seconds by which this machine's clock may differ from the API server's.

Those of two operators differ by at most twice as much, which is less than a slot.
"""

_ENDING = 3.0  # seconds that an operator which ends waits for the last write
_MOST_SLOTS = 3  # that wait to be written; each takes up to 50 MiB with 10 000 jobs
_MOST_DAYS = 3
_TRIES = 2


class _Attempt(NamedTuple):
    """A write of a day whose answer is unknown."""

    write: str
    added: Day
    term: int | None


class _Base(NamedTuple):
    """The part of a slot that this operator continues.

    Attributes:
        version: Version of the part.
        samples: Samples that others wrote.
        later: Whether the part is of a later slot, which must stay.
    """

    version: str
    samples: list[MarketSample]
    later: bool = False


@dataclass(slots=True)
class _State:
    """Samples and sums that this operator has not written yet.

    Attributes:
        term: Leader term to which the following belong; None before the first.
        last: The last sample of the term.
        bases: Parts that are continued, by slot.
        samples: Samples of slots that are not complete, or not written.
        days: Sums that are not written, by number of the day.
        attempts: Writes of days whose answers are unknown.
        swept: Lengths by which parts were last deleted.
    """

    term: int | None = None
    last: MarketSample | None = None
    bases: dict[int, _Base] = field(default_factory=dict)
    samples: dict[int, list[MarketSample]] = field(default_factory=dict)
    days: dict[int, Day] = field(default_factory=dict)
    attempts: dict[int, _Attempt] = field(default_factory=dict)
    swept: HistoryPolicy | None = None

    def forget(self, policy: HistoryPolicy) -> None:
        """Forget what is not to be kept any more."""
        if not policy.hours:
            self.samples.clear()
            self.bases.clear()
        if not policy.account_days:
            self.days.clear()
            self.attempts.clear()


class HistoryKeeper:
    """Keeps the history.

    Args:
        world: Returns everything that the operator knows.
        use: Returns what pods use; None if that is unknown.
        term: Returns the leader term in which this operator leads with a complete cache; None if it
            does not. Called before each write.
        policy: Returns how long to keep the history.
        parts: Parts of the history.
        metrics: Metrics of the process.
        identity: Identity of this process.
        clock: Returns the time, in seconds since 1970.
        ahead: Returns by how many seconds that is ahead of the API server's time.
    """

    def __init__(
        self,
        world: Callable[[], World],
        use: Callable[[], Use | None],
        term: Callable[[], int | None],
        policy: Callable[[], HistoryPolicy],
        parts: HistoryParts,
        metrics: Metrics,
        identity: str,
        clock: Callable[[], float] = time.time,
        ahead: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._world, self._use, self._term, self._policy = world, use, term, policy
        self._parts, self._metrics, self._clock, self._ahead = parts, metrics, clock, ahead
        self._writes = (f"{identity}/{number}" for number in itertools.count())
        self._state = _State()
        self._problem = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)

    def start(self) -> None:
        """Start to take samples."""
        self._thread.start()

    def stop(self) -> None:
        """Write what is new, if this operator still leads and it takes no more than a moment."""
        self._stopping.set()
        self._thread.join(timeout=_ENDING)

    def _run(self) -> None:
        while not self._stopping.wait(STEP - self._clock() % STEP):
            self.tick()
        self.tick(write=True)

    def tick(self, *, write: bool = False) -> None:
        """Take a sample, and write what is new if that is due.

        Args:
            write: Whether to write in any case.
        """
        try:
            self._tick(int(self._clock()), write=write)
        except ApiError as error:
            self._fail(str(error))
        except Exception:  # noqa: BLE001 - the next sample may succeed
            _log.exception("a sample of the history failed", extra={"event": "crash"})
            self._metrics.history_failed()

    def _tick(self, now: int, *, write: bool) -> None:
        state, policy, term = self._state, self._policy(), self._term()
        if term != state.term:
            state.term, state.last, state.swept = term, None, None
            state.bases.clear()
        if term is None:
            return
        if abs(self._ahead()) > SKEW:
            state.last = state.swept = None
            raise ApiError(
                f"the clocks of this node and of the API server differ by more than {SKEW} s; set "
                f"the one that is wrong",
                "error",
            )
        state.forget(policy)
        if not policy.hours and not policy.account_days:
            self._sweep(now, policy)
            return
        before, state.last = state.last, sample_of(self._world(), now, self._use())
        if policy.hours:
            state.samples.setdefault(slot_of(now), []).append(state.last)
        if policy.account_days and before is not None:
            for each in observed(before, now):
                state.days[each.number] = state.days.get(each.number, Day(each.number)) + each
        due = before is not None and before.time // WRITE != now // WRITE
        if due or write:
            self._write(now, policy)

    def _write(self, now: int, policy: HistoryPolicy) -> None:
        """Write all that is new.

        Raises:
            ApiError: Some of it could not be written.
        """
        state = self._state
        writes = [
            partial(self._sweep, now, policy),
            *(partial(self._write_slot, slot, now) for slot in sorted(state.samples)),
            *(partial(self._write_day, each) for each in sorted({*state.days, *state.attempts})),
        ]
        problems = [problem for write in writes if (problem := _problem(write)) is not None]
        if problems:
            raise problems[0]
        if self._problem:
            _log.info("the history is written again", extra={"event": "history"})
        self._problem = ""

    def _write_slot(self, slot: int, now: int) -> None:
        """Write all samples of a slot, with those that others wrote."""
        name = history_part(place_of(slot))
        for base in self._bases(slot):
            part = part_of(slot, [*base.samples, *self._state.samples[slot]])
            wanted = StoredPart(base.version, slot * SLOT, next(self._writes), _named(part))
            written = None if base.later else self._put(name, "samples", wanted)
            if base.later or written is not None:
                break
        else:
            raise ApiError(f"{name}: others keep changing it; it is written again", "conflict")
        if written is not None:
            self._state.bases[slot] = base._replace(version=written.version)
        if slot < slot_of(now):
            del self._state.samples[slot]
            self._state.bases.pop(slot, None)

    def _bases(self, slot: int) -> Iterator[_Base]:
        """Yield what is continued, and again after a conflict, as it is then."""
        known = self._state.bases.get(slot)
        if known is not None:
            yield known
        for _ in range(_TRIES):
            found = self._read(history_part(place_of(slot)))
            blocks = {kind: found.data[kind] for kind in KINDS if kind in found.data}
            samples, notes = samples_of(Part(slot, blocks))
            for note in notes:
                self._warn(note)
            yield _Base(found.version, samples, later=found.start > slot * SLOT)

    def _write_day(self, number: int) -> None:
        """Add the new sums of a day to those that are stored."""
        state, name = self._state, accounts_part(number % PLACES)
        for _ in range(_TRIES):
            found = self._read(name)
            self._settle(number, found)
            added = state.days.pop(number, None)
            if added is None or found.start > number * DAY:
                return
            data = stored_day(continued(self._read_day(number, found), added))
            wanted = StoredPart(found.version, number * DAY, next(self._writes), {USERS: data})
            state.attempts[number] = _Attempt(wanted.write, added, state.term)
            written = self._put(name, "accounts", wanted)
            del state.attempts[number]
            if written is not None:
                return
            state.days[number] = added
        raise ApiError(f"{name}: others keep changing it; it is written again", "conflict")

    def _settle(self, number: int, found: StoredPart) -> None:
        """Decide whether a write whose answer is unknown was made; else its sums are new again."""
        state = self._state
        attempt = state.attempts.pop(number, None)
        if attempt is None or attempt.write == found.write:
            return
        if attempt.term != state.term:
            self._warn("sums of ten minutes are left out: another leader has written since")
            return
        state.days[number] = attempt.added + state.days.get(number, Day(number))

    def _read(self, name: str) -> StoredPart:
        """Return a part that is continued or replaced; without its content if that is to come."""
        found = self._parts.read(name)
        return found._replace(start=-1, data={}) if self._is_to_come(name, found.start) else found

    def _read_day(self, number: int, found: StoredPart) -> Day:
        if USERS not in found.data:
            return Day(number)
        try:
            return read_day(number, found.data[USERS])
        except CorruptBlockError as error:
            self._warn(f"accounts of day {number} cannot be read and begin anew: {error}")
            return Day(number)

    def _put(self, name: str, kind: str, part: StoredPart) -> StoredPart | None:
        """Write a part; return None if somebody else has changed or deleted it.

        Raises:
            ApiError: It could not be written, or this operator leads no longer.
        """
        if self._term() != self._state.term:
            raise ApiError(f"{name}: not written, since this operator leads no longer", "conflict")
        try:
            written = self._parts.write(name, kind, part)
        except ApiError as error:
            if error.reason in {"conflict", "missing"}:
                return None
            raise
        self._metrics.history_written(sum(map(len, part.data.values())))
        return written

    def _sweep(self, now: int, policy: HistoryPolicy) -> None:
        """Delete parts that are older than the history is kept, once for each length.

        Parts of a time to come are deleted, too, before that time comes and they count as its own.
        """
        if self._state.swept == policy:
            return
        oldest = {
            "samples": now - policy.hours * 3600 - SLOT if policy.hours else now,
            "accounts": now - policy.account_days * DAY - DAY if policy.account_days else now,
        }
        for name, kind, start in list(self._parts.starts()):
            if start < oldest.get(kind, 0) or self._is_to_come(name, start):
                self._parts.delete(name)
        self._state.swept = policy

    def _is_to_come(self, name: str, start: int) -> bool:
        """Return whether no operator whose clock is right can have written a part yet."""
        if start <= self._clock() + SLOT:
            return False
        self._warn(f"{name} is about a time to come and is discarded: a leader's clock was wrong")
        return True

    def _fail(self, problem: str) -> None:
        """Count a failure, say a new one in the log, and forget what waits for too long."""
        self._metrics.history_failed()
        if problem != self._problem:
            self._warn(f"it cannot be written: {problem}")
        self._problem = problem
        _keep_newest(self._state.samples, _MOST_SLOTS)
        _keep_newest(self._state.days, _MOST_DAYS)

    def _warn(self, text: str) -> None:
        _log.warning("history: %s", text, extra={"event": "history"})


def _problem(write: Callable[[], None]) -> ApiError | None:
    try:
        write()
    except ApiError as error:
        return error
    return None


def _named(part: Part) -> dict[str, bytes]:
    return {str(kind): data for kind, data in part.blocks.items()}


def _keep_newest(waiting: dict[int, Any], most: int) -> None:
    for key in sorted(waiting)[:-most]:
        del waiting[key]
