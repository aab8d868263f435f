"""Compress Python's standard library, file by file, on a pool of threads."""

import argparse
import lzma
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from library import source_files


def compress(path: Path) -> tuple[int, int]:
    """Return the size of a file before and after; lzma works outside Python's global lock."""
    content = path.read_bytes()
    return len(content), len(lzma.compress(content, preset=6))


def main() -> None:
    """Compress and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--fraction", type=float, default=1.0, help="part of the files")
    options = parser.parse_args()
    with ThreadPoolExecutor(options.threads) as pool:
        sizes = list(pool.map(compress, source_files(options.fraction)))
    before, after = (sum(column) for column in zip(*sizes, strict=True))
    print(f"{len(sizes)} files, {before} bytes to {after}: {after / before:.1%}")


if __name__ == "__main__":
    main()
