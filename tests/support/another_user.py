"""Tests that run programs as an ordinary user are skipped where none can run this Python."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NOBODY = 65534


def _why_not_nobody() -> str:
    """Why no Python can be run as another user; empty if one can."""
    if os.geteuid():
        return "needs root to become another user"
    try:
        tried = subprocess.run([sys.executable, "-c", ""], user=NOBODY, check=False)
    except OSError as error:
        return f"another user cannot run {sys.executable}: {error.strerror}"
    return "" if tried.returncode == 0 else f"another user cannot run {sys.executable}"


another_user = pytest.mark.skipif(bool(_why_not_nobody()), reason=_why_not_nobody() or "-")
