"""Notices when files change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(slots=True)
class FileWatch:
    """Compares files with how they were when last asked; editors may replace them meanwhile."""

    files: Sequence[Path]
    _known: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        self._known = self._look()

    def changed(self) -> bool:
        """Whether any file is another than at the last call."""
        now = self._look()
        changed = now != self._known
        self._known = now
        return changed

    def _look(self) -> tuple[tuple[int, int, int], ...]:
        return tuple(_signature(file) for file in self.files)


def _signature(file: Path) -> tuple[int, int, int]:
    try:
        status = file.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)
