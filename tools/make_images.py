"""Build the images of operator, agent and dashboard, with buildah, podman or docker.

    python tools/make_images.py [--base IMAGE] [--python 3.11] [--prefix REGISTRY/]

The wheels come from pip's configured package index, and for Python 3.11 are those that the lock
files name by their hashes; the build itself needs no network.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
WHEELS = ROOT / "build" / "wheels"
LOCKS = ROOT / "tools" / "locks"
LOCKED = "3.11"
"""Version of Python whose wheels the lock files name (tools/make_locks.py)."""

TARGETS = ("operator", "agent", "dashboard")
BUILDERS = ("buildah", "podman", "docker")


def main() -> None:
    """Build the wheels, the images and, with --archives, an archive of each image."""
    options = parse()
    builder = options.builder or find_builder()
    make_wheels(options.python)
    for target in TARGETS:
        image = f"{options.prefix}walras-{target}:{options.tag}"
        build(builder, target, image, options.base, options.tag)
        if options.archives:
            options.archives.mkdir(parents=True, exist_ok=True)
            save(builder, image, options.archives / f"walras-{target}.tar")
        print(image)


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", help="base image, with Python  [default: the Containerfile's]")
    parser.add_argument(
        "--python", default="3.11", help="Python version of the base image  [default: %(default)s]"
    )
    parser.add_argument(
        "--prefix", default="localhost/", help="prefix of the images' names  [default: %(default)s]"
    )
    parser.add_argument(
        "--tag", default=version("walras"), help="tag of the images  [default: %(default)s]"
    )
    parser.add_argument(
        "--builder",
        choices=BUILDERS,
        help="program that builds images  [default: the first installed]",
    )
    parser.add_argument(
        "--archives", type=Path, help="also save the images here as docker archives"
    )
    return parser.parse_args()


def find_builder() -> str:
    """Return the name of the first builder that is installed."""
    found = next(filter(shutil.which, BUILDERS), None)
    if found is None:
        sys.exit(f"install {', '.join(BUILDERS[:-1])} or {BUILDERS[-1]}; none of them is on PATH")
    return found


def make_wheels(python: str) -> None:
    """Build Walras's wheel in an empty `WHEELS`; download each image's wheels to a subfolder."""
    if python != "{}.{}".format(*sys.version_info):
        sys.exit(f"run this by Python {python}: the wheel's kernels are compiled for one version")
    shutil.rmtree(WHEELS, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", str(WHEELS), str(ROOT))
    (walras,) = WHEELS.glob("walras-*.whl")
    if walras.name.endswith("-none-any.whl"):
        sys.exit("the kernels cannot be compiled; on Debian, install gcc and python3-dev")
    download = (*pip, "download", "--only-binary=:all:", "--python-version", python, "--dest")
    for target in TARGETS:
        if python == LOCKED:
            lock = ("--no-deps", "--require-hashes", "--requirement", str(LOCKS / f"{target}.txt"))
            run(*download, str(WHEELS / target), *lock)
        else:
            run(*download, str(WHEELS / target), f"{walras}[{target}]")
            next((WHEELS / target).glob("walras-*.whl")).unlink()


def build(builder: str, target: str, image: str, base: str | None, tag: str) -> None:
    """Build one target of the Containerfile."""
    arguments = ["--build-arg", f"VERSION={tag}"]
    if base:
        arguments += ["--build-arg", f"BASE={base}"]
    if builder == "buildah":
        arguments.append("--layers")  # cache layers, as podman and docker do
    where = ["--file", str(ROOT / "Containerfile"), "--target", target, "--tag", image]
    run(builder, "build", *where, *arguments, str(WHEELS))


def save(builder: str, image: str, archive: Path) -> None:
    """Save an image as a docker archive, which every container runtime can load."""
    archive.unlink(missing_ok=True)  # buildah refuses to write an image twice
    if builder == "buildah":
        run(builder, "push", "--quiet", image, f"docker-archive:{archive}:{image}")
    else:
        run(builder, "save", "--output", str(archive), image)


def run(*command: str) -> None:
    """Run a command; exit with its exit code if it fails."""
    done = subprocess.run(command, check=False, stdout=sys.stderr)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
