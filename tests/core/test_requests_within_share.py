"""Requests beyond a share are kept while nobody is short for them: no way around the market."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from walras.clearing import clear
from walras.market.balances import Balance, brought_forward
from walras.market.snapshot import (
    Entitlement,
    Job,
    JobKey,
    Node,
    Policy,
    RequestRule,
    Snapshot,
)

DAYS, DECISIONS = 40, 4
HOURS = 24 / DECISIONS


def _users(*shares: int) -> tuple[Entitlement, ...]:
    return tuple(
        Entitlement(f"u{user}", share, namespaces=frozenset({f"u{user}"}))
        for user, share in enumerate(shares)
    )


def _world(seed: int, times: float) -> Snapshot:
    """Return a cluster whose first user requests some times its share of every node."""
    random = np.random.default_rng(seed)
    shares = [int(each) for each in random.choice([1, 1, 2, 3], 4)]
    nodes = tuple(Node(f"n{node}", float(random.choice([16, 32]))) for node in range(3))
    jobs = []
    for node in nodes:
        for user, share in enumerate(shares):
            pods = int(random.integers(1, 3))
            part = share / sum(shares) * node.cores / pods
            for pod in range(pods):
                asked = times * part if user == 0 else 0.0
                jobs.append(
                    Job(
                        f"u{user}",
                        f"j{user}",
                        f"u{user}",
                        node.name,
                        float(random.uniform(0.8, 0.99)),
                        pod=f"{node.name}-{pod}",
                        requested=asked,
                        floor=asked,
                    )
                )
    return Snapshot(_users(*shares), nodes, tuple(jobs))


def _forty_days(seed: int, times: float, rule: RequestRule) -> tuple[float, float]:
    """Return the mean utility of the first user, and of another the least part of its share."""
    policy = Policy(requests=rule, hysteresis=0.02, core_half_life=96 * 3600.0, lending=True)
    random = np.random.default_rng(seed)
    snapshot = _world(seed, times)
    account: dict[str, Balance] = {}
    held: dict[JobKey, float] = {}
    mine, others = [], []
    for _ in range(DAYS * DECISIONS):
        jobs = tuple(
            replace(job, fraction=min(0.99, job.fraction * float(random.uniform(0.98, 1.02))))
            for job in snapshot.jobs
        )
        plan = clear(replace(snapshot, jobs=jobs, account=account, held=held), policy)
        account = brought_forward(plan.account, HOURS * 3600, policy.core_half_life)
        held = plan.holdings()
        first, *rest = plan.users
        mine.append(first.held_utility)
        others.append(min(user.held_utility / user.entitlement_utility for user in rest))
    return float(np.mean(mine)), float(np.mean(others))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_who_requests_twice_its_part_gains_nothing_in_forty_days(seed: int) -> None:
    honest, _ = _forty_days(seed, 0.0, "WithinShare")
    greedy, others = _forty_days(seed, 2.0, "WithinShare")
    assert greedy < 1.02 * honest
    assert others >= 0.99
    always, lose = _forty_days(seed, 2.0, "Always")
    assert always > 1.1 * honest
    assert lose < 0.95


def test_requests_are_kept_while_nobody_is_short_for_them() -> None:
    """Bob's program has one thread, so that ann's pod keeps 14 of 16 cores."""
    jobs = (
        Job("u0", "a", "u0", "n", 0.95, requested=14.0, floor=14.0),
        Job("u1", "b", "u1", "n", 0.9, max_cores=1),
    )
    snapshot = Snapshot(_users(1, 1), (Node("n", 16),), jobs)
    ann, _ = clear(snapshot, Policy(requests="WithinShare")).grants
    assert ann.held >= 14
    assert ann.keeps_request


def test_requests_beyond_a_share_are_cut_to_it_where_another_is_short() -> None:
    jobs = (
        Job("u0", "a", "u0", "n", 0.95, requested=14.0, floor=14.0),
        Job("u1", "b", "u1", "n", 0.95),
    )
    snapshot = Snapshot(_users(1, 1), (Node("n", 16),), jobs)
    kept, _ = clear(snapshot).grants
    assert kept.held == 14
    plan = clear(snapshot, Policy(requests="WithinShare"))
    ann, bob = plan.grants
    assert (ann.held, bob.held) == (8, 8)
    assert not ann.keeps_request
    assert "u0 requested more than its share of n" in ann.reason
    assert all(not user.short_of for user in plan.users)


def test_requests_within_a_share_are_kept_whatever_others_lack() -> None:
    jobs = (
        Job("u0", "a", "u0", "n", 0.5, requested=8.0, floor=8.0),
        Job("u1", "b", "u1", "n", 0.99, requested=10.0, floor=10.0),
    )
    plan = clear(Snapshot(_users(1, 1), (Node("n", 16),), jobs), Policy(requests="WithinShare"))
    assert [grant.held for grant in plan.grants] == [8, 8]
