"""Command templates: what is replaced, what is left alone, and what is refused."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.speedup.sizes import WHOLE, DataSize, parse_sizes
from walras_profiler.template import PLACEHOLDERS, Template, check_program


def render(*argv: str, size: DataSize = WHOLE, data: Path | None = None) -> tuple[str, ...]:
    return Template(argv).render(cores=2, threads=4, size=size, data=data)


def test_placeholders_stand_for_the_values_of_the_run() -> None:
    argv = ("run", "-t{threads}", "{cores}/{cores}", "{percent}", "{fraction}", "{data}")
    rendered = render(*argv, size=DataSize.parse("12.5%"), data=Path("/a b/c"))
    assert rendered == ("run", "-t4", "2/2", "12.5", "0.125", "/a b/c")


def test_size_is_the_number_as_given() -> None:
    assert render("{size}", size=DataSize.parse("1e6")) == ("1000000",)


@pytest.mark.parametrize(
    "text", ["{print}", "{ threads }", "{{threads", "{}", "${cores", "{Threads}", "{print $1}"]
)
def test_other_braces_are_left_alone(text: str) -> None:
    assert render(text) == (text,)


@given(st.text().filter(lambda text: "{" not in text))
def test_text_without_braces_is_never_touched(text: str) -> None:
    assert render(text) == (text,)


def test_value_is_not_searched_for_placeholders_again() -> None:
    assert render("{data}", data=Path("/d/{threads}")) == ("/d/{threads}",)


def test_every_placeholder_is_found() -> None:
    assert Template(tuple(f"x{{{name}}}" for name in PLACEHOLDERS)).placeholders == set(
        PLACEHOLDERS
    )


@pytest.mark.parametrize(
    ("argv", "sizes", "has_data"),
    [
        ("run", "", False),
        ("run {threads}", "", False),
        ("run {percent}", "10%,20%", False),
        ("run {fraction}", "10%", False),
        ("run {fraction}", "", False),
        ("run {data}", "10%", True),
        ("run {data}", "", True),
        ("run {size}", "10,20", False),
    ],
)
def test_meaningful_commands_are_accepted(argv: str, sizes: str, has_data: bool) -> None:
    Template(tuple(argv.split())).check(parse_sizes(sizes) if sizes else (), has_data=has_data)


@pytest.mark.parametrize(
    ("argv", "sizes", "has_data", "complaint"),
    [
        ("", "", False, "no command to profile"),
        ("run {data}", "", False, "name the file or folder with --data"),
        ("run", "10%", True, "write {data} in the command"),
        ("run {size}", "", False, "give --sizes as numbers"),
        ("run {size}", "10%", False, "give --sizes as numbers"),
        ("run", "10%,20%", False, "every size would run the same"),
        ("run", "10,20", False, "does not use {size}"),
        ("run {size} {percent}", "10,20", False, "uses {percent}: give --sizes as shares"),
        ("run {size} {data}", "10,20", True, "samples are drawn by share"),
    ],
)
def test_commands_that_cannot_mean_what_was_asked_are_refused(
    argv: str, sizes: str, has_data: bool, complaint: str
) -> None:
    template = Template(tuple(argv.split()))
    with pytest.raises(ValueError, match=complaint):
        template.check(parse_sizes(sizes) if sizes else (), has_data=has_data)


def test_program_is_looked_up_where_the_child_will_look(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    check_program(("tool",), {"PATH": str(tmp_path)}, Path.cwd())
    check_program(("./tool",), {"PATH": ""}, tmp_path)
    check_program((str(program),), {}, Path("/"))
    with pytest.raises(ValueError, match="tool: command not found in PATH"):
        check_program(("tool",), dict(os.environ), tmp_path)


def test_what_cannot_be_executed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    with pytest.raises(ValueError, match="text: not an executable file"):
        check_program(("./text",), {}, tmp_path)
    with pytest.raises(ValueError, match="not an executable file"):
        check_program(("/",), {}, tmp_path)
    with pytest.raises(ValueError, match="no such program"):
        check_program(("./gone",), {}, tmp_path)
