"""The command ``walras``: its sub-commands, each loaded when it is asked for."""

from __future__ import annotations

import os
import sys
import time
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar

import click

from walras_service.failures import Failure, missing_library

EXTRAS = {
    "check": "cli",
    "dashboard": "dashboard",
    "explain": "cli",
    "local": "profiler",
    "pause": "cli",
    "profile": "profiler",
    "report": "cli",
    "resume": "cli",
    "simulate": "studies",
    "top": "cli",
    "what-if": "what-if",
}
"""Extra of the distribution that a command needs, by command."""

ON_LINUX = frozenset({"local", "profile"})
"""Commands that start programs on CPUs of their own, as only Linux lets them."""

PLUGINS = "walras.commands"
"""Group of the entry points by which other packages add commands to ``walras``."""

SLOW = 2.0
"""CPU seconds after which it is worth saying that the kernels are not compiled."""

UNCOMPILED = (
    "note: prices were computed by plain Python, hundreds of times slower than compiled: install "
    "gcc and python3-dev (Debian's names), then Walras again"
)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called or listed."""

    MODULES: ClassVar = {
        "check": "walras_cli.cluster.check.check_command:check",
        "explain": "walras_cli.cluster.explain.explain_command:explain",
        "local": "walras_cli.local.local_command:local",
        "pause": "walras_cli.cluster.pause.pause_command:pause",
        "profile": "walras_cli.profile:profile",
        "report": "walras_cli.cluster.report.report_command:report",
        "resume": "walras_cli.cluster.pause.pause_command:resume",
        "top": "walras_cli.cluster.top.top_command:top",
        "what-if": "walras_cli.what_if.what_if_command:what_if",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        """Return the names of all commands, those of installed plug-ins included."""
        return sorted({*self.MODULES, *entry_points(group=PLUGINS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's interface
        """Import one command; a plug-in cannot replace a command of Walras."""
        if cmd_name in ON_LINUX and sys.platform != "linux":
            raise Failure(
                f"walras {cmd_name} needs Linux; use a virtual machine or a container. Commands "
                f"that read clusters and files, such as walras what-if, need none"
            )
        if cmd_name in self.MODULES:
            module, name = self.MODULES[cmd_name].split(":")
            command: click.Command = getattr(import_module(module), name)
            return command
        for plugin in entry_points(group=PLUGINS, name=cmd_name):
            loaded: click.Command = plugin.load()
            return loaded
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest one of a similar name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not close:
                raise
            text = f"{error.format_message()} Did you mean '{close[0]}'?"
            raise click.UsageError(text, ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; say what its libraries install, or a compiler, if it lacks these.

        Who reads no further, such as ``head``, has what it wanted.
        """
        began = time.process_time()
        try:
            done = super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left is written at the end
            return None
        except ModuleNotFoundError as error:
            command = str(ctx.invoked_subcommand)
            if command not in EXTRAS:
                raise
            raise Failure(missing_library(f"walras {command}", EXTRAS[command], error)) from error
        kernels = sys.modules.get("walras.numerics.kernel")
        if kernels is not None and kernels.COMPILED is None and time.process_time() - began > SLOW:
            click.echo(UNCOMPILED, err=True)
        return done


@click.group(name="walras", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="walras", prog_name="walras")
def main() -> None:
    """Divide the cores of shared machines by a market.

    Users hold entitlements. Walras measures how much each job speeds up with cores, clears a
    market in which entitlements are budgets, and holds every job to what it bought. Nobody does
    worse than with their entitlement, unless requests of others leave them less, which is said.
    Cores go where they speed work up most.

    Commands need extras of the package, such as pip install 'walras[what-if]': cli (check, explain,
    report, top), what-if, profiler (local, profile), dashboard, studies.
    """


def kubectl() -> None:
    """Run as ``kubectl walras``: kubectl finds ``kubectl-walras`` by its name."""
    main(prog_name="kubectl walras")
