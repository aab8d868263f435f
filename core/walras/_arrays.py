"""Names of the array types that the mechanisms compute with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.uint32]
"""Indices of jobs, users, servers or agents, at half the memory of `Integers`."""
