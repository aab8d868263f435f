"""``walras compile``: the solvers' machine code, made ahead of time."""

from __future__ import annotations

import click


@click.command("compile", short_help="Compile the solvers now rather than at their first use.")
def compile_ahead() -> None:
    """Compile every solver now, rather than each at its first use.

    Machine code is kept beside the installed package, or in the user's cache folder (or in
    NUMBA_CACHE_DIR, if that is set), and read by every later process, also from a read-only file
    system. Worth a step in the making of a container image:

    \b
      RUN pip install walras && walras compile
    """  # noqa: D301 - the backspace keeps click from filling the lines
    from walras.warmup import compile_kernels

    for name in compile_kernels():
        click.echo(f"compiled {name}", err=True)
