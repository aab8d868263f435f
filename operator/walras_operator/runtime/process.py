"""Apply: the parts of the operator's process, put together, started and ended in order."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_operator.runtime.debounce import Debounce
from walras_operator.runtime.ends import ASKING, Ends
from walras_operator.runtime.health import Pulse, ailments, hindrances
from walras_operator.runtime.kinds import Scope
from walras_operator.runtime.leadership import Leadership
from walras_operator.runtime.lease import Times
from walras_operator.runtime.market_metrics import MarketPresent
from walras_operator.runtime.metrics import Metrics, Present, age
from walras_operator.runtime.mirror import Mirror
from walras_operator.runtime.publisher import THREADS, Publisher
from walras_operator.runtime.recompute import Recompute
from walras_operator.runtime.watch import SWEEP, Watches
from walras_service.api import Api, settings
from walras_service.probes import serve, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walras_operator.world import Decision, World

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """How the operator is to run.

    Attributes:
        identity: Of this process, and of no other ever.
        kubeconfig: Where the API server is; None for where every pod finds it.
        namespace: Of the operator's Lease and of the agents'.
        lease: Name of the operator's.
        times: Of it.
        debounce: Seconds of quiet, and seconds in all, before changes are answered.
        listen: Where to answer by HTTP; None for nowhere.
        sweep: Seconds between two comparisons of all that is known with the API server.
    """

    identity: str
    kubeconfig: str | None = None
    namespace: str = "walras-system"
    lease: str = "walras-operator"
    times: Times = field(default_factory=Times)
    debounce: tuple[float, float] = (0.2, 1.0)
    listen: tuple[str, int] | None = ("127.0.0.1", 8080)
    sweep: float = SWEEP


class Operator:
    """The operator's process.

    Args:
        options: How it is to run.
        parts: Decides about a world, and yields what is to be written in parts.

    Raises:
        ApiError: It is not known where the API server is.

    Attributes:
        metrics: Of all its parts.
    """

    def __init__(self, options: Options, parts: Callable[[World], Iterator[Decision]]) -> None:
        self._options = options
        self._stopping = threading.Event()
        self.metrics = Metrics()
        watch_api, lease_api, write_api, ends_api = (
            Api(settings(options.kubeconfig), "walras-operator", connections)
            for connections in (2, 1, THREADS, ASKING)
        )
        kinds = Scope(options.namespace).kinds
        self.mirror = Mirror(kinds, self._changed, time.monotonic)
        self.watches = Watches(watch_api, kinds, self.mirror, options.sweep)
        self.leadership = Leadership(
            lease_api,
            options.namespace,
            options.lease,
            options.identity,
            options.times,
            self._changed,
        )
        self.publisher = Publisher(write_api, self.mirror, self._may_write)
        self.ends = Ends(ends_api, lambda: self._changed(presses=False))
        self.recompute = Recompute(
            self.mirror,
            self.watches,
            self.leadership,
            self.publisher,
            self.ends,
            parts,
            self.metrics,
            Debounce(*options.debounce),
        )
        self.metrics.registry.register(self._present())
        self.metrics.registry.register(MarketPresent(lambda: self.mirror.world("")))

    def listen(self) -> None:
        """Answer by HTTP from now on.

        Raises:
            BadInput: The address cannot be had.
        """
        if self._options.listen is None:
            return
        pages = {
            "/healthz": lambda: verdict(ailments(self._pulse())),
            "/readyz": lambda: verdict(hindrances(self._pulse())),
        }
        serve(self._options.listen, pages, self.metrics.registry)

    def run(self) -> None:
        """Work until `stop`, then end: first the decisions, then the lease."""
        for part in (self.watches, self.leadership, self.recompute):
            part.start()
        self._stopping.wait()
        _log.info("ending", extra={"event": "ending"})
        self.recompute.stop()
        self.publisher.close()
        self.ends.close()
        self.leadership.stop()
        self.watches.stop()

    def stop(self) -> None:
        """End `run`; for signal handlers and other threads."""
        self._stopping.set()

    def _may_write(self) -> bool:
        return self.leadership.leads() and not self._stopping.is_set()

    def _changed(self, presses: bool = True) -> None:
        self.recompute.changed(presses=presses)

    def _pulse(self) -> Pulse:
        return Pulse(
            now=time.monotonic(),
            beat=self.watches.beat,
            tried=self.leadership.tried,
            answered=self.leadership.answered,
            patience=self._options.times.duration,
            complete=self.watches.complete,
            problem=self.watches.problem,
            leading_since=self.recompute.leading_since,
            succeeded=self.recompute.succeeded,
            epoch_seconds=self.recompute.rules.epoch_seconds,
        )

    def _present(self) -> Present:
        return Present(
            {
                "leader": ("1 while this operator leads.", self.leadership.leads),
                "epoch": ("Of its last decision.", lambda: self.recompute.epoch),
                "last_success_age_seconds": (
                    "Since a decision was last made and published in full.",
                    lambda: age(self.recompute.succeeded),
                ),
                "complete": ("1 when all objects are known.", lambda: self.watches.complete),
                "event_loop_age_seconds": (
                    "Since the event loop of the watches last took a turn.",
                    lambda: age(self.watches.beat),
                ),
                "watch_restarts": (
                    "How often the watches had to be started again.",
                    lambda: self.watches.restarts,
                ),
                "notes": (
                    "What the last decision left out that has no status to say so.",
                    lambda: self.metrics.notes,
                ),
            },
            self.mirror.counts,
        )
