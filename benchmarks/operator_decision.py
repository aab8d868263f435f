"""Measure a whole decision of the operator on a large cluster, with and without a change.

The garbage collector is paused during a decision, as the operator does. The peer is the minimum for
anything that reads the same objects: to parse them from JSON. The signals of node pools are
computed beside decisions, at most once a minute.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import Case, one_thread, run

one_thread()
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from large_worlds import cluster  # noqa: E402
from walras.analysis.node_pools import node_pools  # noqa: E402
from walras.market.snapshot import Policy, PoolPrices  # noqa: E402
from walras_service import collector  # noqa: E402
from whole_decisions import decide  # noqa: E402
from worlds import enforced as all_enforced  # noqa: E402
from worlds import outcome, world  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_operator.decide.world import Document, World

SIZES = ((100, 1_000), (1_000, 10_000))
TARGET_MS = 1_000
POOLS = 4
SIGNALS_MS = 1_000


def settled(documents: list[Document]) -> World:
    """Return the world after a decision is published and agents have enforced it."""
    fresh = world(*documents)
    told = all_enforced(outcome(fresh, decide(fresh)))
    return outcome(told, decide(told))


def decided(known: World) -> None:
    """Decide with the garbage collector paused."""
    with collector.paused():
        decide(known)


def with_other_shares(known: World) -> World:
    """Return the same world with different shares for one entitlement."""
    first, *others = known.objects.entitlements
    changed = first.model_copy(update={"spec": first.spec.model_copy(update={"shares": 9})})
    return replace(known, objects=replace(known.objects, entitlements=[changed, *others]))


def signals(known: World) -> Callable[[], object]:
    """Return the computation of signals of `POOLS` node pools with prices, after a decision."""
    decision = decide(known)
    if decision.snapshot is None or decision.plan is None:
        raise SystemExit("the market could not be cleared")
    snapshot, names = decision.snapshot, [f"pool-{number}" for number in range(POOLS)]
    nodes = (
        replace(node, pool=names[number % POOLS]) for number, node in enumerate(snapshot.nodes)
    )
    prices = PoolPrices(dict.fromkeys(names, 0.5), 0.04)
    return partial(
        node_pools, replace(snapshot, nodes=tuple(nodes)), decision.plan, Policy(), prices
    )


def cases() -> list[Case]:
    """Return the cases of both sizes, with and without a change."""
    found = []
    for nodes, pods in SIZES:
        documents = cluster(nodes, pods)
        texts = [json.dumps(each) for each in documents]
        steady = settled(documents)
        if decide(steady).statuses or decide(steady).nodes:
            raise SystemExit("the operator writes although nothing has changed")
        changed = with_other_shares(steady)

        def peer(texts: list[str] = texts) -> list[Any]:
            return [json.loads(each) for each in texts]

        title = f"{nodes} nodes, {pods} pods"
        found += [
            Case(f"{title}, {what}", TARGET_MS, partial(decided, known), "json", peer)
            for what, known in (("nothing new", steady), ("other shares", changed))
        ]
        found.append(Case(f"{title}, {POOLS} node pools", SIGNALS_MS, signals(steady)))
    return found


if __name__ == "__main__":
    run("Decisions of the operator", cases())
