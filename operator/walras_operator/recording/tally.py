"""Chooses (pure): what one running pod has held so far, in whole numbers, and its mean in the end.

Time is cut into stretches in which a pod was held to one grant. Of earlier stretches only sums are
kept, of the present one its begin and the shares, so that a pod whose grant stays as it is needs no
write. Sums are exact, and there is one division in the end: however many changes there were, a mean
is never more than the largest share.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.resources.statuses import MOST_SECONDS, WHOLE_SHARE, FinishedRun, RunUnderway
from walras_operator.quanta import TIME
from walras_operator.recording.lifetimes import seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_operator.recording.lifetimes import Lifetime
    from walras_operator.world import Document

LEAST_HELD = 2
"""A run counts of which a half, one part of so many, was under grants that are known."""

_PLACES = 12


class Shares(NamedTuple):
    """What a pod holds of what its node sells, in billionths."""

    cores: int
    memory: int

    @classmethod
    def of(cls, cores: tuple[int, int], memory: tuple[int, int]) -> Shares:
        """Return what some thousandths of cores and some bytes are of all that a node has."""
        return cls(_share(*cores), _share(*memory))


class Tally(NamedTuple):
    """What a pod has held so far.

    Attributes:
        uid: of the pod.
        name: of the pod.
        since: begin of the present stretch, seconds since 1970; None while it is not held.
        shares: in the present stretch.
        seconds: of earlier stretches.
        sums: over these, of seconds times shares.
    """

    uid: str
    name: str
    since: int | None = None
    shares: Shares = Shares(0, 0)
    seconds: int = 0
    sums: Shares = Shares(0, 0)

    def holding(self, shares: Shares | None, now: int) -> Tally:
        """Return what it is when the pod holds this, or is not held to anything known."""
        if self.since is not None and self.shares == shares:
            return self
        closed = self.until(now)
        return closed if shares is None else closed._replace(since=now, shares=shares)

    def until(self, now: int) -> Tally:
        """End the present stretch; one that is longer than can be is taken for none."""
        if self.since is None:
            return self
        stretch = max(now - self.since, 0)
        if self.seconds + stretch > MOST_SECONDS:
            stretch = 0
        return Tally(
            self.uid,
            self.name,
            seconds=self.seconds + stretch,
            sums=Shares(
                self.sums.cores + stretch * self.shares.cores,
                self.sums.memory + stretch * self.shares.memory,
            ),
        )

    def run(self, lifetime: Lifetime) -> FinishedRun | None:
        """Return what came of it; None if too little is known of what it held."""
        held = self.until(lifetime.finished)
        seconds = lifetime.finished - lifetime.started
        if not held.seconds or LEAST_HELD * held.seconds < seconds or seconds > MOST_SECONDS:
            return None
        return FinishedRun(
            pod_uid=self.uid,
            pod=self.name,
            finished=_time(lifetime.finished),
            seconds=seconds,
            held_seconds=held.seconds,
            cores=_decimal(held.sums.cores, held.seconds * WHOLE_SHARE),
            memory=_decimal(held.sums.memory, held.seconds * WHOLE_SHARE),
            utility=_decimal(1, seconds),
        )

    def document(self) -> Document:
        """Return it as a status has it."""
        held = self.since is not None
        return RunUnderway(
            pod_uid=self.uid,
            pod=self.name,
            held_since=None if self.since is None else _time(self.since),
            cores=self.shares.cores if held else None,
            memory=self.shares.memory if held else None,
            held_seconds=self.seconds,
            core_seconds=str(self.sums.cores),
            memory_seconds=str(self.sums.memory),
        ).document()

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Tally | None:
        """Return what a status has; None if that cannot be."""
        uid, name = document.get("podUID"), document.get("pod")
        seconds = _whole(document.get("heldSeconds"), MOST_SECONDS)
        if not (isinstance(uid, str) and uid and isinstance(name, str) and name):
            return None
        if seconds is None:
            return None
        most = seconds * WHOLE_SHARE
        sums = _shares(_sum(document.get(each), most) for each in ("coreSeconds", "memorySeconds"))
        if "heldSince" not in document:
            return None if sums is None else cls(uid, name, seconds=seconds, sums=sums)
        since = seconds_of(document["heldSince"])
        shares = _shares(_whole(document.get(each), WHOLE_SHARE) for each in ("cores", "memory"))
        if since is None or shares is None or sums is None:
            return None
        return cls(uid, name, since, shares, seconds, sums)


def _shares(found: Iterable[int | None]) -> Shares | None:
    cores, memory = found
    return None if cores is None or memory is None else Shares(cores, memory)


def _share(part: int, whole: int) -> int:
    return min(max(part, 0) * WHOLE_SHARE // whole, WHOLE_SHARE) if whole > 0 else 0


def _whole(value: object, most: int) -> int | None:
    return value if type(value) is int and 0 <= value <= most else None


def _sum(value: object, most: int) -> int | None:
    if not (isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 20):
        return None
    return _whole(int(value), most)


def _decimal(part: int, whole: int) -> str:
    """Return a quotient of at most 1 as a status has it, cut to so many places."""
    units, rest = divmod(part * 10**_PLACES // whole, 10**_PLACES)
    return f"{units}.{rest:0{_PLACES}}".rstrip("0").rstrip(".")


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(TIME)
