"""Operators whose lead, clock and watches are a test's, on an API server that it plays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from held_api import NAMESPACE, HeldApi
from walras_operator.decide.decision import decide
from walras_operator.loop.debounce import Debounce
from walras_operator.loop.gather import Gatherer
from walras_operator.loop.recompute import Recompute, _LeaderTerm
from walras_operator.metrics.operator_metrics import Metrics
from walras_operator.publish.ledger_parts import LedgerParts
from walras_operator.publish.publisher import Publisher
from walras_operator.watch.kinds import Scope
from walras_operator.watch.mirror import Mirror

if TYPE_CHECKING:
    from walras_operator.decide.world import Document

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Leader:
    """An operator whose lead, clock and watches are the test's.

    Args:
        server: The API server.
        name: Name of the operator.
        term: Its term.
        ahead: Seconds by which its clock is ahead.
    """

    def __init__(self, server: HeldApi, name: str, term: int, ahead: float = 0.0) -> None:
        self.name, self.term, self.ahead = name, term, ahead
        self.server, self.heard, self.passed = server, 0, 0.0
        api: Any = server.client(name)
        self.mirror = Mirror(Scope(NAMESPACE).kinds, lambda _: None, lambda: 0.0)
        parts = LedgerParts(api, NAMESPACE)
        self.publisher = Publisher(api, self.mirror, lambda: True, parts)
        none: Any = SimpleNamespace(
            controllers=lambda *_, **__: {}, known={}, seek=lambda _: None, of=lambda _: None
        )
        pools: Any = SimpleNamespace(reports=None, decided=lambda *_: None)
        leads: Any = SimpleNamespace(identity=name, led_before=str)
        no: Any = None
        self.recompute = Recompute(
            self.mirror,
            no,
            leads,
            self.publisher,
            none,
            Gatherer(self.mirror, none, none, parts, pools, none, self.publisher, NAMESPACE),
            decide,
            Metrics(),
            pools,
            Debounce(),
            self.now,
        )
        self.current = _LeaderTerm(term, 0.0)
        self.mirror.receive("Lease", agents_lease())

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.passed + self.ahead)

    def receive(self, most: int = 10**9) -> None:
        """Hear of some of the changes that it has not heard of."""
        news = self.server.history[self.heard : self.heard + most]
        self.heard += len(news)
        for _, found, _ in news:
            if found is not None and found["kind"] in self.mirror.counts():
                self.mirror.receive(found["kind"], found)

    def begin(self) -> None:
        """Decide and publish, until the first request is held."""
        self.server.run(self.name, lambda: self.recompute._round(self.current))


def agents_lease() -> Document:
    renewed = "2026-01-31T12:00:00.000000Z"
    spec = {"holderIdentity": "n1", "leaseDurationSeconds": 40, "renewTime": renewed}
    metadata = {"name": "walras-agent-n1", "namespace": NAMESPACE}
    return {"metadata": {**metadata, "uid": "l", "resourceVersion": "1"}, "spec": spec}
