"""Effects: keep the history of the market while this operator leads.

A thread of its own takes a sample of the cached statuses every minute, and writes what is new every
ten minutes and when the operator ends. No decision waits for it. What cannot be written is tried
again with the next write, for an hour; a metric and the log say so. A leader that is killed, or
that loses its lead, loses what it has not written yet, which shows as a gap.

Each write reads the part that it continues, and names its version. A part of samples has one for
each moment, so to write a sample again changes nothing. A day's sums say until when they count;
samples before that are not added. So nothing counts twice, whoever leads, and whether or not the
answer to a write arrived.

An operator whose clock is wrong would take the present for another time, and delete or replace what
is not too old. It keeps no history while its clock differs from the API server's. What another one
has written for a time to come, which nobody whose clock is right does, is deleted or replaced.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

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
    from collections.abc import Callable

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
_LONGEST_WAIT = 3600  # seconds; samples of 20 minutes take up to 50 MiB with 10 000 jobs
_TRIES = 2


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
        clock: Callable[[], float] = time.time,
        ahead: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._world, self._use, self._term, self._policy = world, use, term, policy
        self._parts, self._metrics, self._clock, self._ahead = parts, metrics, clock, ahead
        self._term_known: int | None = None
        self._waiting: list[MarketSample] = []  # of this slot, and all that are not written
        self._written = 0  # time of the last sample that is written
        self._swept: HistoryPolicy | None = None  # lengths by which parts were last deleted
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
        policy, term = self._policy(), self._term()
        if term != self._term_known:
            self._term_known, self._swept = term, None
            self._waiting.clear()
        if term is None:
            return
        if abs(self._ahead()) > SKEW:
            self._swept = None
            self._waiting.clear()
            raise ApiError(
                f"the clocks of this node and of the API server differ by more than {SKEW} s; set "
                f"the one that is wrong",
                "error",
            )
        if not policy.hours and not policy.account_days:
            self._waiting.clear()
            self._sweep(now, policy)
            return
        before = self._waiting[-1].time if self._waiting else now
        self._waiting.append(sample_of(self._world(), now, self._use()))
        if write or before // WRITE != now // WRITE:
            self._write(now, policy)

    def _write(self, now: int, policy: HistoryPolicy) -> None:
        """Write all that is new.

        Raises:
            ApiError: Some of it could not be written.
        """
        slots = {slot_of(each.time) for each in self._waiting if each.time > self._written}
        days = {each.time // DAY for each in self._waiting}
        writes = [
            partial(self._sweep, now, policy),
            *(partial(self._write_slot, each) for each in sorted(slots) if policy.hours),
            *(partial(self._write_day, each) for each in sorted(days) if policy.account_days),
        ]
        problems = [problem for write in writes if (problem := _problem(write)) is not None]
        if problems:
            raise problems[0]
        if self._problem:
            _log.info("the history is written again", extra={"event": "history"})
        self._problem, self._written = "", self._waiting[-1].time
        self._waiting = [each for each in self._waiting if slot_of(each.time) == slot_of(now)]

    def _write_slot(self, slot: int) -> None:
        """Write all samples of a slot, with those that others wrote."""
        name = history_part(place_of(slot))

        def continued_by(stored: StoredPart) -> StoredPart | None:
            blocks = {kind: stored.data[kind] for kind in KINDS if kind in stored.data}
            others, notes = samples_of(Part(slot, blocks))
            for note in notes:
                self._warn(note)
            part = part_of(slot, [*others, *self._waiting])
            data = {str(kind): data for kind, data in part.blocks.items()}
            return StoredPart(stored.version, slot * SLOT, data=data)

        self._continue(name, "samples", slot * SLOT, continued_by)

    def _write_day(self, number: int) -> None:
        """Add the new sums of a day to those that are stored."""

        def continued_by(stored: StoredPart) -> StoredPart | None:
            added, through = None, stored.through
            for before, after in pairwise(self._waiting):
                for day in observed(before, after.time) if before.time >= stored.through else ():
                    if day.number == number:
                        added, through = day if added is None else added + day, after.time
            if added is None:
                return None
            data = {USERS: stored_day(continued(self._read_day(number, stored), added))}
            return StoredPart(stored.version, number * DAY, through, data)

        self._continue(accounts_part(number % PLACES), "accounts", number * DAY, continued_by)

    def _continue(
        self,
        name: str,
        kind: str,
        start: int,
        continued_by: Callable[[StoredPart], StoredPart | None],
    ) -> None:
        """Replace a part by what continues it, unless that is nothing, or the part is a later one.

        Raises:
            ApiError: It could not be written.
        """
        for _ in range(_TRIES):
            stored = self._parts.read(name)
            if self._is_to_come(name, stored.start) or stored.start < start:
                stored = StoredPart(stored.version)
            wanted = None if stored.start > start else continued_by(stored)
            if wanted is None or self._put(name, kind, wanted):
                return
        raise ApiError(f"{name}: others keep changing it; it is written again", "conflict")

    def _read_day(self, number: int, stored: StoredPart) -> Day:
        if USERS not in stored.data:
            return Day(number)
        try:
            return read_day(number, stored.data[USERS])
        except CorruptBlockError as error:
            self._warn(f"accounts of day {number} cannot be read and begin anew: {error}")
            return Day(number)

    def _put(self, name: str, kind: str, part: StoredPart) -> bool:
        """Write a part; return whether nobody else has changed or deleted it.

        Raises:
            ApiError: It could not be written, or this operator leads no longer.
        """
        if self._term() != self._term_known:
            raise ApiError(f"{name}: not written, since this operator leads no longer", "conflict")
        try:
            self._parts.write(name, kind, part)
        except ApiError as error:
            if error.reason in {"conflict", "missing"}:
                return False
            raise
        self._metrics.history_written(sum(map(len, part.data.values())))
        return True

    def _sweep(self, now: int, policy: HistoryPolicy) -> None:
        """Delete parts that are older than the history is kept, once for each length.

        Parts of a time to come are deleted, too, before that time comes and they count as its own.
        """
        if self._swept == policy:
            return
        oldest = {
            "samples": now - policy.hours * 3600 - SLOT if policy.hours else now,
            "accounts": now - policy.account_days * DAY - DAY if policy.account_days else now,
        }
        for name, kind, start in list(self._parts.starts()):
            if start < oldest.get(kind, 0) or self._is_to_come(name, start):
                self._parts.delete(name)
        self._swept = policy

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
        oldest = self._clock() - _LONGEST_WAIT
        self._waiting = [each for each in self._waiting if each.time >= oldest]

    def _warn(self, text: str) -> None:
        _log.warning("history: %s", text, extra={"event": "history"})


def _problem(write: Callable[[], None]) -> ApiError | None:
    try:
        write()
    except ApiError as error:
        return error
    return None
