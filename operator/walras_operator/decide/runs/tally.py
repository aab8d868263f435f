"""Pure: accumulate what a running pod has held, in exact integers, and compute its mean.

The mean is the average job resource of Abacus (section 5, Definition 1).

Time is divided into periods with one grant. Earlier periods are kept as sums; the current one as
its start and shares, so that a pod with an unchanged grant needs no write. Sums are exact, and
there is one division at the end: after any number of changes, a mean is at most the largest share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walras_api.market_job_status import MOST_SECONDS, WHOLE_SHARE, FinishedRun, RunUnderway
from walras_operator.decide.runs.lifetimes import seconds_of
from walras_service.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_operator.decide.world import Document, Lifetime

LEAST_HELD = 2
"""A run counts if at least this fraction of it, one half, was under known grants."""

_PLACES = 12


class HeldShares(NamedTuple):
    """Shares of a node's cores and memory, in billionths."""

    cores: int
    memory: int

    @classmethod
    def of(cls, cores: tuple[int, int], memory: tuple[int, int]) -> HeldShares:
        """Return the shares of (part, whole) in millicores and in bytes."""
        return cls(_share(*cores), _share(*memory))


class Tally(NamedTuple):
    """The shares that a pod has held so far.

    Attributes:
        uid: UID of the pod.
        name: Name of the pod.
        since: Start of the current period, in seconds since 1970; None without a grant.
        shares: Shares in the current period.
        seconds: Length of all earlier periods.
        sums: Sum of seconds times shares over all earlier periods.
    """

    uid: str
    name: str
    since: int | None = None
    shares: HeldShares = HeldShares(0, 0)
    seconds: int = 0
    sums: HeldShares = HeldShares(0, 0)

    def holding(self, shares: HeldShares | None, now: int) -> Tally:
        """Return the tally from now on with these shares; None if the pod has no known grant."""
        if self.since is not None and self.shares == shares:
            return self
        closed = self.until(now)
        return closed if shares is None else closed._replace(since=now, shares=shares)

    def until(self, now: int) -> Tally:
        """Return the tally with the current period ended; an impossibly long one is dropped."""
        if self.since is None:
            return self
        stretch = max(now - self.since, 0)
        if self.seconds + stretch > MOST_SECONDS:
            stretch = 0
        return Tally(
            self.uid,
            self.name,
            seconds=self.seconds + stretch,
            sums=HeldShares(
                self.sums.cores + stretch * self.shares.cores,
                self.sums.memory + stretch * self.shares.memory,
            ),
        )

    def run(self, lifetime: Lifetime) -> FinishedRun | None:
        """Return the finished run; None if too little of it was under known grants."""
        held = self.until(lifetime.finished)
        seconds = lifetime.finished - lifetime.started
        if not held.seconds or LEAST_HELD * held.seconds < seconds or seconds > MOST_SECONDS:
            return None
        return FinishedRun(
            pod_uid=self.uid,
            pod=self.name,
            finished=time_of(lifetime.finished),
            seconds=seconds,
            held_seconds=held.seconds,
            cores=_decimal(held.sums.cores, held.seconds * WHOLE_SHARE),
            memory=_decimal(held.sums.memory, held.seconds * WHOLE_SHARE),
            utility=_decimal(1, seconds),
        )

    def document(self) -> Document:
        """Return the tally in the form of a status."""
        held = self.since is not None
        return RunUnderway(
            pod_uid=self.uid,
            pod=self.name,
            held_since=None if self.since is None else time_of(self.since),
            cores=self.shares.cores if held else None,
            memory=self.shares.memory if held else None,
            held_seconds=self.seconds,
            core_seconds=str(self.sums.cores),
            memory_seconds=str(self.sums.memory),
        ).document()

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Tally | None:
        """Parse a tally from a status; None if it is malformed."""
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


def _shares(cores_and_memory: Iterable[int | None]) -> HeldShares | None:
    cores, memory = cores_and_memory
    return None if cores is None or memory is None else HeldShares(cores, memory)


def _share(part: int, whole: int) -> int:
    return min(max(part, 0) * WHOLE_SHARE // whole, WHOLE_SHARE) if whole > 0 else 0


def _whole(value: object, most: int) -> int | None:
    return value if type(value) is int and 0 <= value <= most else None


def _sum(value: object, most: int) -> int | None:
    if not (isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 20):
        return None
    return _whole(int(value), most)


def _decimal(part: int, whole: int) -> str:
    """Return a quotient of at most 1 as decimal text, truncated to `_PLACES` digits."""
    units, rest = divmod(part * 10**_PLACES // whole, 10**_PLACES)
    return f"{units}.{rest:0{_PLACES}}".rstrip("0").rstrip(".")


def time_of(seconds: int) -> str:
    """Return a moment in seconds since 1970 as the API server writes it."""
    return rfc3339(seconds)
