"""Facts: which nodes' agents live, by their Leases and this operator's own clock.

A Lease says for how long its last renewal is to be believed. When that was is told by when the
renewal was seen here, so that a node's clock may be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_DURATION = 40  # seconds: what a Lease is taken to mean that does not say


class _Seen(NamedTuple):
    node: str
    renewed: str
    until: float


@dataclass(slots=True)
class Agents:
    """The Leases of agents."""

    _seen: dict[str, _Seen] = field(default_factory=dict)

    def see(self, uid: str, document: dict[str, Any], now: float) -> bool:
        """Take a Lease; whether its agent was not known to live."""
        spec = document.get("spec") or {}
        node, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
        before = self._seen.get(uid)
        if before is not None and (before.node, before.renewed) == (node, renewed):
            return False
        until = now + (spec.get("leaseDurationSeconds") or _DURATION)
        self._seen[uid] = _Seen(node, renewed, until)
        return before is None or before.node != node or before.until <= now

    def forget(self, uids: Iterable[str]) -> None:
        """Drop Leases that are gone."""
        for uid in uids:
            self._seen.pop(uid, None)

    def alive(self, now: float) -> frozenset[str]:
        """Nodes whose agent lives."""
        return frozenset(each.node for each in self._seen.values() if each.until > now)
