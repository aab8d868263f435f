"""Walras on a real node while faults and attacks follow each other, in a random order.

``SOAK_MINUTES`` (20) says for how long, ``SOAK_SEED`` (1) gives the order. After each fault
everything must be as it should be again. All the while a watcher, which uses no code of Walras,
looks for CPUs with two owners, OOM kills, grants that are reported as enforced and are not, and
busy pods that have less CPU time than they bought. The report is ``build/verify/soak.md``.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import random
import signal
import statistics
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
import pytest

from cluster_tools import (
    KUBECONFIG,
    ROOT,
    SYSTEM,
    ToolError,
    answers,
    apply,
    containers,
    get,
    helm,
    kubectl,
)
from installed import CHART, IMAGE, PARTS, Installed, begin_programs, withdraw
from node_rules import Spent
from shared_node import BUSY_PROGRAM, OURS, TEAMS, deployment, entitlement, job, namespace
from waiting import eventually
from walras_api.contract import PARTNER_ANNOTATION, STATIC_POD_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster_tools import Node

MINUTES = float(os.environ.get("SOAK_MINUTES", "20"))
pytestmark = [pytest.mark.soak, pytest.mark.timeout(60 * (MINUTES + 60))]

SEED = int(os.environ.get("SOAK_SEED", "1"))
REPORT = ROOT / "build" / "verify" / "soak.md"
STATE = Path("/var/lib/walras-soak")
QUIET = 400.0
"""Seconds after a fault in which everything must be as it should be.

