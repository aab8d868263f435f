"""The predicted worth of more nodes agrees with clearing the larger market itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest

from walras.analysis.node_pools import NodePool, node_pools, recommend
from walras.analysis.pool_effects import WITHOUT_VALUES
from walras.analysis.pool_spread import SpreadPool, spread
from walras.clearing import clear
from walras.market.snapshot import (
    MOST_POOLS,
    MOST_USERS,
    CoreMechanism,
    Entitlement,
    Job,
    MemoryDemand,
    Node,
    Policy,
    PoolPrices,
    Snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable

GIB = 2**30


def user(name: str, shares: int = 1) -> Entitlement:
    return Entitlement(name, shares, None, frozenset({"a"}))


def job(name: str, of: str, node: str, fraction: float = 0.9, **fields: object) -> Job:
    return replace(Job("a", name, of, node, fraction), **fields)  # type: ignore[arg-type]


def cluster(cores: int = 12, *, pools: tuple[str, ...] = ("x", "x", "x", "y")) -> Snapshot:
    """Three users on nodes of some cores each, in pools."""
    nodes = tuple(Node(f"n{i}", cores, pool=pool) for i, pool in enumerate(pools))
    users = tuple(user(f"u{i}", 1 + i) for i in range(3))
    jobs = tuple(
        job(f"j{i}", f"u{i % 3}", f"n{i % len(nodes)}", 0.7 + 0.29 * (i % 5) / 5, work=1.0 + i % 2)
        for i in range(3 * len(nodes))
    )
    return Snapshot(users, nodes, jobs)


def drawn(seed: int, pools: int) -> Snapshot:
    """Up to five nodes of very different sizes, with very different jobs."""
    random = np.random.default_rng(seed)
    nodes = tuple(
        Node(f"n{i}", int(random.choice([2, 8, 16, 48])), pool=f"p{random.integers(pools)}")
        for i in range(random.integers(2, 6))
    )
    users = tuple(user(f"u{i}", int(random.integers(1, 20))) for i in range(random.integers(1, 5)))
    jobs = tuple(
        job(
            f"j{i}",
            users[random.integers(len(users))].name,
            nodes[random.integers(len(nodes))].name,
            float(random.choice([0.1, 0.5, 0.9, 0.99, 0.999])),
            work=float(random.choice([0.1, 1, 1, 5])),
        )
        for i in range(random.integers(1, 12))
    )
    return Snapshot(users, nodes, jobs)


def signals(
    snapshot: Snapshot, policy: Policy | None = None, prices: PoolPrices | None = None
) -> dict[str, NodePool]:
    policy = policy or Policy()
    return {
        each.name: each
        for each in node_pools(snapshot, clear(snapshot, policy), policy, prices).pools
    }


def with_cores(snapshot: Snapshot, pool: str, cores: float) -> Snapshot:
    return replace(
        snapshot,
        nodes=tuple(
            replace(node, cores=cores) if node.pool == pool else node for node in snapshot.nodes
        ),
    )


def moved(snapshot: Snapshot, pool: str, names: list[str], places: dict[str, str]) -> Snapshot:
    """Return the snapshot with nodes of these names in a pool, and some jobs on other nodes."""
    others = [node for node in snapshot.nodes if node.pool != pool]
    return replace(
        snapshot,
        nodes=(*(Node(name, 12, pool=pool) for name in names), *others),
        jobs=tuple(replace(each, node=places.get(each.name, each.node)) for each in snapshot.jobs),
    )


@pytest.mark.parametrize(
    "mechanism", ["AmdahlBidding", "ProportionalSharing", "UpperBound", "PriceAnticipating"]
)
@pytest.mark.parametrize("number", [4, 2])
def test_another_node_is_worth_what_clearing_says_once_pods_have_spread(
    mechanism: CoreMechanism, number: int
) -> None:
    """Three nodes of three pods become one of three and three of two, or one of five and of four.

    The last pods of nodes move, since all are of different jobs.
    """
    policy = Policy(mechanism)
    known = signals(cluster(), policy)["x"]
    effect = known.one_more if number == 4 else known.one_less
    assert effect is not None
    more = moved(cluster(), "x", ["n0", "n1", "n2", "n4"], {"j8": "n4", "j9": "n4"})
    less = moved(cluster(), "x", ["n0", "n1"], {"j10": "n0", "j2": "n1", "j6": "n0"})
    before = clear(cluster(), policy)
    after = clear(more if number == 4 else less, policy)
    change = after.system_progress / before.system_progress - 1
    assert effect.progress == pytest.approx(change, abs=1e-5)
    assert effect.speedup == pytest.approx(
        len(before.grants) * (after.system_progress - before.system_progress), abs=1e-3
    )
    utilities = {each.name: each.utility for each in before.users}
    for each in after.users:
        named = {change.user: change for change in (*effect.gaining, *effect.losing)}
        if each.name in named:
            gain = each.utility / utilities[each.name] - 1
            assert named[each.name].utility == pytest.approx(gain, abs=1e-5)


def test_a_node_more_than_there_are_pods_brings_nothing() -> None:
    nodes = (Node("n1", 8, pool="x"), Node("n2", 8, pool="x"))
    alone = Snapshot(
        (user("a"), user("b")), nodes, (job("j1", "a", "n1", 0.95), job("j2", "b", "n2", 0.95))
    )
    known = signals(alone, prices=PoolPrices({"x": 0.01}, 1.0))["x"]
    assert known.one_more is not None
    assert known.one_more.progress == pytest.approx(0, abs=1e-9)
    assert known.recommended == 2
    third = replace(alone, jobs=(*alone.jobs, job("j3", "a", "n2", 0.95)))
    assert signals(third, prices=PoolPrices({"x": 0.01}, 1.0))["x"].recommended == 3


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_what_a_node_is_told_to_bring_is_what_it_brings_when_pods_are_dealt_anew(seed: int) -> None:
    random = np.random.default_rng(seed)
    users = tuple(user(f"u{i}", 1 + i) for i in range(3))
    jobs = [job(f"j{i}", f"u{i % 3}", "", random.uniform(0.5, 0.99)) for i in range(20)]
    nodes = [Node(f"n{i}", 8, pool="x") for i in range(5)]

    def dealt(number: int) -> Snapshot:
        order = random.permutation(len(jobs)).tolist()
        there = (replace(jobs[k], node=f"n{i % number}") for i, k in enumerate(order))
        return Snapshot(users, tuple(nodes[:number]), tuple(there))

    told, before, after = [], [], []
    for _ in range(20):
        present = dealt(4)
        effect = signals(present)["x"].one_more
        assert effect is not None
        told.append(effect.progress)
        before.append(clear(present).system_progress)
        after.append(clear(dealt(5)).system_progress)
    gain = np.mean(after) / np.mean(before) - 1
    error = np.hypot(np.std(told), np.hypot(np.std(before), np.std(after))) / np.sqrt(20)
    assert np.mean(told) == pytest.approx(gain, abs=0.01 + 2 * error)
    assert error < 0.02


def test_the_value_of_a_core_is_the_limit_of_finite_differences() -> None:
    x = signals(cluster())["x"]
    more, less = (
        clear(with_cores(cluster(), "x", cores)).system_progress for cores in (12.01, 11.99)
    )
    assert x.core_value is not None
    assert x.core_value == pytest.approx(12 * (more - less) / (3 * 0.02), rel=1e-3)
    assert x.core_value > 0


@pytest.mark.parametrize("seed", range(20))
def test_a_node_more_in_the_only_pool_never_lowers_progress_and_hardly_harms_anybody(
    seed: int,
) -> None:
    """Where all nodes have as many cores; a pod that moves to a smaller one may lose."""
    unlike = drawn(seed, 1)
    alike = replace(unlike, nodes=tuple(replace(node, cores=16) for node in unlike.nodes))
    (known,) = signals(alike).values()
    assert known.one_more is not None
    assert known.one_more.progress >= -1e-9
    assert all(each.utility > -0.001 for each in known.one_more.losing)
    assert known.core_value is not None
    assert known.core_value >= -1e-9


def test_a_node_that_makes_others_poorer_elsewhere_counts_as_a_loss() -> None:
    """A user that cannot use more on x bids more on y, where another user's job would do more."""
    snapshot = Snapshot(
        (user("both"), user("one")),
        (Node("n1", 16, pool="x"), Node("n2", 16, pool="y")),
        (
            job("a1", "both", "n1", 0.5),
            job("a2", "both", "n1", 0.5),
            job("b", "both", "n2", 0.5),
            job("c", "one", "n2", 0.99),
        ),
    )
    effect = signals(snapshot)["x"].one_more
    assert effect is not None
    assert effect.progress < -0.01
    assert [each.user for each in effect.gaining] == ["both"]
    assert [each.user for each in effect.losing] == ["one"]
    assert effect.losing[0].utility < 0
    assert effect.losing[0].part == 1


