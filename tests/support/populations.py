"""User populations as in section VI of "Amdahl's Law in the Datacenter Era", many at a time.

They are those of `walras simulate amdahl`, whose module says what is assumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras_studies.amdahl.populations import SERVERS_PER_USER, USERS, draw_population

if TYPE_CHECKING:
    from walras.mechanisms.amdahl.market import AmdahlMarket

__all__ = ["draw_population", "sample_populations"]


def sample_populations(count: int, density: int, *, largest: int = 1000) -> list[AmdahlMarket]:
    """Draw ``count`` populations of one density, users and servers drawn as in the paper."""
    random = np.random.default_rng(density)
    sizes = [size for size in USERS if size <= largest]
    return [
        draw_population(
            int(random.choice(sizes)),
            float(random.choice(SERVERS_PER_USER)),
            density,
            seed=1000 * density + number,
        )
        for number in range(count)
    ]
