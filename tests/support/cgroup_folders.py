"""Finds cgroups of this machine by name."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path


def cgroups_named(pattern: str) -> list[Path]:
    """Return the cgroups of every hierarchy whose name matches a shell pattern.

    Other tests create and remove cgroups meanwhile, which `os.walk` passes over; `Path.glob` raises
    FileNotFoundError when one goes while it looks.
    """
    return [
        Path(folder, name)
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if fnmatchcase(name, pattern)
    ]
