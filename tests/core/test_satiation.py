"""Nobody buys what it has next to no use for, by optima that are found without the market."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from walras.clearing import clear
from walras.market.snapshot import Entitlement, Job, Node, Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from walras.market.plan import Plan

    Floats = NDArray[np.float64]

GAIN = 0.0122
"""Largest part of its utility that a user may gain by the rest of its budget."""

ENTITLED = 0.99
"""Part of its bare entitlement's utility that every user has."""

BELOW_ONE = 0.011
"""Part by which utilities may be off for what the market takes parts of a core to be worth."""


def speedups(fraction: Floats, cores: Floats) -> Floats:
    """Return speedups in hardware."""
    return np.where(cores < 1, cores, cores / (fraction + (1 - fraction) * np.maximum(cores, 1)))


class Jobs(NamedTuple):
    """A user's jobs, as arrays: what they do, and their fewest and most cores."""

    work: Floats
    fraction: Floats
    least: Floats
    most: Floats

    def done(self, cores: Floats) -> float:
        """Return the work done on some cores."""
        return float(self.work @ speedups(self.fraction, cores))

    def best(self, price: Floats, money: float) -> float:
        """Return the most work that money buys, by bisection of the marginal work of a coin."""
        price = np.maximum(price, 1e-12)

        def bought(coin: float) -> Floats:
            root = np.sqrt(self.work * self.fraction / (coin * price))
            beyond = np.maximum((root - self.fraction) / (1 - self.fraction), 1.0)
            wanted = np.where(self.work >= coin * price, beyond, 0.0)
            return np.clip(wanted, self.least, self.most)

        low, high = 1e-15, 1e30
        for _ in range(250):
            coin = float(np.sqrt(low) * np.sqrt(high))
            low, high = (low, coin) if price @ bought(coin) <= money else (coin, high)
        cores = bought(high)
        rest = money - price @ cores
        for job in np.argsort(-self.work / price):  # a first core that is bought in part
            more = max(min(min(1.0, self.most[job]) - cores[job], rest / price[job]), 0.0)
            cores[job] += more
            rest -= more * price[job]
        return self.done(cores)

    def among(self, here: NDArray[np.bool_]) -> Jobs:
        """Return some of the jobs."""
        return Jobs(*(each[here] for each in self))


def random_snapshot(seed: int) -> Snapshot:
    """Return a cluster of programs from one thread to all but perfectly parallel ones."""
    random = np.random.default_rng(seed)
    users, nodes = int(random.integers(1, 8)), int(random.integers(1, 6))
    serial = random.random()
    sizes = [float(random.choice([4, 8, 16, 32, 64])) for _ in range(nodes)]
    jobs = tuple(
        Job(
            f"u{user}",
            f"j{number}",
            f"u{user}",
            f"n{random.integers(nodes)}",
            float(
                random.uniform(0.01, 0.5) if random.random() < serial else random.uniform(0.5, 1)
            ),
            work=float(random.choice([1, 1, 1, 2, 0.5])),
            max_cores=int(random.choice([1, 2, 4, 8, 16])) if random.random() < 0.3 else None,
        )
        for user in range(users)
        for number in range(int(random.integers(1, 7)))
    )
    shares = [int(each) for each in random.choice([1, 1, 2, 3, 5, 20], users)]
    return Snapshot(
        tuple(
            Entitlement(f"u{user}", share, namespaces=frozenset({f"u{user}"}))
            for user, share in enumerate(shares)
        ),
        tuple(Node(f"n{node}", cores) for node, cores in enumerate(sizes)),
        jobs,
    )


