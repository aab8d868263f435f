"""How a command ends when it does not end well: lines on standard error and an exit code."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


class Failure(click.ClickException):
    """Something failed that was asked for properly: exit code 1."""

    exit_code = 1

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))

    def show(self, file: IO[Any] | None = None) -> None:
        """Write each problem as a line of its own."""
        for line in self.format_message().splitlines():
            click.echo(f"walras: {line}", file=file, err=file is None)


class BadInput(Failure):
    """What was asked for cannot work: exit code 2."""

    exit_code = 2

    @classmethod
    def of(cls, problems: Sequence[str]) -> BadInput:
        """Make one of several lines."""
        return cls(*problems)


class Interrupted(Failure):
    """The user pressed Ctrl-C: exit code 130."""

    exit_code = 130
