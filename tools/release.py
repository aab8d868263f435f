"""Make what a release of Walras consists of, or push it to a registry.

    python tools/release.py cut 0.2.0       set the version, and cut the section of CHANGELOG.md
    python tools/release.py make            wheel, plugin, images, chart, SBOMs, checksums, notes
    python tools/release.py push REGISTRY   push images and chart, for this machine's architecture
    python tools/release.py index REGISTRY ARCHITECTURE...   join pushed images in one index each
    python tools/release.py krew REPOSITORY ARCHIVE...   write walras.yaml, the plugin's manifest

All files are in build/release; `index` adds images.txt, with the digest of each image, to sign, and
digests.yaml, values of the chart that pin these. To push takes PyYAML alone, so that it can be done
where no other package's code has run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import yaml
from krew import PROGRAM, manifest, pack

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "release"
WHEELS = ROOT / "build" / "wheels"
CHART = ROOT / "helm" / "walras"
CHANGELOG = ROOT / "CHANGELOG.md"
TARGETS = ("operator", "agent", "dashboard")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?")


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("cut").add_argument("version")
    made = commands.add_parser("make")
    made.add_argument("--registry", default=chart_registry(), help="registry of the chart's images")
    made.add_argument("--base", default="", help="base image of the images")
    commands.add_parser("push").add_argument("registry")
    index = commands.add_parser("index")
    index.add_argument("registry")
    index.add_argument("architectures", nargs="+")
    plugin = commands.add_parser("krew")
    plugin.add_argument("repository", help="URL of the repository on GitHub")
    plugin.add_argument("archives", nargs="+", type=Path, help="archives of all architectures")
    options = parser.parse_args()
    if options.command == "cut":
        cut(options.version)
    elif options.command == "make":
        make(options.registry, options.base)
    elif options.command == "push":
        push(options.registry)
    elif options.command == "krew":
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / "walras.yaml").write_text(manifest(options.repository, options.archives))
    else:
        join(options.registry, options.architectures)


def cut(version: str) -> None:
    """Set the version everywhere, and give the unreleased changes its heading.

    Everything is checked before the first file is written.
    """
    if not VERSION.fullmatch(version):
        sys.exit(f"{version}: not a version; write it as 1.2.3")
    text = CHANGELOG.read_text()
    if f"## {version}" in text:
        sys.exit(f"CHANGELOG.md has {version} already")
    head, found, rest = text.partition("## Unreleased\n")
    if not found or not rest.partition("\n## ")[0].strip():
        sys.exit("CHANGELOG.md: the section Unreleased is missing or empty")
    today = datetime.now(UTC).date()
    pyproject, chart = ROOT / "pyproject.toml", CHART / "Chart.yaml"
    written = {
        CHANGELOG: f"{head}## Unreleased\n\n## {version} - {today}\n{rest}",
        pyproject: re.sub(r'(?m)^version = ".*"', f'version = "{version}"', pyproject.read_text()),
        chart: re.sub(r"(?m)^(version|appVersion): \S+", rf"\1: {version}", chart.read_text()),
    }
    for path, content in written.items():
        path.write_text(content)


def make(registry: str, base: str) -> None:
    """Make all files of the release of the current version."""
    from sbom import write_sbom

    version = current_version()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    (OUT / "notes.md").write_text(notes(version))
    run(
        *(sys.executable, str(ROOT / "tools" / "make_images.py"), "--prefix", "localhost/"),
        *("--tag", version, "--archives", str(OUT), *(("--base", base) if base else ())),
    )
    (wheel,) = WHEELS.glob("walras-*.whl")
    shutil.copy(wheel, OUT)
    for target in TARGETS:
        archive = OUT / f"walras-{target}.tar"
        archive.rename(OUT / f"walras-{target}-{version}-{architecture()}.tar")
        wheels = [wheel, *sorted((WHEELS / target).glob("*.whl"))]
        write_sbom(OUT, f"walras-{target}", version, architecture(), wheels)
    plugin = OUT / f"{PROGRAM}-{version}-linux-{architecture()}.tar.gz"
    pack(plugin, [wheel, *sorted((WHEELS / "dashboard").glob("*.whl"))], ROOT / "LICENSE")
    write_sbom(OUT, "walras", version, architecture(), [wheel])
    package_chart(registry)
    files = sorted(each for each in OUT.iterdir() if each.is_file())
    sums = [f"{sha256(each)}  {each.name}\n" for each in files]
    (OUT / "SHA256SUMS").write_text("".join(sums))
    print("\n".join(str(each.relative_to(ROOT)) for each in sorted(OUT.iterdir())))


def push(registry: str) -> None:
    """Push the images of this architecture, and the chart."""
    version = current_version()
    for target in TARGETS:
        archive = OUT / f"walras-{target}-{version}-{architecture()}.tar"
        if not archive.is_file():
            sys.exit(f"{archive.relative_to(ROOT)}: missing; run tools/release.py make first")
        name = f"docker://{registry}/walras-{target}:{version}-{architecture()}"
        run("buildah", "push", *insecure(registry), loaded(archive), name)
    chart = OUT / f"walras-{version}.tgz"
    plain = ["--plain-http"] if is_local(registry) else []
    run(str(helm()), "push", str(chart), f"oci://{registry}/charts", *plain)


def join(registry: str, architectures: list[str]) -> None:
    """Push an index of the images of all architectures, under the version as the tag."""
    version, named = current_version(), []
    OUT.mkdir(parents=True, exist_ok=True)
    for target in TARGETS:
        name = f"{registry}/walras-{target}:{version}"
        with suppress(SystemExit):  # none is left of another time
            run("buildah", "manifest", "rm", name)
        run("buildah", "manifest", "create", name)
        for each in architectures:
            run("buildah", "manifest", "add", *insecure(registry), name, f"docker://{name}-{each}")
        digest = OUT / "digest"
        where = ["--digestfile", str(digest), name, f"docker://{name}"]
        run("buildah", "manifest", "push", "--all", *insecure(registry), *where)
        named.append(f"{registry}/walras-{target}@{digest.read_text().strip()}\n")
        digest.unlink()
    (OUT / "images.txt").write_text("".join(named))
    (OUT / "digests.yaml").write_text(pinning(named))


def pinning(images: list[str]) -> str:
    """Return the chart's values that name images by their digests, as YAML.

    Args:
        images: References to images, such as ``registry/walras-agent@sha256:...``.
    """
    found = {}
    for image in images:
        name, _, digest = image.strip().partition("@")
        found[name.rpartition("/walras-")[2]] = {"digest": digest}
    return yaml.safe_dump({"image": found})


def current_version() -> str:
    """Return the version, if all files agree on it."""
    project = re.search(r'(?m)^version = "(.*)"', (ROOT / "pyproject.toml").read_text())
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    found = {str(project and project[1]), str(chart["version"]), str(chart["appVersion"])}
    if len(found) > 1:
        sys.exit(f"pyproject.toml and Chart.yaml have the versions {', '.join(sorted(found))}")
    return found.pop()


def notes(version: str) -> str:
    """Return the section of a version, or of the unreleased changes, of CHANGELOG.md."""
    text = CHANGELOG.read_text()
    for heading in (rf"{re.escape(version)} - .*", "Unreleased"):
        found = re.search(rf"(?ms)^## {heading}\n(.*?)(?=^## |\Z)", text)
        if found and found[1].strip():
            return found[1].strip() + "\n"
    sys.exit(f"CHANGELOG.md: no changes of {version}; run tools/release.py cut {version}")


def package_chart(registry: str) -> None:
    """Package the chart, with a registry as the default of its images."""
    copy = OUT / "walras"
    shutil.copytree(CHART, copy)
    values = copy / "values.yaml"
    text = re.sub(
        r"(?m)^  registry: .*$", f"  registry: {json.dumps(registry)}", values.read_text()
    )
    values.write_text(text)
    run(str(helm()), "package", str(copy), "--destination", str(OUT))
    shutil.rmtree(copy)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def loaded(archive: Path) -> str:
    """Load an image from its archive, and return its identifier."""
    return run("buildah", "pull", "--quiet", f"docker-archive:{archive}").strip().splitlines()[-1]


def architecture() -> str:
    """Return this machine's architecture, as images name it."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def chart_registry() -> str:
    """Return the registry in which the chart looks for images."""
    return str(yaml.safe_load((CHART / "values.yaml").read_text())["image"]["registry"])


def is_local(registry: str) -> bool:
    """Whether a registry is on this machine, and so without a certificate."""
    return registry.partition("/")[0].partition(":")[0] in {"localhost", "127.0.0.1"}


def insecure(registry: str) -> list[str]:
    """Return buildah's option for such a registry."""
    return ["--tls-verify=false"] if is_local(registry) else []


def helm() -> Path:
    """Return helm: the one on PATH, or that of the chart's tests."""
    if found := shutil.which("helm"):
        return Path(found)
    folder = run(sys.executable, str(ROOT / "tools" / "kubernetes_clients.py")).strip()
    return Path(folder) / "helm"


def run(*command: str) -> str:
    """Run a command, and return what it prints; end with what it says if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