@pytest.mark.parametrize("seed", range(15))
def test_the_recommended_number_is_the_best_of_all_where_gains_decrease(seed: int) -> None:
    snapshot = alike(seed)
    prices = dict.fromkeys(("p0", "p1"), 0.2 + 0.4 * (seed % 7))
    known = signals(snapshot, prices=PoolPrices(prices, 0.5))
    judged = 0
    for name, pool in known.items():
        numbers = range(max(-(-pool.nodes // 2), 1), 2 * pool.nodes + 1)
        worth = {number: 0.5 * _total_speedup(snapshot, name, number) for number in numbers}
        gains = [worth[number + 1] - worth[number] for number in numbers if number + 1 in worth]
        if any(later > earlier + 1e-6 for earlier, later in pairwise(gains)):
            continue
        net = {number: worth[number] - number * prices[name] for number in numbers}
        assert pool.recommended in numbers
        assert net[pool.recommended or 0] == pytest.approx(max(net.values()), abs=1e-4)
        judged += 1
    assert judged, "no pool's gains decrease"


def alike(seed: int) -> Snapshot:
    """Two pools, each of nodes of one size with pods that differ in nothing but their names."""
    random = np.random.default_rng(seed)
    nodes: list[Node] = []
    jobs: list[Job] = []
    for pool in ("p0", "p1"):
        number, cores = int(random.integers(1, 4)), int(random.choice([8, 16, 48]))
        fraction = float(random.choice([0.5, 0.9, 0.99]))
        nodes += [Node(f"{pool}-{i}", cores, pool=pool) for i in range(number)]
        jobs += [
            job(f"{pool}-{i}", f"u-{pool}", f"{pool}-{i % number}", fraction)
            for i in range(int(random.integers(number, 5 * number)))
        ]
    return Snapshot((user("u-p0"), user("u-p1", 2)), tuple(nodes), tuple(jobs))


def _total_speedup(snapshot: Snapshot, pool: str, number: int) -> float:
    """The total speedup of as many nodes over which the pods of a pool are dealt one by one."""
    (first, *_) = (node for node in snapshot.nodes if node.pool == pool)
    others = [node for node in snapshot.nodes if node.pool != pool]
    here = [replace(first, name=f"{pool}-{i}") for i in range(number)]
    mine = [each for each in snapshot.jobs if each.node.startswith(pool)]
    dealt = {each.name: f"{pool}-{i % number}" for i, each in enumerate(mine)}
    jobs = tuple(replace(each, node=dealt.get(each.name, each.node)) for each in snapshot.jobs)
    there = replace(snapshot, nodes=(*here, *others), jobs=jobs)
    return len(jobs) * clear(there).system_progress


@pytest.mark.parametrize(
    ("gain", "least", "nodes", "number"),
    [
        (lambda n: 10 / n, 2.0, 4, 5),
        (lambda n: 10 / n, 2.0, 20, 10),  # half of the present number
        (lambda n: 10 / n, 0.1, 4, 8),  # twice the present number
        (lambda n: 10 / n, 11.0, 1, 1),
        (lambda n: 10 / n, 10.0, 3, 2),
        (lambda _: 0.0, 0.1, 7, 4),
    ],
)
def test_the_last_recommended_node_gains_enough_and_one_more_does_not(
    gain: Callable[[int], float], least: float, nodes: int, number: int
) -> None:
    assert recommend(nodes, gain, least) == number


@pytest.mark.parametrize("nodes", [1, 2, 5, 100])
def test_a_number_that_is_right_already_is_found_by_the_two_gains_that_are_known(
    nodes: int,
) -> None:
    asked = []

    def gain(number: int) -> float:
        asked.append(number)
        return 1.0 if number in {nodes, nodes - 2} else 0.5  # two numbers are right

    assert recommend(nodes, gain, 1.0) == nodes
    assert set(asked) <= {nodes, nodes + 1}


@pytest.mark.parametrize("seed", range(40))
def test_pods_spread_until_none_could_move_to_a_node_that_would_be_less_full(seed: int) -> None:
    """Each node that gives a pod is the fullest then, and each that takes one the emptiest."""
    random = np.random.default_rng(seed)
    sizes = random.choice([1, 2, 8, 16, 48], random.integers(1, 9)).tolist()
    nodes = tuple(Node(f"n{k}", cores, pool="x") for k, cores in enumerate(sizes))
    place = random.integers(len(nodes), size=random.integers(1, 40)).tolist()
    pods = tuple(
        tuple(pod for pod, node in enumerate(place) if node == k) for k in range(len(nodes))
    )
    job_of = random.integers(1 + seed % 5, size=len(place)).tolist()
    number = int(random.integers(1, 2 * len(nodes) + 2))
    found = spread(SpreadPool(nodes, pods), number, job_of)
    there = [list(each) for each in pods]
    for _ in range(number, len(nodes)):  # those with the fewest pods go, and the last of these
        gone = min(range(len(there)), key=lambda k: (len(there[k]), -k))
        sizes.pop(gone)
        there.pop(gone)
    for _ in range(len(nodes), number):
        sizes.append(sum(node.cores for node in nodes) / len(nodes))
        there.append([])
    staying = {pod for each in there for pod in each}
    for pod in (pod for each in pods for pod in each if pod not in staying):
        with_it = [(len(each) + 1) / cores for each, cores in zip(there, sizes, strict=True)]
        there[with_it.index(min(with_it))].append(pod)
    while True:
        full = [len(each) / cores for each, cores in zip(there, sizes, strict=True)]
        with_it = [(len(each) + 1) / cores for each, cores in zip(there, sizes, strict=True)]
        if min(with_it) >= max(full):
            break
        giving = there[full.index(max(full))]
        copies = [sum(job_of[pod] == job_of[other] for other in giving) for pod in giving]
        last = max(range(len(giving)), key=lambda k: (copies[k], k))
        there[with_it.index(min(with_it))].append(giving.pop(last))
    assert found.pods == tuple(map(tuple, there))
    assert [node.cores for node in found.nodes] == sizes


def test_a_pod_that_moves_to_a_new_node_no_longer_loses_beside_the_others() -> None:
    """The last pod of the node moves, and is alone on the new one."""
    jobs = (
        job("j1", "u0", "n0", 0.95, program="stream"),
        job("j2", "u1", "n0", 0.95, program="solve"),
    )
    nodes = (Node("n0", 12, pool="x"),)
    together = Snapshot((user("u0"), user("u1")), nodes, jobs, {("solve", "stream"): 0.4})
    apart = replace(
        together,
        nodes=(*nodes, Node("n1", 12, pool="x")),
        jobs=(jobs[0], replace(jobs[1], node="n1")),
    )
    effect = signals(together)["x"].one_more
    assert effect is not None
    change = clear(apart).system_progress / clear(together).system_progress - 1
    assert effect.progress == pytest.approx(change, abs=1e-5)
    assert effect.gaining[0].user == "u1"
    unknown = signals(together, Policy(interference=False))["x"].one_more
    assert unknown is not None
    assert unknown.progress < effect.progress - 0.01


def test_empty_nodes_count_as_spread_over_so_that_they_call_for_no_more() -> None:
    """An autoscaler that follows the number must not see it grow with the nodes it adds."""
    prices = PoolPrices({"x": 1.0, "y": 1.0}, 0.45)
    before = signals(cluster(), prices=prices)["x"]
    assert before.recommended == 5
    nodes = cluster().nodes
    more = replace(cluster(), nodes=(*nodes, Node("n4", 12, pool="x"), Node("n5", 12, pool="x")))
    after = signals(more, prices=prices)["x"]
    assert (after.nodes, after.cores) == (5, 60)
    assert after.price == pytest.approx(before.price * 72 / 48)  # all budgets buy on the others
    assert after.recommended == before.recommended


def test_nothing_is_recommended_without_both_prices() -> None:
    known = signals(cluster(), prices=PoolPrices({"x": 1.0}, 0.3))
    assert known["x"].recommended is not None
    assert known["y"].recommended is None
    assert signals(cluster(), prices=PoolPrices({"x": 1.0}))["x"].recommended is None


def test_a_pool_without_jobs_is_worth_nothing() -> None:
    idle = replace(cluster(), nodes=(*cluster().nodes, Node("n9", 8, pool="idle")))
    known = signals(idle, prices=PoolPrices({"idle": 1.0}, 1.0))["idle"]
    assert known.core_value == 0
    assert known.one_more is not None
    assert known.one_more.progress == known.one_more.speedup == 0
    assert known.one_less is None
    assert known.recommended == 1


def test_cores_that_no_job_can_use_are_worth_nothing() -> None:
    full = replace(cluster(), jobs=tuple(replace(each, max_cores=1) for each in cluster().jobs))
    known = signals(full)["x"]
    assert known.core_value == pytest.approx(0, abs=1e-9)


def test_requests_are_kept_in_the_smaller_pool_as_far_as_they_fit() -> None:
    floors = replace(
        cluster(),
        jobs=tuple(replace(each, requested=4.0, floor=4.0) for each in cluster().jobs),
    )
    effect = signals(floors)["x"].one_less
    assert effect is not None
    assert effect.progress < 0


def test_pods_that_wait_for_a_node_are_not_counted() -> None:
    waiting = replace(cluster(), jobs=(*cluster().jobs, job("w", "u0", "")))
    assert signals(waiting)["x"].one_more == signals(cluster())["x"].one_more


@pytest.mark.parametrize("sold_by", ["node", "socket"])
@pytest.mark.parametrize("mechanism", get_args(CoreMechanism))
def test_every_mechanism_has_prices_and_most_have_values(
    mechanism: CoreMechanism, sold_by: str
) -> None:
    sockets = replace(cluster(), nodes=tuple(replace(n, sockets=2) for n in cluster().nodes))
    known = signals(sockets, Policy(mechanism, sold_by=sold_by))  # type: ignore[arg-type]
    for each in known.values():
        assert each.price >= 0
        assert (each.core_value is None) == (mechanism in WITHOUT_VALUES)
        assert (each.one_more is None) == (mechanism in WITHOUT_VALUES)


def test_memory_that_jobs_lack_is_worth_what_they_would_use() -> None:
    """One node of the pool is short of a GiB and more, the other of nothing."""
    nodes = (Node("n1", 4, 4 * GIB, pool="x"), Node("n2", 4, 12 * GIB, pool="x"))
    jobs = (
        job("a", "u", "n1", memory=MemoryDemand(6 * GIB)),
        job("b", "u", "n2", memory=MemoryDemand(3 * GIB)),
    )
    snapshot = Snapshot((user("u"),), nodes, jobs)
    for mechanism in ("Karma", "MaxMin"):
        known = signals(snapshot, Policy(memory=mechanism))["x"]
        assert known.unmet_memory == 2 * GIB
        assert known.memory_value == pytest.approx(0.25)
    assert signals(snapshot, Policy(memory="Strict"))["x"].memory_value is None
    assert signals(snapshot)["x"].unmet_memory is None


def test_the_largest_pools_are_looked_at_and_the_others_counted() -> None:
    nodes = tuple(Node(f"n{i}", 1 + i, pool=f"p{i:03d}") for i in range(MOST_POOLS + 3))
    snapshot = Snapshot((user("u"),), nodes, (job("j", "u", "n0"),))
    found = node_pools(snapshot, clear(snapshot), Policy())
    assert [each.name for each in found.pools] == [f"p{i:03d}" for i in range(3, MOST_POOLS + 3)]
    assert found.others == 3


def test_a_few_users_are_named() -> None:
    users = tuple(user(f"u{i}") for i in range(9))
    jobs = tuple(job(f"j{i}", f"u{i}", "n", 0.9 + i / 100) for i in range(9))
    effect = signals(Snapshot(users, (Node("n", 40),), jobs))["default"].one_more
    assert effect is not None
    assert [each.user for each in effect.gaining] == ["u8", "u7", "u6"]
    assert len(effect.gaining) == MOST_USERS
    parts = [each.part for each in effect.gaining]
    assert parts == sorted(parts, reverse=True)
    assert 1 / 3 < sum(parts) < 1
