"""Run the tests that need more than a Linux machine, in stages, and print one table of the results.

    python tools/verify.py [--gate] [STAGE ...]      (make verify STAGES="node guests")

Each stage but ``properties`` is a pytest marker (tests/conftest.py). A stage whose prerequisites
are missing is skipped, with the reason. The tools that start clusters and machines are in
tools/kubernetes and tools/machines; KUBE_VERSION chooses the version of Kubernetes. The table is
also written to build/verify/report.md, next to the log of each stage (STAGE.log) and the logs of
the servers that it started (STAGE.servers).

Exit status: 1 if a test failed, 0 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

ROOT = Path(__file__).parents[1]
MACHINES = ROOT / "tools" / "machines"
KUBE = ROOT / "tools" / "kubernetes" / "kube"
CANNOT_BUILD = 69
"""Exit status of ``kube build`` where something is missing; it prints what."""
REPORT = ROOT / "build" / "verify"
SERVERS = REPORT / f"servers.{os.getpid()}"
"""Logs of the API servers of this run: stages of two runs may go on at the same time."""
IMAGES = ROOT / "build" / "images"

Environment = dict[str, str]


class UnmetError(Exception):
    """A stage cannot run here; the message names what is missing."""


@dataclass(frozen=True)
class Stage:
    """A group of tests with the same prerequisites.

    Attributes:
        name: Name of the stage, and of the pytest marker of its tests.
        about: Subject of the tests, in one line.
        provide: Starts what the tests need, and yields environment variables for them.
        runs: Arguments of each run of pytest.
        gate: Whether CI runs the tests of this stage that are marked ``gate``.
    """

    name: str
    about: str
    provide: Callable[[], AbstractContextManager[Environment]]
    runs: Sequence[Sequence[str]] = field(default=((),))
    gate: bool = False


@dataclass(frozen=True)
class StageResult:
    """Result of a stage: counts of tests, and the reason if the stage did not run to its end."""

    stage: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    minutes: float = 0.0
    reason: str = ""


def tool(name: str) -> str:
    """Return the path of a tool in tools/machines, which installs what it needs.

    Raises:
        UnmetError: This is no Debian, or this user is not root.
    """
    if not can_install():
        raise UnmetError(f"tools/machines/{name} needs root on Debian")
    return str(MACHINES / name)


def can_install() -> bool:
    """Return whether this user may install packages of Debian."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def last_line(*command: str) -> str:
    """Run a command and return the last line of its standard output."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()[-1]


def quiet(*command: str, **variables: str) -> None:
    """Run a command that must succeed, and discard its standard output."""
    environment = os.environ | variables
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


@cache
def clients() -> str:
    """Return the folder that contains helm and kubectl."""
    return last_line(sys.executable, str(ROOT / "tools" / "kubernetes_clients.py"))


def on_path() -> Environment:
    """Return a PATH on which tests find helm and kubectl."""
    return {"PATH": f"{clients()}{os.pathsep}{os.environ['PATH']}"}


@contextmanager
def nothing() -> Iterator[Environment]:
    """Check for two CPUs, which is all that the tests need."""
    if len(os.sched_getaffinity(0)) < 2:
        raise UnmetError("needs two CPUs")
    yield {}


@contextmanager
def browser() -> Iterator[Environment]:
    """Check for Chromium and its driver, and install what looks at the page and what builds it."""
    for program in ("chromium", "chromedriver", "npm"):
        if shutil.which(program) is None:
            raise UnmetError(f"needs {program} (Debian's packages chromium, chromium-driver, npm)")
    quiet("npm", "--prefix", str(ROOT / "dashboard" / "web"), "ci", "--no-audit", "--no-fund")
    yield {}


RECORDINGS = {"util-linux": "*/tests/*/lscpu/*", "hwloc": "*/tests/hwloc/linux/*"}
"""Source packages of Debian with recordings of machines, and where these are."""


@contextmanager
def machines() -> Iterator[Environment]:
    """Unpack recordings of machines, from the sources of this machine's release of Debian."""
    if shutil.which("apt-get") is None:
        raise UnmetError("needs apt-get, to download source packages of Debian")
    command = ["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)"]
    known = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    where = [line for line in known.splitlines() if re.search(r"/debian \w+$", line)]
    if not where:
        raise UnmetError("apt-get knows no archive of Debian")
    with tempfile.TemporaryDirectory(prefix="walras-machines-") as folder:
        lists, parts, sources = (Path(folder, each) for each in ("lists", "parts", "sources.list"))
        (lists / "partial").mkdir(parents=True)
        parts.mkdir()
        sources.write_text(f"deb-src {where[0]} main\n")
        own = {"SourceList": sources, "SourceParts": parts}
        options = [f"-oDir::Etc::{name}={path}" for name, path in own.items()]
        as_root = "-oAPT::Sandbox::User=root"
        apt = ["apt-get", "-qq", f"-oDir::State::Lists={lists}", as_root, *options]
        for command in (["update"], ["source", "--download-only", *RECORDINGS]):
            if subprocess.run([*apt, *command], cwd=folder, check=False).returncode:
                raise UnmetError(f"apt-get {command[0]} failed: no sources at {where[0]}")
        for package, files in RECORDINGS.items():
            (archive,) = Path(folder).glob(f"{package}_*.orig.tar.*[!c]")
            Path(folder, package).mkdir()
            into = ["--directory", str(Path(folder, package)), "--strip-components=1"]
            quiet("tar", "--extract", "--file", str(archive), *into, "--wildcards", files)
        yield {"WALRAS_MACHINES": folder}


