"""A release's files, as the tool makes them and as users get them from a registry."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
krew = import_module("krew")
sys.path.pop(0)
OUT = ROOT / "build" / "release"
REGISTRY = os.environ.get("WALRAS_REGISTRY", "")

FILES = ("pyproject.toml", "CHANGELOG.md", "helm/walras/Chart.yaml", "helm/walras/values.yaml")


def release(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "tools" / "release.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that a version is in, with a change that no version has yet."""
    for name in (*FILES, "tools/release.py", "tools/krew.py"):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    changes = tmp_path / "CHANGELOG.md"
    head, heading, rest = changes.read_text().partition("## Unreleased\n")
    changes.write_text(f"{head}{heading}\n- A change.\n{rest}")
    return tmp_path


@pytest.mark.system
def test_a_version_is_cut_everywhere_at_once(copy: Path) -> None:
    changes = (copy / "CHANGELOG.md").read_text().partition("## Unreleased\n")[2]
    done = release(copy, "cut", "7.8.9")
    assert done.returncode == 0, done.stderr
    chart = yaml.safe_load((copy / "helm/walras/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == ("7.8.9", "7.8.9")
    assert 'version = "7.8.9"' in (copy / "pyproject.toml").read_text()
    now = (copy / "CHANGELOG.md").read_text()
    assert now.partition("## 7.8.9 - ")[2].partition("\n")[2] == changes
    assert "## Unreleased\n\n## 7.8.9 - " in now


@pytest.mark.system
@pytest.mark.parametrize(
    ("version", "complaint"), [("1.2", "not a version"), ("1.2.3; rm", "not a version")]
)
def test_what_is_no_version_changes_nothing(copy: Path, version: str, complaint: str) -> None:
    before = {name: (copy / name).read_text() for name in FILES}
    done = release(copy, "cut", version)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert before == {name: (copy / name).read_text() for name in FILES}


@pytest.mark.system
def test_a_release_without_changes_is_refused(copy: Path) -> None:
    assert release(copy, "cut", "7.8.9").returncode == 0
    done = release(copy, "cut", "7.9.0")
    assert done.returncode == 1
    assert "Unreleased is missing or empty" in done.stderr


def run(*command: str | Path, **options: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
    printed: str = done.stdout
    return printed


@pytest.fixture(scope="module")
def made() -> str:
    """Make a release, push it, and return its version."""
    base = ["--base", os.environ["WALRAS_BASE_IMAGE"]] if "WALRAS_BASE_IMAGE" in os.environ else []
    for arguments in (
        ("make", "--registry", REGISTRY, *base),
        ("push", REGISTRY),
        ("index", REGISTRY, "amd64"),
    ):
        done = release(ROOT, *arguments)
        assert done.returncode == 0, done.stderr
    plugins = map(str, OUT.glob("kubectl-walras-*.tar.gz"))
    done = release(ROOT, "krew", "https://github.com/walras/walras", *plugins)
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load((ROOT / "helm/walras/Chart.yaml").read_text())["version"])


PACKAGES = re.findall(r'"([\w-]+)/(walras\w*)"', (ROOT / "pyproject.toml").read_text())


def installed_as_krew_does(manifest: dict[str, Any], archives: Path, store: Path) -> Path:
    """Unpack this machine's archive, and link its program in a folder of programs."""
    amd64 = {"matchLabels": {"os": "linux", "arch": "amd64"}}
    (platform,) = [each for each in manifest["spec"]["platforms"] if each["selector"] == amd64]
    archive = archives / platform["uri"].rpartition("/")[2]
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == platform["sha256"]
    with tarfile.open(archive) as opened:
        opened.extractall(store / "walras", filter="data")
    (store / "bin").mkdir()
    program = store / "bin" / "kubectl-walras"
    program.symlink_to(store / "walras" / platform["bin"])
    return program


@pytest.mark.system
def test_the_plugin_of_kubectl_is_what_its_manifest_names(tmp_path: Path) -> None:
    """The wheel has Walras's packages here; other libraries are those of the Python on PATH."""
    wheel = tmp_path / "walras-7.8.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        for folder, package in PACKAGES:
            for each in (ROOT / folder / package).rglob("*.py"):
                made.write(each, each.relative_to(ROOT / folder))
        made.writestr("walras-7.8.9.dist-info/METADATA", "Name: walras\nVersion: 7.8.9\n")
    for architecture in ("amd64", "arm64"):
        archive = tmp_path / f"kubectl-walras-7.8.9-linux-{architecture}.tar.gz"
        krew.pack(archive, [wheel], ROOT / "LICENSE")
    archives = sorted(tmp_path.glob("*.tar.gz"))
    text = krew.manifest("https://github.com/walras/walras", archives)
    manifest = yaml.safe_load(text)
    assert (manifest["kind"], manifest["metadata"]) == ("Plugin", {"name": "walras"})
    assert manifest["spec"]["version"] == "v7.8.9"
    assert [each["uri"] for each in manifest["spec"]["platforms"]] == [
        f"https://github.com/walras/walras/releases/download/v7.8.9/{each.name}"
        for each in archives
    ]
    program = installed_as_krew_does(manifest, tmp_path, tmp_path)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    assert "version 7.8.9" in run(program, "--version", env={"PATH": path})
    help_ = run(program, "what-if", "--help", env={"PATH": path})
    assert help_.startswith("Usage: kubectl walras what-if [OPTIONS]")
    for name in ("dirname", "readlink", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    done = subprocess.run(
        [program], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"kubectl walras: needs Python 3\.\d+, which .* install it\n", done.stderr)


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["walras-1.0.0.tgz"],
        ["kubectl-walras-1.0.0-linux-amd64.tar.gz", "kubectl-walras-1.0.1-linux-arm64.tar.gz"],
    ],
)
def test_a_manifest_needs_archives_of_one_version(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(SystemExit):
        krew.manifest("https://github.com/walras/walras", [tmp_path / each for each in names])


def test_the_workflow_publishes_the_manifest_with_the_archives_of_both_architectures() -> None:
    found = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    commands = [each.get("run", "") for each in found["jobs"]["publish"]["steps"]]
    (number,) = [n for n, each in enumerate(commands) if "tools/release.py krew" in each]
    assert commands[number].endswith("build/release*/kubectl-walras-*.tar.gz")
    (create,) = [each for each in commands[number:] if each.startswith("gh release create")]
    assert "build/release/*" in create
    assert "build/release-arm64/kubectl-walras-*" in create


@pytest.mark.release
def test_the_plugin_of_a_release_needs_python_alone(made: str, tmp_path: Path) -> None:
    manifest = yaml.safe_load((OUT / "walras.yaml").read_text())
    program = installed_as_krew_does(manifest, OUT, tmp_path)
    venv.create(tmp_path / "python")
    path = f"{tmp_path / 'python/bin'}:/usr/bin:/bin"
    cluster = ROOT / "examples" / "what-if" / "cluster.yaml"
    assert json.loads(run(program, "what-if", "-f", cluster, "-o", "json", env={"PATH": path}))


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("target", ["operator", "agent", "dashboard"])
def test_the_lock_file_of_an_image_has_hashes_of_all_that_it_needs(target: str) -> None:
    lines = (ROOT / "tools" / "locks" / f"{target}.txt").read_text().splitlines()
    locked = {}
    for line in lines:
        assert re.fullmatch(r"[a-z0-9._-]+==[^ ]+( --hash=sha256:[0-9a-f]{64})+", line), line
        name, _, version = line.partition(" ")[0].partition("==")
        locked[canonicalize_name(name)] = version
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        wanted = import_module("make_locks").requirements(target)
    finally:
        sys.path.pop(0)
    for each in map(Requirement, wanted):
        version = locked[canonicalize_name(each.name)]
        assert each.specifier.contains(version, prereleases=True), f"make_locks: {each}, {version}"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda each: each.name)
def test_actions_are_pinned_by_commit(workflow: Path) -> None:
    for line in re.findall(r"uses: (.*)", workflow.read_text()):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", line), line


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda each: each.name)
def test_no_job_that_runs_the_code_of_packages_may_write(workflow: Path) -> None:
    found = yaml.safe_load(workflow.read_text())
    assert found["permissions"] == {"contents": "read"}
    for name, job in found["jobs"].items():
        rights = job.get("permissions", {})
        commands = " ".join(each.get("run", "") for each in job["steps"])
        if set(rights.values()) & {"write"}:
            assert not re.search(r"\bmake\b|\bpip\b|npm|\.venv", commands), name
        else:
            assert "github.token" not in commands, name


