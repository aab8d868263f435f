"""The Shapley value: the paper's example, and every order counted one by one."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from walras_studies.cooper.shapley import ShapleyError, shapley, shapley_exact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Coalitions = NDArray[np.bool_]


def interference(of_each: Floats) -> Floats:
    """Return the appendix's penalties: sums of agents' contributions, or 0 for fewer than two."""
    agents = len(of_each)
    members = np.arange(1 << agents)[:, None] >> np.arange(agents) & 1
    return np.where(members.sum(axis=1) > 1, members @ of_each, 0)


def in_every_order(penalty: Floats) -> Floats:
    """Return each agent's mean addition to the penalty of those before it, over all orders."""
    agents = len(penalty).bit_length() - 1
    added = np.zeros(agents)
    orders = list(permutations(range(agents)))
    for order in orders:
        coalition = 0
        for agent in order:
            added[agent] += penalty[coalition | 1 << agent] - penalty[coalition]
            coalition |= 1 << agent
    return np.asarray(added / len(orders))


games = st.integers(1, 5).flatmap(
    lambda agents: hnp.arrays(np.float64, 1 << agents, elements=st.floats(-100, 100))
)


def test_the_papers_example() -> None:
    """Appendix, figure 14: contributions 1, 2 and 3 to interference."""
    shares = shapley_exact(interference(np.array([1.0, 2.0, 3.0])))
    np.testing.assert_allclose(shares.share, [1.5, 2.0, 2.5], rtol=1e-15)
    assert shares.coalitions == 8
    assert not shares.error.any()


@given(games)
def test_averages_over_all_orders(penalty: Floats) -> None:
    np.testing.assert_allclose(shapley_exact(penalty).share, in_every_order(penalty), atol=1e-10)


def pair_penalties(loss: Floats, members: Coalitions) -> Floats:
    """Add up what all members lose beside each other member."""
    return np.asarray(np.einsum("ci,ij,cj->c", members, loss, members))


@pytest.mark.parametrize("agents", [12, 20])
def test_of_pairwise_losses_each_bears_half_of_what_it_suffers_and_causes(agents: int) -> None:
    """Exactly with 12 agents, within its error when sampled with 20."""
    loss = np.random.default_rng(1).random((agents, agents))
    np.fill_diagonal(loss, 0)
    shares = shapley(lambda members: pair_penalties(loss, members), agents)
    np.testing.assert_allclose(shares.share, (loss + loss.T).sum(axis=1) / 2, rtol=1e-12)


def saturating(members: Coalitions) -> Floats:
    """Penalties that rise only once bandwidth is exceeded."""
    demand = np.arange(1.0, 1 + members.shape[1])
    return np.asarray(np.maximum(members @ demand - 0.3 * demand.sum(), 0.0))


def test_sampled_shares_lie_within_their_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact shares of 10 agents are known, and 95 % lie within two standard errors."""
    exact = shapley(saturating, 10).share
    monkeypatch.setattr("walras_studies.cooper.shapley.EXACT_AGENTS", 0)
    apart = []
    for seed in range(40):
        sampled = shapley(saturating, 10, pairs=200, seed=seed)
        assert sampled.share.sum() == pytest.approx(38.5)
        assert sampled.coalitions == 200 * 2 * 11
        apart.append(np.abs(sampled.share - exact) / sampled.error)
    assert 0.9 < np.mean(np.array(apart) < 2) < 0.99


def test_the_same_seed_gives_the_same_shares() -> None:
    first, again, other = (shapley(saturating, 15, pairs=20, seed=seed) for seed in (1, 1, 2))
    assert first.share.tobytes() == again.share.tobytes()
    assert first.share.tobytes() != other.share.tobytes()


@pytest.mark.parametrize(
    ("penalties", "complaint"),
    [
        ([0.0, 1.0, 2.0], r"penalties has shape \(3,\): a flat 2\*\*agents is needed"),
        ([], r"penalties has shape \(0,\)"),
        ([[0.0, 1.0]], r"penalties has shape \(1, 2\)"),
        ([0.0, 1.0, 2.0, np.nan], "coalition of 0, 1: penalty is nan, not a finite number"),
        ([np.inf, 1.0], "coalition of nobody: penalty is inf"),
    ],
)
def test_says_what_is_wrong_with_penalties(penalties: list[float], complaint: str) -> None:
    with pytest.raises(ShapleyError, match=complaint):
        shapley_exact(penalties)


def test_says_what_is_wrong_with_a_game() -> None:
    with pytest.raises(ShapleyError, match=r"game gave shape \(\) for 8 coalitions"):
        shapley(lambda _: 1.0, 3)
    with pytest.raises(ShapleyError, match="coalition of 1, 2: penalty is inf"):
        shapley(lambda members: np.where((members == [False, True, True]).all(1), np.inf, 0), 3)
    with pytest.raises(ValueError, match="agents is -1"):
        shapley(saturating, -1)
    with pytest.raises(ValueError, match="pairs is 1: at least 2 are needed"):
        shapley(saturating, 13, pairs=1)