@contextmanager
def new_examples() -> Iterator[Environment]:
    """Make property tests draw new random examples."""
    yield {"WALRAS_NEW_EXAMPLES": "yes", "WALRAS_HISTORIES": "3000"}


@contextmanager
def docker() -> Iterator[Environment]:
    """Provide the Docker engine at DOCKER_HOST, or start one."""
    if os.environ.get("DOCKER_HOST"):
        yield {}
        return
    engine = tool("docker-engine")
    try:
        yield {"DOCKER_HOST": last_line(engine, "up")}
    finally:
        quiet(engine, "down")


@contextmanager
def guest() -> Iterator[Environment]:
    """Provide the tool that runs a command in an emulated machine; it makes kernels when needed."""
    machine = os.environ.get("WALRAS_GUEST") or tool("guest")
    quiet(machine, "--smp", "sockets=1,cores=1,threads=1", "--", "true")
    yield {"WALRAS_GUEST": machine}


@contextmanager
def control_plane() -> Iterator[Environment]:
    """Provide an API server with its controllers and without a node."""
    with kubernetes("nokubelet") as found:
        yield found


@contextmanager
def kubernetes(*kind: str) -> Iterator[Environment]:
    """Provide the cluster of KUBECONFIG and WALRAS_KUBE, or start one."""
    if os.environ.get("KUBECONFIG") and os.environ.get("WALRAS_KUBE"):
        yield on_path()
        return
    kube = built_kubernetes()
    quiet(kube, "down")  # left over from a run that was interrupted
    try:
        config = last_line(kube, "up", *kind)
        try:
            yield {"KUBECONFIG": config, "WALRAS_KUBE": kube} | on_path()
        finally:
            keep_logs(Path(config).parent)
    finally:
        quiet(kube, "down")


