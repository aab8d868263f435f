"""The plugin `kubectl walras` for krew: an archive with all libraries, and its manifest.

krew (https://krew.sigs.k8s.io) unpacks the archive of a platform and links the program in it. The
libraries are those of the dashboard's image, which the lock file names by their hashes.
"""

from __future__ import annotations

import hashlib
import io
import re
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PROGRAM = "kubectl-walras"
ARCHIVE = re.compile(rf"{PROGRAM}-(?P<version>.+)-linux-(?P<architecture>[^-]+)\.tar\.gz")

LAUNCHER = """\
#!/bin/sh
# kubectl calls this as `kubectl walras`. The compiled libraries in lib are for Python {python}.
here=$(dirname -- "$(readlink -f -- "$0")")
is_right='import sys; sys.exit("%d.%d" % sys.version_info[:2] != "{python}")'
for python in python{python} python3 python; do
    if "$python" -c "$is_right" 2>/dev/null; then
        exec "$python" -c 'import sys; sys.path.insert(0, sys.argv.pop(1))
from walras_cli.main import kubectl
kubectl()' "$here/lib" "$@"
    fi
done
echo "kubectl walras: needs Python {python}, which is not on PATH; install it" >&2
exit 1
"""

DESCRIPTION = """\
Walras divides the cores and memory of shared nodes by a market of users with entitlements.
`kubectl walras what-if` says of any cluster, without installing anything, what users would have;
top, explain, check and report are about a cluster with Walras, and dashboard shows it in a browser.
"""


def pack(archive: Path, wheels: Iterable[Path], license_file: Path) -> None:
    """Write the archive of this machine's platform and Python: the program, and wheels unpacked."""
    python = "{}.{}".format(*sys.version_info)
    files = {
        PROGRAM: LAUNCHER.format(python=python).encode(),
        "LICENSE": license_file.read_bytes(),
    }
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as opened:
            for each in opened.infolist():
                if not each.is_dir() and ".data/" not in each.filename:
                    files[f"lib/{each.filename}"] = opened.read(each)
    with tarfile.open(archive, "w:gz") as made:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if name == PROGRAM else 0o644
            made.addfile(entry, io.BytesIO(content))


def manifest(repository: str, archives: Iterable[Path]) -> str:
    """Return krew's manifest of a release, as YAML.

    Args:
        repository: URL of the repository whose release the archives belong to.
        archives: Archives of one version, one for each architecture.
    """
    versions, platforms = set(), []
    for each in archives:
        named = ARCHIVE.fullmatch(each.name)
        if named is None:
            sys.exit(f"{each}: no archive of the plugin; run tools/release.py make first")
        versions.add(named["version"])
        platforms.append(
            {
                "selector": {"matchLabels": {"os": "linux", "arch": named["architecture"]}},
                "uri": f"{repository}/releases/download/v{named['version']}/{each.name}",
                "sha256": hashlib.sha256(each.read_bytes()).hexdigest(),
                "bin": PROGRAM,
            }
        )
    if len(versions) != 1:
        sys.exit(f"archives of {len(versions)} versions; name those of one")
    document = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "walras"},
        "spec": {
            "version": f"v{versions.pop()}",
            "homepage": repository,
            "shortDescription": "Show how a market would divide, and divides, shared nodes",
            "description": DESCRIPTION,
            "platforms": platforms,
        },
    }
    return yaml.safe_dump(document, sort_keys=False)
