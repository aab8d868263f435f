"""Names of the array types that the mechanisms compute with.

A table has rows and columns, a cube several tables: kernels take arrays of so many dimensions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FloatTable = Floats
FloatCube = Floats
Integers = NDArray[np.int64]
IntegerTable = Integers
IntegerCube = Integers
Bools = NDArray[np.bool_]
Indices = NDArray[np.uint32]
"""Indices of jobs, users, servers or agents, at half the memory of `Integers`."""
IndexTable = Indices
