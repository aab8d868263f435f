"""A command that does not end well says why, under its own name, and exits as it should."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from walras_service.failures import BadInput, Failure, Interrupted
from walras_service.options import Address, kubeconfig_option, listen_option


@click.group(name="walras-test")
def program() -> None:
    pass


@program.command()
@listen_option("127.0.0.1:8080", "/metrics")
@kubeconfig_option
def look(listen: tuple[str, int] | None, kubeconfig: str | None) -> None:
    click.echo(f"{listen} {kubeconfig}")


@pytest.mark.parametrize(("failure", "code"), [(Failure, 1), (BadInput, 2), (Interrupted, 130)])
def test_every_problem_is_a_line_with_the_programs_name(failure: type[Failure], code: int) -> None:
    @program.command("fail")
    def fail() -> None:
        raise failure("this is wrong", "and so is that")

    done = CliRunner().invoke(program, ["fail"])
    assert done.exit_code == code
    assert done.stdout == ""
    assert done.stderr == "walras-test: this is wrong\nwalras-test: and so is that\n"


@pytest.mark.parametrize(
    ("given", "listen"),
    [
        ([], ("127.0.0.1", 8080)),
        (["--listen", "[::1]:9"], ("::1", 9)),
        (["--listen", "off"], None),
    ],
)
def test_an_address_is_a_host_and_a_port_or_nothing(
    given: list[str], listen: tuple[str, int] | None
) -> None:
    done = CliRunner().invoke(program, ["look", *given], env={"KUBECONFIG": "/there"})
    assert done.stdout == f"{listen} /there\n"


@pytest.mark.parametrize("text", ["8080", ":8080", "host:", "host:65536", "host:-1"])
def test_what_is_no_address_is_told_with_one_that_is(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"such as 0\.0\.0\.0:8080"):
        Address().convert(text, None, None)
