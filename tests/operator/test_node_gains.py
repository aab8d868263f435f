"""What one more node brings is told with its error, and scored once a node that came brought it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from walras_api.market_status import MOST_NODE_GAINS, MarketStatus, NodeGain
from walras_operator.decide.node_gains import PATIENCE, with_gains
from walras_operator.loop.pool_signals import PERIOD, PoolSignals
from whole_decisions import decide
from worlds import entitlement, job, market, node, outcome, pod, profile, world

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_operator.decide.world import World

KINDS = {"a": ("vision", "0.95"), "b": ("speech", "0.7")}
EVEN = {"n0": "aaabbb", "n1": "aaabbb"}
SPREAD = {"n0": "aabb", "n1": "aabb", "n2": "aabb"}


def cluster(
    places: dict[str, str], fraction: str = "0.95", penalty: str = "0", new: str = "16"
) -> World:
    """Return nodes with pods of jobs a and b, each named by its letter, in any order.

    Args:
        places: Letters of the pods on each node.
        fraction: Parallel fraction of a.
        penalty: Part of its throughput that a loses beside b.
        new: Cores of the third node.
    """
    counts: dict[str, int] = {}
    pods = []
    for name, letters in places.items():
        for each in letters:
            counts[each] = counts.get(each, 0) + 1
            pods.append(pod(f"{each}-{counts[each]}", each, name))
    return world(
        market(),
        *(node(name, cores) for name, cores in zip(places, ("16", "16", new, "16"), strict=False)),
        entitlement("vision"),
        entitlement("speech", shares=3),
        profile("a", parallelFraction=fraction, penalties=[{"profile": "b", "penalty": penalty}]),
        profile("b", parallelFraction=KINDS["b"][1]),
        job("a", "vision", profile="a"),
        job("b", "speech", profile="b"),
        *pods,
    )


class Operator:
    """An operator that samples its node pools after every decision, a period after the last."""

    def __init__(self) -> None:
        self.now = 0.0
        self.signals = PoolSignals(lambda: self.now)
        self.known: World | None = None

    def sees(self, seen: World, seconds: float = PERIOD) -> MarketStatus:
        """Return the Market's status after a decision, a sample of it and another decision."""
        if self.known is not None:
            seen = replace(seen, markets=self.known.markets, carried=self.known.carried)
        first = decide(seen)
        assert first.snapshot is not None
        assert first.plan is not None
        assert first.rules is not None
        self.now += seconds
        self.signals.decided(first.snapshot, first.plan, first.rules, first.gains)
        self.signals.sample()
        then = replace(outcome(seen, first), node_pools=self.signals.reports)
        second = decide(then)
        self.known = outcome(then, second)
        written = dict(self.known.markets[0].status or {})
        return MarketStatus.read({**written, "epoch": None})


def test_a_node_whose_pods_have_spread_brings_what_was_told() -> None:
    operator = Operator()
    told = operator.sees(cluster(EVEN)).node_pools[0].one_more
    assert told is not None
    assert told.progress_error is not None
    assert float(told.progress) > 0.05
    waiting = operator.sees(cluster({**EVEN, "n2": ""}))
    assert waiting.node_gains == [], "an empty node brings nothing, and nobody said that it would"
    (gain,) = (found := operator.sees(cluster(SPREAD))).node_gains
    assert (gain.pool, gain.node, gain.expected) == ("default", "n2", told.progress)
    assert gain.error == told.progress_error
    assert abs(float(gain.came) - float(gain.expected)) <= float(gain.error)
    (report,) = found.predictions
    assert (report.of, report.number, report.coverage) == ("Node", 1, "1")
    assert float(report.width) == pytest.approx(float(gain.error))
    again = operator.sees(cluster(SPREAD))
    assert again.node_gains == [gain], "a node counts once"


def test_a_pool_whose_nodes_bring_something_else_states_larger_errors() -> None:
    """The pods of a user that has three quarters of the cluster crowd on one node."""
    operator = Operator()
    operator.sees(cluster(EVEN))
    found = operator.sees(cluster({"n0": "bbbbb", "n1": "baa", "n2": "aaaa"}))
    (gain,) = found.node_gains
    assert abs(float(gain.came) - float(gain.expected)) > 3 * float(gain.error)
    (report,) = found.predictions
    assert report.coverage == "0"
    now = operator.sees(cluster(SPREAD), 1e6).node_pools[0].one_more
    assert now is not None
    assert now.progress_error is not None
    assert float(now.progress_error) == pytest.approx(0.01 * float(report.widening), rel=1e-3)
    assert float(report.widening) > 1.2


