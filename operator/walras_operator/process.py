"""Effects: assemble, start and stop the parts of the operator's process."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_api.contract import OPERATOR, SYSTEM_NAMESPACE
from walras_operator.history.config_maps import HistoryParts
from walras_operator.history.keeper import HistoryKeeper
from walras_operator.lead.leadership import Leadership
from walras_operator.lead.lease import Times
from walras_operator.lead.server_clock import ServerClock
from walras_operator.loop.debounce import Debounce
from walras_operator.loop.gather import Gatherer
from walras_operator.loop.health import HealthInputs, liveness_problems, readiness_problems
from walras_operator.loop.pool_signals import PoolSignals
from walras_operator.loop.recompute import Recompute
from walras_operator.metrics.market_metrics import MarketGauges
from walras_operator.metrics.operator_metrics import Metrics, OperatorGauges, age
from walras_operator.metrics.pod_use import PodUse, UseGauges
from walras_operator.publish.ledger_parts import LedgerParts
from walras_operator.publish.publisher import THREADS, Publisher
from walras_operator.watch.handlers import run_lifecycle
from walras_operator.watch.kinds import Scope
from walras_operator.watch.lookups import ASKING, Ends, Owners
from walras_operator.watch.mirror import Mirror
from walras_operator.watch.quota_watches import CONNECTIONS, QuotaWatches
from walras_operator.watch.watches import Watches
from walras_service.api import Api, settings
from walras_service.authorization import AccessReview
from walras_service.probes import serve, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from walras_operator.decide.world import Decision, World

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the operator's process.

    Attributes:
        identity: Unique identity of this process.
        kubeconfig: Path of a kubeconfig; None for the in-cluster configuration.
        namespace: Namespace of the Leases of the operator and of the agents, and of parts of the
            ledger and the history.
        lease: Name of the operator's Lease.
        times: Durations of leader election.
        debounce: Seconds to wait after the last change, and at most after the first.
        listen: Address and port of the HTTP server; None for none.
        tls_folder: Folder of the HTTP server's certificate; None for no TLS.
        authorize: Whether metrics take a token of the cluster and the right to read them.
    """

    identity: str
    kubeconfig: str | None = None
    namespace: str = SYSTEM_NAMESPACE
    lease: str = OPERATOR
    times: Times = field(default_factory=Times)
    debounce: tuple[float, float] = (0.2, 1.0)
    listen: tuple[str, int] | None = ("127.0.0.1", 8080)
    tls_folder: Path | None = None
    authorize: bool = False


