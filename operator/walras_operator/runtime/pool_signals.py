"""Effects: compute the signals of node pools in a thread of its own, from the last decision.

No decision waits for them: they are computed at most once a minute, and for at most a twentieth of
the time, from values that the decision has made anyway. Each decision reports the latest averages
in the Market's status, where a standby operator and its metrics find them, too.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from walras.node_pools import node_pools
from walras.resources.assembly import policy_of, pool_prices_of
from walras_operator.pool_averages import PoolAverages

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras.node_pools import NodePools
    from walras.plan import Plan
    from walras.resources.kinds import MarketSpec
    from walras.snapshot import Snapshot
    from walras_operator.pool_averages import NodePoolReports

_log = logging.getLogger(__name__)

PERIOD = 60.0
"""Least seconds between two samples."""

FIRST = 5.0
"""Seconds from the first decision to the first sample: nodes get their first plans meanwhile."""

_SHARE = 0.05  # most of the time that samples are computed


class _Decided(NamedTuple):
    """The input of a decision, and its outcome."""

    snapshot: Snapshot
    plan: Plan
    rules: MarketSpec

    def same_signals(self, other: _Decided | None) -> bool:
        """Return whether another decision surely has the same signals."""
        if other is None or self.rules != other.rules:
            return False
        mine, its = self.snapshot, other.snapshot
        return (
            mine.nodes == its.nodes
            and mine.entitlements == its.entitlements
            and mine.penalties == its.penalties
            and mine.jobs == its.jobs
            and self.plan.nodes == other.plan.nodes
            and all(
                one.memory == another.memory
                for one, another in zip(self.plan.grants, other.plan.grants, strict=False)
            )
        )


class PoolSignals:
    """Computes the signals of node pools.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._latest: _Decided | None = None
        self._sampled: _Decided | None = None
        self._sample: NodePools | None = None
        self._since: float | None = None
        self._averages = PoolAverages({})
        self._reports: NodePoolReports | None = None
        self._decided_once = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pool-signals", daemon=True)

    def start(self) -> None:
        """Start to take samples."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; a sample that is being computed is dropped with the process."""
        self._stopping.set()
        self._decided_once.set()

    def decided(self, snapshot: Snapshot, plan: Plan, rules: MarketSpec) -> None:
        """Take note of a decision; safe for concurrent use."""
        self._latest = _Decided(snapshot, plan, rules)
        self._decided_once.set()

    @property
    def reports(self) -> NodePoolReports | None:
        """The latest averages for the Market's status; None before the first sample."""
        return self._reports

    def _run(self) -> None:
        self._decided_once.wait()
        pause = FIRST
        while not self._stopping.wait(pause):
            began = self._clock()
            self.sample()
            pause = max(PERIOD, (self._clock() - began) / _SHARE)

    def sample(self) -> None:
        """Compute the signals of the latest decision, and average them with earlier ones."""
        decided = self._latest
        if decided is None:
            return
        try:
            if self._sample is None or not decided.same_signals(self._sampled):
                policy, prices = policy_of(decided.rules), pool_prices_of(decided.rules)
                self._sample = node_pools(decided.snapshot, decided.plan, policy, prices)
                self._sampled = decided
        except Exception:  # noqa: BLE001 - the next sample may succeed
            _log.exception("signals of node pools failed", extra={"event": "crash"})
            return
        now = self._clock()
        seconds = 0.0 if self._since is None else now - self._since
        self._since = now
        self._averages = self._averages.after(self._sample, seconds)
        self._reports = self._averages.reports()