@pytest.mark.parametrize(
    ("why", "then"),
    [
        ("a pod more", cluster({"n0": "aabb", "n1": "aabb", "n2": "aabbb"})),
        ("a job that was measured again", cluster(SPREAD, "0.9")),
        ("a penalty that was measured", cluster(SPREAD, penalty="0.3")),
        ("a larger node", cluster({"n0": "ab", "n1": "ab", "n2": "aaaabbbb"}, new="64")),
        ("a smaller node", cluster({"n0": "aaabbb", "n1": "aabbb", "n2": "a"}, new="4")),
        ("two nodes at once", cluster({"n0": "aab", "n1": "aab", "n2": "aab", "n3": "bbb"})),
        ("another node instead", cluster({"n0": "aaabbb", "n2": "aaabbb"})),
        ("a node less", cluster({"n0": "aaaaaabbbbbb"})),
    ],
)
def test_what_came_with_something_else_is_not_scored(why: str, then: World) -> None:
    operator = Operator()
    operator.sees(cluster(EVEN))
    assert operator.sees(then).node_gains == [], why
    assert operator.sees(then).predictions == []


def test_pods_that_take_no_part_do_not_make_a_node_one_that_has_its_pods() -> None:
    def with_strangers(places: dict[str, str], *strangers: str) -> World:
        theirs = [pod(f"x-{k}", "x", name, cpu="0") for k, name in enumerate(strangers)]
        known, more = cluster(places), world(job("x", "nobody"), *theirs)
        objects = replace(
            known.objects,
            jobs=[*known.objects.jobs, *more.objects.jobs],
            pods=[*known.objects.pods, *more.objects.pods],
        )
        return replace(known, objects=objects)

    operator, pods = Operator(), {"n0": "aab", "n1": "abb"}
    operator.sees(with_strangers(pods, "n0", "n1"))
    moved = operator.sees(with_strangers({**pods, "n2": ""}, "n2", "n2"))
    assert moved.node_gains == [], "the pods of users have not moved"
    found = operator.sees(with_strangers({"n0": "ab", "n1": "ab", "n2": "ab"}, "n0", "n0"))
    assert len(found.node_gains) == 1


def test_what_came_with_other_rules_is_not_scored() -> None:
    operator = Operator()
    operator.sees(cluster(EVEN))
    assert operator.known is not None
    (before,) = operator.known.markets
    (auction,) = world(market(cores={"mechanism": "Auction"})).markets
    changed = auction.model_copy(update={"status": before.status})
    operator.known = replace(operator.known, markets=[changed])
    assert operator.sees(cluster(SPREAD)).node_gains == []


def test_pods_that_end_one_by_one_have_an_hour_to_come_to_the_node() -> None:
    def halfway(operator: Operator, seconds: float) -> Sequence[NodeGain]:
        operator.sees(cluster(EVEN))
        operator.sees(cluster({"n0": "aabb", "n1": "aaabbb", "n2": "a"}))
        operator.sees(cluster({"n0": "aabb", "n1": "aabb", "n2": "ab"}), seconds)
        return operator.sees(cluster(SPREAD)).node_gains

    assert len(halfway(Operator(), PERIOD)) == 1
    assert halfway(Operator(), PATIENCE) == []


def test_stated_errors_are_about_right_where_pods_meet_at_random() -> None:
    dealer, operator = random.Random(7), Operator()
    for turn in range(6):
        for names in (("n0", "n1"), ("n0", "n1", f"m{turn}")):
            letters = list("aaaaaabbbbbb")
            dealer.shuffle(letters)
            dealt = {name: "".join(letters[i :: len(names)]) for i, name in enumerate(names)}
            found = operator.sees(cluster(dealt), 3600.0)
    (report,) = found.predictions
    assert (report.number, report.widening) == (6, "1")
    deviations = [
        (float(each.came) - float(each.expected)) / float(each.error) for each in found.node_gains
    ]
    assert max(map(abs, deviations)) > 0.5, "or else the stated errors are far too large"


def test_a_new_leader_keeps_what_nodes_brought_and_a_status_keeps_the_latest() -> None:
    operator = Operator()
    operator.sees(cluster(EVEN))
    (gain,) = operator.sees(cluster(SPREAD)).node_gains
    heir = Operator()
    heir.known = operator.known
    assert heir.sees(cluster(SPREAD)).node_gains == [gain]

    def named(number: int) -> NodeGain:
        return gain.model_copy(update={"node": f"n{number}"})

    many = [named(number) for number in range(MOST_NODE_GAINS)]
    before: dict[str, Any] = {"nodeGains": [each.document() for each in many]}
    after = with_gains(before, [named(3), named(99)])
    assert [each.node for each in after[-2:]] == ["n3", "n99"]
    assert len(after) == MOST_NODE_GAINS
    assert with_gains({"nodeGains": [each.document() for each in after]}, after[-2:]) == after
    assert with_gains({"nodeGains": [{"pool": 3}, "no"]}, [gain]) == [gain]
