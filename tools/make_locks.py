"""Make the lock files of the images anew: exact versions of all libraries, with their hashes.

    python tools/make_locks.py

They name no index, so that they hold for every mirror, and have the hashes of the wheels for all
architectures of a release. pip's configured index is asked for the latest versions.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "tools" / "locks"
TARGETS = ("operator", "agent", "dashboard")
PYTHON = "3.11"
"""Version of Python of the images."""

ARCHITECTURES = ("x86_64", "aarch64")
LIBRARIES = ("2014", "_2_17", "_2_28", "_2_34")
"""Versions of glibc, as names of wheels have them, that the base image runs."""


def main() -> None:
    """Write a file for each image."""
    LOCKS.mkdir(exist_ok=True)
    for target in TARGETS:
        lines = [
            f"{name} {' '.join(f'--hash=sha256:{each}' for each in sorted(hashes))}\n"
            for name, hashes in sorted(locked(target).items())
        ]
        (LOCKS / f"{target}.txt").write_text("".join(lines))


def locked(target: str) -> dict[str, set[str]]:
    """Return the hashes of all wheels that an image consists of, by name and version."""
    found: dict[str, set[str]] = {}
    for architecture in ARCHITECTURES:
        for each in resolved(requirements(target), architecture):
            metadata, archive = each["metadata"], each["download_info"]["archive_info"]
            name = f"{metadata['name'].lower()}=={metadata['version']}"
            found.setdefault(name, set()).add(archive["hashes"]["sha256"])
    if len({name.partition("==")[0] for name in found}) < len(found):
        sys.exit(f"{target}: architectures have different versions: {sorted(found)}")
    return found


def requirements(extra: str) -> list[str]:
    """Return what Walras needs with an extra; extras that it names are replaced by theirs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: list[str] = list(project["dependencies"])
    wanted = [extra]
    while wanted:
        for each in project["optional-dependencies"][wanted.pop()]:
            own = re.fullmatch(r"walras\[(.*)\]", each)
            if own is None:
                found.append(each)
            else:
                wanted += own[1].split(",")
    return found


def resolved(wanted: list[str], architecture: str) -> list[dict[str, dict]]:  # type: ignore[type-arg]
    """Return what pip would install for an architecture."""
    platforms = [f"--platform=manylinux{each}_{architecture}" for each in LIBRARIES]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--dry-run", "--ignore-installed", "--only-binary=:all:", "--report=-"),
            *(f"--python-version={PYTHON}", f"--target={folder}", *platforms, *wanted),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return list(json.loads(done.stdout)["install"])


if __name__ == "__main__":
    main()
