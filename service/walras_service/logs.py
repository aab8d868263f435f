"""Effects: logging to standard error, as JSON (one object per line) or as plain lines."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Literal

from pythonjsonlogger.json import JsonFormatter

from walras_service.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable


class _TextFormatter(logging.Formatter):
    """Formats lines for terminals; JSON escapes control characters by itself."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def configure_logging(
    package: str,
    form: Literal["json", "text"],
    *,
    verbose: bool = False,
    noisy: Iterable[str] = (),
) -> None:
    """Set up logging for this process.

    Args:
        package: Package of the program, logged from INFO; other packages are logged from WARNING.
        form: Format of the lines.
        verbose: Whether to log the package from DEBUG.
        noisy: Loggers whose warnings are of no use; they are logged from ERROR.
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
        else _TextFormatter("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in (package, "walras_service"):
        logging.getLogger(name).setLevel(logging.DEBUG if verbose else logging.INFO)
    for name in noisy:
        logging.getLogger(name).setLevel(logging.ERROR)
