"""The command ``walras-operator``: what it says to people."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from walras_operator.command import main


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--kubeconfig", "/nowhere"], 2, "give the API server by --kubeconfig or KUBECONFIG"),
        (["--listen", "8080"], 2, "is not an address and port, such as 0.0.0.0:8080"),
        (["--lease-seconds", "1"], 2, "3<=x<=3600"),
    ],
)
def test_what_cannot_work_is_said_at_once(arguments: list[str], code: int, said: str) -> None:
    result = CliRunner().invoke(main, ["run", *arguments], env={"KUBECONFIG": None})
    assert result.exit_code == code
    assert said in result.output


def test_it_explains_itself() -> None:
    result = CliRunner().invoke(main, ["run", "--help"])
    assert result.exit_code == 0
    for word in ("--namespace", "--lease-name", "--debounce", "--log-format", "Exit codes"):
        assert word in result.output
