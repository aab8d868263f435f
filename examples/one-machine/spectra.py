"""Spacings between eigenvalues of random symmetric matrices, the statistics of heavy nuclei.

Wigner's surmise says that neighbours repel: the density of spacings s (in units of their mean) is
close to pi s / 2 exp(-pi s**2 / 4), so that a share of about 0.18 is below one half.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIZE = 120
MATRICES = 10_000


def spacings(seed: int) -> NDArray[np.float64]:
    """Return the spacings in the middle of one matrix's spectrum, over their mean."""
    entries = np.random.default_rng(seed).standard_normal((SIZE, SIZE))
    levels = np.linalg.eigvalsh(entries + entries.T)[SIZE // 3 : 2 * SIZE // 3]
    gaps: NDArray[np.float64] = np.diff(levels)
    gaps /= gaps.mean()
    return gaps


def main() -> None:
    """Draw matrices, diagonalise, count small spacings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--fraction", type=float, default=1.0, help="part of the matrices")
    options = parser.parse_args()
    count = max(1, round(MATRICES * options.fraction))
    with ProcessPoolExecutor(options.threads) as pool:
        gaps = np.concatenate(list(pool.map(spacings, range(count), chunksize=20)))
    print(f"{count} matrices: a share of {np.mean(gaps < 0.5):.3f} of spacings is below one half")


if __name__ == "__main__":
    main()
