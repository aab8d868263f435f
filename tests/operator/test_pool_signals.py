"""Signals of node pools are computed beside decisions, averaged, and written when they move."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from walras.analysis.node_pools import NodePool, NodePools, node_pools
from walras.analysis.pool_effects import NodesEffect, UserChange
from walras_api.assembly import policy_of, pool_prices_of
from walras_api.market_status import MarketStatus
from walras_operator.decide.pool_averages import TIME_CONSTANT, PoolAverages
from walras_operator.loop.debounce import Debounce
from walras_operator.loop.pool_signals import PERIOD, PoolSignals
from walras_operator.loop.recompute import Recompute
from whole_decisions import decide
from worlds import enforced, entitlement, job, market, node, outcome, pod, status, world

if TYPE_CHECKING:
    from walras_operator.decide.world import StatusWrite, World
    from whole_decisions import Decision

POOL_LABEL = "cloud.google.com/gke-nodepool"
PRICES = {
    "valuePerCoreHour": "0.5",
    "prices": [{"pool": "large", "perNodeHour": "1.0"}],
}


def cluster(**spec: Any) -> World:
    """Two pools with a job of two pods each."""
    nodes = [node(f"n{i}", "8") for i in range(4)]
    for each, pool in zip(nodes, ("large", "large", "small", "small"), strict=True):
        each["metadata"]["labels"] = {POOL_LABEL: pool}
    return world(
        market(**spec),
        *nodes,
        entitlement("vision"),
        entitlement("speech"),
        job("a", "vision", parallelFraction="0.95"),
        job("b", "speech", parallelFraction="0.6"),
        *(pod(f"a-{i}", "a", f"n{i}") for i in range(4)),
        *(pod(f"b-{i}", "b", f"n{i}") for i in range(4)),
    )


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def sampled(signals: PoolSignals, decision: Decision) -> None:
    assert decision.snapshot is not None
    assert decision.plan is not None
    assert decision.rules is not None
    signals.decided(decision.snapshot, decision.plan, decision.rules)
    signals.sample()


def pool(value: float, recommended: int | None = None, name: str = "x") -> NodePool:
    effect = NodesEffect(value / 10, value * 8, (UserChange(f"u{value:g}", value, 1.0),))
    return NodePool(name, 3, 24, value, value, effect, None, recommended, int(1000 * value), value)


def test_nodes_belong_to_the_pool_that_their_labels_name() -> None:
    decision = decide(cluster())
    assert decision.snapshot is not None
    assert [each.pool for each in decision.snapshot.nodes] == ["large"] * 2 + ["small"] * 2
    own = decide(cluster(nodePools={"labels": ["example.com/pool"]}))
    assert own.snapshot is not None
    assert {each.pool for each in own.snapshot.nodes} == {"default"}


def test_the_first_sample_counts_alone_and_later_ones_by_the_time_since() -> None:
    first = PoolAverages({}).after(NodePools((pool(1.0, 4),)), 0.0)
    assert first.pools["x"].pool == pool(1.0, 4)
    second = first.after(NodePools((pool(2.0, 8),)), TIME_CONSTANT)
    (report,) = second.reports().pools
    mean = 2 - math.exp(-1)
    for field in (report.price, report.core_value, report.memory_value):
        assert float(field or 0) == pytest.approx(mean, rel=1e-5)
    assert report.one_more is not None
    assert float(report.one_more.progress) == pytest.approx(mean / 10, rel=1e-5)
    assert [each.user for each in report.one_more.gaining] == ["u2"]
    assert report.recommended_nodes == round(4 + 4 * (1 - math.exp(-1))) == 7
    assert report.unmet_memory == str(round(1000 * mean))


def test_many_short_steps_average_like_one_long_step() -> None:
    averages = PoolAverages({}).after(NodePools((pool(1.0),)), 0.0)
    steps = averages
    for _ in range(10):
        steps = steps.after(NodePools((pool(2.0),)), 60.0)
    once = averages.after(NodePools((pool(2.0),)), 600.0)
    assert steps.pools["x"].pool.core_value == pytest.approx(once.pools["x"].pool.core_value)


def test_a_pool_that_is_gone_is_forgotten_and_an_unknown_value_is_not_kept() -> None:
    before = PoolAverages({}).after(NodePools((pool(1.0, 4), pool(1.0, name="y"))), 0.0)
    unknown = replace(pool(2.0), core_value=None, one_more=None)
    after = before.after(NodePools((unknown,), 3), 60.0)
    assert list(after.pools) == ["x"]
    assert after.pools["x"].pool.core_value is None
    assert after.pools["x"].recommended is None
    assert after.reports().others == 3


def test_a_decision_reports_the_signals_of_an_earlier_one() -> None:
    signals, before = PoolSignals(Clock()), cluster(nodePools=PRICES)
    first = decide(before)
    assert signals.reports is None
    assert status(first, "Market", "default")["nodePools"] == []
    sampled(signals, first)
    known = replace(outcome(before, first), node_pools=signals.reports)
    second = decide(known)
    written = MarketStatus.read(status(second, "Market", "default"))
    assert signals.reports is not None
    assert tuple(written.node_pools) == signals.reports.pools
    assert [each.name for each in written.node_pools] == ["large", "small"]
    large, small = written.node_pools
    assert large.recommended_nodes is not None
    assert small.recommended_nodes is None
    assert large.nodes == 2
    assert large.cores == "16"
    assert float(large.core_value or 0) > 0
    assert large.one_more is not None
    assert large.one_more.gaining[0].user == "vision"


def test_the_signals_are_those_of_the_decision() -> None:
    signals, decision = PoolSignals(Clock()), decide(cluster(nodePools=PRICES))
    sampled(signals, decision)
    assert decision.snapshot is not None
    assert decision.plan is not None
    assert decision.rules is not None
    policy, prices = policy_of(decision.rules), pool_prices_of(decision.rules)
    found = node_pools(decision.snapshot, decision.plan, policy, prices)
    assert signals.reports == PoolAverages({}).after(found, 0.0).reports()


def market_writes(known: World) -> list[StatusWrite]:
    return [each for each in decide(known).statuses if each.object.kind == "Market"]


def settled(signals: PoolSignals) -> World:
    """Return a world in which the signals are written, and nothing else remains to be written."""
    before = cluster()
    first = decide(before)
    sampled(signals, first)
    known = enforced(replace(outcome(before, first), node_pools=signals.reports))
    for _ in range(2):
        known = outcome(known, decide(known))
    assert market_writes(known) == []
    return known


def test_signals_are_written_only_when_they_have_moved_visibly() -> None:
    signals = PoolSignals(Clock())
    known = settled(signals)
    reports = signals.reports
    assert reports is not None
    large, *others = reports.pools
    value = float(large.core_value or 0)

    def moved(part: float) -> World:
        pools = (large.model_copy(update={"core_value": f"{value * part:.6f}"}), *others)
        return replace(known, node_pools=reports._replace(pools=pools))

    assert market_writes(moved(1.001)) == []
    assert len(market_writes(moved(1.02))) == 1
    more = large.model_copy(update={"recommended_nodes": 3})
    with_number = replace(known, node_pools=reports._replace(pools=(more, *others)))
    assert len(market_writes(with_number)) == 1


def test_other_users_are_written_when_something_else_is() -> None:
    signals = PoolSignals(Clock())
    known = settled(signals)
    assert signals.reports is not None
    large, *others = signals.reports.pools
    assert large.one_more is not None
    effect = large.one_more.model_copy(update={"gaining": []})
    pools = (large.model_copy(update={"one_more": effect}), *others)
    assert market_writes(replace(known, node_pools=signals.reports._replace(pools=pools))) == []


def test_a_new_operator_keeps_the_signals_until_it_has_its_own() -> None:
    known = replace(settled(PoolSignals(Clock())), node_pools=None)
    assert market_writes(known) == []
    changed = replace(known, objects=replace(known.objects, pods=known.objects.pods[1:]))
    (write,) = market_writes(changed)
    assert [each["name"] for each in write.status["nodePools"]] == ["large", "small"]


def test_samples_are_averaged_over_the_time_of_the_clock() -> None:
    clock = Clock()
    signals, before = PoolSignals(clock), cluster()
    sampled(signals, decide(before))
    first = signals.reports
    clock.now = TIME_CONSTANT
    without = replace(before, objects=replace(before.objects, pods=before.objects.pods[:4]))
    sampled(signals, decide(without))
    alone = PoolSignals(clock)
    sampled(alone, decide(without))
    assert first is not None
    assert signals.reports is not None
    assert alone.reports is not None
    old, new, now = (
        float(each.pools[0].core_value or 0) for each in (first, signals.reports, alone.reports)
    )
    assert new == pytest.approx(old + (1 - math.exp(-1)) * (now - old), rel=1e-4)
    assert abs(now - old) > 0.01


class Elected(Recompute):
    """An operator whose lead is set by the test."""

    def __init__(self, signals: PoolSignals) -> None:
        no: Any = None
        lead: Any = SimpleNamespace(term=lambda: self.elected)
        watches: Any = SimpleNamespace(complete=True)
        super().__init__(no, watches, lead, no, no, no, no, no, signals, Debounce(), no)
        self.elected: int | None = None

    def become(self, term: int | None) -> None:
        """Hear that this operator leads in a term, or not any more."""
        self.elected = term
        self._term = self._current_term(0.0)


def test_a_leader_that_is_elected_again_reports_nothing_of_its_former_term() -> None:
    clock = Clock()
    signals, before = PoolSignals(clock), cluster()
    operator = Elected(signals)
    operator.become(1)
    sampled(signals, decide(before))
    known = signals.reports
    assert known is not None
    operator.become(None)
    operator.become(1)
    assert signals.reports is known, "the cache was incomplete for a moment"
    operator.become(None)
    operator.become(3)
    assert signals.reports is None
    clock.now = PERIOD
    signals.sample()
    assert signals.reports is None, "nothing is decided in the new term"
    without = decide(replace(before, objects=replace(before.objects, pods=before.objects.pods[:4])))
    sampled(signals, without)
    alone = PoolSignals(clock)
    sampled(alone, without)
    assert signals.reports == alone.reports != known


def test_a_sample_that_is_computed_when_a_term_ends_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signals, decision = PoolSignals(Clock()), decide(cluster())
    signals.leads(1)

    def ending(*arguments: object) -> NodePools:
        signals.leads(3)
        return node_pools(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("walras_operator.loop.pool_signals.node_pools", ending)
    sampled(signals, decision)
    assert signals.reports is None


def test_nothing_is_solved_again_while_nothing_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solved = []

    def counted(*arguments: object) -> NodePools:
        solved.append(arguments)
        return node_pools(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("walras_operator.loop.pool_signals.node_pools", counted)
    signals, before = PoolSignals(Clock()), cluster()
    for _ in range(2):
        sampled(signals, decide(before))
    assert len(solved) == 1
    sampled(signals, decide(cluster(nodePools=PRICES)))
    assert len(solved) == 2
    assert signals.reports is not None
    assert signals.reports.pools[0].recommended_nodes is not None


def test_a_failure_leaves_the_last_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    signals, decision = PoolSignals(Clock()), decide(cluster())
    sampled(signals, decision)
    known = signals.reports

    def failing(*_: object) -> NodePools:
        raise ValueError("no")

    monkeypatch.setattr("walras_operator.loop.pool_signals.node_pools", failing)
    sampled(signals, decide(cluster(nodePools=PRICES)))
    assert signals.reports is known
    assert known is not None


def test_the_thread_computes_what_a_decision_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walras_operator.loop.pool_signals.FIRST", 0.0)
    signals, decision = PoolSignals(), decide(cluster())
    assert decision.snapshot is not None
    assert decision.plan is not None
    assert decision.rules is not None
    signals.start()
    signals.decided(decision.snapshot, decision.plan, decision.rules)
    for _ in range(200):
        if signals.reports is not None:
            break
        time.sleep(0.05)
    signals.stop()
    assert signals.reports is not None