class Operator:
    """The operator's process.

    Args:
        options: Options of the process.
        decide: Decides on a world.

    Raises:
        ApiError: No API server is configured.

    Attributes:
        metrics: Metrics of all parts.
    """

    def __init__(self, options: Options, decide: Callable[[World], Decision]) -> None:
        self._options = options
        self._configuration = settings(options.kubeconfig)
        self._stopping = threading.Event()
        self.metrics = Metrics()
        kinds = Scope(options.namespace).kinds
        self.mirror = Mirror(kinds, self._changed, time.monotonic)
        self.watches = Watches(
            self._api(len(kinds)), kinds, self.mirror, completed=self._may_decide
        )
        lease_api = self._api(1)
        clock = ServerClock(lease_api.server_time)  # the Lease is renewed all the time
        self.leadership = Leadership(
            lease_api,
            options.namespace,
            options.lease,
            options.identity,
            options.times,
            clock.now,
            self._may_decide,
            self.watches.restored,
        )
        lookup_api = self._api(2 * ASKING)
        self.ends = Ends(lookup_api, lambda: self._changed(urgent=False))
        self.owners = Owners(lookup_api, self._changed)
        self.pools = PoolSignals()
        self.quotas = QuotaWatches(self._api(CONNECTIONS), self._changed)
        write_api = self._api(THREADS)
        parts_of_ledger = LedgerParts(write_api, options.namespace)
        self.publisher = Publisher(write_api, self.mirror, self._may_write, parts_of_ledger)
        self.recompute = self._recompute(decide, parts_of_ledger, clock)
        history_api = self._api(1)
        use = PodUse(history_api)
        self.history = self._history(history_api, use, lease_api.ahead)
        self.metrics.registry.register(self._gauges())
        self.metrics.registry.register(MarketGauges(lambda: self.mirror.world("")))
        self.metrics.registry.register(UseGauges(lambda: self.mirror.world(""), use))

    def _api(self, connections: int) -> Api:
        return Api(settings(self._options.kubeconfig), OPERATOR, connections)

    def _recompute(
        self, decide: Callable[[World], Decision], parts: LedgerParts, clock: ServerClock
    ) -> Recompute:
        gatherer = Gatherer(
            self.mirror,
            self.owners,
            self.ends,
            parts,
            self.pools,
            self.quotas,
            self.publisher,
            self._options.namespace,
        )
        return Recompute(
            self.mirror,
            self.watches,
            self.leadership,
            self.publisher,
            self.ends,
            gatherer,
            decide,
            self.metrics,
            self.pools,
            Debounce(*self._options.debounce),
            clock.now,
        )

    def _history(self, api: Api, use: PodUse, ahead: Callable[[], float]) -> HistoryKeeper:
        return HistoryKeeper(
            lambda: self.mirror.world(""),
            use.read,
            lambda: self.leadership.term() if self.watches.complete else None,
            lambda: self.recompute.rules.history,
            HistoryParts(api, self._options.namespace),
            self.metrics,
            ahead=ahead,
        )

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Serve HTTP until the block is left.

        Raises:
            BadInput: It cannot listen at the address, or the certificate cannot be used.
        """
        if self._options.listen is None:
            yield
            return
        pages = {
            "/healthz": lambda: verdict(liveness_problems(self._health())),
            "/readyz": lambda: verdict(readiness_problems(self._health())),
        }
        review = None
        if self._options.authorize:
            review = AccessReview(Api(settings(self._options.kubeconfig), OPERATOR))
        with serve(
            self._options.listen,
            pages,
            self.metrics.registry,
            tls_folder=self._options.tls_folder,
            review=review,
        ):
            yield

    def run(self) -> None:
        """Run until SIGTERM or Ctrl-C; then end decisions first, and release the Lease."""
        run_lifecycle(self._configuration, self._start, self._end)

    def _start(self) -> None:
        for part in (
            self.watches,
            self.quotas,
            self.leadership,
            self.recompute,
            self.history,
            self.pools,
        ):
            part.start()

    def _end(self) -> None:
        _log.info("ending", extra={"event": "ending"})
        self._stopping.set()
        self.recompute.stop()
        self.pools.stop()
        self.history.stop()
        self.publisher.close()
        self.ends.close()
        self.owners.close()
        self.leadership.stop()
        self.quotas.stop()
        self.watches.stop()

    def _may_write(self) -> bool:
        return self.leadership.leads() and not self._stopping.is_set()

    def _changed(self, urgent: bool = True) -> None:
        self.recompute.changed(urgent=urgent)

    def _may_decide(self) -> None:
        self.recompute.look()

    def _health(self) -> HealthInputs:
        return HealthInputs(
            now=time.monotonic(),
            active=self.watches.active,
            tried=self.leadership.tried,
            answered=self.leadership.answered,
            patience=self._options.times.duration,
            complete=self.watches.complete,
            problem=self.watches.problem,
            leading_since=self.recompute.leading_since,
            completed=self.recompute.completed,
            epoch_seconds=self.recompute.rules.epoch_seconds,
        )

    def _undecided(self) -> float:
        since = self.leadership.since()
        if since is None:
            return 0.0
        return time.monotonic() - max(since, self.recompute.succeeded or since)

    def _gauges(self) -> OperatorGauges:
        return OperatorGauges(
            {
                "leader": (
                    "1 while this operator is the leader, else 0.",
                    self.leadership.leads,
                ),
                "epoch": (
                    "Epoch of the last decision that was published.",
                    lambda: self.recompute.epoch,
                ),
                "last_success_age_seconds": (
                    "Seconds since a decision was last published in full.",
                    lambda: age(self.recompute.succeeded),
                ),
                "undecided_seconds": (
                    "Seconds for which this operator has led without a decision published in full.",
                    self._undecided,
                ),
                "epoch_seconds": (
                    "Most seconds between two decisions, by the Market as of the last one.",
                    lambda: self.recompute.rules.epoch_seconds,
                ),
                "requests_unbounded": (
                    "1 if the Market does not say what requests beyond a share mean, else 0.",
                    lambda: self.recompute.rules.cores.unbounded,
                ),
                "complete": (
                    "1 when the operator's cache of the cluster is complete, 0 otherwise.",
                    lambda: self.watches.complete,
                ),
                "notes": (
                    "Problems found by the last decision that no status shows; see the log.",
                    lambda: self.metrics.notes,
                ),
            },
            self.mirror.counts,
            self.watches.ages,
        )
