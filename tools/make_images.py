"""Build the container images of the operator and the agent, with buildah, podman or docker.

    python tools/make_images.py [--base IMAGE] [--python 3.11] [--prefix REGISTRY/]

The wheels come from the package index that pip is configured for; the build itself asks no network.
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
TARGETS = ("operator", "agent")
UNUSED = {"agent": ("numba", "llvmlite")}  # no agent clears a market, but each fits speedups
BUILDERS = ("buildah", "podman", "docker")


def main() -> None:
    """Make the wheels, the images, and an archive of each if a folder for them is named."""
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
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", help="image with Python  [default: the Containerfile's]")
    parser.add_argument("--python", default="3.11", help="its version  [default: %(default)s]")
    parser.add_argument("--prefix", default="localhost/", help="before the names of the images")
    parser.add_argument("--tag", default=version("walras"), help="[default: %(default)s]")
    parser.add_argument("--builder", choices=BUILDERS, help="[default: the first that is there]")
    parser.add_argument("--archives", type=Path, help="folder for docker archives of the images")
    return parser.parse_args()


def find_builder() -> str:
    """Name the first builder that is installed."""
    found = next(filter(shutil.which, BUILDERS), None)
    if found is None:
        sys.exit(f"no {', '.join(BUILDERS[:-1])} or {BUILDERS[-1]} here; install one of them")
    return found


def make_wheels(python: str) -> None:
    """Put Walras's wheel into an empty `WHEELS`, and what each image needs into a folder there."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", str(WHEELS), str(ROOT))
    (walras,) = WHEELS.glob("walras-*.whl")
    download = (*pip, "download", "--only-binary=:all:", "--python-version", python, "--dest")
    for target in TARGETS:
        run(*download, str(WHEELS / target), f"{walras}[{target}]")
        for name in ("walras", *UNUSED.get(target, ())):
            next((WHEELS / target).glob(f"{name}-*.whl")).unlink()


def build(builder: str, target: str, image: str, base: str | None, tag: str) -> None:
    """Build one target of the Containerfile."""
    arguments = ["--build-arg", f"VERSION={tag}"]
    if base:
        arguments += ["--build-arg", f"BASE={base}"]
    if builder == "buildah":
        arguments.append("--layers")  # as the others do: what has not changed is not made anew
    where = ["--file", str(ROOT / "Containerfile"), "--target", target, "--tag", image]
    run(builder, "build", *where, *arguments, str(WHEELS))


def save(builder: str, image: str, archive: Path) -> None:
    """Write an image as an archive that every runtime loads."""
    archive.unlink(missing_ok=True)  # buildah adds to an archive, and not twice the same
    if builder == "buildah":
        run(builder, "push", "--quiet", image, f"docker-archive:{archive}:{image}")
    else:
        run(builder, "save", "--output", str(archive), image)


def run(*command: str) -> None:
    """Run a command, and end with its exit code if that is not 0."""
    done = subprocess.run(command, check=False, stdout=sys.stderr)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
