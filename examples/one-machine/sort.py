"""Sort every word of Python's standard library: parts by processes, then one merge."""

import argparse
import heapq
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from library import source_files

WORD = re.compile(r"[A-Za-z_]\w+")
REPEATS = 12


def sorted_words(paths: list[Path]) -> list[str]:
    """Return the words of some files in order: by length, then as in a dictionary."""
    words: list[str] = []
    for path in paths:
        words += WORD.findall(path.read_text(encoding="utf-8", errors="replace"))
    for _ in range(REPEATS):  # as many sort keys, least significant last
        words.sort(key=str.casefold)
        words.sort(key=len)
    return words


def main() -> None:
    """Split, sort, merge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="processes")
    parser.add_argument("--fraction", type=float, default=1.0, help="part of the files")
    options = parser.parse_args()
    files = source_files(options.fraction)
    parts = [files[i :: 4 * options.threads] for i in range(4 * options.threads)]
    with ProcessPoolExecutor(options.threads) as pool:
        merged = heapq.merge(
            *pool.map(sorted_words, parts), key=lambda word: (len(word), word.casefold())
        )
        words = longest = 0
        for word in merged:
            words += 1
            longest = max(longest, len(word))
    print(f"{words} words; the longest has {longest} letters")


if __name__ == "__main__":
    main()
