"""Cores within bounds, in proportion to others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.numerics.segments import group
from walras.numerics.water_filling import water_fill


@pytest.mark.parametrize("tiny", [1e-17, 1e-150, 1e-320, 0.0])
def test_a_vanishing_job_takes_what_the_capped_leave_and_no_more(tiny: float) -> None:
    """Progressive filling must not lose a weight of 1e-17 beside one of 8."""
    groups = AmdahlMarket([1], [8], [0, 0], [0, 0], [0.5, 0.5]).by_server
    filled = water_fill(
        np.array([8.0, tiny]), np.zeros(2), np.array([4.0, 2.0**31]), np.array([8.0]), groups
    )
    np.testing.assert_allclose(filled, [4, 4])


@examples(200)
@given(st.integers(0, 2**32 - 1))
def test_groups_are_filled_each_on_its_own(seed: int) -> None:
    """Members without weight have their lower bounds until all others have their upper ones."""
    random = np.random.default_rng(seed)
    jobs, groups = int(random.integers(1, 30)), 4
    owner = random.integers(0, groups, jobs)
    weight = random.uniform(0.1, 9, jobs) * (random.random(jobs) < 0.6)
    lower = random.uniform(0, 1, jobs) * (random.random(jobs) < 0.5)
    upper = lower + np.where(random.random(jobs) < 0.2, np.inf, random.uniform(0, 3, jobs))
    capacity = random.uniform(0, 12, groups)
    w, low, high = np.column_stack([weight, lower, upper]).T
    filled = water_fill(w, low, high, capacity, group(owner, groups))
    assert ((lower <= filled) & (filled <= upper)).all()
    for one in range(groups):
        mine = owner == one
        if not mine.any() or lower[mine].sum() >= capacity[one]:
            np.testing.assert_array_equal(filled[mine], lower[mine])
            continue
        full = min(upper[mine].sum(), capacity[one])
        assert filled[mine].sum() == pytest.approx(full)
        weighted, others = mine & (weight > 0), mine & (weight == 0)
        inside = weighted & (filled > lower + 1e-9) & (filled < upper - 1e-9)
        level = filled[inside] / weight[inside]
        np.testing.assert_allclose(level, level[:1].repeat(len(level)))
        if (filled[others] > lower[others] + 1e-9).any():
            np.testing.assert_allclose(filled[weighted], upper[weighted])
