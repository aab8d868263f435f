"""Commands that pages document and that programs print are ones that run."""

from __future__ import annotations

import re
import shlex
import subprocess
from contextlib import suppress
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from command_line import walras_here
from walras_cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK = re.compile(r"^```(?:sh|console)?\n(.*?)^```$|((?:^    .*\n)+)", re.DOTALL | re.MULTILINE)
"""A block of commands: between fences without a language or with a shell's, or indented."""

CALL = re.compile(r"^(?:\$ )?(?:.*\| )?(?:kubectl |\.venv/bin/|-?\w*/)?walras ((?!.*\.\.\.).+)$")


def calls_of(page: Path) -> list[str]:
    """Return the arguments of every `walras` command line in the blocks of a page."""
    blocks = ("".join(each.groups("")) for each in BLOCK.finditer(page.read_text()))
    lines = (line.strip() for block in blocks for line in block.splitlines())
    return [found[1] for line in lines if (found := CALL.match(line))]


CALLS = sorted({(page.name, call) for page in PAGES for call in calls_of(page)})


def arguments_of(call: str) -> list[str]:
    return shlex.split(call, comments=True)


class ReadersFileError(Exception):
    """A command names a file that the reader has."""


def parse(command: click.Command, arguments: list[str], parent: click.Context | None) -> None:
    """Have click read a command line, down to the last sub-command, and run nothing.

    Raises:
        click.UsageError: There is no such command or option.
        ReadersFileError: It names a file that the reader has.
    """
    try:
        context = command.make_context(command.name, arguments, parent=parent)
    except click.BadParameter as error:
        if "does not exist" in error.message:
            raise ReadersFileError from error
        raise
    if isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        _, below, left = command.resolve_command(context, rest)
        assert below is not None
        parse(below, left, context)


def test_pages_have_many_commands() -> None:
    assert len(CALLS) > 40


@pytest.mark.parametrize(("page", "call"), CALLS)
def test_a_documented_command_is_one_that_the_program_takes(
    page: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with suppress(ReadersFileError):
        parse(main, arguments_of(call), None)


def test_every_target_of_make_that_a_page_names_is_one() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = re.compile(r"^ *make ([a-z]+)|`make ([a-z]+)", re.MULTILINE)
    named = {one or other for page in PAGES for one, other in lines.findall(page.read_text())}
    assert {"commands", "run", "images"} <= named
    assert named - targets == set()


def of_examples(call: str) -> bool:
    """Whether a command needs nothing but files of the repository, and ends by itself."""
    words = arguments_of(call)
    files = [words[at + 1] for at, word in enumerate(words) if word in {"-f", "--from"}]
    alone = words[0] in {"what-if", "top", "explain"} and files != []
    return alone and all((ROOT / each).is_file() for each in files) and "cluster/" not in call


OF_EXAMPLES = sorted({call for _, call in CALLS if of_examples(call)})


def test_some_commands_run_as_they_are_documented() -> None:
    assert "what-if -f examples/what-if/cluster.yaml" in OF_EXAMPLES


@pytest.mark.parametrize("call", OF_EXAMPLES)
def test_a_documented_command_on_an_example_runs(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(main, arguments_of(call))
    assert done.exit_code == 0, done.output


def test_the_readme_shows_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = re.findall(r"```console\n\$ walras (.*)\n((?:.*\n)*?)```", PAGES[0].read_text())
    assert shown
    for call, block in shown:
        printed = walras_here(*arguments_of(call), COLUMNS="110").stdout
        lines = [line.rstrip() for line in printed.splitlines()]
        assert [each for each in block.splitlines() if each not in lines] == []


@pytest.fixture
def next_commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a first look says comes next, at a file whose name a shell would take apart."""
    monkeypatch.chdir(ROOT / "tests" / "cli" / "dumps")
    printed = walras_here("what-if", "-f", "eks.yaml").stdout.partition("\nNext\n")[2]
    return [line.strip() for line in printed.partition("\n\n")[0].splitlines()]


def test_the_next_looks_that_are_printed_run(next_commands: list[str], tmp_path: Path) -> None:
    looks = [each.removeprefix("walras ") for each in next_commands if each.startswith("walras ")]
    assert len(looks) == 2
    for look in looks:
        command, _, remark = look.partition("    # ")
        known = tmp_path / "speedups.yaml"
        known.write_text(remark.removeprefix("lines such as ") + "\n")
        done = walras_here(*(str(known) if x == "FILE" else x for x in command.split()))
        assert done.returncode == 0, done.stderr
        assert "no job" not in done.stderr


def test_a_file_is_named_so_that_a_shell_finds_it_again(tmp_path: Path) -> None:
    file = tmp_path / "our cluster; ls.yaml"
    file.write_text((ROOT / "tests" / "cli" / "dumps" / "eks.yaml").read_text())
    printed = walras_here("what-if", "-f", str(file)).stdout
    (look,) = re.findall(r"walras (what-if .*--shares requests)", printed)
    assert shlex.split(look) == ["what-if", "-f", str(file), "--shares", "requests"]


@pytest.mark.system
def test_the_way_to_an_installation_that_is_printed_is_there(next_commands: list[str]) -> None:
    command, _, remark = next_commands[-1].partition("    # ")
    assert subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, check=False).returncode == 0
    (page,) = re.findall(r"docs/\w+\.md", remark)
    assert "## Install" in (ROOT / page).read_text()
