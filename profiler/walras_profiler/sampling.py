"""Draws uniform random samples of a folder's files or of a text file's lines.

Source: "Amdahl's Law in the Datacenter Era", section IV-A: profiles of small random samples
predict the whole. Skewed and irregular data (graphs) need a sampling method of their own.
"""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from walras.speedup.sizes import DataSize

_PROBE_BYTES = 65536


class SamplingError(Exception):
    """The data cannot be sampled; the message is one line with their path and the way out."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """Draws samples of one data set.

    Attributes:
        scratch: Folder to write samples to; the caller removes it.
        seed: Seed of the random choice; the same seed draws the same samples.
    """

    source: Path
    scratch: Path
    seed: int

    def draw(self, size: DataSize) -> Path:
        """Return the path of a sample of the given size; for all of the data, their own path.

        The sample of a folder is a folder with links to a random subset of its files (at least
        one), each at its relative path. The sample of a file is a copy of random lines in their
        order. A sample that was drawn before is returned again.

        Raises:
            SamplingError: The data are missing, empty or binary, or the sample cannot be written.
        """
        check_source(self.source)
        if size.is_whole:
            return self.source.absolute()
        target = self.scratch / f"sample-{size.percent}" / self.source.absolute().name
        if target.exists():
            return target
        share = float(size.value)
        generator = random.Random(f"{self.seed}:{size}")  # noqa: S311 (a sample, not a secret)
        try:
            target.parent.mkdir()
            if self.source.is_dir():
                _link_files(self.source.absolute(), target, share, generator)
            else:
                _copy_lines(self.source, target, share, generator)
        except OSError as error:
            raise SamplingError(
                f"{self.source}: a sample cannot be written to {self.scratch}: {error.strerror}; "
                "set TMPDIR to a folder on a larger disk"
            ) from error
        return target


def check_source(source: Path) -> None:
    """Check that data can be sampled.

    Raises:
        SamplingError: They are missing, unreadable, empty, or neither a folder nor a text file.
    """
    try:
        exists = source.exists()
    except OSError as error:
        raise SamplingError(f"{source}: {error.strerror}") from error
    if not exists:
        raise SamplingError(f"{source}: no such file or folder")
    if not os.access(source, os.R_OK):
        raise SamplingError(f"{source}: not readable by this user")
    if source.is_dir():
        if next(_files(source), None) is None:
            raise SamplingError(f"{source}: holds no files to sample")
    elif not source.is_file():
        raise SamplingError(f"{source}: neither a folder nor a regular file")
    else:
        _check_text(source)


def _check_text(source: Path) -> None:
    with source.open("rb") as file:
        head = file.read(_PROBE_BYTES)
    if not head:
        raise SamplingError(f"{source}: an empty file")
    if b"\0" in head:
        raise SamplingError(
            f"{source}: a binary file has no lines to sample: give a folder of files, a text file, "
            "or let the command take part of its data by {percent} or {fraction}"
        )


def _files(folder: Path) -> Iterator[Path]:
    """Yield the regular files below `folder`, relative to it."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent) / name
            if path.is_file():
                yield path.relative_to(folder)


def _link_files(source: Path, target: Path, share: float, generator: random.Random) -> None:
    """Link a random subset of the files, each at its relative path."""
    files = sorted(_files(source))
    for file in generator.sample(files, _count(len(files), share)):
        link = target / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source / file)


def _copy_lines(source: Path, target: Path, share: float, generator: random.Random) -> None:
    """Copy a random subset of the lines in their order, in one pass and little memory.

    Selection sampling (Knuth, The Art of Computer Programming, volume 2, algorithm 3.4.2 S):
    line i of n is taken with probability (wanted - taken) / (n - i), which makes every subset
    of the wanted count equally likely.
    """
    with source.open("rb") as lines:
        total = sum(1 for _ in lines)
    wanted = _count(total, share)
    with source.open("rb") as lines, target.open("wb") as sample:
        for line in _selected(lines, total, wanted, generator):
            sample.write(line)


def _selected(
    lines: IO[bytes], total: int, wanted: int, generator: random.Random
) -> Iterator[bytes]:
    for position, line in enumerate(lines):
        if not wanted:
            return
        if generator.random() * (total - position) < wanted:
            wanted -= 1
            yield line


def _count(total: int, share: float) -> int:
    return max(1, round(total * share))