The kubelet waits up to five minutes before it starts a container again that was killed often.
"""

SHARES = [(9, 1), (1, 9), (5, 4)]
"""Shares of the two teams, of which each settling takes others than the last one."""

_log = logging.getLogger(__name__)

BUSY = ("index", "align")
"""Programs that use all CPUs that they can have, one of each team."""

LAB = "soak-lab"
"""Namespace of pods that come and go, and of attackers."""


class Step(NamedTuple):
    """A fault, the seconds until all was well, and what Walras's programs took then.

    Attributes:
        usage: Memory in MiB, threads and open files of operator and agent.
    """

    fault: str
    seconds: float
    usage: dict[str, tuple[float, int, int]]


@dataclass
class Soak:
    """Walras on the node, and what is expected of it.

    Attributes:
        installed: Walras, the teams' programs and the watcher.
        lots: Draws the faults.
        steps: Lines about all that has happened.
        expected: Values that an uninstall must leave in each container that is still there.
        quantum: Highest Karma quantum that was seen.
        shares: Shares of the teams, as last applied.
    """

    installed: Installed
    lots: random.Random
    steps: list[Step] = field(default_factory=list)
    expected: dict[str, dict[str, str | None]] = field(default_factory=dict)
    quantum: int = 0
    shares: tuple[int, int] = SHARES[0]

    def change_shares(self) -> None:
        """Apply other shares of the teams."""
        self.shares = self.lots.choice([each for each in SHARES if each != self.shares])
        apply(*map(entitlement, TEAMS, self.shares))

    def wrong(self) -> str:
        """Return what is not as it should be; empty if nothing is."""
        if len(self.installed.shared.groups()) < sum(map(len, TEAMS.values())):
            return "not all programs run"
        for team in TEAMS:
            found = get(f"/apis/walras.dev/v1alpha1/entitlements/{team}")
            conditions = found.get("status", {}).get("conditions", ())
            decided = max((each.get("observedGeneration", 0) for each in conditions), default=0)
            if decided != found["metadata"]["generation"]:
                return f"the operator has not decided on the shares of {team}"
        if problem := self.installed.shared.amiss():
            return problem
        market = get("/apis/walras.dev/v1alpha1/markets/default").get("status", {})
        quantum = int(market.get("ledger", {}).get("quantum", 0))
        assert quantum >= self.quantum, "a settled quantum was lost"
        self.quantum = quantum
        return ""

    def settle(self, fault: str) -> None:
        """Change the shares, and wait until these hold and everything is as it should be."""
        began = time.monotonic()
        said, changed = "the API server does not answer", False

        def well() -> bool:
            nonlocal said, changed
            self.start_kubelet()
            if not answers():
                return False
            with suppress(ToolError):
                if not changed:
                    self.change_shares()
                    changed = True
                said = self.wrong()
                return not said
            return False

        assert eventually(well, QUIET, pause=0.5), f"after {fault}: {said}"
        seconds = time.monotonic() - began
        self.steps.append(Step(fault, seconds, self.usage()))
        _log.info("%s: %.1f s", fault, seconds)
        assert self.installed.watcher.violations() == [], fault
        assert self.installed.watcher.short() == [], fault

    def judged_seconds(self) -> float:
        """Return the time in which pods were busy under an enforced grant, summed over pods."""
        lines = self.installed.watcher.lines()
        spent = [Spent(*each["spent"][1:]) for each in lines if "spent" in each]
        return sum(each.seconds for each in spent if each.is_busy)

    def start_kubelet(self) -> None:
        """Start the kubelet again if it has ended, as systemd does.

        A kubelet ends if containerd does not answer when it starts.
        """
        file = Path(KUBECONFIG).parent / "kubelet.pid"
        if file.exists() and not psutil.pid_exists(int(file.read_text())):
            self.installed.node.restart("kubelet")

    def usage(self) -> dict[str, tuple[float, int, int]]:
        found = {}
        for part in ("operator", "agent"):
            group = self.installed.node.cgroups.containers()
            for container in containers(self.installed.pod(part)):
                for pid in self.installed.node.cgroups.processes(group.get(container, "/none")):
                    with suppress(psutil.Error):
                        process = psutil.Process(pid)
                        memory = process.memory_info().rss / 2**20
                        found[part] = memory, process.num_threads(), process.num_fds()
        return found


def kill(part: str) -> Callable[[Soak], None]:
    def fault(soak: Soak) -> None:
        soak.installed.node.kill(soak.installed.pod(part))

    fault.__name__ = f"{part} killed"
    return fault


def restart(part: str) -> Callable[[Soak], None]:
    def fault(soak: Soak) -> None:
        soak.installed.node.restart(part)

    fault.__name__ = f"{part} killed and started"
    return fault


def stop(part: str) -> Callable[[Soak], None]:
    """Stop all processes of a part for longer than its Lease, and continue them."""

    def fault(soak: Soak) -> None:
        cgroups, groups = soak.installed.node.cgroups, soak.installed.node.cgroups.containers()
        for number, seconds in ((signal.SIGSTOP, 10), (signal.SIGCONT, 0)):
            for container in containers(soak.installed.pod(part)):
                for pid in cgroups.processes(groups.get(container, "/none")):
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)
            time.sleep(seconds)

    fault.__name__ = f"{part} stopped for 10 s"
    return fault


def shares_changed(soak: Soak) -> None:
    soak.change_shares()


def pod_replaced(soak: Soak) -> None:
    team = soak.lots.choice(list(TEAMS))
    kubectl("delete", "pods", "-n", team, "-l", f"app={soak.lots.choice(TEAMS[team])}")


def qos_classes(soak: Soak) -> None:
    """Create and remove pods of each QoS class, and one that crashes over and over."""
    same = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "100m"}}
    same["limits"]["memory"] = "32Mi"
    burst = {"requests": {"cpu": "50m"}, "limits": {"cpu": "200m"}}
    documents = []
    for name, resources, script in (
        ("guaranteed", same, "import time; time.sleep(9999)"),
        ("burstable", burst, "import time; time.sleep(9999)"),
        ("besteffort", {}, "import time; time.sleep(9999)"),
        ("crashes", {}, "raise SystemExit(1)"),
    ):
        made = deployment(LAB, name, IMAGE, script)
        made["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
        documents.append(made)
    apply(*documents)
    time.sleep(soak.lots.uniform(5, 15))
    kubectl("delete", "deployments", "-n", LAB, "--all", "--wait=false")


def resized_from_outside(soak: Soak) -> None:
    """A limit is written as a kubelet does that resizes a pod; it is the one to restore."""
    groups = soak.installed.node.cgroups.containers()
    container, settings = soak.lots.choice(sorted(soak.expected.items()))
    if container not in groups or "cpu.cfs_quota_us" not in settings:
        return
    # The agent sets multiples of 100, and could not tell one of these from its own value.
    quota = str(soak.lots.choice([150_001, 170_001, 190_001]))
    path = Path("/sys/fs/cgroup/cpu", groups[container])
    with suppress(OSError):  # a parent's quota may be lower
        (path / "cpu.cfs_quota_us").write_text(quota)
        settings["cpu.cfs_quota_us"] = quota


def attacks(soak: Soak) -> None:
    """A tenant writes what it can."""
    victim = soak.installed.shared.uid("train")
    lures = []
    for name, told in (
        ("lure", {PARTNER_ANNOTATION: victim}),
        ("static", {STATIC_POD_ANNOTATION: victim}),
        ("pause", {}),
    ):
        made = deployment(LAB, name, IMAGE, "import time; time.sleep(9999)")
        pod = made["spec"]["template"]
        pod["metadata"]["annotations"] = told
        pod["metadata"]["labels"] |= {"big": "x" * 60}
        lures.append(made)
    giant = deployment(LAB, "giant", IMAGE)["spec"]["template"]
    giant["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
    giant["spec"]["nodeName"] = soak.installed.node.name
    giant = {"apiVersion": "v1", "kind": "Pod", **giant}
    giant["metadata"] |= {"name": "giant", "namespace": LAB}
    liar = job(LAB, "lure")
    liar["spec"] |= {"entitlement": "vision", "parallelFraction": "0.999", "minCores": 2**20}
    lie = {
        "apiVersion": OURS,
        "kind": "SpeedupProfile",
        "metadata": {"name": "train", "namespace": LAB, "annotations": {"x": "y" * 100_000}},
        "spec": {"parallelFraction": "1"},
    }
    apply(*lures, giant, liar, lie)
    time.sleep(soak.lots.uniform(5, 15))
    for kind in ("deployments", "pods", "marketjobs", "speedupprofiles"):
        kubectl("delete", kind, "-n", LAB, "--all", "--wait=false")


def full_disk(soak: Soak) -> None:
    """The disk of the agent's state is full while plans come."""
    ballast = STATE / "ballast"
    with suppress(OSError), ballast.open("wb") as file:
        while True:
            file.write(b"x" * 65536)
            file.flush()
    soak.change_shares()
    time.sleep(soak.lots.uniform(3, 10))
    if soak.lots.random() < 0.5:
        soak.installed.node.kill(soak.installed.pod("agent"))
        time.sleep(5)
    ballast.unlink()


