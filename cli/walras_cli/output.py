"""Effects: writes what was found out to standard output, once or again and again."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import click
from rich.box import SIMPLE_HEAD

from walras_service.api_errors import ApiError
from walras_service.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

Form = Literal["table", "wide", "json", "yaml"]

RULED_STYLE: dict[str, Any] = {
    "box": SIMPLE_HEAD,
    "title_justify": "left",
    "caption_justify": "left",
}
"""Style of tables with a line below their headers."""

_LITERAL: Any = {"highlight": False, "markup": False, "emoji": False}
"""Options of a console that shows texts as they are."""


class Page(Protocol):
    """The output of a command."""

    def document(self) -> dict[str, Any]:
        """Return it for scripts."""

    def render(self, *, wide: bool) -> Sequence[RenderableType]:
        """Return it for people, part by part."""


def show(page: Page, form: Form) -> None:
    """Print a page once."""
    if form in {"json", "yaml"}:
        click.echo(encoded(page.document(), form), nl=False)
    else:
        _print(page.render(wide=form == "wide"))


def encoded(document: Any, form: str) -> str:
    """Return a document as JSON or YAML, with an escape for what could control the terminal.

    Letters stay as they are, of whatever language; a document that holds control or formatting
    characters is the exception, and is in ASCII.
    """
    for ascii_only in (False, True):
        if form == "json":
            text = json.dumps(document, indent=2, ensure_ascii=ascii_only) + "\n"
        else:
            import yaml

            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=not ascii_only)
        if text.isascii() or printable(text) == text:
            break
    return text.replace("\x7f", r"\u007f") if form == "json" else text  # json takes it for ASCII


def console_of(**options: Any) -> Console:
    """Return a console with rich's options; with NO_COLOR it writes no attributes, nor bold."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # which ends the command well, as for output without rich

    return Piped(color_system=None if os.environ.get("NO_COLOR") else "auto", **options)


def _print(parts: Iterable[RenderableType]) -> None:
    from rich.table import Table
    from rich.text import Text

    from walras_cli.narrow_table import WIDEST, NarrowTable

    lines = console_of(**_LITERAL)
    tables = console_of(**_LITERAL, width=max(lines.width, WIDEST))
    for part in parts:
        if isinstance(part, NarrowTable) and lines.is_terminal:
            tables.print(_Printable(part.fitted(lines)))
        elif isinstance(part, Table):
            tables.print(_Printable(part))
        else:  # lines are broken for terminals only, so that what reads them finds them whole
            wraps = isinstance(part, Text) and not lines.is_terminal
            lines.print(_Printable(part), soft_wrap=wraps)


@dataclass(frozen=True, slots=True)
class _Printable:
    """A part of a page whose texts cannot control the terminal."""

    part: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.part, options):
            yield segment._replace(text=printable(segment.text)) if not segment.control else segment


def watch_it(make: Callable[[], Page], form: Form, interval: float) -> None:
    """Draw a page over and over until Ctrl-C; where there is no terminal, one below the other.

    When a page cannot be made, the last one stays, and the reason is told below it, whatever it is:
    an API server that has just started may not know a kind yet, nor who may read it.

    Raises:
        ApiError: the first page cannot be made.
    """
    from rich.console import Group
    from rich.live import Live

    console = console_of(**_LITERAL)
    pages = _Pages(make, form, interval)
    try:
        if not console.is_terminal:
            while True:
                _print(pages.next())
                time.sleep(interval)
        first = _Printable(Group(*pages.next()))
        with Live(first, console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                live.update(_Printable(Group(*pages.next())), refresh=True)
    except KeyboardInterrupt:
        return


class _Pages:
    """One page after the other, each as its parts."""

    def __init__(self, make: Callable[[], Page], form: Form, interval: float) -> None:
        self._make, self._wide, self._interval = make, form == "wide", interval
        self._last: Sequence[RenderableType] = ()

    def next(self) -> Sequence[RenderableType]:
        from rich.text import Text

        try:
            self._last = self._make().render(wide=self._wide)
        except ApiError as error:
            if not self._last:
                raise
            return [*self._last, Text(f"{error}; retrying every {self._interval:g} s")]
        return self._last


def say(console: Console, text: str) -> None:
    """Print a sentence as it is, on one line if no terminal has to break it."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
