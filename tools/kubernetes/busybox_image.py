"""Make an image of Debian's static busybox, in which pods of tests run.

    python3 busybox_image.py ARCHIVE

It is named ``localhost/busybox:local``, and ``localhost/pause:local`` as what holds a pod's
namespaces: it sleeps unless told otherwise.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

NAMES = ["localhost/pause:local", "localhost/busybox:local"]
FOLDERS = ("tmp", "etc", "proc", "sys", "dev", "var")


def main(archive: str) -> None:
    """Write the image as an archive that docker and containerd load."""
    layer = layer_of(Path(found_busybox()))
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": ["/bin/sleep", "2147483647"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = {"Config": "config.json", "RepoTags": NAMES, "Layers": ["layer.tar"]}
    with tarfile.open(archive, "w") as tar:
        add(tar, "config.json", json.dumps(config).encode())
        add(tar, "layer.tar", layer)
        add(tar, "manifest.json", json.dumps([manifest]).encode())


def found_busybox() -> str:
    """Return the path of busybox."""
    return shutil.which("busybox") or sys.exit("busybox is missing (Debian's busybox-static)")


def layer_of(busybox: Path) -> bytes:
    """Return the file system of the image: busybox under the names of its programs."""
    programs = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        add(tar, "bin/busybox", busybox.read_bytes(), 0o755)
        for name in set(programs.stdout.split()) - {"busybox"}:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "/bin/busybox"
            tar.addfile(link)
        for name in FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(folder)
    return buffer.getvalue()


def add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    """Add a file to an archive."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main(*sys.argv[1:])
