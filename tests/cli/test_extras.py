"""The command line without the libraries of extras that are not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
for name in ("docker", "kopf", "matplotlib", "numpy", "plotext", "psutil"):
    sys.modules[name] = None  # as if it were not installed
from walras_cli.main import main
main(prog_name="walras")
"""

pytestmark = pytest.mark.system


def walras(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_help_of_all_commands_needs_none() -> None:
    done = walras("--help")
    assert done.returncode == 0, done.stderr
    for name in ("check", "explain", "local", "profile", "report", "top", "what-if"):
        assert name in done.stdout
        assert walras(name, "--help").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("what-if", "-f", "examples/what-if/cluster.yaml"), "what-if"),
        (("local", "run", "examples/one-machine/market.yaml"), "profiler"),
        (("profile", "--", "sleep", "1"), "profiler"),
    ],
)
def test_a_command_whose_libraries_are_missing_says_what_installs_them(
    arguments: tuple[str, ...], extra: str
) -> None:
    done = walras(*arguments)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"walras: walras {arguments[0]} needs ")
    assert done.stderr.rstrip().endswith(f"pip install '.[{extra}]'")


@pytest.mark.parametrize("command", ["top", "check", "report"])
def test_commands_on_a_cluster_need_none(command: str) -> None:
    done = walras(command, "--kubeconfig", "/nowhere")
    assert done.returncode == 2
    assert "the kubeconfig does not exist" in done.stderr
