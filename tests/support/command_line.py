"""Runs ``walras`` as users do, and finds what a run may have left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from waiting import PATIENCE
from walras_cli.main import main

WALRAS = [sys.executable, "-m", "walras_cli"]


def start(
    *arguments: str, user: int | None = None, folder: str | Path = "/", **more: str
) -> subprocess.Popen[str]:
    """Start ``walras`` with arguments in a folder, with more environment.

    Args:
        arguments: Arguments.
        user: Another user to start it as; None for the one that the tests run as.
        folder: Working directory.
        more: Environment variables.
    """
    return subprocess.Popen(
        [*WALRAS, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **more},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )


def walras(
    *arguments: str, user: int | None = None, timeout: float = PATIENCE, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run ``walras`` to its end."""
    with start(*arguments, user=user, **more) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate()
            raise AssertionError(f"walras did not end:\n{out}\n{err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def walras_here(*arguments: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run ``walras`` in this process: for commands that end by themselves and start nothing."""
    env = {"NO_COLOR": "1", "COLUMNS": "200", **more}
    done = CliRunner(env=env).invoke(main, arguments, input=stdin, prog_name="walras")
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def processes_with(text: str) -> list[int]:
    """Return the processes that have a text in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if text.encode() in command and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found
