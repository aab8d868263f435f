"""`walras local run` on machines that the test machine is not: 1, 8 and 64 CPUs, SMT, a cpuset.

What runs in the emulated machine is this module itself: as a program it writes documents, runs
them, and checks who ran where. Kernels are not compiled in there: that takes minutes on an
emulated processor.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("core", "api", "service", "node-agent", "profiler", "view", "cli")
NEEDED = (
    "annotated-types",
    "click",
    "markdown-it-py",
    "mdurl",
    "numpy",
    "pydantic",
    "pydantic_core",
    "pygments",
    "PyYAML",
    "rich",
    "typing-extensions",
    "typing-inspection",
)

PROGRAM = """
import os, sys, time
ends = time.monotonic() + 4
while time.monotonic() < ends:
    print(",".join(map(str, sorted(os.sched_getaffinity(0)))), sys.argv[1], flush=True)
    time.sleep(0.2)
"""

USERS = {"ada": 3, "bob": 2, "cyd": 1}


def documents() -> str:
    """Three users; ada has two jobs of unequal parallelism."""
    texts = [
        f"{{apiVersion: walras.dev/v1alpha1, kind: Entitlement, metadata: {{name: {user}}}, "
        f"spec: {{shares: {shares}, namespaces: [default]}}}}"
        for user, shares in USERS.items()
    ]
    for name, user, fraction in (
        ("wide", "ada", 0.98),
        ("narrow", "ada", 0.6),
        ("middle", "bob", 0.9),
        ("small", "cyd", 0.9),
    ):
        texts.append(
            f"{{apiVersion: walras.dev/v1alpha1, kind: MarketJob, metadata: {{name: {name}}}, "
            f"spec: {{entitlement: {user}, command: [python3, program.py, '{{threads}}'], "
            f"parallelFraction: '{fraction}'}}}}"
        )
    return "\n---\n".join(texts)


def run_and_check(cpus: set[int], siblings: int) -> None:
    """Inside the guest: run the documents on these CPUs, and check who was where."""
    folder = Path("/tmp/market")  # noqa: S108 - the guest is thrown away
    folder.mkdir(exist_ok=True)
    (folder / "market.yaml").write_text(documents())
    (folder / "program.py").write_text(PROGRAM)
    os.sched_setaffinity(0, cpus)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "walras_cli", "local", "run", "-o", "json"),
            *("--logs", str(folder / "logs"), str(folder / "market.yaml")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["machine"]["cores"] == len(cpus) // siblings
    seen = {}
    for job in result["decisions"][0]["jobs"]:
        first, threads = (folder / f"logs/default.{job['name']}.log").read_text().split()[:2]
        seen[job["name"]] = {int(cpu) for cpu in first.split(",")}
        assert int(threads) == len(cpus)
        assert seen[job["name"]] <= cpus
        if siblings == 2:
            assert whole_cores(seen[job["name"]])
    held = {job["name"]: job["held"] for job in result["decisions"][0]["jobs"]}
    shared = cpus - {
        cpu for cpu in cpus if sum(cpu in seen_by_job for seen_by_job in seen.values()) == 1
    }
    assert len(shared) == len(cpus) - siblings * sum(map(int, held.values()))
    for name, cores in held.items():
        own = seen[name] - shared
        assert len(own) == siblings * int(cores), (name, cores, seen)
        assert seen[name] == (own | shared if cores % 1 else own), (name, cores, seen)
    assert not list(Path("/sys/fs/cgroup").rglob("walras-*"))


def whole_cores(cpus: set[int]) -> bool:
    """Return whether no core is cut in two."""
    lists = (
        Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        for cpu in cpus
    )
    siblings = [text.strip().replace("-", ",").split(",") for text in lists]
    return all({int(first), int(last)} <= cpus for first, last in siblings)


if __name__ == "__main__":
    everything = os.sched_getaffinity(0)
    per_core = int(sys.argv[1])
    run_and_check(everything, per_core)
    if len(everything) == 8:  # as in a container that may use some of the machine's CPUs
        run_and_check({1, 2, 5}, 1)
else:
    import pytest

    from emulated import compile_ahead, copy_distributions, in_a_guest, run_inside

    pytestmark = in_a_guest

    @pytest.fixture(scope="module")
    def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A folder with what Walras needs, for a guest that has nothing but Python."""
        folder = tmp_path_factory.mktemp("guest") / "site"
        copy_distributions(NEEDED, folder)
        for part in PARTS:
            for package in (ROOT / part).glob("walras*"):
                shutil.copytree(
                    package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__")
                )
        compile_ahead(folder)
        return folder

    @pytest.mark.parametrize(
        ("cpus", "siblings", "kernel", "version"),
        [
            ("sockets=1,cores=1,threads=1", 1, "6.12", "v2"),
            ("sockets=1,cores=8,threads=1", 1, "6.1", "v1"),
            ("sockets=2,cores=16,threads=2", 2, "6.12", "v2"),
        ],
        ids=["one CPU", "8 CPUs and a part of them", "64 CPUs, two sockets with SMT"],
    )
    def test_every_job_runs_on_what_its_user_bought(
        site: Path, cpus: str, siblings: int, kernel: str, version: str
    ) -> None:
        inside = run_inside(
            f"PYTHONPATH={site} OPENBLAS_NUM_THREADS=1 python3 -B {Path(__file__).name} {siblings}",
            [Path(__file__).parent, site],
            smp=cpus,
            kernel=kernel,
            cgroup=version,
        )
        assert inside.status == 0, inside.output