def inotify_used_up(soak: Soak) -> None:
    """All inotify instances of root are taken while the agent starts anew."""
    libc = ctypes.CDLL(None, use_errno=True)
    taken = []
    while (descriptor := libc.inotify_init1(os.O_CLOEXEC)) >= 0:
        taken.append(descriptor)
    try:
        soak.installed.node.kill(soak.installed.pod("agent"))
        time.sleep(soak.lots.uniform(5, 15))
    finally:
        for descriptor in taken:
            os.close(descriptor)


def allocation_deleted(soak: Soak) -> None:
    kubectl("delete", "nodeallocation", soak.installed.node.name)


def leases_deleted(_: Soak) -> None:
    kubectl("delete", "leases", "-n", SYSTEM, "--all")


def upgraded(soak: Soak) -> None:
    verbose = soak.lots.choice(["true", "false"])
    changed = f"operator.log.verbose={verbose},agent.log.verbose={verbose}"
    helm("upgrade", "walras", CHART, *soak.installed.options(), "--set", changed)


def rolled_back(soak: Soak) -> None:
    upgraded(soak)  # a new installation has no earlier revision
    helm("rollback", "walras", "--wait", "--timeout", "5m")


def installed_anew(soak: Soak) -> None:
    """Uninstall, compare every file of the programs with what it should be, and install."""
    helm("uninstall", "walras", "--wait", "--timeout", "5m")
    left = soak.installed.settings()
    for container, settings in left.items():
        wanted = soak.expected.setdefault(container, settings)
        assert settings == wanted, f"{container} after an uninstall"
    apply_installation(soak.installed)


