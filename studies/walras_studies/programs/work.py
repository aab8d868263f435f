"""Programs in Python for the study of real programs, run as a script.

    python program_work.py KIND THREADS FRACTION

KIND is one of `KINDS`, THREADS the number of threads or processes, and FRACTION the part of all
data to work on, 0..1.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

TASKS = 60
"""Number of pieces of all data."""

WORDS = 300_000
"""Words of the text of a piece."""

MEGABYTES = 120
"""Size of the block whose checksum is taken for a piece, in MiB."""

SIDE = 1_100
"""Rows and columns of the matrices that are multiplied."""


def count_words(piece: int) -> int:
    """Return the number of different words in the text of a piece, which its number determines."""
    state, words = piece + 1, []
    for _ in range(WORDS):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append(f"w{state >> 52}")
    return len(Counter(words))


def count_all(threads: int, pieces: int) -> None:
    """Count words in ``threads`` processes, and sum their results in this one."""
    with ProcessPoolExecutor(threads) as pool:
        sum(pool.map(count_words, range(pieces)))


def hash_all(threads: int, pieces: int) -> None:
    """Take checksums in threads, which Python's global lock does not delay here."""
    block = bytes(range(256)) * (MEGABYTES * 4096)
    with ThreadPoolExecutor(threads) as pool:
        sum(
            len(digest)
            for digest in pool.map(lambda _: hashlib.sha256(block).digest(), range(pieces))
        )


def multiply_all(threads: int, pieces: int) -> None:
    """Multiply matrices in the threads of NumPy's library for linear algebra."""
    os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
    import numpy as np

    matrix = np.random.default_rng(0).random((SIDE, SIDE))
    for _ in range(2 * pieces):
        product = matrix @ matrix
        matrix = product / product.max()


KINDS = {"count": count_all, "hash": hash_all, "multiply": multiply_all}


def main() -> None:
    """Do the work that the command line asks for."""
    kind, threads, fraction = sys.argv[1:]
    KINDS[kind](int(threads), max(1, round(TASKS * float(fraction))))


if __name__ == "__main__":
    main()
