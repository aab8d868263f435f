"""Addresses of the logs of pods, and the option of the server that says where these are."""

from __future__ import annotations

from string import Formatter
from urllib.parse import quote, urlsplit

import click

from walras_service.failures import BadInput

FIELDS = frozenset({"namespace", "pod"})
WRITE = "write one such as https://logs.example/?namespace={namespace}&pod={pod}"


def checked(template: str) -> str:
    """Return a template of addresses.

    Raises:
        ValueError: It is not an HTTP URL with {pod} in it; says why.
    """
    if urlsplit(template).scheme not in {"http", "https"}:
        raise ValueError(f"is not an HTTP URL; {WRITE}")
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{error}; {WRITE}") from error
    named = {name for _, name, _, _ in parts if name is not None}
    if "pod" not in named or not named <= FIELDS or any(form or as_ for *_, form, as_ in parts):
        raise ValueError(
            f"needs {{pod}}, may have {{namespace}}, and takes no other placeholder; {WRITE}"
        )
    return template


def address(template: str, namespace: str, pod: str) -> str:
    """Return the address of a pod's logs, whose names cannot become other parts of it."""
    return template.format(namespace=quote(namespace, safe=""), pod=quote(pod, safe=""))


def _template(_: click.Context, __: click.Parameter, given: str) -> str:
    try:
        return checked(given) if given else ""
    except ValueError as error:
        raise BadInput(f"--logs {given}: {error}") from error


logs_option = click.option(
    "--logs",
    default="",
    metavar="URL",
    callback=_template,
    help="Link each pod to its logs there; {namespace} and {pod} in it stand for the pod's names.",
)
