"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

Form = Literal["table", "json", "yaml"]
Command = TypeVar("Command", bound="Callable[..., object]")


def output_option(
    meaning: str = "Output format.",
) -> Callable[[Command], Command]:
    """``-o``: a table for people, or what scripts read."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "yaml"]),
        default="table",
        show_default=True,
        help=meaning,
    )
