"""Pods that wait, on a real API server with the real operator, whoever dies in between.

Nobody runs the pods. They wait for Walras as their scheduler, and are bound by it;
`test_gated_cluster` has gates.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from market_cluster import SYSTEM
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from waiting_pods import SOCKETS, Waiting
from walras_operator.decide.colocating.requests import binding
from walras_operator.publish.placer import Placer
from walras_operator.watch.kinds import Scope
from walras_operator.watch.mirror import Mirror
from walras_service.api import Api, settings
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_cluster


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    made = Waiting(KUBECONFIG, tmp_path)
    yield made
    made.cluster.close()
    assert eventually(lambda: not made.is_going(), 60), "the next test needs the namespace"


def test_pairs_are_placed_and_told_late_ones_follow_and_the_large_one_waits(
    waiting: Waiting,
) -> None:
    waiting.begin(timeoutSeconds=3600)
    waiting.pods("a0", "a1", app="a")
    waiting.pods("b0", "b1", app="b")
    waiting.pods("large", app="b", cpu="64")
    waiting.cluster.start_operator()
    assert eventually(lambda: len(waiting.placed()) == 4, 60), waiting.placed()
    assert eventually(lambda: waiting.told("a")["a0"].get("colocation")), waiting.told("a")
    assert waiting.partners_are_together()
    assert "large" not in waiting.placed()
    assert "room for its requests" in waiting.told("b")["large"]["reason"]
    waiting.pods("late", app="a")
    assert eventually(lambda: "late" in waiting.placed(), 60)


@pytest.mark.parametrize("phase", ["waiting", "placing", "placed"])
def test_an_operator_that_is_killed_leaves_nobody_behind(waiting: Waiting, phase: str) -> None:
    """Killed before it has placed anybody, in the midst of it, and when all are placed."""
    waiting.begin(timeoutSeconds=3600)
    names = [f"a{number}" for number in range(12)]
    waiting.cluster.start_operator()
    waiting.pods(*names)
    wanted = {"waiting": 0, "placing": 1, "placed": len(names)}[phase]
    assert eventually(lambda: len(waiting.placed()) >= wanted, 60)
    waiting.cluster.stop_operator(kill=True)
    before = waiting.placed()
    waiting.pods("b0", "b1", app="b")
    waiting.cluster.start_operator()
    assert eventually(lambda: len(waiting.placed()) == len(names) + 2, 90), waiting.told("a")
    assert before.items() <= waiting.placed().items(), "nobody is placed twice"
    assert max(Counter(waiting.placed().values()).values()) <= 2 * SOCKETS
    assert eventually(lambda: len(waiting.told("a")) == len(names))


def test_a_pod_is_placed_once_and_by_whoever_may(waiting: Waiting, tmp_path: Path) -> None:
    waiting.begin(timeoutSeconds=3600)
    waiting.pods("a0")
    mirror = Mirror(Scope(SYSTEM).kinds, lambda _: None, lambda: 0.0)
    found = waiting.read("a0")
    weak = Placer(Api(settings(waiting.powerless(tmp_path)), "test"), mirror)
    with pytest.raises(ApiError, match=r"cannot create .*a0/binding"):
        weak.place(binding(found, waiting.nodes[0]))
    assert "binding" in weak.problem
    weak.begin()
    assert not weak.problem
    strong = Placer(waiting.cluster.api, mirror)
    assert strong.place(binding(found, waiting.nodes[0]))
    assert not strong.place(binding(found, waiting.nodes[1])), "it has a node by now"
    assert waiting.placed() == {"a0": waiting.nodes[0]}