def built_kubernetes() -> str:
    """Build the Kubernetes of KUBE_VERSION if that has not been done; return the tool's path.

    Raises:
        UnmetError: This user is not root, or this machine cannot build it.
    """
    if os.geteuid():
        raise UnmetError("tools/kubernetes/kube needs root")
    done = subprocess.run([KUBE, "build"], check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode == CANNOT_BUILD:
        raise UnmetError(f"tools/kubernetes/kube {done.stdout.strip()}")
    done.check_returncode()
    return str(KUBE)


def keep_logs(folder: Path) -> None:
    """Copy the logs of servers, which their tool removes when it stops them."""
    kept = SERVERS
    kept.mkdir(exist_ok=True)
    for log in (*folder.glob("*.log"), *folder.glob("log")):
        shutil.copy(log, kept)


@contextmanager
def registry() -> Iterator[Environment]:
    """Provide a registry of images on this machine, Debian's package docker-registry."""
    program = shutil.which("docker-registry")
    if not shutil.which("buildah") or program is None:
        raise UnmetError("needs buildah and docker-registry (Debian's packages of these names)")
    base, inside = base_image()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yml"
        storage = {"filesystem": {"rootdirectory": folder}}
        http = {"addr": f"127.0.0.1:{REGISTRY_PORT}"}
        config.write_text(json.dumps({"version": "0.1", "storage": storage, "http": http}))
        with subprocess.Popen(
            [program, "serve", str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as server:
            try:
                chosen = {"WALRAS_BASE_IMAGE": base} if base else {}
                yield (
                    inside | on_path() | chosen | {"WALRAS_REGISTRY": f"localhost:{REGISTRY_PORT}"}
                )
            finally:
                server.terminate()


def images() -> None:
    """Build the images of operator, agent and dashboard."""
    options = os.environ.get("IMAGE_ARGS", "").split()
    base, inside = ("", {}) if options else base_image()
    if base:
        options = ["--base", base]
    script = str(ROOT / "tools" / "make_images.py")
    quiet(sys.executable, script, "--archives", str(IMAGES), *options, **inside)


def base_image() -> tuple[str, Environment]:
    """Return the image of the tool ``base-image``, and variables for builds on it.

    Where it cannot be made, nothing: images are built on one from a registry then.
    """
    if not can_install():
        return "", {}
    quiet(tool("base-image"), "make")
    # Build on a machine that is itself a container.
    return "localhost/python-base:local", {
        "BUILDAH_ISOLATION": "chroot",
        "STORAGE_DRIVER": "vfs",
    }


@contextmanager
def node() -> Iterator[Environment]:
    """Provide a cluster whose only node is this machine, and build the images."""
    if os.geteuid():
        raise UnmetError("reading the node's cgroups needs root")
    images()
    with kubernetes() as found:
        yield found


@contextmanager
def virtual_node() -> Iterator[Environment]:
    """Provide a cluster whose only node is an emulated machine with systemd and cgroup v2."""
    with emulated(control_plane) as found:
        yield found


@contextmanager
def node_with_hyperthreads() -> Iterator[Environment]:
    """Provide the same with four cores of two hyperthreads each."""
    with emulated(control_plane, "--smp", "sockets=2,cores=2,threads=2") as found:
        yield found


@contextmanager
def two_nodes() -> Iterator[Environment]:
    """Provide a cluster of this machine and of an emulated one."""
    with emulated(kubernetes) as found:
        yield found


@contextmanager
def emulated(
    cluster: Callable[[], AbstractContextManager[Environment]], *options: str
) -> Iterator[Environment]:
    """Provide a cluster that an emulated machine has joined as a node."""
    machine = tool("vmnode")
    images()
    quiet(machine, "build")
    with cluster() as found:
        # An emulated machine takes minutes for an image, and no test there needs the dashboard's.
        paths = (str(IMAGES / f"walras-{part}.tar") for part in ("operator", "agent"))
        archives = chain.from_iterable(("--image", path) for path in paths)
        quiet(machine, "down")
        try:
            quiet(machine, "up", *options, *archives)
            yield found | {"WALRAS_VMNODE": machine}
        finally:
            quiet(machine, "down")


REGISTRY_PORT = 15000
MINUTES = 120
"""After which a test hangs: some play an hour of histories."""
GATE_MINUTES = 25
"""The same for tests that CI runs: its limit for all leaves room to say which test hung."""

STAGES = (
    Stage(
        "properties",
        "property tests on new random examples",
        new_examples,
        runs=(("--numprocesses=auto", "-m", "not (system or verify)"),),
    ),
    Stage(
        "interleaving",
        "others write, reads fail and the agent dies at any moment (WALRAS_HISTORIES)",
        nothing,
        runs=(("--numprocesses=auto",),),
    ),
    Stage("speed", "accuracy of measurements of real programs", nothing),
    Stage("browser", "the dashboard's page in Chromium, and its bundle", browser),
    Stage("machines", "cores, sockets and NUMA nodes of machines that others recorded", machines),
    Stage("docker", "profiling of containers by a Docker engine", docker),
    Stage(
        "guest",
        "agent and local runs on other kernels and topologies",
        guest,
        runs=(("--numprocesses=auto",),),  # machines of their own
        gate=True,
    ),
    Stage("api_server", "operator, agent, CLI and policies on an API server", control_plane),
    Stage("node", "an installation on a real node, from install to uninstall", node, gate=True),
    Stage("soak", "SOAK_MINUTES (20) of faults and attacks on a real node", node),
    Stage("release", "a release, from the files to what a user installs from a registry", registry),
    Stage("vmnode", "a node with systemd, cgroup v2, eight CPUs, two NUMA nodes", virtual_node),
    Stage(
        "vmnode_smt",
        "a node with hyperthreads, whose kubelet has other settings",
        node_with_hyperthreads,
    ),
    Stage("two_nodes", "a market of two nodes at once, of both cgroup versions", two_nodes),
    Stage("scale", "1 000 nodes with 10 000 pods, agents simulated", control_plane),
)


def remove_reports(stage: Stage) -> None:
    """Remove the reports of an earlier run of a stage."""
    for old in REPORT.glob(f"{stage.name}[-.]*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()


def run(stage: Stage, *, gate: bool) -> StageResult:
    """Run a stage; print the output of its tests, and write it to the log of the stage."""
    began = time.monotonic()
    log = REPORT / f"{stage.name}.log"
    status, reports = 0, []
    try:
        with ExitStack() as ends, log.open("w") as file:
            variables = ends.enter_context(stage.provide())
            for number, arguments in enumerate(stage.runs):
                reports.append(REPORT / f"{stage.name}-{number}.xml")
                marker = f"{stage.name} and gate" if gate else stage.name
                limit = f"--timeout={60 * (GATE_MINUTES if gate else MINUTES)}"
                status |= pytest(file.fileno(), marker, reports[-1], (limit, *arguments), variables)
    except UnmetError as unmet:
        return StageResult(stage.name, reason=str(unmet))
    except subprocess.CalledProcessError as error:
        problem = f"{' '.join(map(str, error.cmd))} failed with exit status {error.returncode}"
        return StageResult(
            stage.name, failed=1, minutes=(time.monotonic() - began) / 60, reason=problem
        )
    finally:
        if SERVERS.exists():
            SERVERS.rename(REPORT / f"{stage.name}.servers")
    passed, failed, skipped = count_tests(reports)
    crashed = status != 0 and not failed
    return StageResult(
        stage.name,
        passed,
        failed + crashed,
        skipped,
        (time.monotonic() - began) / 60,
        f"pytest failed with exit status {status}; see {log.relative_to(ROOT)}" if crashed else "",
    )


def pytest(
    log: int, marker: str, report: Path, arguments: Sequence[str], variables: Environment
) -> int:
    """Run pytest with its output in a log, too; return its exit status."""
    report.unlink(missing_ok=True)
    order = (
        "-p",
        "no:randomly",
    )  # tests on a node depend on those before them
    command = (sys.executable, "-m", "pytest", *order, "-m", marker, f"--junitxml={report}")
    with subprocess.Popen(
        [*command, "--durations=10", *arguments],
        cwd=ROOT,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None  # noqa: S101 - asked for above
        while piece := os.read(process.stdout.fileno(), 65536):
            os.write(log, piece)
            os.write(sys.stdout.fileno(), piece)
    return process.returncode


def count_tests(reports: Iterable[Path]) -> tuple[int, int, int]:
    """Return how many tests passed, failed and were skipped, from JUnit reports."""
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for report in filter(Path.exists, reports):
        for suite in ET.parse(report).getroot().iter("testsuite"):  # noqa: S314 - ours
            for name in totals:
                totals[name] += int(suite.get(name, "0"))
    failed = totals["failures"] + totals["errors"]
    return totals["tests"] - failed - totals["skipped"], failed, totals["skipped"]


def table(results: Iterable[StageResult]) -> str:
    """Return the results as a Markdown table with aligned columns."""
    rows: list[tuple[str, ...]] = [("stage", "passed", "failed", "skipped", "minutes", "")]
    rows += [
        (each.stage, "-", "-", "-", "-", f"skipped: {each.reason}")
        if each.reason and not each.failed
        else (
            each.stage,
            *map(str, (each.passed, each.failed, each.skipped)),
            f"{each.minutes:.1f}",
            each.reason,
        )
        for each in results
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))
    lines = (map(str.ljust, row, widths) for row in rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Run the requested stages; exit with 1 if a test failed."""
    arguments = parse()
    # .ci/run ends tests by it, which say where they are; what they needed is ended all the same.
    signal.signal(signal.SIGABRT, lambda *_: None)
    chosen = [
        each
        for each in STAGES
        if (each.name in arguments.stages or not arguments.stages)
        and (each.gate or not arguments.gate)
    ]
    REPORT.mkdir(parents=True, exist_ok=True)
    results = []
    for stage in chosen:
        remove_reports(stage)
        print(f"\n== {stage.name}: {stage.about}", flush=True)
        results.append(run(stage, gate=arguments.gate))
        (REPORT / "report.md").write_text(table(results))
    print(f"\n{table(results)}\nAlso in {(REPORT / 'report.md').relative_to(ROOT)}")
    sys.exit(1 if any(each.failed for each in results) else 0)


def parse() -> argparse.Namespace:
    """Parse the command line."""
    stages = "\n".join(f"  {each.name:18} {each.about}" for each in STAGES)
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"stages:\n{stages}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "stages",
        nargs="*",
        metavar="STAGE",
        help="stages to run  [default: all]",
    )
    parser.add_argument("--gate", action="store_true", help="run only the tests that CI runs")
    arguments = parser.parse_args()
    names = [each.name for each in STAGES]
    if unknown := sorted(set(arguments.stages) - set(names)):
        parser.error(f"unknown stage: {', '.join(unknown)}; stages are {', '.join(names)}")
    return arguments


if __name__ == "__main__":
    main()
