"""Effects: says on a terminal what a command that takes long is doing."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = 2.0
"""Time for which people wait without being told for what."""

_CLEARED = "\r\x1b[K"


@contextmanager
def patience(what: str, after: float = SECONDS) -> Iterator[Callable[[str], None]]:
    """Say what is being done once that takes long, and yield a function that says how far it is.

    Only a terminal is told, and the line is gone at the end, so that no script has to read it.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    said = what
    late = threading.Event()

    def write() -> None:
        sys.stderr.write(f"{_CLEARED}walras: {said} ...")
        sys.stderr.flush()

    def begin() -> None:
        late.set()
        write()

    def tell(how_far: str) -> None:
        nonlocal said
        said = f"{what}: {how_far}"
        if late.is_set():
            write()

    timer = threading.Timer(after, begin)
    timer.start()
    try:
        yield tell
    finally:
        timer.cancel()
        timer.join()
        if late.is_set():
            sys.stderr.write(_CLEARED)
            sys.stderr.flush()
