"""Effects: compute the signals of node pools in a thread of its own, from the last decision.

No decision waits for them: they are computed at most once a minute, and for at most a twentieth of
the time, from values that the decision has made anyway. Each decision reports the latest averages
in the Market's status, where a standby operator and its metrics find them, too. Each leader term
has averages of its own: what this operator saw in an earlier one is older than that status.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from walras.analysis.node_pools import node_pools
from walras.analysis.predictions import widening
from walras_api.assembly import policy_of, pool_prices_of
from walras_api.market_status import MOST_NODE_GAINS
from walras_operator.decide.node_gains import AddedNodes, came_true
from walras_operator.decide.pool_averages import PoolAverages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walras.analysis.node_pools import NodePools
    from walras.market.plan import Plan
    from walras.market.snapshot import Snapshot
    from walras_api.kinds import MarketSpec
    from walras_api.market_status import NodeGain
    from walras_operator.decide.pool_averages import NodePoolReports

_log = logging.getLogger(__name__)

PERIOD = 60.0
"""Least seconds between two samples."""

FIRST = 5.0
"""Seconds from the first decision to the first sample: nodes get their first plans meanwhile."""

_SHARE = 0.05  # most of the time that samples are computed


class _Decided(NamedTuple):
    """The input of a decision, its outcome, and what nodes brought that were added."""

    snapshot: Snapshot
    plan: Plan
    rules: MarketSpec
    gains: Sequence[NodeGain]

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


@dataclass(slots=True)
class _Term:
    """What was decided and sampled in a leader term.

    Attributes:
        number: Number of the term; None before the first.
        latest: The latest decision.
        sampled: The decision whose signals are known.
        sample: The signals of that decision.
        since: When the last sample was taken.
        averages: Averages of all samples.
        added: Nodes that were added.
        gains: What they brought.
        reports: The same for the Market's status; None before the first sample.
    """

    number: int | None = None
    latest: _Decided | None = None
    sampled: _Decided | None = None
    sample: NodePools | None = None
    since: float | None = None
    averages: PoolAverages = field(default_factory=lambda: PoolAverages({}))
    added: AddedNodes = field(default_factory=AddedNodes)
    gains: tuple[NodeGain, ...] = ()
    reports: NodePoolReports | None = None


class PoolSignals:
    """Computes the signals of node pools.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._term = _Term()
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

    def leads(self, term: int) -> None:
        """Take note that this operator leads; forget what was sampled in an earlier term.

        A sample that is being computed meanwhile is dropped with that term.
        """
        if term != self._term.number:
            self._term = _Term(term)

    def decided(
        self, snapshot: Snapshot, plan: Plan, rules: MarketSpec, gains: Sequence[NodeGain] = ()
    ) -> None:
        """Take note of a decision, and of what nodes brought; safe for concurrent use."""
        self._term.latest = _Decided(snapshot, plan, rules, gains)
        self._decided_once.set()

    @property
    def reports(self) -> NodePoolReports | None:
        """The latest averages for the Market's status; None before the first sample of a term."""
        return self._term.reports

    def _run(self) -> None:
        self._decided_once.wait()
        pause = FIRST
        while not self._stopping.wait(pause):
            began = self._clock()
            self.sample()
            pause = max(PERIOD, (self._clock() - began) / _SHARE)

    def sample(self) -> None:
        """Compute the signals of the latest decision, and average them with earlier ones."""
        term = self._term
        if term.latest is None:
            return
        try:
            self._sample(term, term.latest)
        except Exception:  # noqa: BLE001 - the next sample may succeed
            _log.exception("signals of node pools failed", extra={"event": "crash"})

    def _sample(self, term: _Term, decided: _Decided) -> None:
        if term.sample is None or not decided.same_signals(term.sampled):
            policy, prices = policy_of(decided.rules), pool_prices_of(decided.rules)
            term.sample = node_pools(decided.snapshot, decided.plan, policy, prices)
            term.sampled = decided
        now = self._clock()
        seconds = 0.0 if term.since is None else now - term.since
        term.since = now
        term.averages = term.averages.after(term.sample, seconds)
        reports = term.averages.reports(widening(came_true(decided.gains)))
        progress = decided.plan.system_progress
        gain = term.added.after(decided.snapshot, decided.rules, progress, reports, seconds)
        if gain is not None:
            term.gains = (*term.gains, gain)[-MOST_NODE_GAINS:]
        term.reports = reports._replace(gains=term.gains)
