"""The data that every machine with Python has: the source files of its standard library."""

import os
import random
import sysconfig
from pathlib import Path


def source_files(fraction: float) -> list[Path]:
    """Return random files with ``fraction`` of all bytes; larger parts contain smaller ones."""
    files = []
    for folder, below, names in os.walk(sysconfig.get_path("stdlib")):
        below[:] = sorted(set(below) - {"site-packages", "__pycache__"})
        files += [Path(folder, name) for name in sorted(names) if name.endswith(".py")]
    random.Random(0).shuffle(files)
    sizes = [path.stat().st_size for path in files]
    wanted, taken = fraction * sum(sizes), 0
    chosen = []
    for path, size in zip(files, sizes, strict=True):
        if taken + size <= wanted:  # a file that is too large makes room for smaller ones
            chosen.append(path)
            taken += size
    return chosen
