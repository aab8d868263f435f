"""Command templates: the user's command line with placeholders, executed without a shell."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from walras.speedup.sizes import DataSize

PLACEHOLDERS: Mapping[str, str] = {
    "threads": "logical CPUs of the run",
    "cores": "cores of the run",
    "size": "the data size, where --sizes are numbers",
    "percent": "the data size in per cent, such as 10",
    "fraction": "the data size as a fraction, such as 0.1",
    "data": "path of a sample of --data",
}
"""Placeholders and their meanings; other text in braces (awk's {print}) is left as it is."""

_BRACED = re.compile(r"\{([A-Za-z_]+)\}")
_LIKE = 0.85
"""Similarity from which a text in braces is taken for a misspelt placeholder."""

_TOKEN = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A command line with placeholders."""

    argv: tuple[str, ...]

    @property
    def placeholders(self) -> frozenset[str]:
        """Names of the placeholders that occur in the command."""
        return frozenset(name for argument in self.argv for name in _TOKEN.findall(argument))

    def check_spelling(self) -> None:
        """Check that no text in braces is nearly a placeholder.

        Raises:
            ValueError: One is; it would be passed to the program as it is.
        """
        for argument in self.argv:
            for word in _BRACED.findall(argument):
                meant = get_close_matches(word.lower(), PLACEHOLDERS, 1, _LIKE)
                if meant and word != meant[0]:
                    raise ValueError(f"{{{word}}} is no placeholder; write {{{meant[0]}}}")

    def render(
        self, *, cores: int, threads: int, size: DataSize, data: Path | None
    ) -> tuple[str, ...]:
        """Return the command line of a run."""
        values = {
            "threads": str(threads),
            "cores": str(cores),
            "size": size.number,
            "percent": size.percent,
            "fraction": size.number,
            "data": str(data),
        }
        return tuple(_TOKEN.sub(lambda match: values[match[1]], argument) for argument in self.argv)

    def check(self, sizes: Sequence[DataSize], *, has_data: bool) -> None:
        """Check that placeholders and options fit each other.

        Args:
            sizes: Data sizes to run; empty if the data size is not varied.
            has_data: Whether the request has data to sample.

        Raises:
            ValueError: A placeholder has no value, or an option has no placeholder.
        """
        used = self.placeholders
        if not self.argv:
            raise ValueError("no command to profile: write it after --")
        self.check_spelling()
        if "data" in used and not has_data:
            raise ValueError("the command uses {data}: name the file or folder with --data")
        if has_data and "data" not in used:
            raise ValueError("--data: write {data} in the command where the sample's path belongs")
        if sizes and not sizes[0].relative:
            _check_numbers(used, has_data=has_data)
        else:
            _check_shares(used, vary=bool(sizes))


def _check_shares(used: frozenset[str], *, vary: bool) -> None:
    if "size" in used:
        raise ValueError("the command uses {size}: give --sizes as numbers, as in 1000,2000")
    if vary and not used & {"percent", "fraction", "data"}:
        raise ValueError(
            "--sizes: the command uses none of {percent}, {fraction} and {data}, "
            "so every size would run the same"
        )


def _check_numbers(used: frozenset[str], *, has_data: bool) -> None:
    if has_data:
        raise ValueError("--data: samples are drawn by share, give --sizes as in 10%,20%")
    if wrong := sorted(used & {"percent", "fraction"}):
        raise ValueError(f"the command uses {{{wrong[0]}}}: give --sizes as shares (10%,20%)")
    if "size" not in used:
        raise ValueError(
            "--sizes: the command does not use {size}, so every size would run the same"
        )


def check_program(argv: Sequence[str], environment: Mapping[str, str], cwd: Path) -> None:
    """Check that the child process will find its program, before anything is started.

    Args:
        argv: Command line; only the program is checked.
        environment: Environment of the child; its PATH is searched.
        cwd: Working directory of the child; a program named with a slash is relative to it.

    Raises:
        ValueError: The program is missing or not executable.
    """
    program = argv[0]
    if "/" not in program:
        if shutil.which(program, path=environment.get("PATH", os.defpath)) is None:
            raise ValueError(f"{program}: command not found in PATH")
        return
    path = cwd / program
    try:
        exists = path.exists()
    except OSError as error:
        raise ValueError(f"{program}: {error.strerror}") from error
    if not exists:
        raise ValueError(f"{program}: no such program")
    if path.is_dir() or not os.access(path, os.X_OK):
        raise ValueError(f"{program}: not an executable file (chmod +x, or name its interpreter)")
