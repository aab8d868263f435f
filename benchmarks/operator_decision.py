"""Measure a decision of the operator on a large cluster, from nothing and after a change.

Of each decision, the part that nodes wait for is timed (plans), and the whole. The garbage
collector is paused until plans are written, as the operator does; the whole includes its scan of
what was made meanwhile. The peer is the minimum for anything
that reads the same objects: to parse them from JSON. The signals of node pools are computed beside
decisions, at most once a minute.
"""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import Case, one_thread, run

one_thread()
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from large_worlds import cluster  # noqa: E402
from walras.analysis.node_pools import node_pools  # noqa: E402
from walras.market.snapshot import Policy, PoolPrices  # noqa: E402
from walras_api.kept import Kept  # noqa: E402
from walras_operator.decide import decision  # noqa: E402
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


def deciding(*worlds: World, whole: bool, afresh: bool = False) -> Callable[[], object]:
    """Return a function that decides on the next of some worlds.

    Args:
        worlds: Worlds that differ by one object, so that each decision follows one such change.
        whole: Whether to decide all, or only what nodes wait for.
        afresh: Whether to keep nothing of earlier decisions.
    """
    turns = cycle(worlds)

    def decided() -> None:
        known = next(turns)
        gc.disable()
        made = decision.decide(replace(known, kept=Kept()) if afresh else known)
        if whole:
            made.writes()
            gc.collect(0)

    return decided


def without_a_pod(known: World) -> World:
    """Return the same world without a pod in the middle."""
    pods = list(known.objects.pods)
    del pods[len(pods) // 2]
    return replace(known, objects=replace(known.objects, pods=pods))


def with_other_shares(known: World) -> World:
    """Return the same world with different shares for one entitlement."""
    first, *others = known.objects.entitlements
    changed = first.model_copy(update={"spec": first.spec.model_copy(update={"shares": 9})})
    return replace(known, objects=replace(known.objects, entitlements=[changed, *others]))


def signals(known: World) -> Callable[[], object]:
    """Return the computation of signals of `POOLS` node pools with prices, after a decision."""
    made = decide(known)
    if made.snapshot is None or made.plan is None:
        raise SystemExit("the market could not be cleared")
    snapshot, names = made.snapshot, [f"pool-{number}" for number in range(POOLS)]
    nodes = (
        replace(node, pool=names[number % POOLS]) for number, node in enumerate(snapshot.nodes)
    )
    prices = PoolPrices(dict.fromkeys(names, 0.5), 0.04)
    return partial(node_pools, replace(snapshot, nodes=tuple(nodes)), made.plan, Policy(), prices)


def cases() -> list[Case]:
    """Return the cases of both sizes."""
    found = []
    for nodes, pods in SIZES:
        documents = cluster(nodes, pods)
        texts = [json.dumps(each) for each in documents]
        steady = settled(documents)
        if decide(steady).statuses or decide(steady).nodes:
            raise SystemExit("the operator writes although nothing has changed")

        def peer(texts: list[str] = texts) -> list[Any]:
            return [json.loads(each) for each in texts]

        title = f"{nodes} nodes, {pods} pods"
        for what, worlds in (
            ("from nothing", [steady]),
            ("nothing changed", [steady]),
            ("one pod gone", [without_a_pod(steady), steady]),
            ("one entitlement changed", [with_other_shares(steady), steady]),
        ):
            decides = partial(deciding, *worlds, afresh=what == "from nothing")
            found += [
                Case(f"{title}, {what}: plans", TARGET_MS, decides(whole=False)),
                Case(f"{title}, {what}", TARGET_MS, decides(whole=True), "json", peer),
            ]
        found.append(Case(f"{title}, {POOLS} node pools", SIGNALS_MS, signals(steady)))
    return found


if __name__ == "__main__":
    run("Decisions of the operator", cases())
