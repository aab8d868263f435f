"""Links of pages lead somewhere, and pages name all commands, metrics and reasons."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
import yaml

from walras_agent.daemon.command import main as agent
from walras_cli.main import main as walras
from walras_operator.command import main as operator

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
TEXT = "\n".join(page.read_text() for page in PAGES)

LINK = re.compile(r"\]\(([^)\s]+)\)")
FOLDERS = (
    r"api|core|service|operator|node-agent|profiler|cli|view|dashboard|studies|crds|docs|examples|helm|"
    "tests|tools|benchmarks"
)
FILE = re.compile(rf"`((?:{FOLDERS})/[\w./-]+)`|python ((?:{FOLDERS})/[\w./-]+)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchor(heading: str) -> str:
    """Return what a link to a heading ends with."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_names_of_files_lead_somewhere(page: Path) -> None:
    text, lost = page.read_text(), []
    for link in LINK.findall(text):
        name, _, part = link.partition("#")
        target = page.parent / name if name else page
        if "://" in link:
            continue
        if not target.exists() or (
            part and part not in map(anchor, HEADING.findall(target.read_text()))
        ):
            lost.append(link)
    lost += [
        name
        for found in FILE.findall(text)
        for name in filter(None, found)
        if not (ROOT / name).exists()
    ]
    assert lost == []


GAP = re.compile(r"^\|.*\n\n\|.*\n(?!\|-)", re.MULTILINE)
"""An empty line within a table, which ends it there: the next row is not the head of another."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_have_no_gaps(page: Path) -> None:
    assert GAP.findall(page.read_text()) == []


RUN = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
"""A block of commands that tests/e2e/test_guides.py runs on a real node."""


@pytest.mark.parametrize("guide", ["install.md", "tutorial.md", "quickstart.md"])
def test_commands_that_are_run_on_a_node_name_no_placeholder(guide: str) -> None:
    blocks = RUN.findall((ROOT / "docs" / guide).read_text())
    assert blocks
    assert [block for block in blocks if "example.com" in block or "REGISTRY" in block] == []


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all below it that do something, with what they are called by."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        below = command.get_command(context, each)
        assert below is not None
        yield from commands(below, f"{name} {each}")


COMMANDS = [
    *commands(walras, "walras"),
    *commands(agent, "walras-agent"),
    *commands(operator, "walras-operator"),
]


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_every_command_and_what_it_reads_of_its_environment_is_on_a_page(
    name: str, command: click.Command
) -> None:
    assert name in TEXT
    variables = {str(each.envvar) for each in command.params if each.envvar}
    assert [each for each in variables if f"`{each}`" not in TEXT] == []


@pytest.mark.parametrize(
    ("name", "page"), [("walras-operator", "operator.md"), ("walras-agent", "agent.md")]
)
def test_every_option_of_a_daemon_is_on_its_page(name: str, page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    missing = {
        parameter.opts[0]
        for called, command in COMMANDS
        if called.startswith(f"{name} ")
        for parameter in command.params
        if isinstance(parameter, click.Option)
        and not any(each in text for each in (*parameter.opts, *parameter.secondary_opts))
    }
    assert missing == set()


ALERTS = yaml.safe_load((ROOT / "helm" / "walras" / "files" / "alerts.yaml").read_text())


def test_every_alert_is_on_the_page_and_no_other() -> None:
    text = (ROOT / "docs" / "operator.md").read_text()
    names = {rule["alert"] for group in ALERTS["groups"] for rule in group["rules"]}
    assert set(re.findall(r"\| `(Walras\w+)` \|", text)) == names


def reasons(folder: Path) -> set[str]:
    """Return the reasons of conditions in some source, as it makes ``Problem``s and verdicts."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = {"Problem": 0, "holds": 0, "Verdict": 1}.get(node.func.id)
                words = [] if place is None else node.args[place : place + 1]
            elif isinstance(node, ast.Tuple) and len(node.elts) == 3:  # an agent's verdict
                status, *words = node.elts
                if not (isinstance(status, ast.Constant) and status.value in ("True", "False")):
                    words = []
            else:
                continue
            found |= {str(each.value) for each in words[:1] if isinstance(each, ast.Constant)}
    return found


def test_every_reason_of_a_condition_is_on_a_page() -> None:
    known = reasons(ROOT / "operator") | reasons(ROOT / "node-agent" / "walras_agent" / "daemon")
    assert known >= {"Granted", "Overlap", "TooNoisy", "Cycle", "Enforced", "PlanRefused"}
    assert [each for each in sorted(known) if f"`{each}`" not in TEXT] == []


def test_no_reason_is_on_the_page_that_nobody_gives() -> None:
    given = reasons(ROOT / "operator") | reasons(ROOT / "node-agent" / "walras_agent" / "daemon")
    given |= {"BelowUnusable", "Given", "Measured", "Online", "Written"}  # by names and sources
    table = (ROOT / "docs" / "reference.md").read_text().partition("Reasons, for programs")[2]
    rows = table.partition("Beside it")[0].splitlines()[4:]
    said = {word for row in rows for word in re.findall(r"`([A-Z]\w+)`", row)} - {"Ready"}
    assert said
    assert said - given == set()
