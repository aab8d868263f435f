"""Cores within bounds, in proportion to others."""

import numpy as np
import pytest

from walras.amdahl.market import AmdahlMarket
from walras.water_filling import water_fill


@pytest.mark.parametrize("tiny", [1e-17, 1e-150, 1e-320, 0.0])
def test_a_vanishing_job_takes_what_the_capped_leave_and_no_more(tiny: float) -> None:
    """Progressive filling must not lose a weight of 1e-17 beside one of 8."""
    groups = AmdahlMarket([1], [8], [0, 0], [0, 0], [0.5, 0.5]).by_server
    filled = water_fill(
        np.array([8.0, tiny]), np.zeros(2), np.array([4.0, 2.0**31]), np.array([8.0]), groups
    )
    np.testing.assert_allclose(filled, [4, 4])
