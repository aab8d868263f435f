"""Effects: errors of commands, written to standard error, with their exit codes."""

from __future__ import annotations

from typing import IO, Any

import click

from walras_service.untrusted import printable


def missing_library(program: str, extra: str, error: ModuleNotFoundError) -> str:
    """Return what a program needs that is not installed, and the extra that installs it."""
    package = str(error.name).partition(".")[0]
    return (
        f"{program} needs {package}, which is not installed; install the extra {extra}: "
        f"pip install 'walras[{extra}]', or in Walras's repository '.[{extra}]'"
    )


class Failure(click.ClickException):
    """A command failed although its input is valid: exit code 1.

    Args:
        problems: Messages of one line: the object, what is wrong, and the way out.
    """

    exit_code = 1

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        context = click.get_current_context(silent=True)  # the context has ended when this is shown
        self._program = context.find_root().info_name if context else "walras"

    def show(self, file: IO[Any] | None = None) -> None:
        """Write each problem on its own line, after the name of the program."""
        for line in self.format_message().splitlines():
            click.echo(f"{self._program}: {printable(line)}", file=file, err=file is None)


class BadInput(Failure):
    """The input of a command is invalid: exit code 2."""

    exit_code = 2


class Interrupted(Failure):
    """The user pressed Ctrl-C: exit code 130."""

    exit_code = 130
