"""Find what a backup of Python's standard library would store only once.

Every file is cut into chunks where its content says so (a rolling hash, so that an insertion moves
no later cut), and every chunk gets a key that is slow to forge. Keys are made on a pool of
threads; the cutting is plain Python and runs one thread at a time, which is why this program gains
less from cores than the others.
"""

import argparse
import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from library import source_files

SHORTEST = 64  # bytes; the rolling hash forgets what is further back
MASK = (1 << 13) - 1  # a cut every 8 KiB on average
KEY_ROUNDS = 6_000


def cut(content: bytes) -> list[bytes]:
    """Split content at positions that depend on the 64 bytes before them only."""
    chunks, start, rolling = [], 0, 0
    for position, byte in enumerate(content):
        rolling = ((rolling << 1) + byte * 2654435761) & 0xFFFFFFFFFFFFFFFF
        if position - start >= SHORTEST and not (rolling >> 40) & MASK:
            chunks.append(content[start : position + 1])
            start = position + 1
    return [*chunks, content[start:]]


def key(chunk: bytes) -> bytes:
    """Return a chunk's key."""
    return hashlib.pbkdf2_hmac("sha256", chunk, b"walras", KEY_ROUNDS)


def main() -> None:
    """Cut, make keys, count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--fraction", type=float, default=1.0, help="part of the files")
    options = parser.parse_args()
    chunks = [chunk for path in source_files(options.fraction) for chunk in cut(path.read_bytes())]
    with ThreadPoolExecutor(options.threads) as pool:
        found = Counter(pool.map(key, chunks, chunksize=16))
    print(f"{len(chunks)} chunks, {len(chunks) - len(found)} of them stored already")


if __name__ == "__main__":
    main()
