"""Work for the study of real programs: Python's own kinds of parallelism, run as a script.

    python program_work.py KIND THREADS FRACTION

KIND is one of `KINDS`, FRACTION the part of all data to work on.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

TASKS = 60
"""Pieces that all of the data is in."""

WORDS = 300_000
MEGABYTES = 120
SIDE = 1_100


def count_words(piece: int) -> int:
    """Count words of a text that the piece's number determines; return how many differ."""
    state, words = piece + 1, []
    for _ in range(WORDS):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append(f"w{state >> 52}")
    return len(Counter(words))


def count_all(threads: int, pieces: int) -> None:
    """Count by processes: a map over pieces, and results put together by one of them."""
    with ProcessPoolExecutor(threads) as pool:
        sum(pool.map(count_words, range(pieces)))


def hash_all(threads: int, pieces: int) -> None:
    """Take checksums by threads, which Python's lock does not hold up here."""
    block = bytes(range(256)) * (MEGABYTES * 4096)
    with ThreadPoolExecutor(threads) as pool:
        sum(
            len(digest)
            for digest in pool.map(lambda _: hashlib.sha256(block).digest(), range(pieces))
        )


def multiply_all(threads: int, pieces: int) -> None:
    """Multiply matrices by the threads of NumPy's linear algebra."""
    os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
    import numpy as np

    matrix = np.random.default_rng(0).random((SIDE, SIDE))
    for _ in range(2 * pieces):
        product = matrix @ matrix
        matrix = product / product.max()


KINDS = {"count": count_all, "hash": hash_all, "multiply": multiply_all}


def main() -> None:
    """Do the work that the command line says."""
    kind, threads, fraction = sys.argv[1:]
    KINDS[kind](int(threads), max(1, round(TASKS * float(fraction))))


if __name__ == "__main__":
    main()
