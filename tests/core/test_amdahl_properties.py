"""Section V's promises: the market is efficient, fair to every leaf and group, and competitive."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.market.admission import divide_by_shares
from walras.market.snapshot import Entitlement
from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.mechanisms.amdahl.upper_bound import maximise_progress
from walras_studies.amdahl.without_bounds import find_equilibrium

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@st.composite
def markets(draw: st.DrawFn) -> AmdahlMarket:
    """Draw a market in which every user and every server has a job."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    users, servers = int(random.integers(1, 8)), int(random.integers(1, 6))
    jobs = users + servers + int(random.integers(0, 20))
    return AmdahlMarket(
        random.uniform(1, 5, users),
        random.integers(1, 33, servers),
        np.concatenate([np.arange(users), random.integers(0, users, jobs - users)]),
        np.concatenate([random.integers(0, servers, jobs - servers), np.arange(servers)]),
        random.uniform(0.05, 0.99, jobs),
        np.exp(random.standard_normal(jobs)),
    )


@examples(300)
@given(markets())
def test_no_division_benefits_one_user_without_harm_to_another(market: AmdahlMarket) -> None:
    """Pareto efficiency (I, V), by the first theorem of welfare economics.

    The equilibrium maximises the sum of utilities, each over its user's marginal utility of money:
    Lagrange's bound on that sum, from another solver, is met. To help one and harm nobody would
    exceed it.
    """
    found = find_equilibrium(market, tolerance=1e-9)
    f, x = market.fraction, found.cores
    marginal = market.work * f / (f + (1 - f) * x) ** 2 / found.prices[market.server]
    of_money = np.zeros(len(market.budgets))
    np.maximum.at(of_money, market.user, marginal)
    weights = market.sum_by_user(market.work) / of_money
    weighted = AmdahlMarket(
        weights, market.capacities, market.user, market.server, market.fraction, market.work
    )
    best = maximise_progress(weighted)
    assert metrics.system_progress(weighted, x) >= best.bound * (1 - 1e-7)


@st.composite
def trees(draw: st.DrawFn) -> list[Entitlement]:
    """Draw one to four groups of one to four members, some of them groups of two again."""
    result = []
    for group in range(draw(st.integers(1, 4))):
        result.append(Entitlement(f"g{group}", draw(st.integers(1, 5))))
        for member in range(draw(st.integers(1, 4))):
            name = f"g{group}.{member}"
            result.append(Entitlement(name, draw(st.integers(1, 5)), parent=f"g{group}"))
            if draw(st.booleans()):
                result += [Entitlement(f"{name}.{i}", 1 + i, parent=name) for i in range(2)]
    return result


def leaves_of(tree: list[Entitlement]) -> list[str]:
    parents = {each.parent for each in tree}
    return [each.name for each in tree if each.name not in parents]


@examples(200)
@given(trees(), st.integers(0, 2**32 - 1))
def test_every_leaf_and_group_does_at_least_as_well_as_by_its_entitlement(
    tree: list[Entitlement], seed: int
) -> None:
    """Section V-C down a tree: a group is entitled to its part of every server, for its leaves."""
    leaves = leaves_of(tree)
    parts = divide_by_shares(tree, leaves)
    random = np.random.default_rng(seed)
    user = np.concatenate([np.arange(len(leaves)), random.integers(0, len(leaves), 20)])
    server = random.integers(0, 4, len(user))
    server[:4] = range(min(4, len(user)))
    used = np.unique(server)
    market = AmdahlMarket(
        [parts[leaf] for leaf in leaves],
        random.integers(4, 33, len(used)),
        user,
        np.searchsorted(used, server),
        random.uniform(0.3, 0.99, len(user)),
    )
    got = metrics.user_progress(market, find_equilibrium(market).cores)
    bare = metrics.user_progress(market, metrics.bare_entitlement(market))
    assert (got >= bare * (1 - 1e-6)).all()
    for group in [each.name for each in tree if each.parent is None]:
        mine = np.array([leaf.split(".")[0] == group for leaf in leaves])
        assert got[mine].sum() >= bare[mine].sum() * (1 - 1e-6)


def test_the_examples_of_the_page_run() -> None:
    page = Path(__file__).parents[2] / "docs" / "mechanisms" / "amdahl.md"
    shown = doctest.testfile(str(page), module_relative=False)
    assert shown.attempted == 5
    assert shown.failed == 0
