"""Texts that anybody may have written do nothing to the terminal of whoever reads them."""

from __future__ import annotations

import io
import json
import logging

import click
import pytest
import yaml
from click.testing import CliRunner
from rich.table import Table
from rich.text import Text

from walras_cli.output import encoded, show
from walras_service.failures import Failure
from walras_service.logs import configure_logging
from walras_service.untrusted import printable

HOSTILE = "lab\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("vision/train (a)", "vision/train (a)"),
        ("größer: 3\nnext\tcolumn", "größer: 3\nnext\tcolumn"),
        (HOSTILE, "lab?]0;owned??[2J?31m?gnp.exe"),
        ("a\rb\x00", "a?b?"),
    ],
)
def test_control_characters_are_replaced(text: str, shown: str) -> None:
    assert printable(text) == shown


class _Page:
    def document(self) -> dict[str, str]:
        return {"name": HOSTILE}

    def render(self, *, wide: bool) -> list[Table | Text | str]:
        table = Table("NAME")
        table.add_row(HOSTILE)
        table.add_row("[red]as it is[/]")
        return [table, Text(HOSTILE), f"[bold]{HOSTILE}"]


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_a_page_contains_no_escape_sequence(form: str, capfd: pytest.CaptureFixture[str]) -> None:
    show(_Page(), form)  # type: ignore[arg-type]
    text = capfd.readouterr().out
    assert "owned" in text
    assert "\x1b" not in text
    assert not {"\x07", "\x9b", "\x7f", "\u202e"} & set(text)
    if form == "table":
        assert "[red]as it is[/]" in text, "and no markup"
        assert "[bold]lab" in text


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("text", [HOSTILE, "\x7f", "größer 一", "\U000e0001", "a\x85b\x00"])
def test_scripts_get_every_text_as_it_is(text: str, form: str) -> None:
    made = encoded({"name": text}, form)
    read = json.loads if form == "json" else yaml.safe_load
    assert read(made) == {"name": text}
    assert printable(made) == made
    assert "\x7f" not in made
    assert (text in made) is text.isprintable()


def test_errors_and_logs_contain_no_escape_sequence(capfd: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def fail() -> None:
        raise Failure(HOSTILE)

    assert CliRunner().invoke(fail).stderr == f"fail: {printable(HOSTILE)}\n"
    configure_logging("walras_test", "text")
    try:
        logging.getLogger("walras_test").info("of %s", HOSTILE)
        assert capfd.readouterr().err.endswith(f"INFO of {printable(HOSTILE)}\n")
    finally:
        logging.basicConfig(handlers=[logging.StreamHandler(io.StringIO())], force=True)