@pytest.mark.system
def test_what_pushes_a_release_needs_no_package_but_pyyaml(tmp_path: Path) -> None:
    (tmp_path / "spdx_tools.py").write_text("raise ImportError")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "release.py"), "push", "--help"],
        env={"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.release
def test_the_checksums_are_those_of_all_files(made: str) -> None:
    lines = (OUT / "SHA256SUMS").read_text().splitlines()
    listed = {line.split()[1]: line.split()[0] for line in lines}
    there = {each.name for each in OUT.iterdir() if not each.name.startswith(".")}
    assert there == {*listed, "SHA256SUMS", "images.txt", "digests.yaml", "walras.yaml"}
    for name, digest in listed.items():
        assert hashlib.sha256((OUT / name).read_bytes()).hexdigest() == digest
    assert (OUT / "notes.md").read_text().startswith("### ")


@pytest.mark.release
def test_the_boms_name_what_is_inside(made: str) -> None:
    def packages(name: str) -> dict[str, str]:
        document = json.loads((OUT / f"{name}-{made}.spdx.json").read_text())
        assert document["spdxVersion"] == "SPDX-2.3"
        return {each["name"].lower(): each["versionInfo"] for each in document["packages"]}

    assert packages("walras") == {"walras": made}
    assert {"kopf", "kubernetes", "numpy", "walras"} <= packages("walras-operator").keys()
    assert {"psutil", "numpy", "kubernetes", "walras"} <= packages("walras-agent").keys()
    assert not {"cython", "kopf"} & packages("walras-agent").keys()


@pytest.mark.release
def test_the_command_line_installs_alone_from_the_wheel(made: str, tmp_path: Path) -> None:
    venv.create(tmp_path, with_pip=True)
    (wheel,) = OUT.glob("walras-*.whl")
    pip = (tmp_path / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", f"walras[cli] @ file://{wheel}")
    listed = run(*pip, "freeze", "--all").splitlines()
    names = {each.partition("==")[0].partition(" @ ")[0].lower() for each in listed}
    assert {"walras", "kubernetes"} <= names
    assert not {"kopf", "docker", "psutil"} & names
    walras = tmp_path / "bin/walras"
    assert made in run(walras, "--version")
    for command in ("top", "explain", "check"):
        assert "Examples" in run(walras, command, "--help")
    cluster = ROOT / "examples" / "what-if" / "cluster.yaml"
    dashboard = (str(walras), "dashboard", "-f", str(cluster))
    done = subprocess.run(dashboard, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'walras[dashboard]'" in done.stderr
    run(*pip, "install", f"walras[what-if] @ file://{wheel}")
    assert json.loads(run(walras, "what-if", "-f", cluster, "-o", "json"))


@pytest.mark.release
def test_the_chart_of_the_registry_names_images_that_are_there(made: str) -> None:
    helm = shutil.which("helm") or str(
        Path(run(sys.executable, ROOT / "tools/kubernetes_clients.py").strip()) / "helm"
    )
    chart = f"oci://{REGISTRY}/charts/walras"
    where = (chart, "--version", made, "--plain-http")
    on = ("--set", "dashboard.enabled=true")

    def images_of(*options: str | Path) -> set[str]:
        return {
            container["image"]
            for each in yaml.safe_load_all(run(helm, "template", "walras", *where, *on, *options))
            if each and each["kind"] in {"Deployment", "DaemonSet"}
            for container in each["spec"]["template"]["spec"]["containers"]
        }

    parts = ("operator", "agent", "dashboard")
    images = images_of()
    assert images == {f"{REGISTRY}/walras-{each}:{made}" for each in parts}
    pinned = set((OUT / "images.txt").read_text().split())
    assert images_of("-f", OUT / "digests.yaml") == pinned
    for image in images:
        host, _, path = image.partition("/")
        name, _, tag = path.partition(":")
        kind = "application/vnd.oci.image.index.v1+json, "
        kind += "application/vnd.docker.distribution.manifest.list.v2+json"
        url = f"http://{host}/v2/{name}/manifests/{tag}"
        with urlopen(Request(url, headers={"Accept": kind})) as answer:
            (only,) = json.loads(answer.read())["manifests"]
        assert only["platform"] == {"architecture": "amd64", "os": "linux"}
    assert "helm install walras oci://" in run(helm, "show", "readme", *where)