def check(snapshot: Snapshot, plan: Plan) -> None:
    """Assert that all have what they are promised, and nobody who wants more could pay for it."""
    assert plan.converged
    cores = {node.name: node.cores for node in snapshot.nodes}
    price = {node.name: node.price for node in plan.nodes}
    shares = {each.name: float(each.shares) for each in snapshot.entitlements}
    total = sum(shares.values())
    held = {grant.name + grant.namespace: grant.held for grant in plan.grants}
    for name, share in shares.items():
        mine = [job for job in snapshot.jobs if job.entitlement == name]
        on = np.array([job.node for job in mine])
        size = np.array([cores[job.node] for job in mine])
        equal = share / total * size / [sum(on == node) for node in on]
        most = np.array([min(job.max_cores or np.inf, cores[job.node]) for job in mine])
        jobs = Jobs(
            np.array([job.work for job in mine]),
            np.minimum([job.fraction for job in mine], 1 - 1e-9),
            0.25 * np.minimum(equal, 1),
            most,
        )
        have = np.array([held[job.name + job.namespace] for job in mine])
        prices = np.array([price[job.node] for job in mine])
        budget = share / total * sum(cores.values())
        rounding = 1e-3 * len(mine)
        assert prices @ have <= budget * (1 + 1e-5) + rounding * prices.max()
        could = jobs.best(prices, budget)
        assert could <= jobs.done(have) * (1 + GAIN + BELOW_ONE) + rounding
        alone = sum(
            jobs.among(on == node).best(np.ones(sum(on == node)), share / total * cores[node])
            for node in set(on.tolist())
        )
        assert jobs.done(have) >= ENTITLED * alone - rounding
    for node in snapshot.nodes:
        here = [grant for grant in plan.grants if grant.node == node.name]
        unsold = node.cores - sum(grant.held for grant in here)
        assert unsold >= -1e-9
        assert unsold < 1e-3 or not here or price[node.name] == 0


@pytest.mark.parametrize("batch", range(4))
def test_everybody_has_its_part_and_could_gain_next_to_nothing(batch: int) -> None:
    for seed in range(8 * batch, 8 * (batch + 1)):
        snapshot = random_snapshot(seed)
        check(snapshot, clear(snapshot))


@pytest.mark.verify
@pytest.mark.parametrize("batch", range(100))
def test_the_same_in_ten_thousand_clusters(batch: int) -> None:
    for seed in range(1000 + 100 * batch, 1000 + 100 * (batch + 1)):
        snapshot = random_snapshot(seed)
        check(snapshot, clear(snapshot))


def _user(name: str, shares: int = 1) -> Entitlement:
    return Entitlement(name, shares, namespaces=frozenset({name}))


def test_programs_of_one_thread_leave_their_cores_to_others() -> None:
    """Of 4 cores each, 1.35 give them s(4) / 1.01: s(x) = x / (.02 + .98 x)."""
    jobs = (
        *(Job("one", f"s{number}", "one", "n", 0.02) for number in (0, 1)),
        *(Job("two", f"w{number}", "two", "n", 0.97) for number in (0, 1)),
    )
    plan = clear(Snapshot((_user("one"), _user("two")), (Node("n", 16),), jobs))
    assert [grant.held for grant in plan.grants] == pytest.approx(
        [1.347, 1.347, 6.653, 6.653], abs=2e-3
    )
    one, two = plan.users
    assert one.spent == pytest.approx(2.69 * plan.nodes[0].price, abs=0.01)
    assert two.spent == pytest.approx(8)


def test_a_budget_of_64_cores_buys_59_where_the_rest_adds_a_hundredth() -> None:
    """Users of perfectly parallel jobs buy all else, at prices of nearly 1: s(59) = .99 s(64)."""
    jobs = (
        Job("few", "f", "few", "n", 0.9),
        *(Job("many", f"m{number}", "many", "n", 0.9999) for number in range(4)),
    )
    plan = clear(Snapshot((_user("few"), _user("many", 15)), (Node("n", 1024),), jobs))
    assert plan.grants[0].held == pytest.approx(59.5, abs=0.5)


def test_cores_that_nobody_wants_are_free_and_nobodys() -> None:
    jobs = tuple(Job(name, "j", name, "n", 0.02) for name in ("ann", "bob"))
    plan = clear(Snapshot((_user("ann"), _user("bob")), (Node("n", 64),), jobs))
    assert plan.nodes[0].price == 0
    assert sum(grant.held for grant in plan.grants) < 6
    assert [user.spent for user in plan.users] == [0, 0]


def test_who_has_all_that_it_can_use_for_nothing_is_not_called_sated() -> None:
    jobs = tuple(Job(name, "j", name, "n", 0.9, max_cores=2) for name in ("ann", "bob"))
    plan = clear(Snapshot((_user("ann"), _user("bob")), (Node("n", 8),), jobs))
    assert [grant.held for grant in plan.grants] == [2, 2]
    assert all("unspent" not in grant.reason for grant in plan.grants)


def test_where_nobody_is_sated_all_money_is_spent() -> None:
    jobs = tuple(Job(name, "j", name, "n", f) for name, f in (("ann", 0.9), ("bob", 0.97)))
    plan = clear(Snapshot((_user("ann"), _user("bob")), (Node("n", 8),), jobs))
    assert [grant.held for grant in plan.grants] == [4, 4]
    assert plan.nodes[0].price == pytest.approx(1)
