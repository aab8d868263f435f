"""Helm's notes after an install can be followed as they stand: commands and documents."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml

from chart import CHART, helm, needs_helm
from walras_api.kinds import MarketJob
from walras_api.parse import parse_resource
from walras_cli.main import main as walras
from walras_operator.command import main as operator

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.system, needs_helm]

Document = dict[str, Any]
ENFORCING: Document = {"market": {"spec": {"mode": "enforce"}}}
PATCH = """kubectl patch market default --type merge -p '{"spec":{"mode":"enforce"}}'"""

RELEASES: dict[str, Document] = {
    "as it is": {},
    "enforcing": ENFORCING,
    "agents observing": {"agent": {"mode": "observe"}},
    "agents enforcing": {"agent": {"mode": "enforce"}},
    "other names": {"fullnameOverride": "cores"},
    "no market": {"market": {"create": False}},
    "no release": {"hooks": {"release": False}},
    "host network": {"hostNetwork": True},
}


def notes(values: Document) -> str:
    """Return helm's notes of a release named cores-1 in the namespace markets."""
    where = ["--namespace", "markets", "--dry-run=client", "--values", "-"]
    said = helm("install", "cores-1", str(CHART), *where, text=json.dumps(values))
    return said.partition("\nNOTES:\n")[2]


def commands(text: str, program: str) -> list[list[str]]:
    """The commands of a program that stand on lines of their own."""
    joined = text.replace("\\\n", " ")
    return [shlex.split(each) for each in re.findall(rf"^ +({program} .*)$", joined, re.MULTILINE)]


@pytest.fixture(params=list(RELEASES.values()), ids=list(RELEASES))
def said(request: pytest.FixtureRequest) -> str:
    return notes(request.param)


def test_documents_can_be_pasted_and_are_taken(said: str) -> None:
    (text,) = re.findall(r"^kubectl apply -f - <<END\n(.*?)^END$", said, re.DOTALL | re.MULTILINE)
    entitlement, job = map(parse_resource, yaml.safe_load_all(text))
    assert isinstance(job, MarketJob)
    assert job.spec.entitlement == entitlement.metadata.name


def test_commands_of_walras_are_understood(said: str) -> None:
    assert len(commands(said, "walras")) == 4
    for program, root in (("walras", walras), ("walras-operator", operator)):
        for line in commands(said, program):
            command: click.Command = root
            words = line[1:]
            while isinstance(command, click.Group):
                found = command.get_command(click.Context(command), words.pop(0))
                assert found is not None, line
                command = found
            command.make_context(line[0], words)  # raises what is wrong with the options


def test_commands_of_helm_name_the_release_and_are_understood(said: str, tmp_path: Path) -> None:
    lines = commands(said, "helm")
    assert {"test", "uninstall"} >= {line[1] for line in lines} - {"upgrade"}
    for line in lines:
        assert line[2] == "cores-1"
        assert line[line.index("--namespace") + 1] == "markets"
        options = set(re.findall(r"--[a-z-]+", " ".join(line)))
        assert options <= set(re.findall(r"--[a-z-]+", helm(line[1], "--help")))


def test_a_new_market_observes_and_one_command_enforces() -> None:
    for values in ({}, {"market": {"spec": {"mode": "observe"}}}):
        said = notes(values)
        assert "in mode observe" in said
        (command,) = commands(said, "kubectl patch")
        assert shlex.join(command) == shlex.join(shlex.split(PATCH))


def test_the_way_from_agents_that_observe_leads_to_enforcing() -> None:
    values = {**ENFORCING, "agent": {"mode": "observe"}}
    said = notes(values)
    assert "in mode observe" in said
    upgrades = [line for line in commands(said, "helm") if line[1] == "upgrade"]
    assert len(upgrades) == 2
    (setting,) = (line[line.index("--set") + 1] for line in upgrades if "--set" in line)
    after = ["--set", setting, "--values", "-", "--namespace", "markets", "--dry-run=client"]
    said = helm("install", "cores-1", str(CHART), *after, text=json.dumps(values))
    assert "in mode enforce" in said


def test_what_enforces_is_not_told_to() -> None:
    for name in ("enforcing", "agents enforcing", "no market"):
        said = notes(RELEASES[name])
        assert "helm upgrade" not in said
        assert "kubectl patch" not in said
        assert ("in mode enforce" in said) == (name != "no market")
