"""How a command ends when it does not end well: lines on standard error and an exit code."""

from __future__ import annotations

from typing import IO, Any

import click


class Failure(click.ClickException):
    """Something failed that was asked for properly: exit code 1.

    Args:
        problems: A line each, which says what is wrong with what, and the way out.
    """

    exit_code = 1

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        context = click.get_current_context(silent=True)  # over by the time that this is shown
        self._program = context.find_root().info_name if context else "walras"

    def show(self, file: IO[Any] | None = None) -> None:
        """Write each problem as a line of its own."""
        for line in self.format_message().splitlines():
            click.echo(f"{self._program}: {line}", file=file, err=file is None)


class BadInput(Failure):
    """What was asked for cannot work: exit code 2."""

    exit_code = 2


class Interrupted(Failure):
    """The user pressed Ctrl-C: exit code 130."""

    exit_code = 130
