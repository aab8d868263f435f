"""Create a virtual environment with pip, even without Debian's package python3-venv.

Debian's python3 includes ``venv``, but not the pip that ``venv`` installs into a new environment;
that is in python3-venv, and installing it takes root. Without it, pip's own wheel is downloaded
from the package index (``PIP_INDEX_URL`` if set) and installs itself; its digest is pinned.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import venv
from pathlib import Path

PIP_WHEEL = "pip-25.3-py3-none-any.whl"
PIP_SHA256 = "9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd"
INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple")


def download_pip(folder: Path) -> Path:
    """Download the pinned pip wheel to a folder, verify its digest, and return its path."""
    page_url = INDEX.rstrip("/") + "/pip/"
    with urllib.request.urlopen(page_url) as response:  # noqa: S310 - the index the user's pip uses
        page = response.read().decode()
    link = re.search(rf'href="([^"]*{re.escape(PIP_WHEEL)}[^"]*)"', page)
    if link is None:
        sys.exit(f"{page_url} does not list {PIP_WHEEL}; install python3-venv and try again")
    url = urllib.parse.urljoin(page_url, link.group(1))
    with urllib.request.urlopen(url) as response:  # noqa: S310
        wheel = response.read()
    if hashlib.sha256(wheel).hexdigest() != PIP_SHA256:
        sys.exit(f"{PIP_WHEEL} from {page_url} is not installed: its SHA-256 is unexpected")
    path = folder / PIP_WHEEL
    path.write_bytes(wheel)
    return path


def main() -> None:
    """Create the environment at the path that is the first argument."""
    if sys.version_info < (3, 11):  # noqa: UP036 - runs on whatever Python the machine has
        sys.exit(f"Walras needs Python 3.11 or newer; this is {sys.version.split()[0]}")
    target = Path(sys.argv[1])
    with_pip = importlib.util.find_spec("ensurepip") is not None
    venv.create(target, with_pip=with_pip, clear=True)
    if not with_pip:
        with tempfile.TemporaryDirectory() as folder:
            wheel = download_pip(Path(folder))
            python = str(target / "bin" / "python")
            subprocess.run([python, f"{wheel}/pip", "install", "--no-deps", str(wheel)], check=True)


if __name__ == "__main__":
    main()
