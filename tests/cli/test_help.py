"""The help of every command."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import click
import pytest
from click.testing import CliRunner

from walras_cli.main import PLUGINS, LazyGroup, main


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the words of every command below a group."""
    found = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        found.append((*path, name))
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
    return found


@pytest.mark.parametrize("words", [(), *commands(main)], ids=" ".join)
def test_help_is_laid_out_as_written(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*words, "--help"], prog_name="walras")
    assert done.exit_code == 0
    assert "\\b" not in done.output
    assert "\b" not in done.output
    lines = done.output.splitlines()
    if "  Examples:" in done.output:
        examples = lines[lines.index("  Examples:") + 1 :]
        assert examples[0].startswith("    ")
        assert "walras" in examples[0]
    assert all(len(line) <= 100 for line in lines)


@pytest.mark.system
def test_no_command_loads_a_cluster_client_or_a_solver_before_it_is_called() -> None:
    """Help and completion are to be there at once."""
    modules = [name.split(":")[0] for name in LazyGroup.MODULES.values()] + [
        "walras_studies.command"
    ]
    script = f"import sys, {', '.join(modules)}; print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(ast.literal_eval(done.stdout))
    assert loaded >= set(modules)
    assert not loaded & {"kubernetes", "kopf", "numpy", "rich", "yaml"}


def test_a_plugin_adds_a_command_and_replaces_none(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = EntryPoints(
        EntryPoint(name, "walras_cli.profile:profile", PLUGINS) for name in ("audit", "top")
    )
    monkeypatch.setattr("walras_cli.main.entry_points", plugins.select)
    listed = CliRunner().invoke(main, ["--help"]).output
    assert "  audit " in listed
    assert "simulate" not in listed
    assert "Measure how COMMAND" in CliRunner().invoke(main, ["audit", "--help"]).output
    assert "users, jobs and nodes" in CliRunner().invoke(main, ["top", "--help"]).output
    assert "No such command" in CliRunner().invoke(main, ["simulate"]).output


def test_commands_with_arguments_show_examples() -> None:
    for words in (
        ("profile",),
        ("local", "run"),
        ("simulate",),
        ("what-if",),
        ("top",),
        ("explain",),
    ):
        shown = CliRunner().invoke(main, [*words, "--help"]).output
        assert "  Examples:\n" in shown
        assert words != ("local", "run") or "Exit codes:" in shown


@pytest.mark.parametrize(
    ("kind", "shown", "usage"),
    [
        ("job", "which pod could pay for it", "job [OPTIONS] NAME"),
        ("user", "NAME is that of its Entitlement", "user [OPTIONS] NAME"),
        ("node", "who holds them, on which CPUs", "node [OPTIONS] NAME"),
        ("cluster", "how many nodes are worth their price", "cluster [OPTIONS]"),
    ],
)
def test_the_help_on_a_kind_of_explanation_is_its_own(kind: str, shown: str, usage: str) -> None:
    text = CliRunner().invoke(main, ["explain", kind, "--help"], prog_name="walras").output
    assert text.startswith(f"Usage: walras explain {usage}\n")
    assert shown in " ".join(text.split())
    examples = text.partition("  Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert len(examples) == 2
    assert all(each.startswith(f"    walras explain {kind}") for each in examples)
    assert "--kubeconfig FILE" in text
    others = {"job", "user", "node", "cluster"} - {kind}
    assert not any(f"explain {each}" in text for each in others)


def test_a_command_of_a_similar_name_is_suggested() -> None:
    done = CliRunner().invoke(main, ["explian"], prog_name="walras")
    assert done.exit_code == 2
    assert "No such command 'explian'. Did you mean 'explain'?" in done.output
    assert "Did you mean" not in CliRunner().invoke(main, ["zzzz"]).output
