"""The log is read by machines as well as by people, and libraries are heard in it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

PROGRAM = """
import logging
from walras_service.logs import configure_logging
configure_logging("walras_test", {form!r}, verbose={verbose}, noisy=["noisy"])
logging.getLogger("walras_test.part").debug("a detail")
logging.getLogger("walras_test.part").info("a %s", "change", extra={{"event": "changed"}})
for library in ("quiet", "noisy"):
    logging.getLogger(library).info("chatter")
    logging.getLogger(library).warning("%s warns", library)
"""


def said(form: str, *, verbose: bool = False) -> list[str]:
    command = [sys.executable, "-c", PROGRAM.format(form=form, verbose=verbose)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_json_has_an_object_a_line() -> None:
    change, warning = map(json.loads, said("json"))
    assert (change["level"], change["logger"]) == ("INFO", "walras_test.part")
    assert (change["message"], change["event"]) == ("a change", "changed")
    assert warning["message"] == "quiet warns"


@pytest.mark.parametrize(
    ("verbose", "endings"),
    [
        (False, ["INFO a change", "WARNING quiet warns"]),
        (True, ["DEBUG a detail", "INFO a change", "WARNING quiet warns"]),
    ],
)
def test_text_tells_details_when_asked(*, verbose: bool, endings: list[str]) -> None:
    lines = said("text", verbose=verbose)
    assert [line.split(" ", 2)[2] for line in lines] == endings
