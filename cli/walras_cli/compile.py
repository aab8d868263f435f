"""``walras compile``: the solvers' machine code, made ahead of time."""

from __future__ import annotations

import click


@click.command("compile", short_help="Compile the solvers now instead of at first use.")
def compile_ahead() -> None:
    """Compile all solvers now instead of each at first use.

    The machine code is stored next to the installed package, or in the user's cache folder if the
    package is read-only, or in NUMBA_CACHE_DIR if that is set. Every later process reads it, even
    from a read-only file system. Run this command when you build a container image:

    \b
      RUN pip install './walras-VERSION-py3-none-any.whl[what-if]' && walras compile
    """  # noqa: D301 - the backspace keeps click from filling the lines
    from walras.warmup import compile_kernels

    for name in compile_kernels():
        click.echo(f"compiled {name}", err=True)
