"""Pure: leader election by a Lease of coordination.k8s.io/v1.

The rules are those of client-go (`tools/leaderelection`). Another leader's Lease is valid for its
duration after its last renewal was *seen*, by one's own clock; clocks may differ by any amount as
long as they run at the same rate. A leader counts from when it *requested* the renewal that
succeeded, and for a shorter time than others wait.

Each change of holders starts a new term (``leaseTransitions``), which has epochs of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from walras_service.times import rfc3339

if TYPE_CHECKING:
    from datetime import datetime

EPOCHS = 10**9
"""Epochs in a term, enough for one a second for thirty years; ``epoch // EPOCHS`` is the term."""


@dataclass(frozen=True, slots=True)
class Times:
    """Durations of leader election, in seconds.

    Attributes:
        duration: How long others wait after the last renewal that they saw.
        deadline: How long a leader leads after its last renewal; the rest of the duration is for
            its last requests to end.
        retry: Time between two renewals, or two attempts to become leader.
    """

    duration: int = 15
    deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.deadline < self.duration:
            raise ValueError(
                f"Lease duration {self.duration} s, deadline {self.deadline:g} s, retry period "
                f"{self.retry:g} s: each must be longer than the next"
            )


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of a Lease.

    Attributes:
        holder: Identity of the leader; empty if nobody leads.
        duration: Seconds for which a renewal is valid.
        acquired: When the holder acquired it (RFC 3339).
        renewed: When the holder last renewed it, by its own clock; only compared for equality.
        transitions: Number of changes of the holder.
        version: The resourceVersion; empty if the Lease does not exist.
    """

    holder: str = ""
    duration: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0
    version: str = ""

    @classmethod
    def read(cls, document: dict[str, Any]) -> LeaseRecord:
        """Parse a Lease from the API server."""
        spec = document.get("spec") or {}
        return cls(
            holder=spec.get("holderIdentity") or "",
            duration=spec.get("leaseDurationSeconds") or 0,
            acquired=spec.get("acquireTime") or "",
            renewed=spec.get("renewTime") or "",
            transitions=spec.get("leaseTransitions") or 0,
            version=document["metadata"]["resourceVersion"],
        )

    def is_older_than(self, other: LeaseRecord) -> bool:
        """Return whether the API server has gone back to a record from before another one.

        It never does, unless etcd was restored from a snapshot, or the Lease was deleted.
        resourceVersions of one kind are comparable (KEP-5504).
        """
        if not self.version:
            return bool(other.version)
        comparable = self.version.isdecimal() and other.version.isdecimal()
        if comparable and int(self.version) < int(other.version):
            return True
        return self.holder == other.holder and self.renewed < other.renewed

    def spec(self) -> dict[str, Any]:
        """Return the spec of the Lease in the API's form."""
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration,
            "acquireTime": self.acquired,
            "renewTime": self.renewed,
            "leaseTransitions": self.transitions,
        }


@dataclass(slots=True)
class LeaderCandidate:
    """The state of one operator in the election.

    Attributes:
        identity: Unique identity, different from those of all earlier processes.
        times: Durations of the election.
        seen: The Lease as last seen; None before.
        since: When it last began to lead, unless another one has led since; 0 before.
        led_before: When the Lease had been renewed last before (RFC 3339); empty if never.
    """

    identity: str
    times: Times = field(default_factory=Times)
    seen: LeaseRecord | None = None
    since: float = 0.0
    led_before: str = ""
    _seen_at: float = 0.0
    _renewed_at: float | None = None

    def see(self, record: LeaseRecord, now: float) -> None:
        """Record the Lease as seen now; a change shows that its holder is alive."""
        if self.seen is None or replace(self.seen, version="") != replace(record, version=""):
            self._seen_at = now
        self.seen = record
        if record.holder != self.identity:
            self._renewed_at = None

    def wanted(self, now: float, clock: datetime) -> LeaseRecord | None:
        """Return the Lease to write in order to lead from now on; None if another one leads."""
        seen = self.seen or LeaseRecord()
        mine = seen.holder == self.identity
        if seen.holder and not mine and now < self._seen_at + seen.duration:
            return None
        time = rfc3339(clock, "microseconds")
        return LeaseRecord(
            holder=self.identity,
            duration=self.times.duration,
            acquired=seen.acquired if mine else time,
            renewed=time,
            transitions=seen.transitions if mine else seen.transitions + 1,
            version=seen.version,
        )

    def renewed(self, record: LeaseRecord, asked: float) -> None:
        """Record that the Lease was written.

        Args:
            record: The Lease as the API server returned it.
            asked: When it was requested; nobody can have seen the renewal any earlier.
        """
        if self._renewed_at is None:
            self.since = asked
            self.led_before = self.seen.renewed if self.seen else ""
        self.seen, self._seen_at, self._renewed_at = record, asked, asked

    def released(self) -> LeaseRecord | None:
        """Return the Lease to write in order to stop leading; None if another one leads."""
        if self._renewed_at is None or self.seen is None:
            return None
        self._renewed_at = None
        return replace(self.seen, holder="", duration=1)

    def until(self) -> float | None:
        """Return until when this operator leads, by its own clock; None if it does not."""
        return None if self._renewed_at is None else self._renewed_at + self.times.deadline

    def leads(self, now: float) -> bool:
        """Return whether this operator leads."""
        until = self.until()
        return until is not None and now < until

    @property
    def term(self) -> int:
        """Current leader term; it grows with each change of holders."""
        return 0 if self.seen is None else self.seen.transitions


def next_epoch(term: int, known: int) -> int:
    """Return the epoch of a leader's next decision.

    It is larger than all epochs of earlier terms, and than all known epochs: a deleted Lease starts
    to count terms again.

    Args:
        term: Term of the leader.
        known: Largest epoch of any NodeAllocation, of any plan that an agent enforces (objects may
            have been recreated), and of any earlier decision.
    """
    return max(term * EPOCHS, known) + 1
