"""Facts: which nodes have a live agent, by the agents' Leases and this operator's clock.

A Lease is valid for `leaseDurationSeconds` after its last renewal. The operator counts from when it
saw the renewal, not from `renewTime`, so a node's clock may be wrong. After an outage of the API
server, it counts from the end of the outage, unless the agent was lost long before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_DEFAULT_DURATION = 40  # seconds, for a Lease without leaseDurationSeconds
_UNNOTICED = 150.0  # seconds of an outage before the watches end: silence, and a few attempts


class _Seen(NamedTuple):
    node: str
    renewed: str
    seconds: float
    until: float


@dataclass(slots=True)
class AgentLeases:
    """Tracks the Leases of agents."""

    _seen: dict[str, _Seen] = field(default_factory=dict)

    def see(self, uid: str, document: dict[str, Any], now: float) -> bool:
        """Record a Lease; return whether its agent was not known to be alive before."""
        spec = document.get("spec") or {}
        node, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
        before = self._seen.get(uid)
        if before is not None and (before.node, before.renewed) == (node, renewed):
            return False
        seconds = spec.get("leaseDurationSeconds") or _DEFAULT_DURATION
        self._seen[uid] = _Seen(node, renewed, seconds, now + seconds)
        return before is None or before.node != node or before.until <= now

    def forget(self, uids: Iterable[str]) -> None:
        """Drop deleted Leases, by UID."""
        for uid in uids:
            self._seen.pop(uid, None)

    def resume(self, now: float, watched: float) -> None:
        """Count Leases from now, as when they are first seen, except those that had long run out.

        While they could not be watched, agents may have been alive and unable to renew them.

        Args:
            now: Present time by this operator's monotonic clock.
            watched: Until when the Leases were watched, as far as was known.
        """
        for uid, each in self._seen.items():
            if each.until > watched - _UNNOTICED:
                self._seen[uid] = each._replace(until=now + each.seconds)

    def alive(self, now: float, grace: float = 0.0) -> frozenset[str]:
        """Return the names of nodes whose agent is alive, or has been silent for less than a grace.

        Args:
            now: Present time by this operator's monotonic clock.
            grace: Seconds.
        """
        return frozenset(each.node for each in self._seen.values() if each.until + grace > now)
