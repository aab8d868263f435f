"""Facts: files of a cluster that change, such as the record of a local run in progress."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from walras_dashboard.dump import Dump
from walras_dashboard.state import MarketState, Origin
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from walras_api.cluster import Pod
    from walras_operator.decide.world import World

LOOK_SECONDS = 0.5
"""Seconds between two looks at the files."""


class FollowedFiles:
    """Files that are read again whenever they change.

    Args:
        files: The files; they need not be there yet.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = tuple(files)
        self._seen: tuple[object, ...] = ()
        self._dump: Dump | None = None
        self._lock = threading.Lock()
        names = ", ".join(map(str, files))
        note = f"{names}: is not there yet; the page shows it once it is"
        self._state = MarketState(Origin("local", names, live=True), revision=0, notes=(note,))

    def state(self) -> MarketState:
        """Return what is in the files."""
        with self._lock:
            seen = tuple(_stamp(each) for each in self._files)
            if seen != self._seen and None not in seen:
                self._seen = seen
                self._read()
            return self._state

    def _read(self) -> None:
        try:
            self._dump = Dump.of(self._files)
        except BadInput as error:
            new = replace(self._state, notes=tuple(error.format_message().splitlines()))
        else:
            new = self._dump.state()
        origin = replace(new.origin, live=True)
        self._state = replace(new, origin=origin, revision=self._state.revision + 1)

    def pods_on(self, node: str) -> Sequence[Pod] | None:
        """Return the pods that run on a node."""
        self.state()
        return None if self._dump is None else self._dump.pods_on(node)

    def world(self) -> World:
        """Return the cluster as the operator would know it.

        Raises:
            BadInput: The files are not there yet.
        """
        state = self.state()
        if self._dump is None:
            raise BadInput(*state.notes)
        return self._dump.world()

    def listen(self, receive: Callable[[str], None]) -> Callable[[], None]:
        """Call a function whenever the files change, until the result is called."""
        stopping = threading.Event()

        def look() -> None:
            revision = self.state().revision
            while not stopping.wait(LOOK_SECONDS):
                if (latest := self.state().revision) != revision:
                    revision = latest
                    receive("")

        threading.Thread(target=look, name="files", daemon=True).start()
        return stopping.set


def _stamp(file: Path) -> object:
    """Return what changes with a file; None if it is not there."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
