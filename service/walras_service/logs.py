"""Apply: the log of a process, on standard error.

As JSON for machines (one object a line) or as plain lines for people; the message is the same.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Literal

from pythonjsonlogger.json import JsonFormatter

if TYPE_CHECKING:
    from collections.abc import Iterable


def configure_logging(
    package: str,
    form: Literal["json", "text"],
    *,
    verbose: bool = False,
    noisy: Iterable[str] = (),
) -> None:
    """Log from now on.

    Args:
        package: Whose log it is; of libraries only warnings are told.
        form: Of the lines.
        verbose: Whether to tell more.
        noisy: Loggers that warn of what is as it should be; only their errors are told.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter(
            "{asctime}{levelname}{name}{message}",
            style="{",
            rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
            datefmt="%Y-%m-%dT%H:%M:%S%z",
        )
        if form == "json"
        else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in (package, "walras_service"):
        logging.getLogger(name).setLevel(logging.DEBUG if verbose else logging.INFO)
    for name in noisy:
        logging.getLogger(name).setLevel(logging.ERROR)
