"""The command line without the libraries of extras that are not installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from walras_cli.main import EXTRAS

ROOT = Path(__file__).parents[2]

EXTRA = ("docker", "kopf", "matplotlib", "numpy", "plotext", "psutil")
EVERY_EXTRA = (*EXTRA, "fastapi", "kubernetes", "prometheus_client", "rich", "uvicorn", "yaml")

WITHOUT = """
import sys
for name in {}:
    sys.modules[name] = None  # as if it were not installed
from walras_cli.main import main
main(prog_name="walras")
"""

pytestmark = pytest.mark.system


def walras(*arguments: str, without: tuple[str, ...] = EXTRA) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT.format(without), *arguments]
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
    wheel, repository = f"pip install 'walras[{extra}]'", f"in Walras's repository '.[{extra}]'"
    assert done.stderr.rstrip().endswith(f"install the extra {extra}: {wheel}, or {repository}")


def test_a_profile_whose_plot_cannot_be_drawn_runs_nothing(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    done = walras("profile", "--", "touch", str(ran), without=("plotext",))
    assert done.returncode == 1
    assert "needs plotext" in done.stderr
    assert not ran.exists()


def test_a_plain_install_of_the_wheel_has_click_and_numpy() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {each.partition(">")[0] for each in needed} == {"click", "numpy"}


def test_a_plain_install_of_the_wheel_names_the_extras() -> None:
    """The list of commands imports them all, and so does without pydantic, which takes longest."""
    text = walras("--help", without=(*EVERY_EXTRA, "pydantic")).stdout
    assert all(name in text for name in EXTRAS)
    assert all(extra in text for extra in EXTRAS.values())
    for command in (["top"], ["what-if"]):
        done = walras(*command, without=EVERY_EXTRA)
        assert done.returncode == 1
        name, extra = command[0], EXTRAS[command[0]]
        assert re.match(rf"walras: walras {name} needs \w+, which is not installed", done.stderr)
        assert f"pip install 'walras[{extra}]'" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("extra", ["agent", "operator"])
def test_programs_of_a_cluster_name_the_extra_that_they_need(extra: str) -> None:
    hidden = f"import sys\nsys.modules.update(dict.fromkeys({EVERY_EXTRA}))"
    lines = f"{hidden}\nfrom walras_{extra}.__main__ import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    needed = rf"walras-{extra} needs \w+, which is not installed; install the extra {extra}: .*\n"
    assert re.fullmatch(needed, done.stderr)
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts[f"walras-{extra}"] == f"walras_{extra}.__main__:main"


@pytest.mark.parametrize("command", ["top", "check", "report"])
def test_commands_on_a_cluster_need_the_extra_cli_alone(command: str) -> None:
    others = tuple(each for each in EXTRA if each != "numpy")
    done = walras(command, "--kubeconfig", "/nowhere", without=others)
    assert done.returncode == 2
    assert "the kubeconfig does not exist" in done.stderr


def test_the_ten_lines_of_the_page_import_nothing_but_numpy() -> None:
    page = (ROOT / "README.md").read_text()
    code = "\n".join(re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", page, re.MULTILINE))
    assert "find_equilibrium" in code
    others = ("click", "pydantic", *(each for each in EVERY_EXTRA if each != "numpy"))
    hidden = f"import sys\nsys.modules.update(dict.fromkeys({others}))"
    lines = f"{hidden}\n{code}\nassert result.converged\n"
    done = subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("seconds", "told"), [(0, True), (600, False)])
def test_what_takes_long_for_want_of_compiled_kernels_says_so(seconds: int, told: bool) -> None:
    lines = (
        "import sys; sys.modules['walras._kernels'] = None\n"
        f"from walras_cli import main; main.SLOW = {seconds}\n"
        "main.main(['what-if', '-f', 'examples/what-if/cluster.yaml'])"
    )
    command = [sys.executable, "-c", lines]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0
    assert ("gcc and python3-dev" in done.stderr) == told
    assert done.stderr.count("\n") == told


def completing(**variables: str) -> dict[str, str]:
    """Return an environment in which shells find ``walras``."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": programs} | variables


def test_words_are_completed_after_the_line_of_the_page() -> None:
    page = (ROOT / "docs" / "cluster-cli.md").read_text()
    (line,) = re.findall(
        r'^    (eval "\$\(_WALRAS_COMPLETE=bash_source walras\)")', page, re.MULTILINE
    )
    asked = "COMP_WORDS=(walras explain no); COMP_CWORD=2; _walras_completion walras"
    done = subprocess.run(
        ["bash", "-c", f"{line}; {asked}; echo ${{COMPREPLY[*]}}"],
        env=completing(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["node"], done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_line_of_another_shell_is_accepted(shell: str) -> None:
    page = (ROOT / "docs" / "cluster-cli.md").read_text()
    assert f"_WALRAS_COMPLETE={shell}_source walras" in page
    done = subprocess.run(
        ["walras"],
        env=completing(_WALRAS_COMPLETE=f"{shell}_source"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "_walras_completion" in done.stdout
