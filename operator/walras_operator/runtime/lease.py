"""Pure choice: who leads, by a Lease of coordination.k8s.io/v1.

As client-go has it (`tools/leaderelection`): whether another one still leads is judged by when its
last renewal was *seen*, by one's own clock, so that clocks may differ by any amount as long as they
run equally fast. A leader takes itself for one from when it *asked* for the renewal that succeeded,
and for less time than others wait.

Every change of holders is a new term (``leaseTransitions``), and every term has epochs of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

EPOCHS = 10**9
"""Epochs in a term: one a second for thirty years; a reader of an epoch sees the term in it."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long things take, in seconds.

    Attributes:
        duration: For which others wait since the last renewal that they saw.
        deadline: For which a leader believes in its last renewal; the rest of the duration is for
            its last requests to end.
        retry: Between two renewals, or two attempts to become leader.
    """

    duration: int = 15
    deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.deadline < self.duration:
            raise ValueError(
                f"a lease of {self.duration} s, believed in for {self.deadline:g} s and renewed "
                f"every {self.retry:g} s: each must be longer than the next"
            )

    @property
    def margin(self) -> float:
        """Seconds that a request of the leader's last moment may take."""
        return self.duration - self.deadline


@dataclass(frozen=True, slots=True)
class Record:
    """What a Lease says.

    Attributes:
        holder: Who leads; empty if nobody.
        duration: Seconds for which that is so since its last renewal.
        acquired: When the holder came (RFC 3339).
        renewed: When it last renewed, by its own clock: only compared for equality.
        transitions: How often holders changed.
        version: Of the object; empty if there is none.
    """

    holder: str = ""
    duration: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0
    version: str = ""

    @classmethod
    def read(cls, document: dict[str, Any]) -> Record:
        """Take a Lease as the API server gives it."""
        spec = document.get("spec") or {}
        return cls(
            holder=spec.get("holderIdentity") or "",
            duration=spec.get("leaseDurationSeconds") or 0,
            acquired=spec.get("acquireTime") or "",
            renewed=spec.get("renewTime") or "",
            transitions=spec.get("leaseTransitions") or 0,
            version=document["metadata"]["resourceVersion"],
        )

    def spec(self) -> dict[str, Any]:
        """As the API server takes it."""
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration,
            "acquireTime": self.acquired,
            "renewTime": self.renewed,
            "leaseTransitions": self.transitions,
        }


@dataclass(slots=True)
class Candidate:
    """One who would lead.

    Attributes:
        identity: Different from that of everybody else, and of all earlier processes.
        times: Of the lease.
        seen: The Lease as it was last seen.
    """

    identity: str
    times: Times = field(default_factory=Times)
    seen: Record | None = None
    _seen_at: float = 0.0
    _renewed_at: float | None = None

    def see(self, record: Record, now: float) -> None:
        """Take note of what the Lease says; a change of it shows that its holder lives."""
        if self.seen is None or replace(self.seen, version="") != replace(record, version=""):
            self._seen_at = now
        self.seen = record
        if record.holder != self.identity:
            self._renewed_at = None

    def wanted(self, now: float, clock: datetime) -> Record | None:
        """What the Lease is to say if this one is to lead from now on; None to leave it alone."""
        seen = self.seen or Record()
        mine = seen.holder == self.identity
        if seen.holder and not mine and now < self._seen_at + seen.duration:
            return None
        time = clock.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return Record(
            holder=self.identity,
            duration=self.times.duration,
            acquired=seen.acquired if mine else time,
            renewed=time,
            transitions=seen.transitions if mine else seen.transitions + 1,
            version=seen.version,
        )

    def renewed(self, record: Record, asked: float) -> None:
        """Take note that the Lease says what was wanted.

        Args:
            record: As the API server has answered.
            asked: When it was asked: nobody can have seen the renewal any earlier.
        """
        self.seen, self._seen_at, self._renewed_at = record, asked, asked

    def released(self) -> Record | None:
        """What the Lease is to say when this one ends; None if it does not lead."""
        if self._renewed_at is None or self.seen is None:
            return None
        self._renewed_at = None
        return replace(self.seen, holder="", duration=1)

    def until(self) -> float | None:
        """Until when this one leads, by its own clock; None if it does not."""
        return None if self._renewed_at is None else self._renewed_at + self.times.deadline

    def leads(self, now: float) -> bool:
        """Whether this one leads."""
        until = self.until()
        return until is not None and now < until

    @property
    def term(self) -> int:
        """The present term: it grows with every change of holders."""
        return 0 if self.seen is None else self.seen.transitions


def next_epoch(term: int, known: int) -> int:
    """The epoch of a leader's next decision.

    Above all epochs of earlier terms, and of all that are known: a Lease that somebody deleted
    begins to count terms anew.

    Args:
        term: Of the leader.
        known: The largest epoch of any NodeAllocation, that any agent still holds to (the objects
            may have been made anew), and of any earlier decision.
    """
    return max(term * EPOCHS, known) + 1