FAULTS: list[Callable[[Soak], None]] = [
    *(kill(part) for part in ("operator", "agent")),
    *(stop(part) for part in ("operator", "agent")),
    *(restart(part) for part in ("kubelet", "containerd", "apiserver", "etcd")),
    *(shares_changed, shares_changed, pod_replaced, pod_replaced, qos_classes),
    *(resized_from_outside, attacks, full_disk, inotify_used_up, allocation_deleted),
    *(leases_deleted, upgraded, rolled_back, installed_anew),
]


def apply_installation(installed: Installed) -> None:
    helm("install", "walras", CHART, "--create-namespace", *installed.options())


@contextmanager
def small_disk() -> Iterator[None]:
    """Mount a small file system for the agent's state."""
    STATE.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", STATE], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", STATE], check=True)
        STATE.rmdir()


@pytest.fixture
def soak(node: Node, tmp_path: Path) -> Iterator[Soak]:
    installed = Installed(tmp_path, node)
    values = json.loads(installed.values.read_text())
    for part in ("operator", "agent", "hooks"):  # which get ahead beside programs that spin
        values[part]["resources"] = {"requests": {"cpu": "50m", "memory": "32Mi"}}
    values["agent"]["stateFolder"] = str(STATE)
    values["market"]["spec"]["memory"] = {"sliceSize": "16Mi"}
    installed.values.write_text(json.dumps(values))
    made = Soak(installed, random.Random(SEED))
    with small_disk():
        try:
            for archive in PARTS:
                node.load(archive)
            begin_programs(installed.shared, scripts=dict.fromkeys(BUSY, BUSY_PROGRAM))
            made.expected = installed.settings()
            apply(namespace(LAB))
            apply_installation(installed)
            yield made
        finally:
            report(made)
            withdraw("2m")
            with suppress(ToolError):
                kubectl("delete", "namespace", LAB, "--wait=false")
            installed.watcher.close()


def memory(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "spec": {**document["spec"], "memory": {"demand": "64Mi"}}}


def test_faults_and_attacks_leave_nothing_wrong(soak: Soak) -> None:
    apply(*map(entitlement, TEAMS, soak.shares))
    apply(*(memory(job(team, each)) for team, programs in TEAMS.items() for each in programs))
    soak.settle("install")
    end = time.monotonic() + 60 * MINUTES
    while time.monotonic() < end:
        fault = soak.lots.choice(FAULTS)
        fault(soak)
        soak.settle(fault.__name__.replace("_", " "))
        time.sleep(soak.lots.uniform(0, 5))
    installed_anew(soak)
    soak.settle("installed anew")
    assert soak.judged_seconds() > 60 * MINUTES / 4, "hardly any CPU time was judged"


def report(soak: Soak) -> None:
    """Write what happened as tables."""
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    faults: dict[str, list[float]] = {}
    for step in soak.steps:
        faults.setdefault(step.fault, []).append(step.seconds)
    watcher, judged = soak.installed.watcher, soak.judged_seconds()
    violations = len(watcher.violations()) + len(watcher.short())
    counts = f"{len(soak.steps)} faults, {violations} violations"
    lines = [
        f"Seed {SEED}, {counts}, CPU time of busy pods judged for {judged:.0f} s.",
        "",
        "| fault | times | median seconds to recover | longest |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {len(each)} | {statistics.median(each):.1f} | {max(each):.1f} |"
        for name, each in sorted(faults.items())
    ]
    lines += ["", "| part | | MiB | threads | open files |", "|---|---|---|---|---|"]
    for part in ("operator", "agent"):
        usage = [step.usage[part] for step in soak.steps if part in step.usage]
        for when, some in (
            ("first quarter", usage[: len(usage) // 4 or 1]),
            ("last quarter", usage[-(len(usage) // 4 or 1) :]),
        ):
            if some:
                memory_, threads, files = (
                    statistics.median(each) for each in zip(*some, strict=True)
                )
                lines.append(f"| {part} | {when} | {memory_:.0f} | {threads:.0f} | {files:.0f} |")
    REPORT.write_text("\n".join(lines) + "\n")
